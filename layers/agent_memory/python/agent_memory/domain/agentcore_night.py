"""The first step of a night over AgentCore: accesses are added up, new records listed, and due times worked out.

The plan and all that follows then go the way of every night, through agentcore_shelf.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from agent_memory.domain.accesses import AccessLedger, added, window_of
from agent_memory.domain.agentcore import AgentCoreMemory
from agent_memory.domain.agentcore_index import OVERLAP_SECONDS, Listing, RecordIndex, dated, listed, over_the_cap
from agent_memory.domain.agentcore_ports import AccessBook, AccessLogs, Asked, RecordBook, Records
from agent_memory.domain.agentcore_records import Record
from agent_memory.domain.decay import DecayRules
from agent_memory.domain.keys import room_prefix
from agent_memory.domain.lifecycle import LifecycleRun, NightTicket, SliceResult
from agent_memory.domain.lifecycle_ports import DueKey, DuePage, DueSource, NightFiles
from agent_memory.domain.models import Model
from agent_memory.domain.retention import DAY_SECONDS, RetentionRules

NO_MEMORIES: Final = "no_memories"
REFRESHED: Final = "refreshed"
_GONE: Final = frozenset({"removed", "merged", "collapsed", "gone"})
_REMOVING_ROOMS: Final = ("expire", "merge", "prune")
COUNTED: Final = ("records", "undated", "listed", "accesses")


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
    listed: int
    undated: int = 0


def settings_hash(memories: Sequence[AgentCoreMemory], decay: DecayRules, retention: RetentionRules) -> str:
    """Of all settings by which due times are made (32 hex digits)."""
    days = {one.name: {**one.model_dump(include={"strategies", "retention"})} for one in memories}
    text = json.dumps({**decay.model_dump(), "summaries": retention.summary_ttl_days, "memories": days}, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]


def refresh(
    ticket: NightTicket, memories: Sequence[AgentCoreMemory], doors: RefreshDoors, rules: RefreshRules
) -> tuple[NightTicket, dict[str, int]]:
    """Add up accesses and bring every index up to date. Decides `refreshed`, or `no_memories` when none is named."""
    if not memories:
        return ticket.decided(NO_MEMORIES, "agentcoreMemories names no memory: nothing is looked at"), {}
    counts: Counter[str] = Counter()
    ledger = count_accesses(memories, doors, hours=rules.hours, now=ticket.run.now, counts=counts)
    for memory in memories:
        found = refreshed(memory, ticket.run, doors, rules, ledger)
        doors.files.put(refreshed_key(ticket.run.run_id, memory.name), found)
        counts.update(records=found.records, due=found.due, listed=found.listed, undated=found.undated)
    return ticket.decided(REFRESHED), dict(counts)


def refreshed_key(run_id: str, tenant_id: str) -> str:
    """S3 key of what a run's refresh found in one entry."""
    return f"{room_prefix(run_id, 'refreshed')}{tenant_id}.json"


def count_accesses(
    memories: Sequence[AgentCoreMemory], doors: RefreshDoors, *, hours: int, now: int, counts: Counter[str]
) -> AccessLedger:
    """Read what is new of the logs and add it to the ledger."""
    ids = frozenset(one.memory_id for one in memories)
    window = window_of(doors.accesses.ledger(), hours=hours, now=now)
    found = list(doors.logs.accesses(window, memories=ids, counts=counts))
    counts["accesses"] += len({one.event_id for one in found})
    return doors.accesses.change(lambda ledger: added(ledger, found, window=window, now=now))


def refreshed(
    memory: AgentCoreMemory, run: LifecycleRun, doors: RefreshDoors, rules: RefreshRules, ledger: AccessLedger
) -> Refreshed:
    """Bring the index of one entry up to date: weekly from all records, else from what is new and what is old."""
    mine = doors.memory(memory)
    before, notes = mine.book.index(), mine.book.notes()
    whole = before.wants_all(memory, now=run.now)
    records = list(_all(memory, mine.records) if whole else _new_and_old(memory, before, mine.records, now=run.now))
    gone = _removed_by(before.run_id, memory.name, doors.files)
    listing = Listing(records, whole, run.run_id, notes, gone)
    index = listed(before, listing, memory, now=run.now)
    index = dated(index, memory, ledger, rules.decay, rules.retention, now=run.now)
    mine.book.keep(index)
    mine.book.forget(notes)
    return Refreshed(
        tenant_id=memory.name,
        whole=whole,
        records=len(index.entries),
        due=len(index.due(run.now)),
        listed=len(records),
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
    """Which namespaces stored something since the last night and are over their cap, by the indexes."""

    def __init__(self, books: Mapping[str, RecordBook], *, most: int) -> None:
        self._books, self._most = books, most

    def note(self, tenant_id: str, agent_id: str, *, now: int) -> None:
        """The indexes know it by themselves."""

    def all(self) -> Mapping[tuple[str, str], int]:
        """Every such (tenant, namespace's place)."""
        found = ((tenant, over_the_cap(book.index(), self._most)) for tenant, book in self._books.items())
        return {(tenant, place): at for tenant, places in found for place, at in places.items()}

    def clear(self, tenant_id: str, agent_id: str, *, upto: int) -> None:
        """The next refresh begins anew."""
