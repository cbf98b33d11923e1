"""What is believed of an AgentCore record, and whose it is."""

import gzip
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from agent_memory.domain.accesses import AccessLedger, LedgerError, added, read_ledger, window_of
from agent_memory.domain.agentcore import AgentCoreMemory, agentcore_memories, is_prefix, place_of, within
from agent_memory.domain.agentcore_actors import Actors, Namespaces, Whose, everybody, ids_in
from agent_memory.domain.agentcore_index import RecordIndex, read_index
from agent_memory.domain.agentcore_records import MAX_SOURCES, merged_record, read_record
from agent_memory.domain.cloudtrail import Access, Window, may_hold, records_in
from agent_memory.domain.errors import ConfigurationError
from agent_memory.domain.retention import DAY_SECONDS, HOUR_SECONDS
from hypothesis import given
from hypothesis import strategies as st
from support.builders import NOW, an_episode

RAW: dict[str, Any] = {
    "memoryRecordId": "mem-1",
    "content": {"text": "Cranes lift."},
    "namespaces": ["/actors/alice/"],
    "memoryStrategyId": "semantic-1",
    "createdAt": datetime.fromtimestamp(NOW, UTC),
}
MEMORY = "harbour-Abc1234567"


def test_a_prefix_without_its_delimiter_is_none_and_neighbours_are_apart() -> None:
    assert [is_prefix(one) for one in ("/tenants/a/", "/tenants/a", "tenants/a/", "/", "/t/*/", "")] == [
        True, False, False, True, False, False,
    ]  # fmt: skip
    assert within("/tenants/a", "/tenants/a/")
    assert within("/tenants/a/b/", "/tenants/a/")
    assert not within("/tenants/ab/", "/tenants/a/")


def test_a_place_names_no_actor_and_is_the_same_with_and_without_a_closing_delimiter() -> None:
    assert place_of(MEMORY, "/actors/alice/") == place_of(MEMORY, "/actors/alice")
    assert place_of(MEMORY, "/actors/alice/") != place_of("quays-Abc1234567", "/actors/alice/")
    assert "alice" not in place_of(MEMORY, "/actors/alice/")


def whose(namespace: str, person: str, *, prefix: str = "/actors/", others: tuple[str, ...] = ("bob",)) -> Whose:
    memory = AgentCoreMemory(memory_id=MEMORY, namespaces=(prefix,))
    spaces = {namespace, *(f"/actors/{one}/" for one in others)}
    found = Namespaces(memory, person.__eq__, namespaces=spaces, actors=[person, *others])
    return found.whose(namespace)


def test_an_actor_is_a_whole_part_of_a_namespace() -> None:
    assert whose("/actors/alice/", "alice") is Whose.THEIRS
    assert whose("/actors/x/alice/s-1", "alice") is Whose.THEIRS
    assert whose("/actors/alice2/", "alice") is Whose.OTHERS
    assert whose("/actors/team/alice/s/", "team/alice") is Whose.THEIRS
    assert whose("/actors/team/alicex/s/", "team/alice") is Whose.OTHERS


def test_a_word_of_the_layout_is_nobodys_id() -> None:
    assert whose("/actors/bob/", "actors") is Whose.OTHERS
    assert whose("/actors/actors/", "actors") is Whose.THEIRS
    # Nobody else is known, or nothing is spelled out: it may be a word and may be an id.
    assert whose("/actors/carol/", "actors", others=()) is Whose.CONTESTED
    assert whose("/actors/bob/", "actors", prefix="/") is Whose.CONTESTED
    assert whose("/actors/alice/bob/", "alice") is Whose.CONTESTED


def test_a_part_of_anothers_longer_id_takes_nobody_along() -> None:
    for person in ("team", "alice"):
        assert whose("/actors/team/alice/s-1/", person, others=("team/alice",)) is Whose.CONTESTED
    assert whose("/actors/team/", "team", others=("team/alice",)) is Whose.THEIRS
    assert whose("/actors/team/carol/", "team", others=("team/alice",)) is Whose.THEIRS
    assert whose("/actors/team/alice/", "team/alice", others=("team",)) is Whose.THEIRS


@pytest.mark.parametrize("person", ["oidc://quay/alice", "alice/", "idp:quay:alice", "a//b"])
def test_an_id_with_delimiters_side_by_side_or_at_its_end_is_found_whole(person: str) -> None:
    for namespace in (f"/actors/{person}/", f"/actors/{person}/s-1/", f"/actors/{person}/s-1"):
        assert whose(namespace, person) is Whose.THEIRS
        assert whose(namespace, f"{person}x") is Whose.OTHERS


@pytest.mark.parametrize(
    ("inside", "outside", "shared", "expected"),
    [
        (("/a/alice/",), (), False, Whose.THEIRS),
        ((), (), False, Whose.THEIRS),
        (("/a/alice/",), (), True, Whose.THEIRS),
        ((), (), True, Whose.CONTESTED),
        (("/a/alice/",), ("/b/alice/",), True, Whose.CONTESTED),
        (("/a/alice/",), ("/b/alice2/",), False, Whose.THEIRS),
    ],
)
def test_events_of_an_actor_go_where_the_actor_can_be_no_others(
    inside: tuple[str, ...], outside: tuple[str, ...], shared: bool, expected: Whose
) -> None:
    found = Actors("alice".__eq__, inside=lambda: ids_in(inside), outside=lambda: ids_in(outside), shared=shared)
    assert found.whose("alice") is expected
    assert found.whose("alice2") is Whose.OTHERS


def test_of_a_whole_tenant_only_actors_of_its_namespaces_go_from_a_shared_memory() -> None:
    found = Actors(everybody, inside=lambda: ids_in(["/a/x/"]), outside=lambda: ids_in(["/b/y/"]), shared=True)
    assert [found.whose(one) for one in ("x", "y", "z")] == [Whose.THEIRS, Whose.OTHERS, Whose.OTHERS]


@pytest.mark.parametrize(
    "change",
    [
        {"memoryRecordId": 7},
        {"memoryRecordId": "m" * 51},
        {"content": None},
        {"content": {"text": ""}},
        {"content": {"text": "x" * 16_001}},
        {"namespaces": []},
        {"namespaces": ["/a/", "/b/"]},
        {"namespaces": "/a/"},
        {"namespaces": ["/" * 1_025]},
    ],
)
def test_what_is_no_record_is_none(change: dict[str, object]) -> None:
    assert read_record({**RAW, **change}) is None


def test_text_at_the_limit_is_a_record() -> None:
    record = read_record({**RAW, "content": {"text": "x" * 16_000}})
    assert record
    assert len(record.text) == 16_000


@pytest.mark.parametrize("at", [None, 0, -5, float("nan"), float("inf"), "yesterday", True])
def test_a_date_that_is_none_is_not_1970(at: object) -> None:
    record = read_record({**RAW, "createdAt": at})
    assert record
    assert record.created_at is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_the_service_says_is_read_or_left_out(raw: object) -> None:
    read_record({**RAW, "metadata": raw})
    read_record({**RAW, "createdAt": raw})
    read_record(raw)


def test_the_lineage_of_the_largest_merge_fits_the_metadata_of_a_record() -> None:
    summary = an_episode(run_id="m-1", sources=tuple(f"mem-{n:040d}" for n in range(MAX_SOURCES)))
    new = merged_record(summary, "/actors/alice/", "semantic-1", night="n-2027-01-15")
    assert len(new.metadata) <= 20
    lists = [held["stringListValue"] for held in new.metadata.values() if "stringListValue" in held]
    assert all(len(one) <= 5 for one in lists if isinstance(one, list))


def test_retention_goes_by_strategy_then_type_then_what_is_usual() -> None:
    [memory] = agentcore_memories(
        '[{"memory_id": "harbour-Abc1234567", "namespaces": ["/a/"], "strategies": {"s-1": "summaries", "s-2": '
        '"semantic", "s-3": "semantic"}, "retention": {"semantic": 200, "s-3": 20}}]'
    )
    assert [memory.days_of(one) for one in ("s-1", "s-2", "s-3", "unknown")] == [45, 200, 20, 90]


def test_a_setting_that_is_no_list_is_refused_by_name() -> None:
    for text in ("{}", "7", "[", "[7]"):
        with pytest.raises(ConfigurationError, match="agentcoreMemories"):
            agentcore_memories(text)
    assert agentcore_memories("") == ()


WINDOW = Window(NOW - 25 * HOUR_SECONDS, NOW + 1)
FOUND = [Access(f"e-{n}", MEMORY, f"r-{n % 3}", NOW - n * 60) for n in range(10)]


@given(st.permutations(FOUND), st.permutations(FOUND))
def test_adding_the_same_accesses_in_any_order_and_again_changes_nothing(
    one: list[Access], other: list[Access]
) -> None:
    once = added(AccessLedger(), one, window=WINDOW, now=NOW)
    assert added(once, other, window=WINDOW, now=NOW) == once
    assert added(AccessLedger(), other, window=WINDOW, now=NOW).accesses == once.accesses
    assert once.of(MEMORY, "r-0").times == 4


def test_two_nights_at_once_lose_nothing() -> None:
    half = added(AccessLedger(), FOUND[:6], window=WINDOW, now=NOW)
    assert (
        added(half, FOUND[3:], window=WINDOW, now=NOW).accesses
        == added(AccessLedger(), FOUND, window=WINDOW, now=NOW).accesses
    )


def test_a_read_of_the_future_is_one_of_now() -> None:
    ahead = [Access("e", MEMORY, "r", NOW + 500)]
    assert added(AccessLedger(), ahead, window=WINDOW, now=NOW).of(MEMORY, "r").last_at == NOW


def test_a_night_reads_25_hours_and_what_missed_nights_left_as_long_as_the_trail_keeps_it() -> None:
    assert window_of(AccessLedger(), hours=25, now=NOW) == WINDOW
    late = AccessLedger(read_until=NOW - 3 * DAY_SECONDS)
    assert window_of(late, hours=25, now=NOW).begin == NOW - 3 * DAY_SECONDS - HOUR_SECONDS
    assert window_of(AccessLedger(read_until=1), hours=25, now=NOW).begin == NOW - 7 * DAY_SECONDS
    assert window_of(AccessLedger(read_until=NOW + 9 * DAY_SECONDS), hours=25, now=NOW) == WINDOW


@pytest.mark.parametrize("body", ["", "  "])
def test_an_empty_ledger_is_a_new_one(body: str) -> None:
    assert read_ledger(body) == AccessLedger()


@pytest.mark.parametrize("body", ["{", "[]", "\x00", '{"accesses": 7}', '{"schema_version": 1, "more": 1}'])
def test_a_corrupt_ledger_is_not_taken_for_an_empty_one(body: str) -> None:
    with pytest.raises(LedgerError, match="can't be read"):
        read_ledger(body)


def test_a_ledger_of_a_newer_release_is_left_alone() -> None:
    with pytest.raises(LedgerError, match="newer release"):
        read_ledger('{"schema_version": 3, "something": "else"}')


@pytest.mark.parametrize("body", ["", "{", "\x00", '{"entries": 7}', '{"schema_version": 9, "x": 1}'])
def test_an_index_that_cannot_be_read_is_made_anew_from_all_records(body: str) -> None:
    index = read_index(body)
    [memory] = agentcore_memories('[{"memory_id": "harbour-Abc1234567", "namespaces": ["/a/"]}]')
    assert index == RecordIndex()
    assert index.wants_all(memory, now=NOW)


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("between", ["", "\n"])
def test_files_that_were_put_together_give_the_records_of_each(size: int, between: str) -> None:
    texts = [json.dumps({"Records": [{"eventID": f"e-{number}"}]}) + between for number in range(3)]
    packed, plain = b"".join(gzip.compress(one.encode()) for one in texts), "".join(texts).encode()
    for body in (packed, plain):
        counts: Counter[str] = Counter()
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        assert [one["eventID"] for one in records_in(chunks, counts)] == ["e-0", "e-1", "e-2"]
        assert not +counts
    counts = Counter()
    assert [one["eventID"] for one in records_in([packed[:-3]], counts)][:2] == ["e-0", "e-1"]
    assert counts["files_cut"] == 1


def test_files_outside_the_window_by_their_names_are_not_read() -> None:
    window = Window(NOW - DAY_SECONDS, NOW)  # 2027-01-14T08:00Z to 2027-01-15T08:00Z
    folder = "AWSLogs/1/CloudTrail/eu-west-1/2027/01"
    assert may_hold(f"{folder}/14/1_CloudTrail_eu-west-1_20270114T0905Z_x.json.gz", window)
    assert may_hold(f"{folder}/15/1_CloudTrail_eu-west-1_20270115T0830Z_x.json.gz", window)
    assert not may_hold(f"{folder}/14/1_CloudTrail_eu-west-1_20270114T0700Z_x.json.gz", window)
    assert not may_hold(f"{folder}/12/l.json.gz", window)
    assert not may_hold("AWSLogs/1/CloudTrail-Insight/eu-west-1/2027/01/15/l.json.gz", window)
    assert not may_hold(f"{folder}/15/notes.txt", window)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_lies_in_the_bucket_breaks_no_night(body: bytes) -> None:
    list(records_in([body, body[::-1]], Counter()))
