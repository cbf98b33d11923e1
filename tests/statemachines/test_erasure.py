"""The erasure machine goes from store to store as the function says, and ends whatever happens."""

from collections.abc import Iterable
from typing import Any

import pytest
from agent_memory.domain.erasure import ErasureTicket
from support.machines import TaskFailed, Walk, all_states, definition, walk

from stacks.erasure import TIMEOUTS

MACHINE = definition("erasure")
TICKET = ErasureTicket(erasure_id="x-1", tenant_id="northwind").model_dump(mode="json")


def answers(*decisions: str, seconds: int = 7) -> Any:
    """A function that answers these words, one a call."""
    words: Iterable[str] = iter(decisions)
    return lambda event: {**event["ticket"], "decision": next(iter(words)), "seconds": seconds}


def forget(**tasks: Any) -> Walk:
    standing_in = {
        "Erase": answers("finished"),
        "GiveUp": answers("finished"),
        "Report": answers("erased"),
        **tasks,
    }
    return walk(MACHINE, standing_in, TICKET)


def test_stores_are_swept_until_the_function_says_that_all_are() -> None:
    done = forget(Erase=answers("more", "wait", "more", "finished"))
    assert (done.status, len(done.inputs["Erase"]), done.waits) == ("SUCCEEDED", 4, [7])
    assert [event["action"] for event in (done.inputs["Erase"][0], done.inputs["Report"][0])] == ["erase", "report"]


def test_a_store_that_keeps_failing_is_noted_and_the_next_one_goes_on() -> None:
    def fails(event: dict[str, Any]) -> dict[str, Any]:
        raise TaskFailed("Lambda.Unknown", "the name of a person")

    done = forget(Erase=fails)
    assert (done.status, done.inputs["GiveUp"][0]["action"]) == ("SUCCEEDED", "give_up")
    assert done.inputs["GiveUp"][0]["ticket"] == TICKET
    assert "the name of a person" not in str(done.inputs)


@pytest.mark.parametrize(("word", "error"), [("partial_failure", "PartialFailure"), ("who knows", "UnknownDecision")])
def test_what_is_left_fails_the_execution_so_that_somebody_hears(word: str, error: str) -> None:
    done = forget(Report=answers(word))
    assert (done.status, done.error) == ("FAILED", error)


def test_a_report_that_can_not_be_written_fails() -> None:
    def fails(event: dict[str, Any]) -> dict[str, Any]:
        raise TaskFailed("Lambda.Unknown")

    assert forget(Report=fails).error == "ErasureStopped"


def test_every_task_allows_its_function_a_little_more_and_catches_everything() -> None:
    tasks = [state for state in all_states(MACHINE) if state["Type"] == "Task"]
    assert tasks
    for task in tasks:
        assert task["TimeoutSeconds"] > TIMEOUTS["erase_store"]
        assert task["Catch"][0]["ErrorEquals"] == task["Retry"][0]["ErrorEquals"] == ["States.ALL"]
