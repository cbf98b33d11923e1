"""From due keys to slices, and how much of a tenant a night may remove."""

from collections.abc import Mapping

import pytest
from agent_memory.domain.lifecycle import Action, AgentDue, LookSlice, MemoryGroup, Plan, PlanItem, PlanSlice, Reason
from agent_memory.domain.lifecycle_ports import DueKey, DuePage, DueSource
from agent_memory.domain.planning import PlanDoors, cut, plan
from agent_memory.domain.retention import DAY_SECONDS
from agent_memory.domain.weighing import BlastRules, TenantDoors, WeighDoors, allowed_share, weigh
from support.builders import NOW, TENANT
from support.nights import HeldFiles, a_night, a_ticket


def keys(tenant: str, agent: str, count: int) -> list[DueKey]:
    return [DueKey(tenant, agent, f"run-{number:06d}") for number in range(count)]


def test_a_slice_is_of_one_tenant_and_agents_stay_whole() -> None:
    due = [*keys("b", "a-1", 150), *keys("a", "a-1", 3), *keys("b", "a-2", 60), *keys("b", "a-3", 50)]
    slices = list(cut(due, [], part=0))
    assert [(one.tenant_id, [(a.agent_id, len(a.run_ids)) for a in one.agents]) for one in slices] == [
        ("a", [("a-1", 3)]),
        ("b", [("a-1", 150)]),
        ("b", [("a-2", 60), ("a-3", 50)]),
    ]
    assert len({(one.tenant_id, one.name) for one in slices}) == len(slices)


def test_an_agent_with_more_than_any_slice_can_hold_is_cut() -> None:
    sizes = [len(agent.run_ids) for one in cut(keys("a", "a-1", 2_500), [], part=0) for agent in one.agents]
    assert sizes == [1_000, 1_000, 500]


def test_an_agent_that_stored_something_is_looked_at_though_nothing_is_due() -> None:
    [one] = cut([], [("a", "a-1")], part=0)
    assert one.agents == (AgentDue(agent_id="a-1", stored=True),)


class Index:
    """due-index in memory, in pages of a thousand keys."""

    def __init__(self, due: Mapping[tuple[DueSource, str], list[DueKey]]) -> None:
        self.due = due
        self.calls = 0

    def page(
        self, source: DueSource, shard: str, *, upto: int, after: Mapping[str, object] | None, begin: int = 0
    ) -> DuePage:
        self.calls += 1
        start = int(str(after["at"])) if after else 0
        found = self.due.get((source, shard), [])
        end = start + 1_000
        return DuePage(tuple(found[start:end]), {"at": end} if end < len(found) else None)


class Stored(dict[tuple[str, str], int]):
    def all(self) -> Mapping[tuple[str, str], int]:
        return self

    def note(self, tenant_id: str, agent_id: str, *, now: int) -> None:
        self[tenant_id, agent_id] = now

    def clear(self, tenant_id: str, agent_id: str, *, upto: int) -> None:
        self.pop((tenant_id, agent_id), None)


def test_a_hundred_thousand_due_memories_become_slices_in_calls_and_payloads_that_are_bounded() -> None:
    due = {
        ("episodes", str(shard)): [DueKey(f"t-{n % 40}", f"a-{n % 500}", f"run-{n}") for n in range(shard, 100_000, 4)]
        for shard in range(4)
    }
    files, ticket, calls = HeldFiles(), a_ticket(), 0
    doors = PlanDoors(Index(due), Stored(), files)  # type: ignore[arg-type]  # keys of episodes
    while ticket.decision != "planned":
        ticket, calls = plan(ticket, doors, None, shards=4), calls + 1
        assert len(ticket.model_dump_json()) < 10_000
    found = files.get_many(files.keys(ticket.look_prefix), LookSlice)
    runs = [(one.tenant_id, agent.agent_id, run) for one in found for agent in one.agents for run in agent.run_ids]
    assert (len(runs), len(set(runs)), calls) == (100_000, 100_000, 3)
    assert len(found) < 2_000
    assert max(map(len, files.objects.values())) < 100_000


def test_the_plan_goes_on_where_a_call_ended() -> None:
    due = {("episodes", "1"): keys("a", "a-1", 60_000), ("facts", "3"): keys("a", "general", 70)}
    files, index = HeldFiles(), Index(due)  # type: ignore[arg-type]  # keys
    ticket = plan(a_ticket(), PlanDoors(index, Stored(), files), None, shards=4)
    assert (ticket.decision, ticket.rooms["look"]) == ("more", "some")
    again = plan(ticket, PlanDoors(index, Stored(), files), None, shards=4)
    assert (again.decision, again.rooms["facts"], again.work) == ("planned", "some", None)
    assert len(files.keys(ticket.facts_prefix)) == 2


def an_item(
    run: str, action: Action = Action.PRUNE, reason: Reason = Reason.LOW_RELEVANCE, **changes: object
) -> PlanItem:
    values = {"agent_id": "a-1", "run_id": run, "action": action, "reason": reason}
    return PlanItem.model_validate(values | changes)


class Tenant:
    """A tenant with so many live memories."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.counted = 0

    def agents(self) -> list[str]:
        return ["a-1"]

    def live(self, agent_id: str, *, now: int) -> int:
        self.counted += 1
        return self.total


def weighed(part: PlanSlice, total: int, **changes: object) -> tuple[HeldFiles, Tenant, str | None]:
    """The files after a tenant of *total* memories was weighed, the tenant, and why it is held."""
    files, tenant, ticket = HeldFiles(), Tenant(total), a_ticket(a_night(**changes))
    files.put(f"lifecycle/{ticket.run.run_id}/plan/{TENANT}/0.json", part)
    doors = WeighDoors(files, lambda _: TenantDoors(tenant, tenant))  # type: ignore[arg-type]  # counts only
    done = weigh(ticket, doors, BlastRules(), [])
    assert done.decision == "go"
    found = files.get(f"lifecycle/{ticket.run.run_id}/plan.json", Plan)
    assert found
    return files, tenant, found.tenants[0].held


def a_part(pruned: int, **changes: object) -> PlanSlice:
    items = tuple(an_item(f"r-{number}") for number in range(pruned))
    return PlanSlice.model_validate({"tenant_id": TENANT, "name": "0", "items": items, **changes})


@pytest.mark.parametrize(("pruned", "total", "held"), [(20, 100, None), (21, 100, "blast_radius"), (40, 49, None)])
def test_a_fifth_may_go_and_small_stores_are_not_held(pruned: int, total: int, held: str | None) -> None:
    assert weighed(a_part(pruned), total)[2] == held


def test_nobody_counts_a_store_for_a_handful() -> None:
    assert weighed(a_part(10), 0)[1].counted == 0


def test_missed_nights_allow_more_but_never_more_than_half() -> None:
    rules = BlastRules(unread_days=34.2)
    shares = [allowed_share(a_night(since=NOW - days * DAY_SECONDS), rules) for days in (1, 3, 5, 9, 400)]
    assert shares == [0.2, 0.2, pytest.approx(10 / 34.2), 0.5, 0.5]
    assert allowed_share(a_night(since=0), rules) == 0.2


def test_evictions_up_to_what_was_stored_do_not_count() -> None:
    def evictions(stored: int) -> PlanSlice:
        return a_part(0, items=tuple(an_item(f"e-{n}", Action.EVICT, counts=n >= stored) for n in range(90)))

    assert weighed(evictions(stored=75), 100)[2] is None
    assert weighed(evictions(stored=60), 100)[2] == "blast_radius"


def test_a_group_counts_whole_when_merged_and_without_its_survivor_when_collapsed() -> None:
    items = tuple(an_item(f"g-{n}") for n in range(21))
    merged = MemoryGroup(group="g-1", agent_id="a-1", action=Action.MERGE, items=items)
    assert weighed(a_part(0, groups=(merged,)), 100)[2] == "blast_radius"
    collapsed = merged.model_copy(update={"action": Action.COLLAPSE})
    assert weighed(a_part(0, groups=(collapsed,)), 100)[2] is None


def test_what_ttl_takes_anyway_does_not_count() -> None:
    items = tuple(an_item(f"x-{n}", Action.EXPIRE, Reason.EXPIRED, counts=False) for n in range(60))
    assert weighed(PlanSlice(tenant_id=TENANT, name="0", items=items), 100)[2] is None


def test_no_more_summaries_are_asked_for_than_a_night_has_time_for_and_the_rest_stays_due() -> None:
    def a_group(number: int, action: Action) -> MemoryGroup:
        items = (an_item(f"g-{number}-a"), an_item(f"g-{number}-b"))
        return MemoryGroup(group=f"g-{number}", agent_id="a-1", action=action, items=items)

    merges = tuple(a_group(number, Action.MERGE) for number in range(25))
    part = a_part(0, groups=(*merges, a_group(99, Action.COLLAPSE)))
    files, ticket = HeldFiles(), a_ticket()
    files.put(f"lifecycle/{ticket.run.run_id}/plan/a/0.json", part.model_copy(update={"tenant_id": "a"}))
    files.put(f"lifecycle/{ticket.run.run_id}/plan/b/0.json", part.model_copy(update={"tenant_id": "b"}))
    doors = WeighDoors(files, lambda _: TenantDoors(Tenant(9_999), Tenant(9_999)))  # type: ignore[arg-type]  # counts
    weigh(ticket, doors, BlastRules(summaries=40), [])
    found = files.get_many(files.keys(ticket.merge_prefix), PlanSlice)
    groups = [(one.tenant_id, group.action) for one in found for group in one.groups]
    assert [groups.count((tenant, Action.MERGE)) for tenant in "ab"] == [25, 15]
    assert [groups.count((tenant, Action.COLLAPSE)) for tenant in "ab"] == [1, 1]


def test_of_what_is_held_only_expiry_goes_on_and_only_into_the_archive() -> None:
    soon = an_item("soon", Action.EXPIRE, Reason.EXPIRES_SOON, counts=False)
    part = a_part(30)
    files, _, held = weighed(part.model_copy(update={"items": (*part.items, soon)}), 100)
    assert held
    rooms = {key.split("/")[2] for key in files.objects} & {"expire", "merge", "prune"}
    assert rooms == {"expire"}
    [expiring] = files.get_many(files.keys("lifecycle/n-2027-01-15/expire/"), PlanSlice)
    assert ([item.run_id for item in expiring.items], expiring.archive_only) == (["soon"], True)
