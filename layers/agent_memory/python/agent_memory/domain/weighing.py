"""The blast radius: a night that would remove too much of a tenant leaves that tenant alone until a person agrees."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from agent_memory.domain.keys import night_prefix, plan_key, room_prefix, slice_key
from agent_memory.domain.lifecycle import (
    REMOVING,
    Action,
    FactSlice,
    LifecycleRun,
    NightTicket,
    Plan,
    PlanItem,
    PlanSlice,
    TenantPlan,
)
from agent_memory.domain.lifecycle_ports import Approval, EpisodeDates, NightFiles, TenantNotes
from agent_memory.domain.models import Model
from agent_memory.domain.retention import DAY_SECONDS

SLICES_A_CALL = 1_000
TENANTS_A_CALL = 500
# A model is asked for each group, and a function has a quarter of an hour.
GROUPS_A_SLICE = 10
NIGHTS_A_LIFE = 2


class BlastRules(NamedTuple):
    """How much of a tenant's memories one night may remove. *unread_days*: how long an unread memory lives.
    *fact_days*: how long a fact does that nobody confirms. *summaries*: how many a model can write in the time of a
    night; what is beyond stays due."""

    share: float = 0.2
    ceiling: float = 0.5
    begin: int = 50
    unread_days: float = 34.2
    fact_days: float = 270
    summaries: int = 900


class FactCounts(Protocol):
    """The facts of ONE tenant, counted."""

    def leaving(self, places: Sequence[tuple[str, str]], *, now: int) -> int:
        """How many facts of these (domain, fact_id) a night would withdraw or remove now."""

    def live(self) -> int:
        """How many are not withdrawn."""


class TenantDoors(NamedTuple):
    """What counting one tenant's memories touches. *facts* None: the night has none."""

    notes: TenantNotes
    dates: EpisodeDates
    facts: FactCounts | None = None


class WeighDoors(NamedTuple):
    """What weighing touches. *tenant*: the doors of a tenant, on its own credentials."""

    files: NightFiles
    tenant: Callable[[str], TenantDoors]


class _WeighWork(Model):
    after: str = ""
    summaries: int = 0


def allowed_share(run: LifecycleRun, rules: BlastRules, *, lives: float | None = None) -> float:
    """The share of a tenant's memories that may go: more after nights that were missed, never more than the ceiling.

    *lives*: days for which one lives that nobody reads; None: an episode."""
    days = (run.now - run.since) / DAY_SECONDS if run.since else 1.0
    return min(rules.ceiling, max(rules.share, NIGHTS_A_LIFE * days / (lives or rules.unread_days)))


def weigh(ticket: NightTicket, doors: WeighDoors, rules: BlastRules, approvals: Sequence[Approval]) -> NightTicket:
    """Weigh some tenants' parts and write what may be done of them; `more` until all are, then `go` or `plan_only`."""
    run, files = ticket.run, doors.files
    work = _WeighWork.model_validate(ticket.work) if ticket.work else _WeighWork()
    keys = files.keys(room_prefix(run.run_id, "plan"), after=work.after)
    rooms = dict(ticket.rooms)
    for tenant_id, mine in _by_tenant(keys):
        slices = files.get_many(mine, PlanSlice)
        weighed = weighed_tenant(tenant_id, slices, run, doors, rules, approvals)
        files.put(tenant_key(run.run_id, tenant_id), weighed)
        if not run.dry_run:
            held = weighed.held is not None
            affordable, asked = _affordable(slices, rules.summaries - (0 if held else work.summaries))
            work = work if held else work.model_copy(update={"summaries": work.summaries + asked})
            parts = [part for one in affordable for part in _parts(one, held=held)]
            files.put_many((slice_key(run.run_id, room, tenant_id, part.name), part) for room, part in parts)
            rooms |= {room: "some" for room, _ in parts}
        work = work.model_copy(update={"after": mine[-1]})
        if keys.index(mine[-1]) >= SLICES_A_CALL:
            break
    if keys and work.after != keys[-1]:
        return ticket.decided("more", rooms=rooms, work=work.model_dump())
    left = _of_facts_alone(run, files)
    for tenant_id in left[:TENANTS_A_CALL]:
        files.put(tenant_key(run.run_id, tenant_id), weighed_tenant(tenant_id, (), run, doors, rules, approvals))
    if len(left) > TENANTS_A_CALL:
        return ticket.decided("more", rooms=rooms, work=work.model_dump())
    _write_plan(run, files)
    return ticket.decided("plan_only" if run.dry_run else "go", rooms=rooms, work=None)


def _of_facts_alone(run: LifecycleRun, files: NightFiles) -> list[str]:
    """The tenants of which only facts are due, and that were not weighed yet."""
    prefix = room_prefix(run.run_id, "facts")
    due = {_tenant_of(key) for key in files.keys(prefix)}
    weighed = {
        key.rpartition("/")[2].removesuffix(".json") for key in files.keys(f"{night_prefix(run.run_id)}tenants/")
    }
    return sorted(due - weighed)


def _affordable(slices: Sequence[PlanSlice], left: int) -> tuple[list[PlanSlice], int]:
    """The slices with at most *left* groups that a model is asked about, and how many these are."""
    kept, asked = [], 0
    for one in slices:
        groups = []
        for group in one.groups:
            if group.action is Action.MERGE and asked >= left:
                continue
            asked += group.action is Action.MERGE
            groups.append(group)
        kept.append(one.model_copy(update={"groups": tuple(groups)}))
    return kept, asked


def _by_tenant(keys: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Keys of a room are in order, so a tenant's lie together."""
    mine: list[str] = []
    for key in keys:
        if mine and _tenant_of(mine[-1]) != _tenant_of(key):
            yield _tenant_of(mine[-1]), mine
            mine = []
        mine.append(key)
    if mine:
        yield _tenant_of(mine[-1]), mine


def _tenant_of(key: str) -> str:
    return key.split("/")[-2]


def weighed_tenant(
    tenant_id: str,
    slices: Sequence[PlanSlice],
    run: LifecycleRun,
    doors: WeighDoors,
    rules: BlastRules,
    approvals: Sequence[Approval],
) -> TenantPlan:
    """What the night would do in one tenant, and whether it may."""
    mine = doors.tenant(tenant_id)
    places = _fact_places(tenant_id, run, doors.files)
    facts = mine.facts.leaving(places, now=run.now) if mine.facts and places else 0
    episodes = _removed(slices)
    plan = TenantPlan(tenant_id=tenant_id, counts=_counts(slices), removed=episodes + facts, facts=facts)
    if run.changed and plan.removed:
        return plan.model_copy(update={"held": "changed_settings"})
    # A word counts once: a night that completed since has done what it allowed.
    valid = (one for one in approvals if one.settings_hash == run.settings_hash and one.at >= run.since)
    approved = max((one.removed.get(tenant_id, 0) for one in valid), default=0)
    # So few are within the share of any store that the rule applies to.
    if plan.removed - approved <= rules.share * rules.begin:
        return plan
    # An agent that stored nothing since this release noted agents is known by what is due of it.
    agents = sorted({*mine.notes.agents(), *_agents(slices)})
    live = sum(mine.dates.live(agent, now=run.now) for agent in agents)
    known = mine.facts.live() if mine.facts else 0
    share = allowed_share(run, rules)
    of_facts = allowed_share(run, rules, lives=rules.fact_days)
    # Each kind by itself as well: a few hundred facts must not hide behind many episodes.
    kinds = ((plan.removed, live + known, share), (episodes, live, share), (facts, known, of_facts))
    over = any(total >= rules.begin and gone - approved > part * total for gone, total, part in kinds)
    held: Literal["blast_radius"] | None = "blast_radius" if over else None
    limits = {"total": live + known, "limit": share * (live + known), "facts_total": known, "held": held}
    return plan.model_copy(update=limits)


def _fact_places(tenant_id: str, run: LifecycleRun, files: NightFiles) -> list[tuple[str, str]]:
    keys = files.keys(f"{room_prefix(run.run_id, 'facts')}{tenant_id}/")
    return [place for part in files.get_many(keys, FactSlice) for place in part.facts]


def _agents(slices: Iterable[PlanSlice]) -> Iterator[str]:
    for one in slices:
        yield from (item.agent_id for item in one.items)
        yield from (group.agent_id for group in one.groups)


def _counts(slices: Iterable[PlanSlice]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in slices:
        counts.update(item.action.value for item in one.items)
        for group in one.groups:
            counts[group.action.value] += len(group.items)
            counts["groups"] += 1
    return dict(counts)


def _removed(slices: Sequence[PlanSlice]) -> int:
    """Memories that would be gone. Of the evictions only those count that go beyond what their agent has stored."""
    removed = 0
    for one in slices:
        removed += sum(item.action in REMOVING and item.counts for item in one.items)
        for group in one.groups:
            survivors = 1 if group.action is Action.COLLAPSE else 0
            removed += len(group.items) - survivors
    return removed


def _parts(one: PlanSlice, *, held: bool) -> Iterator[tuple[str, PlanSlice]]:
    """What may be done of a slice, by room. Of a tenant that is held only what expires, and that is only archived."""
    expiring = tuple(item for item in one.items if item.action is Action.EXPIRE)
    if expiring:
        yield "expire", _part(one, one.name, items=expiring, archive_only=held)
    if held:
        return
    going: tuple[PlanItem, ...] = tuple(item for item in one.items if item.action in (Action.PRUNE, Action.EVICT))
    if going:
        yield "prune", _part(one, one.name, items=going)
    for number, start in enumerate(range(0, len(one.groups), GROUPS_A_SLICE)):
        yield "merge", _part(one, f"{one.name}-{number:03d}", groups=one.groups[start : start + GROUPS_A_SLICE])


def _part(one: PlanSlice, name: str, **held: object) -> PlanSlice:
    return PlanSlice.model_validate({"tenant_id": one.tenant_id, "name": name, **held})


def tenant_key(run_id: str, tenant_id: str) -> str:
    """S3 key of what a run would do in one tenant."""
    return f"{night_prefix(run_id)}tenants/{tenant_id}.json"


def _write_plan(run: LifecycleRun, files: NightFiles) -> None:
    tenants = files.get_many(files.keys(f"{night_prefix(run.run_id)}tenants/"), TenantPlan)
    facts = files.get_many(files.keys(room_prefix(run.run_id, "facts")), FactSlice)
    due = sum(len(one.facts) for one in facts)
    files.put(plan_key(run.run_id), Plan(run=run, tenants=tuple(tenants), facts_due=due))
