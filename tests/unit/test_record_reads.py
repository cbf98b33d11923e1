"""What agents' sides say that they were shown of AgentCore: read at the door, kept as ids, counted once."""

from collections import Counter
from typing import Any

import pytest
from agent_memory.domain.accesses import AccessLedger, Reading, added, read_ledger, reading_of, window_of
from agent_memory.domain.agentcore import AgentCoreMemory
from agent_memory.domain.cloudtrail import Access, Window
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.record_reads import (
    ReadsReport,
    read_report,
    report_key,
    report_of,
    reported,
    tenant_of_report,
)
from agent_memory.domain.retention import DAY_SECONDS, HOUR_SECONDS
from hypothesis import given
from hypothesis import strategies as st
from support.agentcore import MEMORY_ID, names
from support.builders import NOW

MEMORIES = [
    AgentCoreMemory(memory_id=MEMORY_ID, tenant_id="harbour", namespaces=("/actors/",)),
    AgentCoreMemory(memory_id=MEMORY_ID, tenant_id="quays", namespaces=("/quays/",)),
]
ONE, TWO, THREE = names([1, 2, 3])
WINDOW = Window(NOW - 25 * HOUR_SECONDS, NOW + 1)


def an_event(**changes: Any) -> dict[str, Any]:
    """What a client puts on the bus; a change to None leaves the field out."""
    detail = {
        "schema_version": 1,
        "tenant_id": "harbour",
        "agent_id": "pilot",
        "memory_id": MEMORY_ID,
        "context_id": "c-1",
        "record_ids": [ONE, TWO],
        "read_at": NOW - 60,
        **changes,
    }
    said = {name: value for name, value in detail.items() if value is not None}
    return {"source": "agent-memory.client/harbour", "time": "2027-01-15T07:00:00Z", "detail": said}


def a_recall(*run_ids: object, tier: str = "episodic", **changes: Any) -> dict[str, Any]:
    items = [{"memory_id": f"pilot/{one}", "tier": tier, "agent_id": "pilot", "run_id": one} for one in run_ids]
    detail = {"tenant_id": "harbour", "context_id": "c-1", "at": NOW - 60, "items": items}
    return {"source": "agent-memory", "detail": {**detail, **changes}}


def kept(event: dict[str, Any], now: int = NOW) -> ReadsReport:
    report = report_of(event, MEMORIES, now=now)
    assert report
    return report


def counted(ledger: AccessLedger, *reports: ReadsReport, known: tuple[str, ...] = (ONE, TWO, THREE)) -> AccessLedger:
    found = [one for report in reports for one in reported(report, known=known, counts=Counter())]
    return added(ledger, found, window=WINDOW, now=NOW)


def times(ledger: AccessLedger, *record_ids: str) -> list[int]:
    return [ledger.of(MEMORY_ID, one).times for one in record_ids]


def test_a_report_keeps_ids_and_no_word_of_the_agents() -> None:
    report = kept(an_event(context_id="alice@example.com", used=[TWO, TWO], agent_id="pilot-of-alice"))
    assert (report.tenant_id, report.memory_id, report.record_ids, report.used) == (
        "harbour", MEMORY_ID, (ONE, TWO), (TWO,),
    )  # fmt: skip
    assert (report.at, report.received_at) == (NOW - 60, NOW)
    assert "alice" not in report.model_dump_json() + report_key(report)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"schema_version": True}, "schema_version"),
        ({"tenant_id": "registry"}, "tenant_id"),
        ({"tenant_id": "a#b"}, "tenant_id"),
        ({"agent_id": None}, "agent_id"),
        ({"memory_id": "harbour"}, "memory_id"),
        ({"memory_id": f"arn:aws:bedrock-agentcore:us-east-1:1:memory/{MEMORY_ID}"}, "memory_id"),
        ({"memory_id": "others-Abc1234567"}, "memory_id"),
        ({"memory_id": 7}, "memory_id"),
        ({"context_id": None}, "context_id"),
        ({"context_id": "a b"}, "context_id"),
        ({"record_ids": None}, "record_ids"),
        ({"record_ids": []}, "record_ids"),
        ({"record_ids": ONE}, "record_ids"),
        ({"record_ids": {ONE: 1}}, "record_ids"),
        ({"record_ids": [ONE, 7]}, "record_ids"),
        ({"record_ids": [f"{ONE}\n"]}, "record_ids"),
        ({"record_ids": ["mem-../../secrets-of-others-and-more-of-them"]}, "record_ids"),
        ({"record_ids": [ONE] * 101}, "record_ids"),
        ({"used": [THREE]}, "used"),
        ({"used": ONE}, "used"),
        ({"read_at": "yesterday"}, "read_at"),
        ({"read_at": NOW - 8 * DAY_SECONDS}, "read_at"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_the_name_of_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RefusedInputError) as refused:
        report_of(an_event(**changes), MEMORIES, now=NOW)
    assert refused.value.field == field


@pytest.mark.parametrize("source", ["agent-memory.client/quays", "agent-memory.client/", "aws.s3", None])
def test_nobody_reports_for_a_tenant_whose_source_is_not_theirs(source: object) -> None:
    with pytest.raises(RefusedInputError, match="source"):
        report_of({**an_event(), "source": source}, MEMORIES, now=NOW)


def test_a_tenant_without_an_entry_of_the_memory_reports_nothing_of_it() -> None:
    event = {**an_event(tenant_id="meadow"), "source": "agent-memory.client/meadow"}
    with pytest.raises(RefusedInputError, match="agentcoreMemories"):
        report_of(event, MEMORIES, now=NOW)


ODD = [None, True, 0, -1, 10**400, float("nan"), "", "..", "\ud800", "é#", "2027-01-15", ONE, MEMORY_ID, "harbour"]
odd = st.sampled_from(ODD)
json_values = odd | st.lists(odd, max_size=3) | st.dictionaries(st.sampled_from(["run_id", "tier"]), odd, max_size=2)
FIELDS = ("schema_version", "tenant_id", "agent_id", "memory_id", "context_id", "record_ids", "used", "read_at", "at")


@given(st.dictionaries(st.sampled_from((*FIELDS, "items")), json_values, max_size=6), st.booleans())
def test_whatever_an_event_holds_it_is_a_report_or_refused(changes: dict[str, Any], ours: bool) -> None:
    event = a_recall(ONE, **changes) if ours else an_event(**changes)
    try:
        report = report_of(event, MEMORIES, now=NOW)
    except RefusedInputError:
        return
    assert report is None or (report.at <= NOW and 1 <= len(report.record_ids) <= 100)


def test_a_recall_of_imported_runs_is_a_read_of_their_records() -> None:
    report = kept(a_recall(ONE, "run-7", TWO, ONE))
    assert (report.by, report.memory_id, report.record_ids, report.used) == ("bootstrap", MEMORY_ID, (ONE, TWO), ())


@pytest.mark.parametrize(
    "event",
    [
        a_recall("run-7", None, 7),
        a_recall(),
        a_recall(ONE, tier="semantic"),
        a_recall(ONE, tenant_id="meadow"),
        a_recall(ONE, items="none"),
        a_recall(ONE, at=NOW - 8 * DAY_SECONDS),
    ],
    ids=["own runs", "nothing", "facts", "a tenant without AgentCore", "no list", "long ago"],
)
def test_a_recall_of_nothing_imported_reports_nothing(event: dict[str, Any]) -> None:
    assert report_of(event, MEMORIES, now=NOW) is None


def test_an_agent_that_calls_itself_a_recall_is_refused() -> None:
    with pytest.raises(RefusedInputError):
        report_of({**a_recall(ONE), "source": "agent-memory.client/harbour"}, MEMORIES, now=NOW)


def test_each_record_counts_once_for_each_context_however_it_is_told() -> None:
    said = kept(an_event())
    again = kept(an_event(record_ids=[TWO, ONE, THREE], read_at=NOW - 5), now=NOW + 3600)
    other = kept(an_event(context_id="c-2", record_ids=[ONE]))
    once = counted(AccessLedger(), said)
    assert times(once, ONE, TWO, THREE) == [1, 1, 0]
    assert counted(once, said, said) == once
    assert times(counted(once, again, other), ONE, TWO, THREE) == [2, 1, 1]


def test_what_was_used_is_a_signal_of_its_own_and_no_second_access() -> None:
    shown = kept(an_event())
    helped = kept(an_event(used=[TWO]))
    ledger = counted(AccessLedger(), shown, helped, helped)
    assert (times(ledger, ONE, TWO), ledger.used) == ([1, 1], {MEMORY_ID: {TWO: 1}})
    assert ledger.without(MEMORY_ID, [TWO]).used == {MEMORY_ID: {}}


def test_of_records_that_are_not_the_tenants_nothing_counts() -> None:
    counts: Counter[str] = Counter()
    assert [one.record_id for one in reported(kept(an_event()), known={TWO}, counts=counts)] == [TWO]
    assert counts == {"reads_of_unknown": 1}


def test_the_same_said_again_has_the_same_key_and_other_words_another() -> None:
    key = report_key(kept(an_event()))
    assert key.startswith("reports/harbour/2027/01/15/")
    assert report_key(kept(an_event(record_ids=[TWO, ONE], read_at=NOW - 7), now=NOW + 60)) == key
    others = [an_event(context_id="c-2"), an_event(record_ids=[ONE]), an_event(used=[ONE])]
    assert len({key, *(report_key(kept(one)) for one in others)}) == 4
    assert (tenant_of_report(key), tenant_of_report("AWSLogs/1/CloudTrail/l.json.gz")) == ("harbour", None)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"by": "agent"}', b"[" * 9_000])
def test_a_report_that_cannot_be_read_is_none(body: bytes) -> None:
    assert read_report(body, "harbour") is None


def test_a_report_under_another_tenants_name_is_none() -> None:
    body = kept(an_event()).model_dump_json().encode()
    assert read_report(body, "harbour") == kept(an_event())
    assert read_report(body, "quays") is None


def test_a_reading_that_stopped_goes_on_in_its_window_and_forgets_nothing_before_its_end() -> None:
    begun = reading_of(AccessLedger(read_until=NOW - 3 * DAY_SECONDS), "n-1", hours=25, now=NOW)
    stopped = begun.model_copy(update={"after": "a"})
    window = Window(begun.begin, begun.end)
    half = added(AccessLedger(read_until=7), [], window=window, now=NOW, reading=stopped)
    assert (half.read_until, reading_of(half, "n-1", hours=25, now=NOW)) == (7, stopped)
    whole = added(half, [], window=window, now=NOW, reading=stopped.model_copy(update={"after": "b", "done": True}))
    assert (whole.read_until, reading_of(whole, "n-1", hours=25, now=NOW).done) == (NOW, True)
    other = reading_of(whole, "n-2", hours=25, now=NOW)
    assert other == Reading(run_id="n-2", begin=NOW - 25 * HOUR_SECONDS, end=NOW + 1)


def test_a_ledger_of_the_last_release_is_read_as_it_is() -> None:
    body = f'{{"schema_version": 1, "read_until": 7, "accesses": {{"{MEMORY_ID}": {{"{ONE}": [3, 5]}}}}, "seen": {{}}}}'
    ledger = read_ledger(body)
    assert (ledger.read_until, times(ledger, ONE)) == (7, [3])
    assert counted(ledger, kept(an_event())).schema_version == 2


def test_ids_of_events_are_forgotten_when_no_window_can_show_them_again_and_of_reports_when_none_can_come() -> None:
    old = [Access("e-old", MEMORY_ID, ONE, NOW - 20 * HOUR_SECONDS), Access("e-new", MEMORY_ID, ONE, NOW - 60)]
    first = added(AccessLedger(), old, window=WINDOW, now=NOW)
    first = counted(first, kept(an_event(read_at=NOW - 6 * DAY_SECONDS)))
    later = NOW + DAY_SECONDS
    window = window_of(first, hours=25, now=later)
    second = added(first, [], window=window, now=later)
    assert {one for one in second.seen if one.startswith("e-")} == {"e-new"}
    assert len(second.seen) == 3
    # The same report, heard again on its last day, and the same file, read by a deployment that now asks for a week.
    assert added(second, reported(kept(an_event(read_at=NOW - 6 * DAY_SECONDS)), known={ONE, TWO}, counts=Counter()),
                 window=window, now=later) == second  # fmt: skip
    assert window_of(second, hours=168, now=later + 60).begin == window.begin


@pytest.mark.parametrize("hours", [25, 48, 168])
def test_a_report_of_a_week_ago_counts_once_however_many_nights_and_hours_show_it(hours: int) -> None:
    report = kept(an_event(read_at=NOW - 7 * DAY_SECONDS + 60))
    ledger = AccessLedger()
    for night in range(1, 10):
        now = NOW + night * DAY_SECONDS - 12 * HOUR_SECONDS
        window = window_of(ledger, hours=hours, now=now)
        shown = [report] if window.takes(report.received_at) else []
        found = [one for held in shown for one in reported(held, known={ONE, TWO}, counts=Counter())]
        ledger = added(ledger, found, window=window, now=now)
    assert times(ledger, ONE, TWO) == [1, 1]
    assert not ledger.seen


def test_a_clock_that_was_ahead_once_does_not_make_the_next_night_read_nothing() -> None:
    ahead = NOW + 9 * DAY_SECONDS
    ledger = added(AccessLedger(), [], window=window_of(AccessLedger(), hours=25, now=ahead), now=ahead)
    assert window_of(ledger, hours=25, now=NOW) == WINDOW
