"""The first step of a night over AgentCore: new records are listed, accesses added up, and due times worked out.

It comes back before its function's time is over, and goes on where it was when it is asked again. The plan and all
that follows then go the way of every night, through agentcore_shelf.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple

from agent_memory.domain.accesses import AccessLedger, added, reading_of
from agent_memory.domain.agentcore import AgentCoreMemory
from agent_memory.domain.agentcore_index import OVERLAP_SECONDS, Listing, RecordIndex, dated, listed
from agent_memory.domain.agentcore_ports import AccessBook, AccessLogs, Asked, Judged, RecordBook, Records
from agent_memory.domain.agentcore_records import Record
from agent_memory.domain.agentcore_twins import to_be_looked_at
from agent_memory.domain.cloudtrail import Access, Window
from agent_memory.domain.decay import DecayRules
from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.keys import room_prefix
from agent_memory.domain.lifecycle import LifecycleRun, NightTicket, SliceResult
from agent_memory.domain.lifecycle_ports import DueKey, DuePage, DueSource, NightFiles
from agent_memory.domain.models import Model
from agent_memory.domain.retention import DAY_SECONDS, RetentionRules

NO_MEMORIES: Final = "no_memories"
REFRESHED: Final = "refreshed"
UNFINISHED: Final = "unfinished"
TOO_LONG: Final = "too_long"
ADVICE: Final = "give its namespaces to several entries of agentcoreMemories"
# How many files of accesses are read before the clock is looked at, and records listed.
FILES_AT_ONCE: Final = 256
PAGE: Final = 100
_GONE: Final = frozenset({"removed", "merged", "collapsed", "gone"})
_REMOVING_ROOMS: Final = ("expire", "merge", "prune")


class LateError(AgentMemoryError):
    """The time of this call is over, and a listing is not at its end."""


class MemoryDoors(NamedTuple):
    """The doors of one entry of agentcoreMemories."""

    records: Records
    book: RecordBook


class RefreshDoors(NamedTuple):
    """What a refresh touches. *memory*: the doors of one entry."""

    files: NightFiles
    accesses: AccessBook
    logs: AccessLogs
    memory: Callable[[AgentCoreMemory], MemoryDoors]


class RefreshRules(NamedTuple):
    """By what due times are worked out. *hours*: of logs that are read every night."""

    decay: DecayRules
    retention: RetentionRules
    hours: int = 25


class Refreshed(Model):
    """What a refresh found in one entry: object `lifecycle/<run>/refreshed/<tenant>.json`."""

    tenant_id: str
    whole: bool
    records: int
    due: int
    undated: int = 0


def settings_hash(memories: Sequence[AgentCoreMemory], decay: DecayRules, retention: RetentionRules) -> str:
    """Of all settings by which due times are made (32 hex digits)."""
    days = {one.name: {**one.model_dump(include={"strategies", "retention"})} for one in memories}
    text = json.dumps({**decay.model_dump(), "summaries": retention.summary_ttl_days, "memories": days}, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]


def refresh(
    ticket: NightTicket,
    memories: Sequence[AgentCoreMemory],
    doors: RefreshDoors,
    rules: RefreshRules,
    late: Callable[[], bool] = lambda: False,
) -> tuple[NightTicket, dict[str, int]]:
    """Bring every index up to date and add up accesses. Decides `refreshed`, `no_memories` when none is named,
    `unfinished` when it got *late* (asked again it goes on where it was), or `too_long` when that would not help."""
    if not memories:
        return ticket.decided(NO_MEMORIES, "agentcoreMemories names no memory: nothing is looked at"), {}
    counts: Counter[str] = Counter()
    records: dict[tuple[str, str], frozenset[str]] = {}
    for number, memory in enumerate(memories):
        try:
            index = brought_up(memory, ticket.run, doors, counts, late)
        except LateError as error:
            again = counts["entries_listed"] > 0
            return _late(ticket, UNFINISHED if again else TOO_LONG, str(error), len(memories) - number), dict(counts)
        records[memory.name, memory.memory_id] = index.record_ids()
    judged = Judged(frozenset(one.memory_id for one in memories), records)
    ledger, left = count_accesses(judged, ticket.run, doors, rules.hours, counts, late)
    if left or late():
        reason = f"{left} files of accesses are not read yet" if left else "due times are not worked out yet"
        return _late(ticket, UNFINISHED, reason, 0), dict(counts)
    for memory in memories:
        found = dated_by(memory, ticket.run, doors, rules, ledger)
        doors.files.put(refreshed_key(ticket.run.run_id, memory.name), found)
        counts.update(records=found.records, due=found.due, undated=found.undated)
    return ticket.decided(REFRESHED), dict(counts)


def _late(ticket: NightTicket, decision: str, reason: str, entries: int) -> NightTicket:
    left = f"; {entries} entries are not listed yet" if entries else ""
    return ticket.decided(decision, f"{reason}{left}")


def refreshed_key(run_id: str, tenant_id: str) -> str:
    """S3 key of what a run's refresh found in one entry."""
    return f"{room_prefix(run_id, 'refreshed')}{tenant_id}.json"


def count_accesses(
    judged: Judged, run: LifecycleRun, doors: RefreshDoors, hours: int, counts: Counter[str], late: Callable[[], bool]
) -> tuple[AccessLedger, int]:
    """Read what is new of the logs and add it to the ledger, some files at a time. Returns how many are left: what was
    read is kept, and the next call of this run goes on behind it."""
    ledger = doors.accesses.ledger()
    reading = reading_of(ledger, run.run_id, hours=hours, now=run.now)
    if reading.done:
        return ledger, 0
    window = Window(reading.begin, reading.end)
    counts["digests"] = doors.logs.digests(window)
    tenants = sorted({tenant_id for tenant_id, _ in judged.records})
    files = [one for one in doors.logs.files(window, tenants) if one > reading.after]
    found: dict[str, Access] = {}
    for start in range(0, len(files), FILES_AT_ONCE):
        if start and late():
            files, left = files[:start], len(files) - start
            break
        told = doors.logs.accesses(files[start : start + FILES_AT_ONCE], window, judged, counts)
        found |= {one.event_id: one for one in told if one.event_id not in found}
    else:
        left = 0
    counts.update(accesses=len(found), files_left=left)
    reading = reading.model_copy(update={"after": files[-1] if files else reading.after, "done": not left})
    change = partial(added, found=list(found.values()), window=window, now=run.now, reading=reading)
    return doors.accesses.change(change), left


def brought_up(
    memory: AgentCoreMemory, run: LifecycleRun, doors: RefreshDoors, counts: Counter[str], late: Callable[[], bool]
) -> RecordIndex:
    """The index of one entry with what is new: weekly from all records, else from what is new and what is old. What
    this very run has listed already is not listed again. Raises LateError."""
    mine = doors.memory(memory)
    before = mine.book.index()
    if before.run_id == run.run_id and before.listed_at == run.now:
        return before
    if late():
        raise LateError("the time of this call is over")
    notes, whole = mine.book.notes(), before.wants_all(memory, now=run.now)
    asked = _all(memory, mine.records) if whole else _new_and_old(memory, before, mine.records, now=run.now)
    gone = _removed_by(before.run_id, memory.name, doors.files)
    # One by one: their texts together may be more than a function holds.
    records = _in_time(asked, counts, late)
    index = listed(before, Listing(records, whole, run.run_id, notes, gone), memory, now=run.now)
    mine.book.keep(index)
    mine.book.forget(notes)
    counts.update(entries_listed=1, entries_whole=int(whole))
    return index


def _in_time(records: Iterator[Record], counts: Counter[str], late: Callable[[], bool]) -> Iterator[Record]:
    for number, record in enumerate(records, 1):
        counts["listed"] += 1
        if number % PAGE == 0 and late():
            raise LateError(f"a listing came to {number} records and not to its end: {ADVICE}")
        yield record


def dated_by(
    memory: AgentCoreMemory, run: LifecycleRun, doors: RefreshDoors, rules: RefreshRules, ledger: AccessLedger
) -> Refreshed:
    """Work out the due time of every record of one entry."""
    mine = doors.memory(memory)
    index = dated(mine.book.index(), memory, ledger, rules.decay, rules.retention, now=run.now)
    mine.book.keep(index)
    return Refreshed(
        tenant_id=memory.name,
        whole=index.full_at == run.now,
        records=len(index.entries),
        due=len(index.due(run.now)),
        undated=index.undated,
    )


def _all(memory: AgentCoreMemory, records: Records) -> Iterator[Record]:
    for prefix in memory.namespaces:
        yield from records.listed(Asked(prefix))


def _new_and_old(memory: AgentCoreMemory, index: RecordIndex, records: Records, *, now: int) -> Iterator[Record]:
    """What was stored since the last listing, and what is past its retention, whenever it came in."""
    longest, days = memory.longest_days, memory.days_by_strategy
    for prefix in memory.namespaces:
        yield from records.listed(Asked(prefix, after=index.listed_at - OVERLAP_SECONDS))
        yield from records.listed(Asked(prefix, before=now - longest * DAY_SECONDS))
        for strategy, kept in sorted(days.items()):
            if kept < longest:
                yield from records.listed(Asked(prefix, before=now - kept * DAY_SECONDS, strategy_id=strategy))


def _removed_by(run_id: str, tenant_id: str, files: NightFiles) -> frozenset[str]:
    """Names of the records that the run which listed last has removed since."""
    if not run_id:
        return frozenset()
    keys = [key for room in _REMOVING_ROOMS for key in files.keys(f"{room_prefix(run_id, f'done/{room}')}{tenant_id}/")]
    results = files.get_many(keys, SliceResult)
    return frozenset(one.run_id for result in results for one in result.done if one.decision in _GONE)


class IndexedDue:
    """What is due by the indexes, in the place of due-index: all of it on the first shard."""

    def __init__(self, books: Mapping[str, RecordBook]) -> None:
        self._books = books

    def page(
        self, source: DueSource, shard: str, *, upto: int, after: Mapping[str, object] | None, begin: int = 0
    ) -> DuePage:
        """Every due record up to *upto*. Dates are never rewritten: each refresh works them out by today's settings."""
        if source != "episodes" or shard != "0" or begin:
            return DuePage((), None)
        due = ((tenant, place, name) for tenant, book in self._books.items() for place, name in book.index().due(upto))
        return DuePage(tuple(DueKey(*one) for one in due), None)


class IndexedStored:
    """Which namespaces are over their cap or hold near-duplicates, by the indexes; whoever stored since."""

    def __init__(self, books: Mapping[str, RecordBook], *, most: int, now: Callable[[], int]) -> None:
        self._books, self._most, self._now = books, most, now

    def note(self, tenant_id: str, agent_id: str, *, now: int) -> None:
        """The indexes know it by themselves."""

    def all(self) -> Mapping[tuple[str, str], int]:
        """Every such (tenant, namespace's place), as of now."""
        now = self._now()
        found = ((tenant, to_be_looked_at(book.index(), self._most, now=now)) for tenant, book in self._books.items())
        return {(tenant, place): now for tenant, places in found for place in places}

    def clear(self, tenant_id: str, agent_id: str, *, upto: int) -> None:
        """A namespace needs no look any more when the indexes say so."""
