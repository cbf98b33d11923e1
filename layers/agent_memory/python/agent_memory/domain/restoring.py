"""What left comes back: one memory, or all that a run of the night removed, with dates that no night takes at once.

Nothing comes back that was erased since: the shelves hold every memory against the tombstones of its users.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from agent_memory.domain.archive import Archive, Archived, ArchiveError, Lease, PutBack, Shelf, Tier, fullest, put_away
from agent_memory.domain.errors import AgentMemoryError, RefusedInputError, RetryableError
from agent_memory.domain.keys import identifier, plan_key, result_key, room_prefix, slice_key
from agent_memory.domain.lifecycle import Action, Done, Plan, PlanSlice, SliceResult
from agent_memory.domain.lifecycle_ports import NightFiles
from agent_memory.domain.models import Episode, Model
from agent_memory.domain.night_changes import EpisodeChanges, of_run
from agent_memory.domain.procedure_flagging import ProcedureFlags
from agent_memory.domain.procedures import PROCEDURAL
from agent_memory.domain.retention import DAY_SECONDS, HOUR_SECONDS, RetentionRules
from agent_memory.domain.shelves import EpisodeShelf

ROOM = "rollback"
PROGRESS = "progress/rollback"
ROLLED_BACK = "rolled_back"
# Copies of what the run did not remove: TTL does, days later; and of what a rollback itself put away.
NOT_REMOVED = frozenset({"expires_soon", "unreadable", ROLLED_BACK})
MEMORY_RULE = "must be AGENT/RUN of an episode or the id of a fact, f- and 32 hex digits"
Decision = Literal["restored", "present", "erased", "too_old", "not_found", "failed"]


class RestoreDoors(NamedTuple):
    """What bringing memories of one tenant back touches. *late*: whether the function should come to an end.

    *changes*, *unlearn*, *procedures*: for what a run changed and did not remove; None where the night has no such
    tier. *unlearn* takes out of the facts what a summary taught them of its sources, and returns their ids."""

    files: NightFiles
    archive: Archive
    episodes: EpisodeShelf
    facts: Shelf
    late: Callable[[], bool] = lambda: False
    changes: EpisodeChanges | None = None
    unlearn: Callable[[Episode, Sequence[Episode], int], Sequence[str]] | None = None
    procedures: ProcedureFlags | None = None


class RestoreRules(NamedTuple):
    """*undo_days*: how long something can be brought back, and how long the nights then leave it alone."""

    undo_days: int
    retention: RetentionRules

    def lease(self, now: int) -> Lease:
        """The dates of what comes back at *now*."""
        kept_until = now + self.undo_days * DAY_SECONDS
        window = self.retention.archive_before_expiry_hours * HOUR_SECONDS
        return Lease(at=now, kept_until=kept_until, expires_at=kept_until + window)

    def too_old(self, archived: Archived, now: int) -> bool:
        """Whether the time in which it can be brought back is over."""
        return archived.archived_at < now - self.undo_days * DAY_SECONDS


class Restored(Model):
    """What became of one memory that was to come back. *run_id*: the run of the lifecycle that had removed it."""

    memory_id: str
    tier: Tier | Literal["procedural"]
    decision: Decision
    run_id: str | None = None
    reason: str = ""


class Rollback(Model):
    """How far a run is taken back. *targets*: the entries that stood for what came back, as (agent_id, run_id)."""

    tenant_id: str
    run_id: str
    after: str = ""
    finished: bool = False
    done: tuple[Restored, ...] = ()
    targets: tuple[tuple[str, str], ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Memories by what became of them."""
        words = [one.decision for one in self.done]
        return {word: words.count(word) for word in sorted(set(words))}


def place_of(memory_id: str) -> tuple[Tier, tuple[str, str]]:
    """The tier of a memory and its place there; a fact's domain is found with it. Raises RefusedInputError."""
    agent_id, slash, run_id = memory_id.partition("/")
    if slash:
        return "episodic", (identifier(agent_id, "memory"), identifier(run_id, "memory"))
    if not memory_id.startswith("f-"):
        raise RefusedInputError("memory", MEMORY_RULE)
    return "semantic", ("", identifier(memory_id, "memory"))


def restore_memory(memory_id: str, doors: RestoreDoors, rules: RestoreRules, *, now: int) -> Restored:
    """Bring the latest archived state of one memory back. Raises RefusedInputError for what is no memory's id."""
    tier, place = place_of(memory_id)
    keys = list(doors.archive.of_memory(tier, place))
    last = fullest(_whole(keys, doors.archive))
    if last is None:
        decision: Decision = "failed" if keys else "not_found"
        return Restored(memory_id=memory_id, tier=tier, decision=decision, reason="archive" if keys else "")
    return _restored(last, doors, rules, now)


def _whole(keys: Iterable[str], archive: Archive) -> Iterator[Archived]:
    """Those of several copies that can be read: one that is damaged must not stand in the way of the others."""
    for key in keys:
        with suppress(ArchiveError):
            yield archive.get(key)


def restore_run(
    tenant_id: str, run_id: str, doors: RestoreDoors, rules: RestoreRules, *, now: int, so_far: Rollback | None = None
) -> Rollback:
    """Bring back what *run_id* removed of a tenant, put away the summaries that it made of that, and undo what it
    changed of memories and procedures that stayed.

    Stops when it gets late; calling it with what it returned goes on from there. Safe to repeat from the beginning."""
    back = so_far or Rollback(tenant_id=tenant_id, run_id=run_id)
    for key in doors.archive.of_night(run_id):
        if key <= back.after:
            continue
        if doors.late():
            return back
        back = _one_back(key, back, doors, rules, now)
    back = _unmarked(back, doors)
    for place in back.targets:
        back = _put_away(place, back, doors, now)
    done = (*back.done, *_changes_back(back, doors), *_procedures_back(back, doors, now))
    return back.model_copy(update={"finished": True, "done": done})


def _changes_back(back: Rollback, doors: RestoreDoors) -> Iterator[Restored]:
    """Undo what the run changed of episodes that stayed."""
    for change in of_run(doors.files, back.run_id, back.tenant_id) if doors.changes else ():
        if doors.changes and doors.changes.take_back(change):
            yield Restored(
                memory_id=change.memory_id, tier="episodic", decision="restored", run_id=back.run_id, reason=change.what
            )


def _procedures_back(back: Rollback, doors: RestoreDoors, now: int) -> Iterator[Restored]:
    """Offer again what the run withdrew, as far as nobody decided since."""
    plan = doors.files.get(plan_key(back.run_id), Plan)
    if plan is None or doors.procedures is None:
        return
    for one in doors.procedures.give_back(back.run_id, withdrawn_at=plan.run.now, now=now):
        yield Restored(
            memory_id=f"{one.task_type}/{one.procedure_id}",
            tier=PROCEDURAL,
            decision="restored",
            run_id=back.run_id,
            reason=one.reason,
        )


def _one_back(key: str, back: Rollback, doors: RestoreDoors, rules: RestoreRules, now: int) -> Rollback:
    try:
        archived = doors.archive.get(key)
    except ArchiveError:
        # One damaged copy costs itself, not all others.
        lost = Restored(memory_id="", tier="episodic", decision="failed", run_id=back.run_id, reason="archive")
        return back.model_copy(update={"after": key, "done": (*back.done, lost)})
    if archived.reason in NOT_REMOVED:
        return back.model_copy(update={"after": key})
    done = (*back.done, _restored(archived, doors, rules, now))
    targets = {*back.targets, *_summaries(archived)}
    return back.model_copy(update={"after": key, "done": done, "targets": tuple(sorted(targets))})


def _summaries(archived: Archived) -> Iterable[tuple[str, str]]:
    target = archived.snapshot.represented_by
    # A survivor of near-duplicates was there before and stays.
    if target is not None and target.startswith("m-"):
        yield archived.snapshot.place[0], target


def _restored(archived: Archived, doors: RestoreDoors, rules: RestoreRules, now: int) -> Restored:
    snapshot = archived.snapshot
    shelf: Shelf = doors.episodes if snapshot.tier == "episodic" else doors.facts
    decision: Decision
    reason = archived.reason
    if rules.too_old(archived, now):
        decision = "too_old"
    else:
        try:
            back: PutBack = shelf.put_back(snapshot, rules.lease(now))
            decision = back
        except RetryableError:
            raise
        except AgentMemoryError:
            decision, reason = "failed", "unreadable"
    return Restored(
        memory_id=snapshot.memory_id, tier=snapshot.tier, decision=decision, run_id=archived.night, reason=reason
    )


def _unmarked(back: Rollback, doors: RestoreDoors) -> Rollback:
    """Free those that the run marked as merged and did not come to remove, and find what stands for them."""
    targets = set(back.targets)
    prefix = f"{room_prefix(back.run_id, 'merge')}{back.tenant_id}/"
    for part in doors.files.get_many(doors.files.keys(prefix), PlanSlice):
        places = [(item.agent_id, item.run_id) for group in part.groups for item in group.items]
        for episode in doors.episodes.get_many(places):
            if episode.merged_into is not None:
                doors.episodes.unmark((episode.agent_id, episode.run_id), episode.merged_into)
                if episode.merged_into.startswith("m-"):
                    targets.add((episode.agent_id, episode.merged_into))
    return back.model_copy(update={"targets": tuple(sorted(targets))})


def _put_away(place: tuple[str, str], back: Rollback, doors: RestoreDoors, now: int) -> Rollback:
    """Put a summary away, with what it taught, when all that it stood for is there itself again."""
    summary = doors.episodes.get(*place)
    if summary is None:
        return back
    sources = doors.episodes.get_many([(summary.agent_id, run) for run in summary.sources])
    if {one.run_id for one in sources if one.merged_into is None} != set(summary.sources):
        return back
    facts = doors.unlearn(summary, sources, now) if doors.unlearn else ()
    put_away(place, doors.episodes, doors.archive, night=back.run_id, reason=ROLLED_BACK, now=now)
    done = (
        Restored(memory_id=one, tier="semantic", decision="restored", run_id=back.run_id, reason="merged")
        for one in facts
    )
    return back.model_copy(update={"done": (*back.done, *done)})


def roll_back(tenant_id: str, name: str, run_id: str, doors: RestoreDoors, rules: RestoreRules, *, now: int) -> bool:
    """Take a run back in one tenant, as a step of the night. False: it has to be called again."""
    progress = slice_key(run_id, PROGRESS, tenant_id, name)
    back = restore_run(tenant_id, run_id, doors, rules, now=now, so_far=doors.files.get(progress, Rollback))
    doors.files.put(progress, back)
    if back.finished:
        doors.files.put(result_key(run_id, ROOM, tenant_id, name), result_of(back, name))
    return back.finished


def result_of(back: Rollback, name: str) -> SliceResult:
    """What a rollback did, as every step of the night tells it."""
    done = tuple(
        Done(
            agent_id=one.memory_id.partition("/")[0],
            run_id=one.memory_id.partition("/")[2] or one.memory_id,
            action=Action.KEEP,
            decision=one.decision,
            reason=one.reason,
        )
        for one in back.done
    )
    return SliceResult(tenant_id=back.tenant_id, step=ROOM, name=name, done=done, counts=back.counts)
