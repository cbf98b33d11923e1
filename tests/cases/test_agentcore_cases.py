"""Faults of the field around CloudTrail and AgentCore, and the seven of the published sample, each by name."""

import gzip
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from agent_memory.domain.lifecycle import PlanSlice
from agent_memory.domain.night_report import NightReport, report_key
from support.agentcore import MEMORY_ID, AgentCore, an_error
from support.agentcore_nights import (
    ALICE,
    BOB,
    DAY,
    ENTRY,
    a_night_over_agentcore,
    a_read,
    an_account_with_agentcore,
    deliver,
    night_services,
)
from support.aws import AwsAccount
from support.conversations import Said, ScriptedModel
from support.lifecycle import at
from support.machines import TaskFailed
from support.merges import an_answer
from support.whole_nights import LongContext, merging

NIGHT_AT = 1_781_488_800  # 2026-06-15T02:00:00Z
NIGHT, READ_AT = "n-2026-06-15", "2026-06-14T10:00:00Z"
Both = tuple[AwsAccount, AgentCore]
CRANES = ("Crane 4 at the north quay lifts 40 tonnes.", "Crane 4 at the north quay needs two operators.")
MERGED = "Crane 4 at the north quay lifts 40 tonnes and needs two operators."


@pytest.fixture
def both() -> Iterator[Both]:
    with an_account_with_agentcore() as (account, plane):
        at(account, NIGHT_AT)
        yield account, plane


def count_of(account: AwsAccount, record_id: str) -> int:
    return night_services(account).accesses.ledger().of(MEMORY_ID, record_id).times


def two_cranes(plane: AgentCore, *, days: float = 50) -> list[str]:
    return [plane.put(text, ALICE, NIGHT_AT - round(days * DAY) - n) for n, text in enumerate(CRANES)]


def ended(account: AwsAccount, run_id: str = NIGHT) -> str:
    found = account.services.night_files.get(report_key(run_id), NightReport)
    assert found
    return found.ended


@pytest.mark.case("ct-h01")
def test_a_digest_in_the_same_bucket_is_passed_by(both: Both) -> None:
    account, plane = both
    record_id = plane.put("Ferries leave from quay 2.", ALICE, NIGHT_AT - DAY)
    digest = {"awsAccountId": "111122223333", "digestStartTime": "2026-06-14T09:00:00Z", "logFiles": []}
    deliver(account, "AWSLogs/111122223333/CloudTrail-Digest/eu-west-1/2026/06/14/d.json.gz", digest)
    deliver(account, "AWSLogs/111122223333/CloudTrail/eu-west-1/2026/06/14/digest-like.json.gz", digest)
    log = {"Records": [a_read("ev-1", record_id, READ_AT)]}
    deliver(account, "AWSLogs/111122223333/CloudTrail/eu-west-1/2026/06/14/l.json.gz", log)
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert count_of(account, record_id) == 1


@pytest.mark.case("ct-h02")
@pytest.mark.parametrize("name", ["a b=1.json.gz", "a+b=1.json.gz", "a+b%3D1.json.gz", "a%41.json.gz"])
def test_a_file_is_read_by_its_own_name_however_that_looks_encoded(both: Both, name: str) -> None:
    """The refresh lists the bucket and is told of no file: there is no notification whose key could be decoded."""
    account, plane = both
    record_id = plane.put("Ferries leave from quay 2.", ALICE, NIGHT_AT - DAY)
    key = f"AWSLogs/o-1/111122223333/CloudTrail/eu-west-1/2026/06/14/{name}"
    deliver(account, key, {"Records": [a_read("ev-1", record_id, READ_AT)]})
    a_night_over_agentcore(account)
    assert count_of(account, record_id) == 1


@pytest.mark.case("ct-h03")
@pytest.mark.parametrize("names", [("1.json.gz", "2.json.gz", "3.json.gz"), ("3.json.gz", "1.json.gz", "2.json.gz")])
def test_an_access_in_two_files_counts_once_whatever_their_order(both: Both, names: tuple[str, str, str]) -> None:
    account, plane = both
    record_id = plane.put("Ferries leave from quay 2.", ALICE, NIGHT_AT - DAY)
    one, two, three = (a_read(f"ev-{n}", record_id, READ_AT) for n in (1, 2, 3))
    for name, records in zip(names, ([one, two], [two, three], [one, two]), strict=True):
        deliver(account, f"2026/06/14/{name}", {"Records": records})
    a_night_over_agentcore(account)
    assert count_of(account, record_id) == 3


@pytest.mark.case("ct-h04")
def test_only_reads_on_behalf_of_an_agent_count(both: Both) -> None:
    account, plane = both
    record_id = plane.put("Ferries leave from quay 2.", ALICE, NIGHT_AT - DAY)

    def by(**identity: Any) -> dict[str, Any]:
        return {"userIdentity": identity}

    def role(**issuer: str) -> dict[str, Any]:
        return by(sessionContext={"sessionIssuer": issuer})

    arn = "arn:aws:iam::111122223333:role/nightly-role"
    records = [
        a_read("ev-1", record_id, READ_AT),
        a_read("ev-2", record_id, READ_AT, **role(userName="nightly-role")),
        a_read("ev-3", record_id, READ_AT, **role(userName="gdpr-role")),
        a_read("ev-4", record_id, READ_AT, **by(type="AWSService", invokedBy="bedrock.amazonaws.com")),
        a_read("ev-5", record_id, READ_AT, **role(arn=arn)),
    ]
    deliver(account, "2026/06/14/l.json.gz", {"Records": records})
    a_night_over_agentcore(account)
    assert count_of(account, record_id) == 1


@pytest.mark.case("ct-h05")
def test_what_names_no_record_or_failed_or_is_of_others_adds_nothing_and_breaks_nothing(both: Both) -> None:
    account, plane = both
    first, second = (plane.put(f"Ferry {n}", ALICE, NIGHT_AT - DAY) for n in (1, 2))
    other = {"memoryId": "elsewhere-Abc1234567", "memoryRecordId": first}
    several = {"memoryId": MEMORY_ID, "records": [{"memoryRecordId": first}, {"memoryRecordId": second}]}
    records = [
        a_read("q1", first, READ_AT, eventName="ListMemoryRecords", requestParameters={"memoryId": MEMORY_ID}),
        a_read("b1", first, READ_AT, eventName="BatchGetMemoryRecords", requestParameters=several),
        a_read("x1", first, READ_AT, errorCode="AccessDenied"),
        a_read("n1", first, READ_AT, requestParameters=None),
        a_read("u1", first, READ_AT, eventName="BatchUpdateMemoryRecords"),
        a_read("o1", first, READ_AT, requestParameters=other),
        a_read("s1", first, READ_AT, eventSource="dynamodb.amazonaws.com"),
        a_read("t1", first, "yesterday"),
        a_read("w1", first, "2026-06-10T10:00:00Z"),
        {"eventID": None},
    ]
    deliver(account, "2026/06/14/l.json.gz", {"Records": records})
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert (count_of(account, first), count_of(account, second)) == (1, 1)
    assert set(night_services(account).accesses.ledger().accesses) == {MEMORY_ID}


@pytest.mark.case("ec-h04")
def test_edges_of_a_records_retention_and_clocks_ahead(both: Both) -> None:
    account, plane = both
    fortnight = {**ENTRY, "retention": {"semantic": 14}}
    account.services.settings = account.services.settings.model_copy(
        update={"agentcore_memories": json.dumps([fortnight])}
    )
    ended_at = {"a": NIGHT_AT - 14 * DAY - 1, "b": NIGHT_AT - 14 * DAY, "c": NIGHT_AT - 14 * DAY + 1}
    ids = {name: plane.put(name, ALICE, at_) for name, at_ in {**ended_at, "d": NIGHT_AT + 7200}.items()}
    undated = plane.put("e", ALICE, NIGHT_AT)
    plane.records[MEMORY_ID][undated]["createdAt"] = None
    a_night_over_agentcore(account)
    # At its expiry a record is expired.
    assert plane.texts() == {"c", "d", "e"}
    files = account.services.night_files
    items = [item for one in files.get_many(files.keys(f"lifecycle/{NIGHT}/plan/"), PlanSlice) for item in one.items]
    assert {item.run_id for item in items} == {ids["a"], ids["b"]}
    ahead = night_services(account).shelf(MEMORY_ID, now=NIGHT_AT)
    [index] = [night_services(account).book(one).index() for one in night_services(account).memories]
    [place] = index.namespaces
    episode = ahead.get(place, ids["d"])
    assert episode
    assert episode.created_at == NIGHT_AT


@pytest.mark.case("cd-h06")
def test_a_night_that_starts_while_another_is_at_work_ends_at_once(both: Both) -> None:
    account, plane = both
    two_cranes(plane)
    model = ScriptedModel(an_answer(MERGED))
    seen: list[str] = []

    def merging_while_another_starts(event: dict[str, Any]) -> Any:
        second = a_night_over_agentcore(account, execution="e-2", model=model)
        seen.append(f"{second.status} {second.states[-1]}")
        return merging(event)

    first = a_night_over_agentcore(account, model=model, MergeMemories=merging_while_another_starts)
    assert (first.status, seen) == ("SUCCEEDED", ["SUCCEEDED Busy"])
    assert len(model.texts) == 1
    at(account, NIGHT_AT + 1620)
    assert a_night_over_agentcore(account, execution="e-3", model=model).states[-1] == "NightEnded"
    assert plane.texts() == {MERGED}


@pytest.mark.case("cd-h06")
def test_a_lock_left_by_a_crash_expires(both: Both) -> None:
    account, plane = both
    two_cranes(plane)
    desk = night_services(account).desk
    assert desk.take("crashed", night=NIGHT, now=NIGHT_AT, until=NIGHT_AT + 3600)
    assert a_night_over_agentcore(account, execution="e-2").states[-1] == "Busy"
    at(account, NIGHT_AT + 3601)
    assert a_night_over_agentcore(account, an_answer(MERGED), execution="e-3").states[-1] == "NightEnded"
    assert plane.texts() == {MERGED}


@pytest.mark.case("mo-h04")
def test_prose_with_braces_before_the_summary_hides_nothing(both: Both) -> None:
    account, plane = both
    two_cranes(plane)
    found = json.dumps({"summary": MERGED, "confidence": 0.9, "key_facts": []})
    text = (
        f"From the notes {{about cranes}} and set {{A, B}}, the memory is: {found} Let me know if {{more}} is needed."
    )
    a_night_over_agentcore(account, Said(text=text))
    assert plane.texts() == {MERGED}


# The seven faults that were found in the published sample of a lifecycle over AgentCore.


def test_sample_fault_1_a_nightly_event_without_memory_ids_does_nothing_and_says_so() -> None:
    with an_account_with_agentcore(agentcoreMemories="[]") as (account, plane):
        done = a_night_over_agentcore(account)
        assert (done.status, done.states[-1]) == ("SUCCEEDED", "NoMemories")
        assert "Alarm" not in done.states
        assert plane.calls == []


def test_sample_fault_2_a_read_is_not_counted_once_per_overlapping_file_or_night(both: Both) -> None:
    account, plane = both
    record_id = plane.put("Ferries leave from quay 2.", ALICE, NIGHT_AT - DAY)
    log = {"Records": [a_read("ev-1", record_id, "2026-06-15T01:30:00Z")]}
    for night in range(2):
        at(account, NIGHT_AT + night * DAY)
        for number in range(4):
            deliver(account, f"2026/06/15/{night}-{number}.json.gz", log)
        a_night_over_agentcore(account, execution=f"e-{night}")
    assert count_of(account, record_id) == 1


@pytest.mark.parametrize("summary", ["", "   ", "\u200b"])
def test_sample_fault_3_an_empty_summary_deletes_nothing(both: Both, summary: str) -> None:
    account, plane = both
    two_cranes(plane)
    a_night_over_agentcore(account, an_answer(summary))
    assert plane.texts() == set(CRANES)


def test_sample_fault_4_fenced_json_does_not_fail_a_batch(both: Both) -> None:
    account, plane = both
    two_cranes(plane)
    found = json.dumps({"summary": MERGED, "confidence": 0.9, "key_facts": []})
    a_night_over_agentcore(account, Said(text=f"```json\n{found}\n```"))
    assert plane.texts() == {MERGED}


def test_sample_fault_5_nothing_is_green_while_scoring_failed(both: Both) -> None:
    account, plane = both
    two_cranes(plane)

    def denied(operation: str, request: object) -> None:
        if operation == "GetMemoryRecord":
            raise an_error("AccessDeniedException", operation, 403)

    plane.fail = denied
    done = a_night_over_agentcore(account, ExamineMemories=_failing_as_functions_do("lambdas.examine_memories.handler"))
    assert (done.status, ended(account)) == ("FAILED", "failed")
    assert "Alarm" in done.states
    assert plane.texts() == set(CRANES)


def test_sample_fault_6_a_run_that_failed_does_not_end_as_succeeded(both: Both) -> None:
    account, plane = both
    two_cranes(plane)
    plane.fail = _throttled("ListMemoryRecords")
    done = a_night_over_agentcore(account, Refresh=_failing_as_functions_do("lambdas.refresh_records.handler"))
    assert (done.status, plane.texts()) == ("FAILED", set(CRANES))
    plane.fail = _throttled("BatchDeleteMemoryRecords")
    broken = _failing_as_functions_do("lambdas.merge_memories.handler")
    later = a_night_over_agentcore(account, an_answer(MERGED), execution="e-2", MergeMemories=broken)
    assert (later.status, ended(account, f"{NIGHT}.2")) == ("FAILED", "failed")


def test_sample_fault_7_users_are_never_merged_in_one_batch(both: Both) -> None:
    account, plane = both
    for number, namespace in enumerate((ALICE, BOB) * 3):
        plane.put(f"Crane 4 lifts 40 tonnes, note {number}.", namespace, NIGHT_AT - (40 + number) * DAY)
    answers = [an_answer("Crane 4 lifts 40 tonnes, note 0, note 2, note 4."), an_answer("", confidence=0.1)]
    model = ScriptedModel(*answers)
    a_night_over_agentcore(account, model=model)
    asked = [{text[-2] for text in _told(question)} for question in model.texts]
    assert all(numbers <= {"0", "2", "4"} or numbers <= {"1", "3", "5"} for numbers in asked)
    assert len(asked) == 2


def _told(question: str) -> list[str]:
    return [text for one in json.loads(question) for text in one["said"]]


def _throttled(action: str) -> Any:
    def fail(operation: str, request: object) -> None:
        if operation == action:
            raise an_error("ThrottledException", operation, 429)

    return fail


def _failing_as_functions_do(module: str) -> Any:
    handler = import_module(module).handler

    def step(event: dict[str, Any]) -> Any:
        try:
            return handler(event, LongContext())
        except Exception as error:
            raise TaskFailed(type(error).__name__) from error

    return step


# Others of the same kinds.


def test_a_file_with_one_bad_line_gives_all_its_other_records(both: Both) -> None:
    account, plane = both
    record_id = plane.put("Ferries leave from quay 2.", ALICE, NIGHT_AT - DAY)
    good = [json.dumps(a_read(f"ev-{n}", record_id, READ_AT)) for n in range(3)]
    lines = "\n".join((good[0], '{"eventID": "broken', good[1], "[1, 2]", good[2]))
    deliver(account, "2026/06/14/lines.json.gz", gzip.compress(lines.encode()))
    seven, eight = good[0].replace("ev-0", "ev-7"), good[1].replace("ev-1", "ev-8")
    inside = f'{{"Records": [{seven},\n{{"eventID": !}},\n{eight}]}}'
    deliver(account, "2026/06/14/inside.json.gz", gzip.compress(inside.encode()))
    a_night_over_agentcore(account)
    assert count_of(account, record_id) == 5


def test_a_truncated_file_gives_what_it_holds(both: Both) -> None:
    account, plane = both
    record_id = plane.put("Ferries leave from quay 2.", ALICE, NIGHT_AT - DAY)
    whole = json.dumps({"Records": [a_read(f"ev-{n}", record_id, READ_AT, filler=str(n) * 400) for n in range(60)]})
    packed = gzip.compress(whole.encode())
    deliver(account, "2026/06/14/cut.json.gz", packed[: len(packed) // 2])
    deliver(account, "2026/06/14/no-gzip.json.gz", b"\x1f\x8bnothing of the kind")
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert 0 < count_of(account, record_id) < 60
