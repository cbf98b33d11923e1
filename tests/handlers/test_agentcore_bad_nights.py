"""What a night over AgentCore makes of what it must not stumble over: limits, dates, ledgers, nights that broke off."""

import gzip
from collections.abc import Iterator
from importlib import import_module

import pytest
from agent_memory.contract import ACCESS_LEDGER_KEY
from agent_memory.domain.night import approve
from agent_memory.domain.night_report import NightReport, report_key
from agent_memory.domain.restoring import restore_run
from support.agentcore import MEMORY_ID, AgentCore, an_error
from support.agentcore_nights import (
    ALICE,
    BOB,
    BUCKET,
    DAY,
    a_night_over_agentcore,
    a_read,
    an_account_with_agentcore,
    deliver,
    night_services,
)
from support.aws import AwsAccount
from support.builders import NOW
from support.lifecycle import at
from support.machines import TaskFailed
from support.merges import an_answer
from support.whole_nights import LongContext

Both = tuple[AwsAccount, AgentCore]
NIGHT = "n-2027-01-15"


@pytest.fixture
def both() -> Iterator[Both]:
    with an_account_with_agentcore() as both:
        yield both


def seven_where_five_may_be(plane: AgentCore) -> None:
    for number in range(7):
        plane.put(f"{number} ships lay at anchor.", ALICE, NOW - (20 - number) * DAY)


def ended(account: AwsAccount, run_id: str) -> str:
    found = account.services.night_files.get(report_key(run_id), NightReport)
    assert found
    return found.ended


def test_a_plan_that_was_only_looked_at_leaves_the_cap_to_the_night() -> None:
    with an_account_with_agentcore(maxEpisodesPerAgent="5") as (account, plane):
        seven_where_five_may_be(plane)
        a_night_over_agentcore(account, dry_run=True)
        a_night_over_agentcore(account, execution="e-2")
        assert len(plane.texts()) == 5


def test_a_night_that_broke_off_after_its_refresh_leaves_the_cap_to_the_next() -> None:
    def fails(event: object) -> object:
        raise TaskFailed("StoreBusyError")

    with an_account_with_agentcore(maxEpisodesPerAgent="5") as (account, plane):
        seven_where_five_may_be(plane)
        assert a_night_over_agentcore(account, Plan=fails).status == "FAILED"
        at(account, NOW + DAY)
        a_night_over_agentcore(account, execution="e-2")
        assert len(plane.texts()) == 5


def test_what_is_over_the_cap_goes_when_a_person_agrees_to_it() -> None:
    with an_account_with_agentcore(maxEpisodesPerAgent="10", blastRadiusFrom="1") as (account, plane):
        seven_where_five_may_be(plane)
        a_night_over_agentcore(account)
        lower = account.services.settings.model_copy(update={"max_episodes_per_agent": 5})
        account.services.settings = lower
        for day, left in ((1, 7), (2, 5)):
            at(account, NOW + day * DAY)
            a_night_over_agentcore(account, execution=f"e-{day}")
            assert len(plane.texts()) == left
            if day == 1:
                assert ended(account, "n-2027-01-16") == "held"
                approve("n-2027-01-16", night_services(account).doors, by="ops-lead", now=NOW + DAY + 60)


def test_near_duplicates_of_a_namespace_and_type_become_one_which_has_the_reads_of_both(both: Both) -> None:
    account, plane = both
    gate = "Gate 7 opens at six."
    read, unread = plane.put(gate, ALICE, NOW - 9 * DAY), plane.put("At six opens gate 7.", ALICE, NOW - 2 * DAY)
    others = [plane.put(gate, BOB, NOW - 2 * DAY), plane.put(gate, ALICE, NOW - 2 * DAY, strategy="pref-1")]
    others.append(plane.put("Gate 8 opens at six.", ALICE, NOW - 2 * DAY))
    events = [a_read(f"r-{number}", read, "2027-01-15T06:00:00Z") for number in range(3)]
    deliver(account, "2027/01/15/l.json.gz", {"Records": [*events, a_read("u", unread, "2027-01-15T06:00:00Z")]})
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert set(plane.records[MEMORY_ID]) == {read, *others}
    at(account, NOW + DAY)
    plane.calls.clear()
    a_night_over_agentcore(account, execution="e-2")
    assert (set(plane.records[MEMORY_ID]), plane.count("GetMemoryRecord")) == ({read, *others}, 0)
    services = night_services(account)
    [memory] = services.memories
    ledger = services.accesses.ledger()
    assert services.book(memory).index().known(read, memory, ledger, summary_days=45).access_count == 4
    restore_run(MEMORY_ID, NIGHT, services.restore_doors(MEMORY_ID), services.restore_rules, now=NOW + DAY)
    assert "At six opens gate 7." in plane.texts()
    at(account, NOW + 2 * DAY)
    a_night_over_agentcore(account, execution="e-3")
    assert len(plane.records[MEMORY_ID]) == 5


def test_near_duplicates_that_the_rules_keep_apart_are_listed_once_until_something_changes(both: Both) -> None:
    account, plane = both
    for text in ("Acme paid Globex for the crane.", "Globex paid Acme for the crane."):
        plane.put(text, ALICE, NOW - 2 * DAY)

    def looked(day: int) -> bool:
        """Whether the night of *day* lists the very namespace."""
        at(account, NOW + day * DAY)
        plane.calls.clear()
        assert a_night_over_agentcore(account, execution=f"e-{day}").status == "SUCCEEDED"
        return any(name == "ListMemoryRecords" and asked["namespacePath"] == ALICE for name, asked in plane.calls)

    # All is listed anew in a week, and looked at once more.
    assert [day for day in range(9) if looked(day)] == [0, 7]
    plane.put("Acme paid Globex for the crane.", ALICE, NOW + 9 * DAY - 60)
    # One came, and then one of them went.
    assert [day for day in range(9, 13) if looked(day)] == [9, 10]
    assert len(plane.records[MEMORY_ID]) == len(plane.texts()) == 2


def test_a_dry_run_remembers_no_near_duplicates(both: Both) -> None:
    account, plane = both
    for text in ("Acme paid Globex for the crane.", "Globex paid Acme for the crane."):
        plane.put(text, ALICE, NOW - 2 * DAY)
    a_night_over_agentcore(account, dry_run=True)
    services = night_services(account)
    assert services.book(services.memories[0]).notes() == []


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f6a2"])
def test_texts_at_the_limit_are_archived_whole_and_come_back_equal(both: Both, letter: str) -> None:
    account, plane = both
    texts = {f"Note {number} {letter * 15_993}" for number in range(2)}
    for text in texts:
        plane.put(text, ALICE, NOW - 50 * DAY)
    assert a_night_over_agentcore(account, an_answer("")).status == "SUCCEEDED"
    assert plane.texts() == texts
    lone = f"Ferry {letter * 15_994}"
    plane.put(lone, "/actors/carol/", NOW - 130 * DAY)
    at(account, NOW + DAY)
    a_night_over_agentcore(account, execution="e-2")
    assert plane.texts() == texts
    services = night_services(account)
    restore_run(MEMORY_ID, "n-2027-01-16", services.restore_doors(MEMORY_ID), services.restore_rules, now=NOW + 2 * DAY)
    assert plane.texts() == {*texts, lone}


def test_metadata_that_the_service_adds_are_not_sent_back_to_it(both: Both) -> None:
    account, plane = both
    own = {f"key-{number}": {"stringValue": str(number)} for number in range(20)}
    added = {"x-amz-agentcore-memory-updatedAt": {"dateTimeValue": "2026-12-01T02:00:00Z"}}
    plane.put("Ferries of old.", BOB, NOW - 60 * DAY, metadata={**added, **own})
    a_night_over_agentcore(account)
    services = night_services(account)
    restore_run(MEMORY_ID, NIGHT, services.restore_doors(MEMORY_ID), services.restore_rules, now=NOW + 60)
    [record] = plane.records[MEMORY_ID].values()
    assert record["metadata"] == own


@pytest.mark.parametrize("body", [b"{", b'{"accesses": 7}', b'{"schema_version": 2, "by": "a later release"}'])
def test_no_record_is_judged_by_a_ledger_that_cannot_be_read(both: Both, body: bytes) -> None:
    account, plane = both
    plane.put("Crane 4 lifts 40 tonnes.", ALICE, NOW - 50 * DAY)
    account.client("s3").put_object(Bucket=BUCKET, Key=ACCESS_LEDGER_KEY, Body=gzip.compress(body, mtime=0))
    done = a_night_over_agentcore(account, Refresh=_failing_as_functions_do("lambdas.refresh_records.handler"))
    assert (done.status, "Alarm" in done.states) == ("FAILED", True)
    assert "TooLong" not in done.states
    assert plane.texts() == {"Crane 4 lifts 40 tonnes."}
    assert account.client("s3").get_object(Bucket=BUCKET, Key=ACCESS_LEDGER_KEY)["Body"].read() == gzip.compress(
        body, mtime=0
    )


@pytest.mark.parametrize("body", [b"", gzip.compress(b""), gzip.compress(b"{}")])
def test_an_empty_ledger_is_a_beginning(both: Both, body: bytes) -> None:
    account, plane = both
    plane.put("Crane 4 lifts 40 tonnes.", ALICE, NOW - 50 * DAY)
    account.client("s3").put_object(Bucket=BUCKET, Key=ACCESS_LEDGER_KEY, Body=body)
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert plane.texts() == set()


def test_five_thousand_records_are_judged_one_night(both: Both) -> None:
    account, plane = both
    for number in range(5_000):
        plane.put(f"{number} ships", f"/actors/{number % 40}/", NOW - (50 if number % 50 == 0 else 2) * DAY)
    assert a_night_over_agentcore(account, dry_run=True).status == "SUCCEEDED"
    [memory] = night_services(account).memories
    index = night_services(account).book(memory).index()
    assert (len(index.entries), len(index.due(NOW))) == (5_000, 100)


def test_a_page_token_that_expires_in_the_night_costs_no_record(both: Both) -> None:
    account, plane = both
    for number in range(350):
        plane.put(f"{number} ships", ALICE, NOW - 2 * DAY)
    expired: list[str] = []

    def expires_once(operation: str, request: dict[str, object]) -> None:
        if request.get("nextToken") == "200" and not expired:
            expired.append(operation)
            raise an_error("ValidationException")

    plane.fail = expires_once
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    [memory] = night_services(account).memories
    assert (expired, len(night_services(account).book(memory).index().entries)) == (["ListMemoryRecords"], 350)


def test_half_of_a_nights_deletions_that_fail_stay_and_go_the_next_night(both: Both) -> None:
    account, plane = both
    ids = [plane.put(f"{number} ships", f"/actors/{number}/", NOW - 50 * DAY) for number in range(6)]
    plane.fails_in_batch = lambda operation, one: 400 if one in ids[::2] else 0
    a_night_over_agentcore(account, PruneMemories=_failing_as_functions_do("lambdas.prune_memories.handler"))
    assert set(plane.records[MEMORY_ID]) >= set(ids[::2])
    plane.fails_in_batch = lambda operation, one: 0
    at(account, NOW + DAY)
    assert a_night_over_agentcore(account, execution="e-2").status == "SUCCEEDED"
    assert plane.texts() == set()


def _failing_as_functions_do(module: str) -> object:
    handler = import_module(module).handler

    def step(event: dict[str, object]) -> object:
        try:
            return handler(event, LongContext())
        except Exception as error:
            raise TaskFailed(type(error).__name__) from error

    return step
