"""The machine of the night: its order, its words, and that it ends somewhere whatever happens."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support.machines import TaskFailed, Walk, all_states, definition, walk

MACHINE = definition("lifecycle")
RUN = {"night": "n-2027-01-15", "attempt": 1, "owner": "e-1", "now": 1, "settings_hash": "s", "dry_run": False}
ROOMS = ("look", "expire", "merge", "prune", "facts", "rollback")
WORDS = {
    "TakeLock": {"begun", "busy"},
    "Plan": {"more", "planned"},
    "Weigh": {"more", "go", "plan_only"},
    "Baseline": {"more", "baselined", "not_run"},
    "FlagProcedures": {"more", "flagged"},
    "QualityCheck": {"more", "pass", "not_run", "fail"},
    "Report": {"reported"},
}
ORDER = [
    "TakeLock", "Plan", "ExamineMemories", "Weigh", "ExpireMemories", "Baseline", "MergeMemories", "PruneMemories",
    "FlagProcedures", "ExpireOwnFacts", "QualityCheck", "Report", "ReleaseLock",
]  # fmt: skip
SAID = "the gate code is 4711"


def a_ticket(decision: str, *, some: tuple[str, ...] = (), **changes: object) -> dict[str, Any]:
    rooms = {room: "some" if room in some else "none" for room in ROOMS}
    prefixes = {f"{room}_prefix": f"lifecycle/n/{room}/" for room in ROOMS}
    return {"run": RUN, "bucket": "b", "rooms": rooms, "quality": "pass", "decision": decision, **prefixes, **changes}


def says(*words: str, some: tuple[str, ...] = (), **changes: object) -> Callable[[dict[str, Any]], Any]:
    """A function that answers these words one after the other, with *some* of the rooms filled."""
    left = iter(words)
    return lambda event: a_ticket(next(left), some=some, **changes)


def fails(_: dict[str, Any]) -> Any:
    raise TaskFailed("StoreBusyError", cause=SAID)


def run(**tasks: Any) -> Walk:
    filled = ROOMS[:-1]
    nothing: Mapping[str, Any] = {
        name: lambda event: {} for name in ("ExamineMemories", "ExpireMemories", "MergeMemories", "PruneMemories")
    }
    standing_in = {
        "TakeLock": says("begun"),
        "Plan": says("planned", some=("look",)),
        "Weigh": says("go", some=filled),
        "Baseline": says("baselined", some=filled),
        "FlagProcedures": says("flagged", some=filled),
        "ExpireOwnFacts": lambda event: {},
        "QualityCheck": says("pass", some=filled),
        "RestoreMemories": lambda event: {**event, "decision": "restored"},
        "Report": says("reported"),
        "ReleaseLock": says("completed"),
        "GiveLockBack": lambda event: {},
        "Publish": lambda event: {},
        "Alarm": lambda event: {},
        **nothing,
        **tasks,
    }
    return walk(MACHINE, standing_in, {"anything": SAID}, listing=lambda bucket, prefix: [f"{prefix}t/0000.json"])


def test_a_night_goes_in_this_order() -> None:
    done = run()
    assert (done.status, [state for state in done.states if state in ORDER]) == ("SUCCEEDED", ORDER)


def test_a_child_gets_its_run_and_its_key_and_nothing_else() -> None:
    done = run()
    assert done.inputs["ExamineMemories"] == [{"run": RUN, "key": "lifecycle/n/look/t/0000.json"}]


def test_rooms_without_slices_are_passed_by() -> None:
    done = run(Plan=says("planned"), Weigh=says("go"), Baseline=says("not_run"), FlagProcedures=says("flagged"))
    assert done.status == "SUCCEEDED"
    assert not {"ExamineMemories", "ExpireMemories", "MergeMemories", "PruneMemories", "ExpireOwnFacts"} & {
        *done.states
    }


def test_another_night_at_work_is_left_alone() -> None:
    done = run(TakeLock=lambda event: {"decision": "busy"})
    assert (done.status, done.states[-1]) == ("SUCCEEDED", "Busy")


def test_a_dry_run_ends_with_its_plan() -> None:
    done = run(Weigh=says("plan_only"), ReleaseLock=says("planned"))
    assert done.status == "SUCCEEDED"
    assert not {"ExpireMemories", "MergeMemories", "PruneMemories", "FlagProcedures"} & {*done.states}
    assert "Report" in done.states


@pytest.mark.parametrize("step", [step for step, words in WORDS.items() if "more" in words])
def test_a_step_that_has_more_to_do_is_called_again(step: str) -> None:
    last = {
        "Plan": "planned",
        "Weigh": "go",
        "Baseline": "baselined",
        "FlagProcedures": "flagged",
        "QualityCheck": "pass",
    }
    done = run(**{step: says("more", "more", last[step])})
    assert (done.status, len(done.inputs[step])) == ("SUCCEEDED", 3)


def test_a_failing_gate_brings_back_and_calls_somebody() -> None:
    answers = iter(["more", "restored"])
    done = run(
        QualityCheck=says("fail", some=("rollback",)),
        RestoreMemories=lambda event: {**event, "decision": next(answers)},
        ReleaseLock=says("rolled_back"),
    )
    assert (done.status, len(done.inputs["RestoreMemories"])) == ("FAILED", 2)
    assert {"Report", "Alarm"} <= {*done.states}


@pytest.mark.parametrize("word", ["held", "failed", "rolled_back", "shrug"])
def test_whatever_is_not_a_good_end_calls_somebody_and_fails(word: str) -> None:
    done = run(ReleaseLock=says(word))
    assert (done.status, done.error, done.states[-2]) == ("FAILED", "NightFailed", "Alarm")


def test_children_that_fail_stop_nobody_else() -> None:
    done = run(ExamineMemories=fails)
    assert (done.status, done.children.count("FAILED")) == ("SUCCEEDED", 1)
    assert "PruneMemories" in done.states


@pytest.mark.parametrize("step", ["Plan", "Weigh", "Baseline", "FlagProcedures", "QualityCheck", "Report"])
def test_a_step_that_gives_up_gives_the_lock_back_calls_somebody_and_fails(step: str) -> None:
    done = run(**{step: fails})
    assert (done.status, done.error) == ("FAILED", "NightFailed")
    assert done.states[-3:] == ["GiveLockBack", "Alarm", "NightFailed"]
    assert done.inputs["GiveLockBack"] == [{"action": "give_up", "owner": "e-1"}] * len(done.inputs["GiveLockBack"])


@pytest.mark.parametrize("step", ["TakeLock", "ReleaseLock"])
def test_a_lock_that_can_not_be_reached_calls_somebody(step: str) -> None:
    assert run(**{step: fails}).states[-2:] == ["Alarm", "NightFailed"]


@pytest.mark.parametrize("step", WORDS)
def test_a_word_that_no_choice_knows_ends_the_execution(step: str) -> None:
    done = run(**{step: says("shrug")})
    assert (done.status, done.states[-3:]) == ("FAILED", ["GiveLockBack", "Alarm", "NightFailed"])


def test_nobody_to_tell_and_nobody_to_call_still_ends() -> None:
    done = run(Publish=fails)
    assert (done.status, "AnnouncementLost" in done.states) == ("SUCCEEDED", True)
    assert run(ReleaseLock=says("held"), Alarm=fails).error == "NightFailed"


def test_what_is_told_is_ids_and_words() -> None:
    done = run()
    [entry] = done.inputs["Publish"][0]["Entries"]
    assert set(entry["Detail"]) == {"schema_version", "night", "attempt", "decision", "quality", "dry_run"}
    assert entry["DetailType"] == "Lifecycle Finished"
    failing = run(ReleaseLock=says("held"))
    assert failing.inputs["Alarm"][0]["Message"] == {"execution": "e-1", "next": "agent-memory lifecycle status"}
    assert SAID not in str(failing.inputs["Alarm"])


def test_every_word_has_a_way() -> None:
    for step, words in WORDS.items():
        choice = MACHINE["States"][MACHINE["States"][step]["Next"]]
        assert {one["StringEquals"] for one in choice["Choices"]} == words


def test_the_machine_decides_by_one_word_only() -> None:
    for state in all_states(MACHINE):
        for choice in state.get("Choices", []):
            assert set(choice) == {"Variable", "StringEquals", "Next"}
            assert choice["Variable"] == "$.decision" or choice["Variable"].startswith("$.rooms.")


def test_every_task_waits_a_bounded_time_and_retries_with_full_jitter() -> None:
    tasks = [state for state in all_states(MACHINE) if state["Type"] == "Task"]
    assert len(tasks) == 17
    for task in tasks:
        assert task["TimeoutSeconds"] > 0
        [retry] = task["Retry"]
        assert (retry["ErrorEquals"], retry["JitterStrategy"]) == (["States.ALL"], "FULL")
        assert all(caught["ErrorEquals"] == ["States.ALL"] for caught in task.get("Catch", []))


def test_children_answer_nothing_and_are_few_at_a_time() -> None:
    """What a map answers has to fit 256 KiB, whatever the night."""
    maps = [state for state in MACHINE["States"].values() if state["Type"] == "Map"]
    assert len(maps) == 6
    for state in maps:
        assert state["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
        assert 0 < state["MaxConcurrency"] <= 20
        last = [inner for inner in state["ItemProcessor"]["States"].values() if inner.get("End")]
        assert [inner.get("ResultSelector", inner.get("Result")) for inner in last] == [{}]
