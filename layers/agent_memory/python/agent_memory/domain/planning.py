"""From due keys to slices: the plan reads keys across tenants and cuts them into pieces of one tenant each."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from agent_memory.contract import DECAYS_AT
from agent_memory.domain.keys import room_prefix, slice_key
from agent_memory.domain.lifecycle import SLICE_ITEMS, AgentDue, FactSlice, LifecycleRun, LookSlice, NightTicket
from agent_memory.domain.lifecycle_ports import DueIndex, DueKey, DueSource, LastNight, NightFiles, StoredAgents
from agent_memory.domain.models import Model

# Keys of one call: some ten megabytes, and seconds of queries.
KEYS_A_CALL = 50_000
# Dates that one night looks at again because the settings changed; the rest waits for the next.
REWRITTEN_A_NIGHT = 50_000
# Looking at an agent's cap reads all its views.
STORED_WEIGHT = 50
# An agent with more due memories than this is cut, and its groups with it.
AGENT_ITEMS = 1_000
FACTS_A_SLICE = 50
# Later than any date: 9999-12-31.
FOREVER = 253_402_300_799


class PlanDoors(NamedTuple):
    """What the plan touches."""

    due: DueIndex
    stored: StoredAgents
    files: NightFiles


class PlanWork(Model):
    """How far the reading of due-index has come. *stage*: of `_stages`. *part*: calls so far, which name slices.
    *resumed*: the place where an earlier night stopped rewriting dates was looked for."""

    stage: int = 0
    shard: int = 0
    after: Mapping[str, object] | None = None
    part: int = 0
    rewritten: int = 0
    resumed: bool = False


class _Stage(NamedTuple):
    source: DueSource
    begin: int
    upto: int


def plan(ticket: NightTicket, doors: PlanDoors, last: LastNight | None, *, shards: int) -> NightTicket:
    """Read due keys and write their slices; `more` until all of due-index up to now was read, then `planned`."""
    run = ticket.run
    work = PlanWork.model_validate(ticket.work) if ticket.work else PlanWork()
    stages = _stages(run)
    episodes: list[DueKey] = []
    facts: list[DueKey] = []
    rewritten = ticket.rewritten
    while work.stage < len(stages) and len(episodes) + len(facts) < KEYS_A_CALL:
        stage = stages[work.stage]
        if stage.begin and not work.resumed:
            work = _resumed(work, last, run)
            stage = stages[work.stage]
        page = doors.due.page(stage.source, str(work.shard), upto=stage.upto, after=work.after, begin=stage.begin)
        (episodes if stage.source == "episodes" else facts).extend(page.keys)
        work = _advanced(work, page.after, shards, len(page.keys) if stage.begin else 0)
        if work.rewritten >= REWRITTEN_A_NIGHT and work.stage < len(stages):
            rewritten = {"source": stages[work.stage].source, "shard": work.shard, "after": work.after}
            work = work.model_copy(update={"stage": len(stages), "shard": 0, "after": None})
    stored = frozenset(doors.stored.all()) if work.part == 0 else frozenset()
    looks = [*cut(episodes, stored, part=work.part)]
    tenants_facts = [*_cut_facts(facts, part=work.part)]
    doors.files.put_many((slice_key(run.run_id, "look", one.tenant_id, one.name), one) for one in looks)
    doors.files.put_many((slice_key(run.run_id, "facts", one.tenant_id, one.name), one) for one in tenants_facts)
    rooms = {**ticket.rooms, **({"look": "some"} if looks else {}), **({"facts": "some"} if tenants_facts else {})}
    if run.dry_run:
        rooms["facts"] = "none"
    done = work.stage >= len(stages)
    work = work.model_copy(update={"part": work.part + 1})
    left = None if done else work.model_dump()
    return ticket.decided("planned" if done else "more", rooms=rooms, rewritten=rewritten, work=left)


def _stages(run: LifecycleRun) -> list[_Stage]:
    """What is due first: what is left of a night's measure goes to dates that follow other settings."""
    sources: tuple[DueSource, ...] = ("episodes", "facts")
    rewriting = [_Stage(source, run.now + 1, FOREVER) for source in sources] if run.rewriting else []
    return [*(_Stage(source, 0, run.now) for source in sources), *rewriting]


def _resumed(work: PlanWork, last: LastNight | None, run: LifecycleRun) -> PlanWork:
    """Where an earlier night stopped rewriting dates under the same settings."""
    begun = work.model_copy(update={"resumed": True})
    if last is None or last.rewriting != run.settings_hash or last.rewritten is None:
        return begun
    after = last.rewritten["after"]
    stage = work.stage + (last.rewritten.get("source") == "facts")
    # After missed nights that place is among what is due by now, and a query may not begin outside of its range.
    passed = isinstance(after, Mapping) and int(str(after[DECAYS_AT])) <= run.now
    place = {"stage": stage, "shard": last.rewritten["shard"], "after": None if passed else after}
    return begun.model_copy(update=place)


def _advanced(work: PlanWork, after: Mapping[str, object] | None, shards: int, rewritten: int) -> PlanWork:
    counted = work.rewritten + rewritten
    if after is not None:
        return work.model_copy(update={"after": after, "rewritten": counted})
    if work.shard + 1 < shards:
        return work.model_copy(update={"after": None, "shard": work.shard + 1, "rewritten": counted})
    return work.model_copy(update={"after": None, "shard": 0, "stage": work.stage + 1, "rewritten": counted})


def cut(keys: Iterable[DueKey], stored: Iterable[tuple[str, str]], *, part: int) -> Iterator[LookSlice]:
    """Slices of one tenant each, with whole agents as long as these fit."""
    due: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key in keys:
        due[key.tenant_id][key.place].append(key.entry)
    storing = frozenset(stored)
    for tenant_id, agent_id in storing:
        _ = due[tenant_id][agent_id]
    for tenant_id, agents in sorted(due.items()):
        pieces = (piece for agent in sorted(agents.items()) for piece in _pieces(tenant_id, *agent, storing))
        for number, filled in enumerate(_filled(pieces)):
            yield LookSlice(tenant_id=tenant_id, name=f"{part:04d}-{number:05d}", agents=filled)


def _pieces(
    tenant_id: str, agent_id: str, runs: Sequence[str], storing: frozenset[tuple[str, str]]
) -> Iterator[AgentDue]:
    ordered = sorted(set(runs))
    for start in range(0, max(len(ordered), 1), AGENT_ITEMS):
        piece = tuple(ordered[start : start + AGENT_ITEMS])
        yield AgentDue(agent_id=agent_id, run_ids=piece, stored=start == 0 and (tenant_id, agent_id) in storing)


def _filled(pieces: Iterable[AgentDue]) -> Iterator[tuple[AgentDue, ...]]:
    held: list[AgentDue] = []
    weight = 0
    for piece in pieces:
        heavy = len(piece.run_ids) + STORED_WEIGHT * piece.stored
        if held and weight + heavy > SLICE_ITEMS:
            yield tuple(held)
            held, weight = [], 0
        held.append(piece)
        weight += heavy
    if held:
        yield tuple(held)


def _cut_facts(keys: Iterable[DueKey], *, part: int) -> Iterator[FactSlice]:
    due: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for key in keys:
        due[key.tenant_id].add((key.place, key.entry))
    for tenant_id, facts in sorted(due.items()):
        ordered = sorted(facts)
        for number, start in enumerate(range(0, len(ordered), FACTS_A_SLICE)):
            name = f"{part:04d}-{number:05d}"
            yield FactSlice(tenant_id=tenant_id, name=name, facts=tuple(ordered[start : start + FACTS_A_SLICE]))


def prefixes(run_id: str) -> dict[str, str]:
    """The prefixes that the maps of the machine list, as the ticket names them."""
    rooms = ("look", "expire", "merge", "prune", "facts", "rollback")
    return {f"{room}_prefix": room_prefix(run_id, room) for room in rooms}
