"""The consolidation machine orders; functions decide; a run that can't go on is parked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_memory.domain.models import RunTicket
from support.machines import TaskFailed, Walk, definition, walk

MACHINE = definition("consolidation")
STEPS = [
    "DistillRun", "ScrubPii", "StoreEpisode", "ConfirmFact", "ProposeProcedure", "RecordFeedback",
    "PublishRunConsolidated",
]  # fmt: skip
# What these do can't be made up for later, except by driving the run again.
NEEDED = STEPS[:5]
TICKET = {
    "tenant_id": "acme",
    "agent_id": "travel",
    "run_id": "r-1",
    "attempt": 1,
    "claim_key": "~runs/acme/travel/r-1/claim",
}
SAID = "my card is 4111 1111 1111 1111"


def decides(decision: str, **pointers: object) -> Any:
    return lambda ticket: (
        RunTicket.model_validate(ticket).model_copy(update={**pointers, "decision": decision}).model_dump()
    )


def fails(_: dict[str, Any]) -> Any:
    raise TaskFailed("ModelBusyError", cause=SAID)


def run(**tasks: Any) -> Walk:
    standing_in = {
        "DistillRun": decides("distilled", artifacts_key="a"),
        "ScrubPii": decides("scrubbed", scrubbed_key="s"),
        "StoreEpisode": decides("stored", fact_indexes=(0,), proposal="candidate"),
        "ConfirmFact": lambda _: {"decision": "observed", "fact_id": "f-1"},
        "ProposeProcedure": decides("proposed"),
        "RecordFeedback": decides("nothing_to_record"),
        "PublishRunConsolidated": lambda _: {"FailedEntryCount": 0},
        "ParkRun": lambda event: {"decision": "parked"},
        **tasks,
    }
    return walk(MACHINE, standing_in, TICKET)


def published(done: Walk) -> dict[str, Any]:
    [entry] = done.inputs["PublishRunConsolidated"][0]["Entries"]
    detail: dict[str, Any] = entry["Detail"]
    return detail


def test_a_run_goes_through_every_step_in_order() -> None:
    done = run()
    assert done.status == "SUCCEEDED"
    assert [state for state in done.states if state in STEPS] == STEPS
    assert done.inputs["StoreEpisode"][0]["scrubbed_key"] == "s"


@pytest.mark.parametrize("decision", ["stored", "duplicate", "expired_on_arrival", "erased"])
def test_what_was_decided_is_published_with_ids_only(decision: str) -> None:
    detail = published(run(StoreEpisode=decides(decision)))
    assert detail == {
        "schema_version": 1, "tenant_id": "acme", "agent_id": "travel", "run_id": "r-1", "attempt": 1, "decision": decision,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("decision", "counted"), [("stored", True), ("duplicate", True), ("erased", False), ("expired_on_arrival", False)]
)
def test_feedback_counts_for_runs_that_are_kept(decision: str, counted: bool) -> None:
    assert ("RecordFeedback" in run(StoreEpisode=decides(decision)).states) is counted


@pytest.mark.parametrize("decision", ["stored", "duplicate"])
def test_every_fact_of_a_kept_run_is_confirmed_one_after_another(decision: str) -> None:
    """Also of a duplicate: the run before may have ended between its episode and its facts."""
    done = run(StoreEpisode=decides(decision, scrubbed_key="s", fact_indexes=(0, 3, 4)))
    assert [item["fact_index"] for item in done.inputs["ConfirmFact"]] == [0, 3, 4]
    for item in done.inputs["ConfirmFact"]:
        ticket = RunTicket.model_validate({key: item[key] for key in item if key != "fact_index"})
        assert (ticket.tenant_id, ticket.run_id, ticket.attempt, ticket.scrubbed_key) == ("acme", "r-1", 1, "s")
    assert published(done)["decision"] == decision


def test_a_run_without_facts_goes_on() -> None:
    done = run(StoreEpisode=decides("stored"))
    assert ("ConfirmFact" in done.inputs, done.status) == (False, "SUCCEEDED")


@pytest.mark.parametrize("decision", ["erased", "expired_on_arrival"])
def test_a_run_that_is_not_kept_confirms_nothing(decision: str) -> None:
    assert "ConfirmFacts" not in run(StoreEpisode=decides(decision, fact_indexes=(0,))).states


def test_what_becomes_of_a_fact_does_not_change_what_became_of_the_run() -> None:
    done = run(ConfirmFact=lambda _: {"decision": "contested", "fact_id": "f-1", "reason": "negation"})
    assert published(done)["decision"] == "stored"
    assert "f-1" not in json.dumps(done.inputs["PublishRunConsolidated"])


@pytest.mark.parametrize("decision", ["stored", "duplicate"])
def test_a_kept_run_with_a_candidate_proposes_it(decision: str) -> None:
    """Also of a duplicate: the run before may have ended between its episode and its proposal."""
    done = run(StoreEpisode=decides(decision, proposal="candidate"))
    assert len(done.inputs["ProposeProcedure"]) == 1
    assert published(done)["decision"] == decision


@pytest.mark.parametrize("decision", ["stored", "erased", "expired_on_arrival"])
def test_a_run_without_a_candidate_or_that_is_not_kept_proposes_nothing(decision: str) -> None:
    proposal = "none" if decision == "stored" else "candidate"
    assert "ProposeProcedure" not in run(StoreEpisode=decides(decision, proposal=proposal)).states


@pytest.mark.parametrize("decision", ["proposed", "refused", "duplicate", "not_proposed"])
def test_whatever_becomes_of_a_proposal_the_run_goes_on_with_its_own_decision(decision: str) -> None:
    done = run(ProposeProcedure=decides(decision, reason="queue_full"))
    ticket = RunTicket.model_validate(done.inputs["RecordFeedback"][0])
    assert (ticket.decision, published(done)["decision"]) == ("stored", "stored")


@pytest.mark.parametrize("step", ["DistillRun", "ScrubPii", "StoreEpisode"])
def test_a_step_that_parks_ends_the_run(step: str) -> None:
    done = run(**{step: decides("parked", reason="unreadable")})
    assert (done.status, done.error, done.states[-2]) == ("FAILED", "RunParked", "ParkRun")


@pytest.mark.parametrize("step", NEEDED)
def test_an_exhausted_step_parks_the_run_with_its_name_and_the_errors_name(step: str) -> None:
    done = run(**{step: fails})
    assert (done.status, done.error) == ("FAILED", "RunParked")
    assert len(done.inputs[step]) == 7
    [parked] = done.inputs["ParkRun"]
    assert (parked["step"], parked["failure"]) == (step, {"Error": "ModelBusyError"})
    assert {key: parked[key] for key in TICKET} == TICKET
    assert SAID not in json.dumps(done.inputs)


@pytest.mark.parametrize(
    ("step", "counted"), [("RecordFeedback", "FeedbackLost"), ("PublishRunConsolidated", "AnnouncementLost")]
)
def test_what_fails_after_a_run_and_its_facts_were_kept_is_counted_and_parks_nothing(step: str, counted: str) -> None:
    done = run(**{step: fails})
    assert done.status == "SUCCEEDED"
    assert counted in done.states
    assert "ParkRun" not in done.states
    assert published(done)["decision"] == "stored"


def test_parking_is_tried_for_hours_before_a_run_is_left_stuck() -> None:
    [retry] = MACHINE["States"]["ParkRun"]["Retry"]
    delays = [min(retry["MaxDelaySeconds"], 2 * 2**n) for n in range(retry["MaxAttempts"])]
    # Full jitter halves them on average.
    assert sum(delays) / 2 > 4 * 3600


def test_a_step_that_recovers_goes_on() -> None:
    tries = iter([fails, fails, decides("distilled")])
    done = run(DistillRun=lambda ticket: next(tries)(ticket))
    assert done.status == "SUCCEEDED"


@pytest.mark.parametrize("step", ["DistillRun", "ScrubPii", "StoreEpisode"])
def test_a_word_that_no_choice_knows_parks_the_run(step: str) -> None:
    done = run(**{step: decides("shrug")})
    assert (done.status, done.states[-2]) == ("FAILED", "ParkRun")
    assert done.inputs["ParkRun"][0]["failure"] == {"Error": "UnknownDecision"}


def test_a_run_that_cannot_even_be_parked_fails_loudly() -> None:
    done = run(DistillRun=fails, ParkRun=fails)
    assert (done.status, done.error) == ("FAILED", "ModelBusyError")


def test_every_task_waits_a_bounded_time_and_retries_with_full_jitter() -> None:
    facts = MACHINE["States"]["ConfirmFacts"]
    tasks = {name: state for name, state in MACHINE["States"].items() if state["Type"] == "Task"}
    tasks |= facts["ItemProcessor"]["States"]
    assert set(tasks) == {*STEPS, "ParkRun"}
    for name, task in tasks.items():
        assert task["TimeoutSeconds"] > 0
        [retry] = task["Retry"]
        assert (retry["ErrorEquals"], retry["JitterStrategy"]) == (["States.ALL"], "FULL")
        assert [c["ErrorEquals"] for c in task.get("Catch", [])] == (
            [] if name in {"ParkRun", "ConfirmFact"} else [["States.ALL"]]
        )
    assert [c["ErrorEquals"] for c in facts["Catch"]] == [["States.ALL"]]


def test_the_machine_decides_by_one_word_only() -> None:
    for state in MACHINE["States"].values():
        for choice in state.get("Choices", []):
            assert set(choice) == {"Variable", "StringEquals", "Next"}
            assert choice["Variable"] in {"$.decision", "$.proposal"}


@pytest.mark.parametrize("name", ["consolidation", "ingestion", "lifecycle"])
def test_the_definition_passes_statelint(name: str) -> None:
    linter = Path(sys.executable).with_name("statelint")
    file = Path(__file__).parents[2] / "statemachines" / f"{name}.asl.json"
    result = subprocess.run([linter, file], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip(), result.stderr.strip()) == (0, "", "")
