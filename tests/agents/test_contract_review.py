"""The example's agent: it finds the answers by itself, sooner with memory, and memory that misleads costs it nothing."""

import json
from collections.abc import Iterator

import pytest
from agent_memory.client import AgentMemory
from support.stand_in import StandIn, a_stand_in

from examples.contract_review.agent import Review, review
from examples.contract_review.contracts import list_sections, names, read_section, sections
from examples.contract_review.models import SCRIPTED, ScriptedReviewer, chat_model

ANSWERS = {
    "harbour-crane": ("a cap of two times the Fees", "120 days", "law of England and Wales"),
    "reefer-units": ("a cap of 1,500,000 euros", "60 days", "law of Spain"),
    "tug-charter": ("a cap of the hire of ninety days", "45 days", "law of Scotland"),
}
LEARNT = "liability cap: section B, notice: section A, governing law: section 12"


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_stand_in() as stand_in:
        yield stand_in


def reviewed(contract: str) -> Review:
    return review(contract, ScriptedReviewer(), AgentMemory("acme", "reviewer", "test"))


def test_every_contract_of_the_example_has_its_answers() -> None:
    assert set(names()) == set(ANSWERS)


@pytest.mark.parametrize("contract", ANSWERS)
@pytest.mark.parametrize("context", ["", LEARNT])
def test_the_answers_are_right_whatever_memory_says(world: StandIn, contract: str, context: str) -> None:
    world.answer = lambda _: {"context": context, "context_id": "c-1"}
    answer = reviewed(contract).answer
    assert all(expected in answer for expected in ANSWERS[contract])
    assert "Where it stands" in answer


def test_with_memory_of_a_like_contract_fewer_steps_and_tokens_are_needed(world: StandIn) -> None:
    without = reviewed("reefer-units")
    world.answer = lambda _: {"context": LEARNT, "context_id": "c-1"}
    with_memory = reviewed("reefer-units")
    assert with_memory.tool_calls == 3
    assert without.tool_calls > 2 * with_memory.tool_calls
    assert without.input_tokens > with_memory.input_tokens
    assert (without.model_calls, with_memory.model_calls) == (without.tool_calls + 1, 4)


def test_the_run_is_handed_over_with_what_it_learnt(world: StandIn) -> None:
    reviewed("harbour-crane")
    (detail,) = world.details
    assert (detail["outcome"], detail["task_type"], detail["domain"]) == ("COMPLETED", "contract-review", "contracts")
    assert LEARNT in json.dumps(detail["transcript"]["messages"][-1])


def test_a_contract_that_is_not_there_is_said_and_not_completed(world: StandIn) -> None:
    answer = reviewed("no-such-contract").answer
    assert "not found" in answer
    assert world.details[0]["outcome"] == "PARTIAL"


def test_the_tools_read_what_there_is_and_nothing_outside() -> None:
    assert list_sections.invoke({"contract": "tug-charter"}).splitlines()[0] == "1 The tug"
    assert "there is no section" in read_section.invoke({"contract": "tug-charter", "section": "99"}).lower()
    assert sections("../../README") == {}


def test_the_scripted_model_is_the_default_and_others_are_opened_by_name() -> None:
    assert isinstance(chat_model(SCRIPTED), ScriptedReviewer)
    with pytest.raises((ImportError, ValueError)):
        chat_model("nobody:nothing")
