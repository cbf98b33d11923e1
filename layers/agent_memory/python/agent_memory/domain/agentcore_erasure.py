"""Erasure of an actor from an AgentCore memory: records, events, merged copies, accesses, archive and the night's book.

Whoever asks says which actor ids are theirs, so that an erasure which knows a person by a pseudonym alone can find the
actors itself. What a merge made lies in the namespace of its sources, so it goes with them. Extraction that is in
flight may still write: a second sweep, some time later, finds that.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from agent_memory.domain.accesses import AccessLedger
from agent_memory.domain.agentcore import AgentCoreMemory, place_of
from agent_memory.domain.agentcore_index import without
from agent_memory.domain.agentcore_ports import AccessBook, Asked, RecordBook, Records
from agent_memory.domain.agentcore_records import Record
from agent_memory.domain.models import Model

# AgentCore extracts within minutes of an event.
SECOND_SWEEP_SECONDS: Final = 900
# Actor ids may hold the delimiter; longer ones than this are not looked for in namespaces.
_LONGEST = 8
Theirs = Callable[[str], bool]
"""Whether an actor id is the person's."""


class ActorEvents(Protocol):
    """The short-term events of one memory, all pages of everything."""

    def actors(self) -> Sequence[str]: ...

    def sessions(self, actor_id: str) -> Sequence[str]: ...

    def events(self, actor_id: str, session_id: str) -> Sequence[str]: ...

    def delete(self, actor_id: str, session_id: str, event_id: str) -> bool:
        """False when it was gone."""


class ArchivedPlaces(Protocol):
    """The archive of one entry of agentcoreMemories."""

    def remove(self, places: Callable[[str, str], bool]) -> int:
        """Remove every archived record, in all versions, for whose place and namespace this holds; how many."""


class ErasureDoors(NamedTuple):
    """What an erasure touches in one entry."""

    records: Records
    events: ActorEvents
    book: RecordBook
    accesses: AccessBook
    archive: ArchivedPlaces


class ActorErased(Model):
    """What one sweep did. *failed*: ids of records that could not be deleted. *again_in*: seconds until the next."""

    tenant_id: str
    records: int = 0
    events: int = 0
    archived: int = 0
    accesses: int = 0
    indexed: int = 0
    failed: tuple[str, ...] = ()
    again_in: int = SECOND_SWEEP_SECONDS

    @property
    def decision(self) -> str:
        """`erased`, or `partial_failure` when something is left."""
        return "partial_failure" if self.failed else "erased"


def theirs_in(namespace: str, theirs: Theirs) -> bool:
    """Whether a part of *namespace*, or several in a row, is an id of the person's."""
    parts = [part for part in namespace.split("/") if part]
    spans = ((begin, end) for begin in range(len(parts)) for end in range(begin + 1, len(parts) + 1))
    return any(end - begin <= _LONGEST and theirs("/".join(parts[begin:end])) for begin, end in spans)


def erase_actor(memory: AgentCoreMemory, doors: ErasureDoors, theirs: Theirs) -> ActorErased:
    """One sweep. Events go first, so that nothing more is extracted from them. Safe to repeat."""
    counts: Counter[str] = Counter(events=_events(doors.events, theirs))
    mine = {one.record_id: one for one in _records(memory, doors.records) if theirs_in(one.namespace, theirs)}
    done = doors.records.delete(list(mine)) if mine else {}
    failed = sorted(record_id for record_id, word in done.items() if word == "failed")
    counts["records"] = sum(word == "removed" for word in done.values())
    places = {place_of(memory.memory_id, one.namespace) for one in mine.values()}
    counts["archived"] = doors.archive.remove(lambda place, namespace: place in places or theirs_in(namespace, theirs))
    gone = _out_of_the_book(doors.book, theirs, counts) | set(mine)
    before = doors.accesses.ledger()
    after = doors.accesses.change(lambda ledger: ledger.without(memory.memory_id, gone))
    counts["accesses"] = _size(before, memory) - _size(after, memory)
    return ActorErased(tenant_id=memory.name, failed=tuple(failed), **counts)


def left_of(memory: AgentCoreMemory, doors: ErasureDoors, theirs: Theirs) -> int:
    """How much of the actor is there, for whoever verifies a receipt: records and sessions with events."""
    records = sum(theirs_in(one.namespace, theirs) for one in _records(memory, doors.records))
    actors = (actor for actor in doors.events.actors() if theirs(actor))
    return records + sum(len(doors.events.sessions(actor)) for actor in actors)


def _records(memory: AgentCoreMemory, records: Records) -> Iterator[Record]:
    for prefix in memory.namespaces:
        yield from records.listed(Asked(prefix))


def _events(events: ActorEvents, theirs: Theirs) -> int:
    deleted = 0
    for actor in events.actors():
        if theirs(actor):
            for session in events.sessions(actor):
                deleted += sum(events.delete(actor, session, event) for event in events.events(actor, session))
    return deleted


def _out_of_the_book(book: RecordBook, theirs: Theirs, counts: Counter[str]) -> set[str]:
    """Take their namespaces out of the index and the notes; the ids that accesses are known by."""
    index, notes = book.index(), book.notes()
    places: Collection[str] = {place for place, space in index.namespaces.items() if theirs_in(space, theirs)}
    entries = {name: entry for name, entry in index.entries.items() if entry.place in places}
    if entries or places:
        book.keep(without(index, entries))
    counts["indexed"] = len(entries)
    book.forget([note for note in notes if note.place in places or theirs_in(note.namespace, theirs)])
    return {one for entry in entries.values() for one in (entry.record_id, *entry.was)}


def _size(ledger: AccessLedger, memory: AgentCoreMemory) -> int:
    return len(ledger.accesses.get(memory.memory_id, {}))
