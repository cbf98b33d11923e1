"""The ingestion machine waits and comes back as the function says, and ends whatever happens."""

from collections.abc import Iterable
from typing import Any

import pytest
from support.machines import TaskFailed, Walk, definition, walk

MACHINE = definition("ingestion")
WORDS = {
    "Collect": {"nothing", "start"},
    "Start": {"started", "busy", "throttled", "gave_up"},
    "Check": {"running", "complete", "partial", "failed"},
    "Settle": {"again", "done"},
}
SAID = "the gate code is 4711"


def answers(*decisions: str, seconds: int = 30) -> Any:
    """A function that answers these words, one a call, and carries the rest of its work along."""
    words: Iterable[str] = iter(decisions)
    return lambda event: {**event["work"], "decision": next(iter(words)), "seconds": seconds}


def ingest(**tasks: Any) -> Walk:
    standing_in = {
        "Collect": answers("start"),
        "Start": answers("started"),
        "Check": answers("complete"),
        "Settle": answers("done"),
        **tasks,
    }
    return walk(MACHINE, standing_in, {"anything": SAID})


def test_facts_go_through_one_job_and_are_settled() -> None:
    done = ingest()
    assert done.status == "SUCCEEDED"
    assert [s for s in done.states if s in WORDS or s.startswith("Wait")] == [
        "Collect", "Start", "WaitForJob", "Check", "Settle",
    ]  # fmt: skip


def test_the_function_is_told_what_to_do_and_who_it_works_for() -> None:
    done = ingest()
    assert [done.inputs[step][0]["action"] for step in WORDS] == ["collect", "start", "check", "settle"]
    assert done.inputs["Collect"][0]["work"] == {"owner": "e-1"}
    assert {done.inputs[step][0]["work"]["owner"] for step in WORDS} == {"e-1"}
    assert SAID not in str(done.inputs)


def test_nothing_to_do_ends_at_once() -> None:
    done = ingest(Collect=answers("nothing"))
    assert (done.status, list(done.inputs)) == ("SUCCEEDED", ["Collect"])


def test_another_job_or_a_throttle_is_waited_for_as_long_as_the_function_says() -> None:
    done = ingest(Start=answers("busy", "throttled", "started", seconds=12))
    assert (done.status, len(done.inputs["Start"]), done.waits) == ("SUCCEEDED", 3, [12, 12, 12])


def test_a_running_job_is_looked_at_again() -> None:
    done = ingest(Check=answers("running", "running", "complete"))
    assert (done.status, len(done.inputs["Check"]), len(done.inputs["Start"])) == ("SUCCEEDED", 3, 1)


@pytest.mark.parametrize("word", ["complete", "partial", "failed"])
def test_every_end_of_a_job_is_settled(word: str) -> None:
    assert "Settle" in ingest(Check=answers(word)).inputs


def test_a_start_that_is_given_up_is_settled_without_a_job() -> None:
    done = ingest(Start=answers("busy", "gave_up"))
    assert (done.status, "Check" in done.inputs, "Settle" in done.inputs) == ("SUCCEEDED", False, True)


def test_what_is_left_or_came_meanwhile_goes_round_again() -> None:
    twice = {
        step: answers(word, word) for step, word in (("Collect", "start"), ("Start", "started"), ("Check", "partial"))
    }
    done = ingest(**twice, Settle=answers("again", "done"))
    assert (done.status, len(done.inputs["Start"])) == ("SUCCEEDED", 2)


@pytest.mark.parametrize("step", WORDS)
def test_a_step_that_recovers_goes_on_and_one_that_does_not_ends_the_execution(step: str) -> None:
    def fails(_: dict[str, Any]) -> Any:
        raise TaskFailed("ServiceBusyError", cause=SAID)

    done = ingest(**{step: fails})
    assert (done.status, done.error, len(done.inputs[step])) == ("FAILED", "IngestionStopped", 7)


@pytest.mark.parametrize("step", WORDS)
def test_a_word_that_no_choice_knows_ends_the_execution(step: str) -> None:
    assert ingest(**{step: answers("shrug")}).error == "UnknownDecision"


def test_every_word_has_a_way() -> None:
    asked = {
        name: {choice["StringEquals"] for choice in MACHINE["States"][state["Next"]]["Choices"]}
        for name, state in MACHINE["States"].items()
        if state["Type"] == "Task"
    }
    assert asked == WORDS


def test_an_execution_ends_even_if_the_function_never_says_so() -> None:
    assert 0 < MACHINE["TimeoutSeconds"] <= 4 * 3600
