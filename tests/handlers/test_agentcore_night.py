"""A night over AgentCore from lock to end: the machine of the night, over records instead of episodes."""

from collections import Counter
from collections.abc import Iterator

import pytest
from agent_memory.domain.agentcore import place_of
from agent_memory.domain.agentcore_records import CREATED_AT, ENDED_AT, MERGE_ID, OLDEST_AT, read_record
from agent_memory.domain.decay import DecayRules, relevance
from agent_memory.domain.lifecycle import Plan, PlanSlice
from agent_memory.domain.night_report import NightReport, report_key
from agent_memory.domain.regressions import regression_case
from agent_memory.domain.restoring import restore_memory, restore_run
from support.agentcore import MEMORY_ID, AgentCore, an_error
from support.agentcore_nights import (
    ALICE,
    BOB,
    DAY,
    a_night_over_agentcore,
    a_read,
    an_account_with_agentcore,
    deliver,
    night_services,
)
from support.aws import AwsAccount
from support.builders import NOW
from support.conversations import ScriptedModel
from support.lifecycle import at
from support.machines import TaskFailed
from support.merges import an_answer
from support.whole_nights import merging

Both = tuple[AwsAccount, AgentCore]
NIGHT = "n-2027-01-15"
CRANES = ("Crane 4 at the north quay lifts 40 tonnes.", "Crane 4 at the north quay needs two operators.")
MERGED = "Crane 4 at the north quay lifts 40 tonnes and needs two operators."


@pytest.fixture
def both() -> Iterator[Both]:
    with an_account_with_agentcore() as both:
        yield both


def report(account: AwsAccount, run_id: str = NIGHT) -> NightReport:
    found = account.services.night_files.get(report_key(run_id), NightReport)
    assert found
    return found


def planned(account: AwsAccount, run_id: str = NIGHT) -> dict[str, str]:
    files = account.services.night_files
    slices = files.get_many(files.keys(f"lifecycle/{run_id}/plan/"), PlanSlice)
    items = [item for one in slices for item in (*one.items, *(i for group in one.groups for i in group.items))]
    return {item.run_id: f"{item.action} {item.reason}" for item in items}


def two_cranes(plane: AgentCore, namespace: str = ALICE) -> list[str]:
    return [plane.put(text, namespace, NOW - (50 - number) * DAY) for number, text in enumerate(CRANES)]


def test_a_night_removes_what_faded_and_leaves_the_rest(both: Both) -> None:
    account, plane = both
    faded = plane.put("Crane 4 lifts 40 tonnes.", ALICE, NOW - 50 * DAY)
    plane.put("Ferries leave from quay 2.", ALICE, NOW - 2 * DAY)
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert plane.texts() == {"Ferries leave from quay 2."}
    assert planned(account) == {faded: "prune low_relevance"}
    assert report(account).ended == "completed"


def test_what_is_past_the_retention_of_its_type_expires(both: Both) -> None:
    account, plane = both
    summary = plane.put("Session about cranes.", ALICE, NOW - 46 * DAY, strategy="summary-1")
    old_fact = plane.put("Cranes are painted yellow.", ALICE, NOW - 121 * DAY)
    stranger = plane.put("Of a strategy that nobody named.", ALICE, NOW - 91 * DAY, strategy="custom-9")
    assert a_night_over_agentcore(account).status == "SUCCEEDED"
    assert planned(account) == dict.fromkeys((summary, old_fact, stranger), "expire expired")
    assert plane.texts() == set()


def test_a_merge_carries_its_lineage_and_the_first_dates(both: Both) -> None:
    account, plane = both
    sources = two_cranes(plane)
    done = a_night_over_agentcore(account, an_answer(MERGED))
    assert done.status == "SUCCEEDED"
    [raw] = plane.records[MEMORY_ID].values()
    record = read_record(raw)
    assert record
    assert (record.text, record.namespace, record.strategy_id) == (MERGED, ALICE, "semantic-1")
    assert sorted(record.sources) == sorted(sources)
    assert record.merge_id.startswith("m-")
    assert record.number(OLDEST_AT) == NOW - 50 * DAY
    assert record.number(ENDED_AT) == NOW - 49 * DAY
    assert record.number(CREATED_AT) == NOW
    assert MERGE_ID in raw["metadata"]


def test_records_of_two_actors_never_become_one(both: Both) -> None:
    account, plane = both
    plane.put(CRANES[0], ALICE, NOW - 50 * DAY)
    plane.put(CRANES[1], BOB, NOW - 50 * DAY)
    model = ScriptedModel(an_answer(MERGED))
    a_night_over_agentcore(account, model=model)
    assert model.texts == []
    assert plane.texts() == set()


def test_records_of_two_strategies_never_become_one(both: Both) -> None:
    account, plane = both
    plane.put(CRANES[0], ALICE, NOW - 40 * DAY)
    plane.put(CRANES[1], ALICE, NOW - 40 * DAY, strategy="pref-1")
    model = ScriptedModel(an_answer(MERGED))
    a_night_over_agentcore(account, model=model)
    assert model.texts == []


def test_a_dry_run_changes_no_record_and_leaves_its_plan(both: Both) -> None:
    account, plane = both
    sources = two_cranes(plane)
    assert a_night_over_agentcore(account, dry_run=True).status == "SUCCEEDED"
    assert plane.texts() == set(CRANES)
    assert planned(account) == dict.fromkeys(sources, "merge low_relevance")
    assert plane.count("BatchCreateMemoryRecords", "BatchDeleteMemoryRecords", "BatchUpdateMemoryRecords") == 0


@pytest.mark.parametrize("nights_between", [0, 1])
def test_a_run_taken_back_brings_every_record_back_as_it_was(both: Both, nights_between: int) -> None:
    account, plane = both
    two_cranes(plane)
    plane.put("Ferries of old.", BOB, NOW - 60 * DAY, metadata={"port": {"stringValue": "Rana"}})
    before = described(plane)
    a_night_over_agentcore(account, an_answer(MERGED))
    assert plane.texts() == {MERGED}
    for night in range(nights_between):
        at(account, NOW + night * DAY + 60)
        a_night_over_agentcore(account, execution=f"b-{night}")
    services = night_services(account)
    back = restore_run(MEMORY_ID, NIGHT, services.restore_doors(MEMORY_ID), services.restore_rules, now=NOW + 60)
    assert back.finished
    assert Counter(back.counts) == {"restored": 3}
    assert described(plane) == before
    at(account, NOW + DAY)
    a_night_over_agentcore(account, execution="e-2")
    [memory] = services.memories
    index = night_services(account).book(memory).index()
    assert {entry.record_id for entry in index.entries.values()} == set(plane.records[MEMORY_ID])


def described(plane: AgentCore) -> set[tuple[object, ...]]:
    """Every record but for its id and what a restore adds."""
    own = ("agent-memory:created-at", "agent-memory:restored-from")
    return {
        (
            one["content"]["text"],
            one["namespaces"][0],
            one["memoryStrategyId"],
            one["createdAt"],
            str({key: held for key, held in one.get("metadata", {}).items() if key not in own}),
        )
        for one in plane.records[MEMORY_ID].values()
    }


def test_what_came_back_is_left_alone_by_the_nights_of_its_lease_and_known_by_its_old_name(both: Both) -> None:
    account, plane = both
    [first, _] = two_cranes(plane)
    a_night_over_agentcore(account, an_answer(MERGED))
    services = night_services(account)
    restored = restore_memory(
        f"{place_of(MEMORY_ID, ALICE)}/{first}",
        services.restore_doors(MEMORY_ID),
        services.restore_rules,
        now=NOW + 60,
    )
    assert restored.decision == "restored"
    for day in (1, 5, 8, 20):
        at(account, NOW + day * DAY)
        assert a_night_over_agentcore(account, execution=f"e-{day}").status == "SUCCEEDED"
        assert CRANES[0] in plane.texts()
    at(account, NOW + 40 * DAY)
    a_night_over_agentcore(account, execution="e-40", dry_run=True)
    assert first in planned(account, "n-2027-02-24")


def test_restoring_what_is_there_creates_no_second_one(both: Both) -> None:
    account, plane = both
    [first, _] = two_cranes(plane)
    a_night_over_agentcore(account, an_answer(MERGED))
    name = f"{place_of(MEMORY_ID, ALICE)}/{first}"
    for expected in ("restored", "present", "present"):
        services = night_services(account)
        doors, rules = services.restore_doors(MEMORY_ID), services.restore_rules
        assert restore_memory(name, doors, rules, now=NOW + 60).decision == expected
    assert len(plane.records[MEMORY_ID]) == 2


@pytest.mark.parametrize("refreshed_between", [False, True])
def test_what_came_back_and_was_deleted_by_somebody_comes_back_again(both: Both, refreshed_between: bool) -> None:
    account, plane = both
    [first, _] = two_cranes(plane)
    a_night_over_agentcore(account, an_answer(MERGED))
    name = f"{place_of(MEMORY_ID, ALICE)}/{first}"
    for day in (1, 2):
        services = night_services(account)
        doors, rules = services.restore_doors(MEMORY_ID), services.restore_rules
        assert restore_memory(name, doors, rules, now=NOW + day * DAY).decision == "restored"
        [back] = [key for key, one in plane.records[MEMORY_ID].items() if one["content"]["text"] == CRANES[0]]
        if day == 1:
            del plane.records[MEMORY_ID][back]
            if refreshed_between:
                at(account, NOW + DAY + 60)
                a_night_over_agentcore(account, execution="e-2", dry_run=True)


def test_reads_keep_a_record_and_count_once_however_often_they_are_seen(both: Both) -> None:
    account, plane = both
    read, unread = two_cranes(plane)
    records = [a_read(f"ev-{n}", read, "2027-01-15T06:00:00Z") for n in range(12)]
    for name in ("one.json.gz", "two.json.gz"):
        deliver(account, f"2027/01/15/{name}", {"Records": records})
    a_night_over_agentcore(account)
    assert list(planned(account)) == [unread]
    at(account, NOW + 3600)
    a_night_over_agentcore(account, execution="e-2")
    assert night_services(account).accesses.ledger().of(MEMORY_ID, read).times == 12


def test_a_namespace_is_not_taken_for_its_neighbour() -> None:
    entry = {"memory_id": MEMORY_ID, "namespaces": ["/tenants/a/"]}
    with an_account_with_agentcore(entry) as (account, plane):
        plane.put("Ours, long unread.", "/tenants/a/", NOW - 50 * DAY)
        plane.put("Of the neighbour, long unread.", "/tenants/ab/", NOW - 50 * DAY)
        a_night_over_agentcore(account)
        assert plane.texts() == {"Of the neighbour, long unread."}


def test_a_record_without_a_date_is_kept_and_counted(both: Both) -> None:
    account, plane = both
    undated = plane.put("Nobody knows since when.", ALICE, NOW)
    plane.records[MEMORY_ID][undated]["createdAt"] = None
    a_night_over_agentcore(account)
    assert plane.texts() == {"Nobody knows since when."}
    assert night_services(account).book(night_services(account).memories[0]).index().undated == 1


def test_a_night_that_would_remove_too_much_waits_for_a_person() -> None:
    with an_account_with_agentcore(blastRadiusFrom="10") as (account, plane):
        for number in range(20):
            plane.put(f"{number} ships lay at anchor.", ALICE, NOW - (50 if number < 8 else 2) * DAY)
        done = a_night_over_agentcore(account)
        assert done.status == "FAILED"
        plan = account.services.night_files.get(f"lifecycle/{NIGHT}/plan.json", Plan)
        assert plan
        assert (plan.held, len(plane.texts())) == ((MEMORY_ID,), 20)


def test_a_hold_keeps_the_night_off_a_namespace(both: Both) -> None:
    account, plane = both
    plane.put("Crane of Alice.", ALICE, NOW - 50 * DAY)
    plane.put("Crane of Bob.", BOB, NOW - 50 * DAY)
    account.services.tenant(MEMORY_ID).agent_notes.hold(place_of(MEMORY_ID, ALICE), now=NOW)
    a_night_over_agentcore(account)
    assert plane.texts() == {"Crane of Alice."}


def test_over_the_cap_the_least_relevant_go() -> None:
    with an_account_with_agentcore(maxEpisodesPerAgent="5") as (account, plane):
        for number in range(7):
            plane.put(f"{number} ships lay at anchor.", ALICE, NOW - (20 - number) * DAY)
        a_night_over_agentcore(account)
        assert len(plane.texts()) == 5
        assert "0 ships lay at anchor." not in plane.texts()


def test_a_merge_that_broke_off_after_it_created_goes_on_the_next_night(both: Both) -> None:
    account, plane = both
    two_cranes(plane)

    def no_deletes(operation: str, request: object) -> None:
        if operation == "BatchDeleteMemoryRecords":
            raise an_error("ThrottledException", operation, 429)

    plane.fail = no_deletes
    done = a_night_over_agentcore(account, an_answer(MERGED), MergeMemories=_breaking())
    assert done.status == "FAILED"
    assert plane.texts() == {*CRANES, MERGED}
    plane.fail = lambda operation, request: None
    at(account, NOW + DAY)
    model = ScriptedModel(an_answer(MERGED))
    assert a_night_over_agentcore(account, execution="e-2", model=model).status == "SUCCEEDED"
    assert (plane.texts(), model.texts) == ({MERGED}, [])


def _breaking() -> object:
    def step(event: dict[str, object]) -> object:
        try:
            return merging(event)
        except Exception as error:
            raise TaskFailed(type(error).__name__) from error

    return step


def test_a_record_that_changed_since_it_was_planned_stays(both: Both) -> None:
    account, plane = both
    faded = plane.put("Crane 4 lifts 40 tonnes.", ALICE, NOW - 50 * DAY)

    def rewritten(operation: str, request: dict[str, object]) -> None:
        if operation == "GetMemoryRecord" and plane.count("GetMemoryRecord") == 4:
            plane.records[MEMORY_ID][faded]["content"] = {"text": "Crane 4 lifts 60 tonnes."}

    plane.fail = rewritten
    a_night_over_agentcore(account)
    assert plane.texts() == {"Crane 4 lifts 60 tonnes."}


def test_metadata_that_claim_a_merge_remove_nothing(both: Both) -> None:
    """Whoever may write to a memory could have others removed by naming them."""
    account, plane = both
    victim = plane.put("Fresh and wanted.", ALICE, NOW - DAY)
    lineage = {"agent-memory:sources-0": {"stringListValue": [victim]}, MERGE_ID: {"stringValue": "m-" + "a" * 32}}
    plane.put("An impostor.", ALICE, NOW - DAY, metadata=lineage)
    a_night_over_agentcore(account)
    assert plane.texts() == {"Fresh and wanted.", "An impostor."}


def test_the_plan_is_what_the_formula_says(both: Both) -> None:
    account, plane = both
    rules = DecayRules()
    expected = set()
    for number in range(120):
        age, reads = (number * 7) % 80, (number % 4) * 9
        record_id = plane.put(f"{number} ships", f"/actors/{number % 6}/", NOW - age * DAY - 5)
        events = [a_read(f"{number}-{n}", record_id, "2027-01-15T02:00:00Z") for n in range(reads)]
        deliver(account, f"2027/01/15/{number}.json.gz", {"Records": events})
        last = NOW - 6 * 3600 if reads else None
        if relevance(NOW - age * DAY - 5, reads, last, rules, now=NOW) < rules.threshold:
            expected.add(record_id)
    a_night_over_agentcore(account, dry_run=True)
    assert expected
    assert set(planned(account)) == expected


def test_an_ordinary_night_lists_only_what_is_new(both: Both) -> None:
    account, plane = both
    for number in range(950):
        plane.put(f"{number} ships", f"/actors/{number % 5}/", NOW - 2 * DAY)
    a_night_over_agentcore(account)
    assert plane.count("ListMemoryRecords") >= 10
    plane.calls.clear()
    at(account, NOW + DAY)
    a_night_over_agentcore(account, execution="e-2")
    assert plane.count("ListMemoryRecords") <= 4
    plane.calls.clear()
    at(account, NOW + 8 * DAY)
    a_night_over_agentcore(account, execution="e-3")
    assert plane.count("ListMemoryRecords") >= 10


def test_the_gate_that_fails_brings_everything_back(both: Both) -> None:
    account, plane = both
    two_cranes(plane)
    yellow = "Crane 4 at the north quay is painted yellow."
    plane.put(yellow, ALICE, NOW - 48 * DAY)
    a_night_over_agentcore(account, dry_run=True)
    given = {
        "case_id": "c-1",
        "agent_id": place_of(MEMORY_ID, ALICE),
        "question": "What is painted yellow?",
        "minimum": 0.9,
    }
    case = regression_case({**given, "criteria": [yellow]}, now=NOW)
    account.services.tenant(MEMORY_ID).regressions.put(case)
    done = a_night_over_agentcore(account, an_answer(MERGED), execution="e-2")
    found = report(account, f"{NIGHT}.2")
    assert (done.status, found.ended, found.quality) == ("FAILED", "rolled_back", "fail")
    assert plane.texts() == {*CRANES, yellow}


def test_nothing_of_a_record_and_no_actor_is_in_what_the_night_writes_about_itself(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    account, plane = both
    two_cranes(plane)
    a_night_over_agentcore(account, an_answer(MERGED))
    logged = capsys.readouterr().out
    s3 = account.client("s3")
    keys = account.services.night_files.keys("lifecycle/")
    bucket = account.services.night_files.bucket
    written = "".join(s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys)
    assert "crane" not in (logged + written).lower()
    assert "alice" not in logged + written


def test_a_night_without_memories_says_so_and_does_not_fail() -> None:
    with an_account_with_agentcore(agentcoreMemories="[]") as (account, plane):
        done = a_night_over_agentcore(account)
        assert (done.status, done.states[-1], plane.calls) == ("SUCCEEDED", "NoMemories", [])
