"""AgentCore's data plane, the ledger of accesses, the book and the erasure of an actor."""

from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.aws.access_ledger import S3AccessLedger
from agent_memory.aws.agentcore import AgentCoreEvents, AgentCoreRecords
from agent_memory.aws.s3_state import S3State
from agent_memory.contract import ACCESS_LEDGER_KEY
from agent_memory.domain.accesses import AccessLedger, LedgerError, added
from agent_memory.domain.agentcore_ports import Asked
from agent_memory.domain.agentcore_records import NewRecord
from agent_memory.domain.cloudtrail import Access, Window
from agent_memory.domain.errors import AccessRefusedError, AgentMemoryError, StoreBusyError
from support.agentcore import MEMORY_ID, AgentCore, an_error
from support.agentcore_nights import (
    ALICE,
    BUCKET,
    DAY,
    an_account_with_agentcore,
    night_services,
)
from support.aws import AwsAccount
from support.builders import NOW

ALL = Asked("/actors/")


def records(plane: AgentCore) -> AgentCoreRecords:
    return AgentCoreRecords(plane, memory_id=MEMORY_ID)


def new(number: int) -> NewRecord:
    return NewRecord(f"r-{number}", f"Note {number}.", ALICE, "semantic-1", NOW, {})


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_account_with_agentcore() as (account, _):
        yield account


def test_five_thousand_records_are_listed_over_fifty_pages() -> None:
    plane = AgentCore()
    for number in range(5_000):
        plane.put(f"Note {number}.", ALICE, NOW)
    assert len(list(records(plane).listed(ALL))) == 5_000
    assert plane.count() == 50


def test_a_page_token_that_expires_begins_the_listing_anew_and_shows_nothing_twice() -> None:
    plane = AgentCore()
    for number in range(350):
        plane.put(f"Note {number}.", ALICE, NOW)

    def expires_once(operation: str, request: dict[str, Any]) -> None:
        if request.get("nextToken") == "200" and plane.count() == 3:
            raise an_error("ValidationException")

    plane.fail = expires_once
    found = [one.record_id for one in records(plane).listed(ALL)]
    assert len(found) == len(set(found)) == 350


def test_a_token_that_is_never_taken_is_worth_another_try_later() -> None:
    plane = AgentCore()
    for number in range(150):
        plane.put(f"Note {number}.", ALICE, NOW)

    def never(operation: str, request: dict[str, Any]) -> None:
        if request.get("nextToken"):
            raise an_error("InvalidInputException")

    plane.fail = never
    with pytest.raises(StoreBusyError):
        list(records(plane).listed(ALL))


def test_a_page_token_of_events_that_expires_begins_their_listing_anew() -> None:
    plane = AgentCore()
    for number in range(150):
        plane.put_events(f"actor-{number}", "s-1", 1)
        plane.put_events("actor-0", f"s-{number}", 1)
    plane.put_events("actor-0", "s-1", 200)
    refused: set[str] = set()

    def each_expires_once(operation: str, request: dict[str, Any]) -> None:
        if request.get("nextToken") and operation not in refused:
            refused.add(operation)
            raise an_error("ValidationException")

    plane.fail = each_expires_once
    events = AgentCoreEvents(plane, memory_id=MEMORY_ID)
    found = (events.actors(), events.sessions("actor-0"), events.events("actor-0", "s-1"))
    assert [(len(one), len(set(one))) for one in found] == [(150, 150), (150, 150), (202, 202)]
    assert refused == {"ListActors", "ListSessions", "ListEvents"}


def test_a_token_of_events_that_is_never_taken_is_worth_another_try_later() -> None:
    plane = AgentCore()
    plane.put_events("actor-0", "s-1", 150)

    def never(operation: str, request: dict[str, Any]) -> None:
        if request.get("nextToken"):
            raise an_error("InvalidInputException")

    plane.fail = never
    with pytest.raises(StoreBusyError):
        AgentCoreEvents(plane, memory_id=MEMORY_ID).events("actor-0", "s-1")


@pytest.mark.parametrize(
    ("code", "status", "raised"),
    [
        ("ThrottledException", 429, StoreBusyError),
        ("ThrottlingException", 429, StoreBusyError),
        ("ServiceException", 500, StoreBusyError),
        ("AccessDeniedException", 403, AccessRefusedError),
        ("ValidationException", 400, AgentMemoryError),
    ],
)
def test_what_the_service_refuses_is_told_in_our_words(code: str, status: int, raised: type[Exception]) -> None:
    plane = AgentCore()

    def refuse(operation: str, request: object) -> None:
        raise an_error(code, operation, status)

    plane.fail = refuse
    with pytest.raises(raised):
        list(records(plane).listed(ALL))


def test_dates_are_asked_for_before_and_after() -> None:
    plane = AgentCore()
    old, young = plane.put("Old.", ALICE, NOW - 9 * DAY), plane.put("Young.", ALICE, NOW)
    assert [one.record_id for one in records(plane).listed(Asked("/actors/", before=NOW - DAY))] == [old]
    assert [one.record_id for one in records(plane).listed(Asked("/actors/", after=NOW - DAY))] == [young]


def test_half_a_batch_that_fails_for_a_while_is_tried_again_and_the_rest_is_not_created_twice() -> None:
    plane = AgentCore()
    tries: dict[str, int] = {}

    def every_second_at_first(operation: str, one: Any) -> int:
        tries[one["requestIdentifier"]] = tries.get(one["requestIdentifier"], 0) + 1
        number = int(one["requestIdentifier"][2:])
        return 429 if number % 2 and tries[one["requestIdentifier"]] == 1 else 0

    plane.fails_in_batch = every_second_at_first
    made = records(plane).create([new(number) for number in range(250)])
    assert len(made) == len(plane.records[MEMORY_ID]) == 250


def test_a_batch_all_of_which_failed_for_a_while_is_another_request_and_after_a_lost_answer_the_same() -> None:
    plane = AgentCore()
    failing = {"r-1", "r-2"}
    plane.fails_in_batch = lambda operation, one: 429 if one["requestIdentifier"] in failing else 0

    def heal(operation: str, request: dict[str, Any]) -> None:
        if plane.count("BatchCreateMemoryRecords") == 2:
            failing.clear()

    plane.fail = heal
    assert len(records(plane).create([new(1), new(2)])) == 2
    tokens = [request["clientToken"] for _, request in plane.calls]
    assert len(set(tokens)) == 2
    records(plane).create([new(1), new(2)])
    assert [request["clientToken"] for _, request in plane.calls][2] == tokens[0]


def test_what_fails_for_good_is_left_out() -> None:
    plane = AgentCore()
    plane.fails_in_batch = lambda operation, one: 400 if one["requestIdentifier"] == "r-1" else 0
    assert set(records(plane).create([new(0), new(1), new(2)])) == {"r-0", "r-2"}


def test_the_same_batch_again_creates_nothing_twice() -> None:
    plane = AgentCore()
    first = records(plane).create([new(0), new(1)])
    assert records(plane).create([new(0), new(1)]) == first
    assert len(plane.records[MEMORY_ID]) == 2


def test_a_batch_delete_says_of_each_what_became_of_it() -> None:
    plane = AgentCore()
    ids = [plane.put(f"Note {number}.", ALICE, NOW) for number in range(3)]
    plane.fails_in_batch = lambda operation, one: 400 if one == ids[1] else 0
    unknown = f"mem-{9:040d}"
    assert records(plane).delete([*ids, unknown]) == {
        ids[0]: "removed", ids[1]: "failed", ids[2]: "removed", unknown: "gone",
    }  # fmt: skip


def change(account: AwsAccount, event: str) -> None:
    one = Access(event, MEMORY_ID, "r", NOW)
    ledger = S3AccessLedger(account.client("s3"), bucket=BUCKET)
    ledger.change(lambda before: added(before, [one], window=Window(NOW - DAY, NOW + 1), now=NOW))


def test_two_who_change_the_ledger_at_once_lose_nothing(account: AwsAccount) -> None:
    change(account, "e-0")
    ledger, between = S3AccessLedger(account.client("s3"), bucket=BUCKET), iter(("e-1", "e-2"))

    def slowly(before: AccessLedger) -> AccessLedger:
        other = next(between, None)
        if other:
            change(account, other)
        return added(before, [Access("e-9", MEMORY_ID, "r", NOW)], window=Window(NOW - DAY, NOW + 1), now=NOW)

    assert ledger.change(slowly).of(MEMORY_ID, "r").times == 4
    assert ledger.ledger().of(MEMORY_ID, "r").times == 4


def put_raw(account: AwsAccount, body: bytes) -> None:
    account.client("s3").put_object(Bucket=BUCKET, Key=ACCESS_LEDGER_KEY, Body=body)


def test_a_damaged_ledger_goes_back_to_its_last_good_version(account: AwsAccount) -> None:
    change(account, "e-0")
    put_raw(account, b"not what we wrote")
    change(account, "e-1")
    assert S3AccessLedger(account.client("s3"), bucket=BUCKET).ledger().of(MEMORY_ID, "r").times == 2


def test_a_ledger_of_which_nothing_can_be_read_stops_the_night_and_says_what_to_do(account: AwsAccount) -> None:
    put_raw(account, b"not what we wrote")
    with pytest.raises(LedgerError, match="earlier version"):
        S3AccessLedger(account.client("s3"), bucket=BUCKET).ledger()


def test_a_ledger_of_a_newer_release_stops_the_night(account: AwsAccount) -> None:
    S3State(account.client("s3"), bucket=BUCKET, key=ACCESS_LEDGER_KEY).write(b'{"schema_version": 3}', over=None)
    with pytest.raises(LedgerError, match="newer release"):
        S3AccessLedger(account.client("s3"), bucket=BUCKET).ledger()


def test_an_index_that_another_night_wrote_since_is_not_written_over(account: AwsAccount) -> None:
    services = night_services(account)
    [memory] = services.memories
    one, other = services.book(memory), services.book(memory)
    first, second = one.index(), other.index()
    one.keep(first)
    with pytest.raises(StoreBusyError):
        other.keep(second)
