"""The examination of a slice: reads what is due on its tenant's credentials, judges it, moves what is not due."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.examining import EVERY_AGENT, NightRules, doubles, evicted, grouped, judged, kept_apart
from agent_memory.domain.keys import result_key, slice_key
from agent_memory.domain.lifecycle import (
    REMOVING,
    Action,
    AgentDue,
    LifecycleRun,
    LookSlice,
    MemoryGroup,
    PlanItem,
    PlanSlice,
    Reason,
    SliceResult,
    SliceTicket,
)
from agent_memory.domain.lifecycle_ports import EpisodeDates, NightFiles, TenantNotes
from agent_memory.domain.models import Episode
from agent_memory.domain.night_changes import Changed, Journal, shortened
from agent_memory.domain.ports import Episodes, Read
from agent_memory.domain.ranking import near_identical_groups


class ExamineDoors(NamedTuple):
    """What looking at one tenant's memories touches."""

    files: NightFiles
    episodes: Episodes
    dates: EpisodeDates
    notes: TenantNotes


class _Found(NamedTuple):
    items: tuple[PlanItem, ...]
    groups: tuple[MemoryGroup, ...]


def examine(
    ticket: SliceTicket, look: LookSlice, doors: ExamineDoors, rules: NightRules
) -> tuple[PlanSlice, SliceResult]:
    """Write the plan of one slice and what was found; return all that was judged, what only gets a date among it.

    Raises only what is worth another try."""
    run, holds = ticket.run, doors.notes.holds()
    counts: Counter[str] = Counter()
    journal = Journal(doors.files, run.run_id, "look", look.tenant_id, look.name)
    found = [_of_agent(agent, run, doors, rules, holds, counts, journal) for agent in look.agents]
    scored = PlanSlice(
        tenant_id=look.tenant_id,
        name=look.name,
        items=tuple(item for one in found for item in one.items),
        groups=tuple(group for one in found for group in one.groups),
    )
    planned = tuple(item for item in scored.items if item.action is not Action.MOVE_DATE)
    plan = scored.model_copy(update={"items": planned})
    doors.files.put(slice_key(run.run_id, "plan", look.tenant_id, look.name), plan)
    result = SliceResult(tenant_id=look.tenant_id, step="look", name=look.name, counts=dict(counts))
    doors.files.put(result_key(run.run_id, "look", look.tenant_id, look.name), result)
    return scored, result


def look_of(ticket: SliceTicket, files: NightFiles) -> LookSlice:
    """The slice that a ticket points to. Raises AgentMemoryError: it is gone."""
    look = files.get(ticket.key, LookSlice)
    if look is None:
        raise AgentMemoryError(f"the slice {ticket.key} is gone")
    return look


def _of_agent(
    agent: AgentDue,
    run: LifecycleRun,
    doors: ExamineDoors,
    rules: NightRules,
    holds: Collection[str],
    counts: Counter[str],
    journal: Journal,
) -> _Found:
    read = doors.episodes.get_many([(agent.agent_id, run_id) for run_id in agent.run_ids])
    counts.update(looked=len(read), unreadable=read.unreadable)
    counts["gone"] += len(agent.run_ids) - len(read) - read.unreadable
    episodes = _still_merged(read, doors.episodes)
    items = [judged(one, rules, now=run.now, holds=holds) for one in episodes]
    pairs = list(zip(episodes, items, strict=True))
    if run.may_write:
        journal.note(*(change for episode, item in pairs if (change := _shortened(episode, item)) is not None))
    for episode, item in pairs:
        if item.action is Action.MOVE_DATE:
            counts["moved"] += run.may_write and _move(episode, item, run, doors.dates)
    left, groups = grouped(items, episodes, rules)
    found = _Found((*left, *_unread(agent, read)), groups)
    if agent.stored and not {EVERY_AGENT, agent.agent_id} & set(holds):
        found = _with_the_cap(agent.agent_id, found, run, doors, rules)
    return found


def _unread(agent: AgentDue, read: Read[Episode]) -> tuple[PlanItem, ...]:
    """What this release can't read: nobody can judge it, and TTL takes it one day, so it is archived as it lies."""
    known = {one.run_id for one in read}
    return tuple(
        PlanItem(agent_id=agent.agent_id, run_id=run_id, action=Action.EXPIRE, reason=Reason.UNREADABLE, counts=False)
        for run_id in (agent.run_ids if read.unreadable else ())
        if run_id not in known
    )


def _still_merged(episodes: Sequence[Episode], store: Episodes) -> list[Episode]:
    """Take the mark from those whose summary is not there: it was taken back, and they stand for themselves again."""
    wanted = [(one.agent_id, one.merged_into) for one in episodes if one.merged_into]
    there = {(one.agent_id, one.run_id) for one in store.get_many(wanted)} if wanted else set()
    return [
        one.model_copy(update={"merged_into": None})
        if one.merged_into and (one.agent_id, one.merged_into) not in there
        else one
        for one in episodes
    ]


def _shortened(episode: Episode, item: PlanItem) -> Changed | None:
    return shortened(episode, item.expires_at) if item.action is Action.MOVE_DATE else None


def _move(episode: Episode, item: PlanItem, run: LifecycleRun, dates: EpisodeDates) -> bool:
    """Write the date of what is not due. A stored date that is early is right: it is a lower bound."""
    if item.reason is Reason.PINNED:
        return episode.decays_at is not None and dates.forget_date(episode.agent_id, episode.run_id)
    stored, expiry = episode.decays_at, item.expires_at
    earlier = item.decays_at is not None and (stored is None or item.decays_at < stored)
    due = stored is not None and stored <= run.now
    if expiry is None or not (due or earlier or expiry != episode.expires_at):
        return False
    return dates.move(episode.agent_id, episode.run_id, seen=stored, decays_at=item.decays_at, expires_at=expiry)


def _with_the_cap(agent_id: str, found: _Found, run: LifecycleRun, doors: ExamineDoors, rules: NightRules) -> _Found:
    """Near-duplicates of an agent that stored something, and the least relevant of what is over its cap."""
    leaving = {item.run_id for item in found.items if item.action in REMOVING}
    leaving |= {item.run_id for group in found.groups for item in group.items}
    views = [view for view in doors.episodes.views(agent_id, now=run.now) if view.run_id not in leaving]
    twins = [(agent_id, view.run_id) for members in near_identical_groups(views) for view in members]
    alike = doors.episodes.get_many(twins) if twins else ()
    groups = doubles(alike, rules, now=run.now)
    if run.may_write and alike:
        doors.dates.stay_apart(agent_id, kept_apart(alike, groups, now=run.now))
    collapsed = {item.run_id for group in groups for item in group.items[1:]}
    settled = {group.items[0].run_id for group in groups}
    rest = [(agent_id, view.run_id) for view in views if view.run_id not in collapsed]
    over = len(rest) - rules.max_episodes
    if over <= 0:
        return found._replace(groups=found.groups + groups)
    candidates = [one for one in doors.episodes.get_many(rest) if one.run_id not in settled]
    gone = evicted(candidates, over, rules, now=run.now)
    stored = doors.dates.stored_since(agent_id, run.since)
    # Whoever stores above the cap makes room for that; what goes beyond is the night's own doing.
    made_room = tuple(one.model_copy(update={"counts": False}) for one in gone[:stored])
    return _Found(found.items + made_room + gone[stored:], found.groups + groups)
