"""What agents' sides report of AgentCore, from the queue to the ledger of a night, and a refresh that runs out of time."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain import agentcore_night
from agent_memory.domain.decay import DecayRules, decays_at
from agent_memory.domain.models import Outcome
from support.agentcore import MEMORY_ID, AgentCore
from support.agentcore_nights import (
    ALICE,
    BOB,
    DAY,
    ENTRY,
    TRAIL,
    a_night_over_agentcore,
    a_read,
    an_account_with_agentcore,
    deliver,
    night_services,
)
from support.aws import AwsAccount
from support.builders import NOW, LambdaContext
from support.lifecycle import at
from support.machines import TaskFailed

from lambdas.record_reads.handler import handler as record_reads
from lambdas.refresh_records.handler import handler as refresh_records

Both = tuple[AwsAccount, AgentCore]
HARBOUR, QUAYS = "harbour", "quays"
ENTRIES = (
    {**ENTRY, "tenant_id": HARBOUR, "namespaces": [ALICE]},
    {**ENTRY, "tenant_id": QUAYS, "namespaces": [BOB]},
)


@pytest.fixture
def both() -> Iterator[Both]:
    """One memory, two tenants in it, each in a namespace of its own."""
    with an_account_with_agentcore(*ENTRIES) as both:
        yield both


def a_report(*record_ids: str, tenant: str = HARBOUR, context: str = "c-1", **changes: Any) -> dict[str, Any]:
    detail = {
        "tenant_id": tenant,
        "agent_id": "pilot",
        "memory_id": MEMORY_ID,
        "context_id": context,
        "record_ids": list(record_ids),
        "read_at": NOW - 60,
        **changes,
    }
    return {"source": f"agent-memory.client/{tenant}", "detail": detail}


def a_recall(*run_ids: str, tenant: str = HARBOUR, context: str = "c-9") -> dict[str, Any]:
    items = [{"memory_id": f"pilot/{one}", "tier": "episodic", "agent_id": "pilot", "run_id": one} for one in run_ids]
    detail = {"tenant_id": tenant, "context_id": context, "at": "2027-01-15T07:59:00Z", "items": items}
    return {"source": "agent-memory", "detail": detail}


def handed(*events: object) -> list[str]:
    """Hand events to the function as one batch; the ids of the messages that it could not take."""
    records = [
        {"messageId": f"m-{number}", "body": one if isinstance(one, str) else json.dumps(one), "eventSource": "aws:sqs"}
        for number, one in enumerate(events)
    ]
    answer = record_reads({"Records": records}, LambdaContext())
    return [one["itemIdentifier"] for one in answer["batchItemFailures"]]


def reports(account: AwsAccount) -> list[str]:
    pages = account.client("s3").get_paginator("list_objects_v2").paginate(Bucket=TRAIL, Prefix="reports/")
    return [found["Key"] for page in pages for found in page.get("Contents", ())]


def times(account: AwsAccount, *record_ids: str) -> list[int]:
    ledger = night_services(account).accesses.ledger()
    return [ledger.of(MEMORY_ID, one).times for one in record_ids]


def test_what_was_reported_keeps_a_record_that_would_have_faded(both: Both) -> None:
    account, plane = both
    searched, unread = (plane.put(f"Crane {n} lifts 40 tonnes.", ALICE, NOW - 36 * DAY) for n in (4, 5))
    assert handed(*(a_report(searched, context=f"c-{number}") for number in range(20))) == []
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert plane.texts() == {"Crane 4 lifts 40 tonnes."}
    assert times(account, searched, unread) == [20, 0]
    [memory, _] = night_services(account).memories
    entry = night_services(account).book(memory).index().entries[searched]
    due = decays_at(
        ended_at=NOW - 36 * DAY, outcome=Outcome.UNKNOWN, expires_at=NOW + 84 * DAY, access_count=20,
        last_access_at=NOW - 60, kept_until=None, decay=DecayRules(),
        retention=night_services(account).refresh_rules.retention, now=NOW,
    )  # fmt: skip
    assert entry.due == due


def test_a_report_twice_late_or_in_other_company_counts_each_record_once_in_its_context(both: Both) -> None:
    account, plane = both
    one, two = (plane.put(f"Crane {n} lifts.", ALICE, NOW - DAY) for n in (1, 2))
    handed(a_report(one), a_report(one), a_report(one, two, used=[two]))
    assert len(reports(account)) == 2
    a_night_over_agentcore(account)
    at(account, NOW + DAY)
    handed(a_report(two, one, used=[two]), a_report(one, read_at=NOW - 5 * DAY, context="c-0"))
    a_night_over_agentcore(account, execution="e-2")
    assert times(account, one, two) == [2, 1]
    assert night_services(account).accesses.ledger().used == {MEMORY_ID: {two: 1}}
    at(account, NOW + 2 * DAY)
    a_night_over_agentcore(account, execution="e-3")
    assert times(account, one, two) == [2, 1]


def test_nobody_counts_reads_of_a_neighbours_records_in_the_same_memory(both: Both) -> None:
    account, plane = both
    mine, theirs = plane.put("Alice's crane.", ALICE, NOW - DAY), plane.put("Bob's crane.", BOB, NOW - DAY)
    handed(a_report(mine, theirs), a_report(mine, theirs, tenant=QUAYS))
    a_night_over_agentcore(account)
    assert times(account, mine, theirs) == [1, 1]


def test_reads_of_records_that_nobody_knows_leave_nothing_in_the_ledger_and_are_counted(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    account, plane = both
    plane.put("Alice's crane.", ALICE, NOW - DAY)
    handed(a_report(*(f"mem-{number:040d}" for number in range(900, 1000))))
    a_night_over_agentcore(account)
    ledger = night_services(account).accesses.ledger()
    assert (ledger.accesses, ledger.seen) == ({}, {})
    assert '"ReadsOfUnknownRecords":[100.0]' in capsys.readouterr().out


def test_what_lies_under_the_prefix_and_is_no_report_breaks_no_night(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    account, plane = both
    record_id = plane.put("Alice's crane.", ALICE, NOW - DAY)
    handed(a_report(record_id))
    [key] = reports(account)
    folder = key.rpartition("/")[0]
    body = account.client("s3").get_object(Bucket=TRAIL, Key=key)["Body"].read()
    for name, text in (("a", b"{"), ("b", b"\x1f\x8b"), ("c", b'{"by": "agent"}'), ("d", b"[" * 100_000)):
        deliver(account, f"{folder}/{name}.json", text)
    # A report copied under another tenant's name.
    deliver(account, f"{folder.replace(HARBOUR, QUAYS)}/e.json", body)
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert times(account, record_id) == [1]
    assert '"ReportsUnreadable":[5.0]' in capsys.readouterr().out


def test_a_recall_of_what_was_imported_is_a_read_of_its_record(both: Both) -> None:
    account, plane = both
    imported, other = plane.put("Alice's crane.", ALICE, NOW - DAY), plane.put("Bob's crane.", BOB, NOW - DAY)
    recall = a_recall(imported, "run-7", other)
    assert handed(recall, recall, a_recall("run-7", context="c-8"), a_recall(imported, tenant="meadow")) == []
    assert len(reports(account)) == 1
    a_night_over_agentcore(account)
    assert times(account, imported, other) == [1, 0]


@pytest.mark.parametrize(
    "event",
    [
        "no JSON",
        "[]",
        {"source": "agent-memory.client/quays", "detail": a_report(f"mem-{1:040d}")["detail"]},
        a_report(f"mem-{1:040d}", memory_id="others-Abc1234567"),
        a_report(f"mem-{1:040d}", tenant="meadow"),
        a_report("mem-1"),
        {"source": "agent-memory.client/harbour", "detail": a_recall("mem-1")["detail"]},
    ],
)
def test_what_is_refused_is_counted_kept_nowhere_and_holds_nobody_up(
    both: Both, event: object, capsys: pytest.CaptureFixture[str]
) -> None:
    account, plane = both
    good = a_report(plane.put("Alice's crane.", ALICE, NOW - DAY))
    assert handed(event, good) == []
    assert len(reports(account)) == 1
    out = capsys.readouterr().out
    assert '"ReadsRefused":[1.0]' in out
    assert "mem-" not in out


def test_a_report_that_cannot_be_kept_now_is_tried_again_alone(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    account, plane = both
    client = account.services.sessions.own_client("s3")
    put = client.put_object

    def busy(**request: Any) -> Any:
        if "/harbour/" in request["Key"]:
            raise TimeoutError
        return put(**request)

    monkeypatch.setattr(client, "put_object", busy)
    assert handed(a_report(plane.put("One.", ALICE, NOW)), a_report(plane.put("Two.", BOB, NOW), tenant=QUAYS)) == [
        "m-0"
    ]
    assert len(reports(account)) == 1


class Running(LambdaContext):
    """A function whose time is over after it has looked at the clock *looks* times."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def get_remaining_time_in_millis(self) -> int:
        self.looks -= 1
        return 900_000 if self.looks >= 0 else 0


def refreshing(account: AwsAccount, *looks: int) -> tuple[list[str], Any]:
    """A night whose refreshes run out of time after so many looks each; the decisions, and the walk."""
    left, decided = list(looks), []

    def refresh(event: dict[str, Any]) -> dict[str, Any]:
        answer = refresh_records(event, Running(left.pop(0) if left else 10_000))
        decided.append(f"{answer['decision']}: {answer.get('reason')}")
        return answer

    return decided, a_night_over_agentcore(account, Refresh=refresh)


def test_a_refresh_whose_time_is_over_goes_on_where_it_was_and_counts_nothing_twice(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, plane = both
    monkeypatch.setattr(agentcore_night, "FILES_AT_ONCE", 2)
    ids = [plane.put(f"Crane {n} lifts.", ALICE, NOW - DAY) for n in range(9)]
    for number, record_id in enumerate(ids):
        read = a_read(f"ev-{number}", record_id, "2027-01-15T06:00:00Z")
        deliver(account, f"2027/01/15/{number}.json.gz", {"Records": [read]})
    handed(*(a_report(record_id, context="c-1") for record_id in ids))
    # Looks: before each of two listings, then before every further two of 18 files, then before dating.
    decided, done = refreshing(account, 1, 3, 2, 2)
    assert done.status == "SUCCEEDED"
    assert [one.partition(":")[0] for one in decided] == ["unfinished"] * 4 + ["refreshed"]
    assert "1 entries are not listed yet" in decided[0]
    assert "12 files of accesses are not read yet" in decided[1]
    assert "due times" in decided[3]
    assert times(account, *ids) == [2] * 9
    assert plane.count("ListMemoryRecords") == 2
    assert night_services(account).accesses.ledger().read_until == NOW


def test_a_listing_that_fits_no_call_stops_the_night_and_says_how_far_it_came(both: Both) -> None:
    account, plane = both
    for number in range(250):
        plane.put(f"Crane {number} lifts.", ALICE, NOW - DAY)
    decided, done = refreshing(account, 2)
    assert done.status == "FAILED"
    assert decided[0].startswith("too_long: a listing came to 200 records")
    assert "several entries" in decided[0]
    assert "TooLong" in done.states
    assert a_night_over_agentcore(account, execution="e-2").status == "SUCCEEDED"


def test_a_night_that_gave_up_half_read_leaves_all_of_it_to_the_next(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, plane = both
    monkeypatch.setattr(agentcore_night, "FILES_AT_ONCE", 1)
    ids = [plane.put(f"Crane {n} lifts.", ALICE, NOW - DAY) for n in range(3)]
    handed(*(a_report(record_id) for record_id in ids))

    decided: list[str] = []

    def broken(event: dict[str, Any]) -> dict[str, Any]:
        decided.append(refresh_records(event, Running(3 - 3 * len(decided)))["decision"])
        raise TaskFailed("the function was stopped")

    assert a_night_over_agentcore(account, Refresh=broken).status == "FAILED"
    assert set(decided) == {"unfinished"}
    at(account, NOW + 3 * DAY)
    assert a_night_over_agentcore(account, execution="e-2").status == "SUCCEEDED"
    assert times(account, *ids) == [1, 1, 1]
