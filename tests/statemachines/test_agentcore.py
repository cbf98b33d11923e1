"""The machine of the night over AgentCore: the order of its steps, its words, and that it ends whatever happens."""

from collections.abc import Callable
from typing import Any

import pytest
from support.machines import TaskFailed, Walk, all_states, definition, walk

MACHINE, PLAIN = definition("agentcore"), definition("lifecycle")
ROOMS = ("look", "expire", "merge", "prune", "facts", "rollback")
RUN = {"night": "n-2027-01-15", "attempt": 1, "owner": "e-1", "now": 1, "settings_hash": "s", "dry_run": False}
ORDER = [
    "TakeLock", "Refresh", "Plan", "ExamineMemories", "Weigh", "ExpireMemories", "Baseline", "MergeMemories",
    "PruneMemories", "QualityCheck", "Report", "ReleaseLock",
]  # fmt: skip
TASKS = ("ExamineMemories", "ExpireMemories", "MergeMemories", "PruneMemories", "Publish", "Alarm")
GIVING_BACK = ("GiveLockBack", "GiveUnusedLockBack")


def says(word: str) -> Callable[[dict[str, Any]], Any]:
    ticket = {"run": RUN, "bucket": "b", "quality": "pass", "rooms": dict.fromkeys(ROOMS[:-1], "some")}
    prefixes = {f"{room}_prefix": f"lifecycle/n/{room}/" for room in ROOMS}
    return lambda event: {**ticket, **prefixes, "rooms": {**ticket["rooms"], "rollback": "none"}, "decision": word}  # type: ignore[dict-item]  # JSON


def fails(_: dict[str, Any]) -> Any:
    raise TaskFailed("StoreBusyError")


def run(**tasks: Any) -> Walk:
    words = {"TakeLock": "begun", "Refresh": "refreshed", "Plan": "planned", "Weigh": "go", "Baseline": "baselined"}
    words |= {"QualityCheck": "pass", "Report": "reported", "ReleaseLock": "completed"}
    steps: dict[str, Any] = {name: says(word) for name, word in words.items()}
    steps |= dict.fromkeys((*TASKS, *GIVING_BACK), lambda event: {})
    return walk(MACHINE, {**steps, **tasks}, {}, listing=lambda bucket, prefix: [f"{prefix}t/0000.json"])


def test_a_night_refreshes_before_it_plans_and_then_goes_the_way_of_every_night() -> None:
    done = run()
    assert (done.status, [state for state in done.states if state in ORDER]) == ("SUCCEEDED", ORDER)


def test_a_night_without_memories_gives_its_lock_back_and_ends_well() -> None:
    done = run(Refresh=says("no_memories"))
    assert done.status == "SUCCEEDED"
    assert done.states[-2:] == ["GiveUnusedLockBack", "NoMemories"]
    assert "Plan" not in done.states


def test_a_refresh_goes_on_where_it_stopped_and_one_that_can_never_end_calls_somebody() -> None:
    words = iter(["unfinished", "unfinished", "refreshed"])
    done = run(Refresh=lambda event: says(next(words))(event))
    assert (done.status, done.states.count("Refresh")) == ("SUCCEEDED", 3)
    done = run(Refresh=says("too_long"))
    assert (done.status, done.states[-3:-1]) == ("FAILED", ["GiveLockBack", "Alarm"])


@pytest.mark.parametrize("step", ["Refresh", "Plan", "Weigh", "Baseline", "QualityCheck", "Report"])
def test_a_step_that_gives_up_or_says_what_nobody_knows_fails_the_night_and_calls_somebody(step: str) -> None:
    for wrong in (fails, says("surprise")):
        done = run(**{step: wrong})
        assert (done.status, "GiveLockBack" in done.states, "Alarm" in done.states) == ("FAILED", True, True)


def test_what_both_nights_have_in_common_is_the_same() -> None:
    """A step mended in one machine only would be a fault in the other."""
    own = {"Refresh", "Refreshed", "TooLong", "GiveUnusedLockBack", "NoMemories"}
    theirs = {"FlagProcedures", "ProceduresFlagged", "AnyExpireFacts", "ExpireFacts"}
    assert set(MACHINE["States"]) - own == set(PLAIN["States"]) - theirs
    differing = {name for name, state in MACHINE["States"].items() if PLAIN["States"].get(name) != state} - own
    assert differing == {"LockTaken", "Plan", "AnyPrune", "Prune", "LockReleased", "Alarm", "NightFailed"}
    assert "agent-memory agentcore runs" in MACHINE["States"]["NightFailed"]["Cause"]


def test_every_task_is_tried_again_by_states_all_alone() -> None:
    for state in all_states(MACHINE):
        if state["Type"] == "Task":
            assert [retry["ErrorEquals"] for retry in state["Retry"]] == [["States.ALL"]]
