"""What expires is archived, what is to go is removed: one memory at a time, each only as it was planned, and never
without a copy in the archive that was read back."""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from agent_memory.domain.archive import Archive, ArchiveError, keep
from agent_memory.domain.errors import AgentMemoryError, RetryableError
from agent_memory.domain.examining import NightRules, judged
from agent_memory.domain.keys import result_key, room_of
from agent_memory.domain.lifecycle import (
    Action,
    Done,
    LifecycleRun,
    PlanItem,
    PlanSlice,
    Reason,
    SliceResult,
    SliceTicket,
)
from agent_memory.domain.lifecycle_ports import EpisodeDates, NightFiles, TenantNotes
from agent_memory.domain.models import Episode
from agent_memory.domain.night_changes import Journal, shortened
from agent_memory.domain.ports import Episodes
from agent_memory.domain.shelves import EpisodeShelf
from agent_memory.domain.summaries import stands_for

# Reasons that are looked at again with today's item: whatever changed in between decides.
_AS_JUDGED = frozenset({Reason.LOW_RELEVANCE, Reason.FAILED_RUN, Reason.MERGED, Reason.EXPIRED, Reason.EXPIRES_SOON})


class PruneDoors(NamedTuple):
    """What removing memories of one tenant touches."""

    files: NightFiles
    episodes: Episodes
    dates: EpisodeDates
    shelf: EpisodeShelf
    archive: Archive
    notes: TenantNotes


def prune(room: str, run: LifecycleRun, part: PlanSlice, doors: PruneDoors, rules: NightRules) -> SliceResult:
    """Do what a slice of *room* (`expire`, `prune`) says and keep what came of it. Raises to be called again."""
    holds = doors.notes.holds()
    done = tuple(_done(item, run, part, doors, rules, holds) for item in part.items)
    counts = Counter(one.decision for one in done)
    result = SliceResult(tenant_id=part.tenant_id, step=room, name=part.name, done=done, counts=dict(counts))
    doors.files.put(result_key(run.run_id, room, part.tenant_id, part.name), result)
    return result


def part_of(ticket: SliceTicket, files: NightFiles) -> tuple[str, PlanSlice]:
    """The room that a ticket's slice lies in, and the slice. Raises AgentMemoryError: it is gone."""
    part = files.get(ticket.key, PlanSlice)
    if part is None:
        raise AgentMemoryError(f"the slice {ticket.key} is gone")
    return room_of(ticket.key), part


def _done(
    item: PlanItem,
    run: LifecycleRun,
    part: PlanSlice,
    doors: PruneDoors,
    rules: NightRules,
    holds: Collection[str],
) -> Done:
    try:
        decision, reason = _apply(item, run, part, doors, rules, holds)
    except RetryableError:
        raise
    except ArchiveError:
        # Without a copy nothing is removed; it is due again the next night.
        decision, reason = "failed", "archive"
    except AgentMemoryError:
        decision, reason = "failed", "unreadable"
    return Done(agent_id=item.agent_id, run_id=item.run_id, action=item.action, decision=decision, reason=reason)


def _apply(
    item: PlanItem,
    run: LifecycleRun,
    part: PlanSlice,
    doors: PruneDoors,
    rules: NightRules,
    holds: Collection[str],
) -> tuple[str, str]:
    """The word for what came of one item, and why. The copy is made before the item is judged again, so that a pin
    set after the judgement makes the removal fail."""
    place = (item.agent_id, item.run_id)
    snapshot = doors.shelf.snapshot(place)
    if snapshot is None:
        return _gone(item, part, doors.archive.holds("episodic", place, night=run.run_id)), item.reason.value
    if item.reason is Reason.UNREADABLE:
        keep(snapshot, doors.archive, night=run.run_id, reason=item.reason.value, now=run.now)
        return "archived", item.reason.value
    episode = doors.episodes.get(item.agent_id, item.run_id)
    if episode is None:
        return "gone", item.reason.value
    now_so = judged(episode, rules, now=run.now, holds=holds)
    if not _still(item, now_so, episode):
        return "kept", now_so.reason.value
    if now_so.reason is Reason.MERGED and not _represented(episode, doors):
        return "kept", "not_represented"
    keep(snapshot, doors.archive, night=run.run_id, reason=item.reason.value, now=run.now)
    if part.archive_only:
        return "archived", item.reason.value
    if now_so.reason is Reason.EXPIRES_SOON:
        journal = Journal(doors.files, run.run_id, "expire", part.tenant_id, part.name)
        return _archived_until_it_expires(episode, now_so.expires_at, doors.dates, journal)
    removed = doors.shelf.remove(snapshot)
    return ("kept" if removed in ("changed", "pinned") else removed), _why(item, removed)


def _gone(item: PlanItem, part: PlanSlice, archived: bool) -> str:
    """What became of one that is not there: an earlier try of this very step may have done its work and not told."""
    only_archived = part.archive_only or item.reason in (Reason.EXPIRES_SOON, Reason.UNREADABLE)
    return "gone" if not archived else "archived" if only_archived else "removed"


def _represented(episode: Episode, doors: PruneDoors) -> bool:
    """Whether what it was merged into is there and says so; if not, it is itself again and judged by the next night."""
    target_id = episode.merged_into or ""
    target = doors.episodes.get(episode.agent_id, target_id)
    if target is not None and stands_for(target, episode):
        return True
    doors.shelf.unmark((episode.agent_id, episode.run_id), target_id)
    return False


def _why(item: PlanItem, removed: str) -> str:
    return removed if removed in ("changed", "pinned") else item.reason.value


def _still(planned: PlanItem, now_so: PlanItem, episode: Episode) -> bool:
    """Whether what was planned still holds for the memory as it is now."""
    if episode.pinned or now_so.action is Action.KEEP:
        return False
    if planned.reason not in _AS_JUDGED:
        # Over the cap: not for what it is by itself. Read since, it is not among the least relevant any more.
        return now_so.score <= planned.score
    return now_so.action in (Action.PRUNE, Action.EXPIRE)


def _archived_until_it_expires(
    episode: Episode, expiry: int | None, dates: EpisodeDates, journal: Journal
) -> tuple[str, str]:
    """TTL takes it when it expires by today's settings; if TTL is late, the night after does."""
    if expiry is not None:
        change = shortened(episode, expiry)
        journal.note(*(() if change is None else (change,)))
        dates.move(episode.agent_id, episode.run_id, seen=episode.decays_at, decays_at=expiry, expires_at=expiry)
    return "archived", Reason.EXPIRES_SOON.value
