"""Erasure of a person or a tenant from an AgentCore memory: events, archive, records, merged copies, accesses.

Whoever asks says which actor ids are theirs, so that an erasure which knows a person by a pseudonym alone can find the
actors itself. What was there is remembered by salted hashes of its ids: by these the stores that hold ids alone are
looked through, and a receipt is proved. Extraction in flight may still write: the second sweep finds that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol

from agent_memory.domain.accesses import LONGEST_HOURS
from agent_memory.domain.agentcore import AgentCoreMemory, place_of
from agent_memory.domain.agentcore_actors import Actors, Namespaces, Theirs, Whose, everybody, ids_in
from agent_memory.domain.agentcore_index import Entry, Note, RecordIndex
from agent_memory.domain.agentcore_ports import AccessBook, Asked, RecordBook, Records
from agent_memory.domain.agentcore_records import CREATED_AT, ENDED_AT, OLDEST_AT, Record
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces

# How long files of the trail lie in their bucket: what nights may make up for, a day more, their former versions, and
# a day until S3 gets round to it.
TRAIL_DAYS: Final = LONGEST_HOURS // 24 + 3
# AgentCore keeps events for as many days at most.
EVENT_DAYS: Final = 365
CONTESTED: Final = "contested"
NO_NAME: Final = ""


class EventKey(NamedTuple):
    """An event. *at*: epoch seconds, None when the service gave none."""

    event_id: str
    at: int | None


class ActorEvents(Protocol):
    """The short-term events of one memory, all pages of everything."""

    def actors(self) -> Sequence[str]: ...

    def sessions(self, actor_id: str) -> Sequence[str]: ...

    def events(self, actor_id: str, session_id: str) -> Sequence[EventKey]: ...

    def delete(self, actor_id: str, session_id: str, event_ids: Sequence[str]) -> Mapping[str, str]:
        """Delete events and return for each `removed`, `gone` or `failed`."""


class EntryDoors(NamedTuple):
    """What an erasure touches in one entry of agentcoreMemories. *neighbours*: namespaces of the same memory that other
    entries have."""

    memory: AgentCoreMemory
    records: Records
    events: ActorEvents
    book: RecordBook
    accesses: AccessBook
    names: Callable[[str, str], str]
    neighbours: tuple[str, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether other tenants' actors are in the memory as well."""
        return bool(self.neighbours)

    def theirs(self, erasure: Erasure) -> Theirs:
        """Whether an actor id is the erased person's. *names* makes pseudonyms of (tenant_id, actor_id)."""
        if erasure.whole:
            return everybody
        known: dict[str, bool] = {}

        def asked(actor_id: str) -> bool:
            if actor_id not in known:
                known[actor_id] = self.names(erasure.tenant_id, actor_id) == erasure.user_ref
            return known[actor_id]

        return asked


def made_before(record: Record, cutoff: int) -> bool:
    """Whether a record, or the first thing that it says, is from before. Its own claims can only make it older: they
    are looked at in the namespace of the person alone."""
    claimed = (record.number(key) for key in (OLDEST_AT, ENDED_AT, CREATED_AT))
    dates = [at for at in (record.created_at, *claimed) if at is not None]
    return not dates or min(dates) <= cutoff


def known_record(erasure: Erasure, memory: AgentCoreMemory, record_id: str) -> str:
    """By which a record's id is known to this erasure alone."""
    return erasure.run_hash(memory.memory_id, record_id)


def known_place(erasure: Erasure, place: str) -> str:
    """By which a namespace's place is known to this erasure alone."""
    return erasure.run_hash(place, NO_NAME)


def with_records(
    traces: Traces, erasure: Erasure, doors: EntryDoors, ids: Iterable[str], places: Iterable[str]
) -> Traces:
    """*traces* with what was met. Of a tenant that has its memory alone all goes, and nothing has to be remembered."""
    if erasure.whole and not doors.shared:
        return traces
    hashes = {known_record(erasure, doors.memory, one) for one in ids}
    return traces.with_runs(hashes | {known_place(erasure, one) for one in places})


def theirs_of(
    index: RecordIndex, erasure: Erasure, traces: Traces, memory: AgentCoreMemory, spaces: Namespaces
) -> dict[str, Entry]:
    """What an index says of the person's records, by name: by namespace, or because the record went."""
    found = {}
    for name, entry in index.entries.items():
        old = erasure.whole or entry.created_at <= erasure.erased_before
        mine = spaces.whose(index.namespaces.get(entry.place, "")) is Whose.THEIRS
        if (old and mine) or known_record(erasure, memory, entry.record_id) in traces.runs:
            found[name] = entry
    return found


class EventStore:
    """Events of the person's actors. They go before anything is looked for twice: nothing more is extracted then."""

    name = "agentcore-events"

    def __init__(self, doors: EntryDoors) -> None:
        self._doors = doors

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally, contested = Tally(self.name), False
        for actor, session, ids, whose in self._found(erasure):
            if whose is Whose.CONTESTED:
                contested = True
                tally.fail(*(f"{actor}/{session}/{one}" for one in ids))
                continue
            for one, word in self._doors.events.delete(actor, session, ids).items():
                (tally.fail if word == "failed" else tally.remove)(f"{actor}/{session}/{one}")
        return _told(tally, contested=contested), traces

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(len(ids) for _, _, ids, _ in self._found(erasure))

    def _found(self, erasure: Erasure) -> Iterator[tuple[str, str, list[str], Whose]]:
        doors = self._doors
        seen = _Seen(doors)
        actors = Actors(
            doors.theirs(erasure), inside=lambda: seen.inside, outside=lambda: seen.outside, shared=doors.shared
        )
        for actor in doors.events.actors():
            whose = actors.whose(actor)
            if whose is Whose.OTHERS:
                continue
            for session in doors.events.sessions(actor):
                found = doors.events.events(actor, session)
                old = [one.event_id for one in found if erasure.whole or (one.at or 0) <= erasure.erased_before]
                if old:
                    yield actor, session, old, whose


class _Seen:
    """The ids in the memory's namespaces, listed when the first actor is met about whom it has to be known."""

    def __init__(self, doors: EntryDoors) -> None:
        self._doors = doors

    @cached_property
    def inside(self) -> frozenset[str]:
        return ids_in(one.namespace for one in all_records(self._doors))

    @cached_property
    def outside(self) -> frozenset[str]:
        others = (one for prefix in self._doors.neighbours for one in self._doors.records.listed(Asked(prefix)))
        return ids_in(one.namespace for one in others)


class _Mine(NamedTuple):
    """*strange*: namespaces of others in which something lies that was made of the person's records."""

    records: dict[str, Record]
    contested: list[str]
    strange: frozenset[str] = frozenset()


class RecordStore:
    """Records in the person's namespaces, and what a merge made of them wherever it lies."""

    name = "agentcore-records"

    def __init__(self, doors: EntryDoors) -> None:
        self._doors = doors

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally, mine = Tally(self.name), self._found(erasure, traces)
        done = self._doors.records.delete(list(mine.records)) if mine.records else {}
        for record_id, word in done.items():
            (tally.fail if word == "failed" else tally.remove)(record_id)
        tally.fail(*mine.contested)
        spaces = {one.namespace for one in mine.records.values()} - mine.strange
        places = {place_of(self._doors.memory.memory_id, one) for one in spaces}
        known = with_records(traces, erasure, self._doors, mine.records, places)
        return _told(tally, contested=bool(mine.contested)), known

    def left(self, erasure: Erasure, traces: Traces) -> int:
        mine = self._found(erasure, traces)
        return len(mine.records) + len(mine.contested)

    def _found(self, erasure: Erasure, traces: Traces) -> _Mine:
        listed = {one.record_id: one for one in all_records(self._doors)}
        if erasure.whole:
            return _Mine(listed, [])
        spaces = namespaces_of(self._doors, erasure, (one.namespace for one in listed.values()))
        whose = {record_id: spaces.whose(one.namespace) for record_id, one in listed.items()}
        book: list[tuple[str, Entry | Note]] = [*self._doors.book.index().entries.items()]
        book += [(one.name, one) for one in self._doors.book.notes()]
        restored = {one.record_id for _, one in book if one.was}
        old = {
            record_id
            for record_id, one in listed.items()
            if made_before(one, erasure.erased_before) or (record_id in restored and one.number(CREATED_AT) is None)
        }
        mine = {one: listed[one] for one in old if whose[one] is Whose.THEIRS}
        derived = {one: listed[one] for one in self._derived(erasure, traces, mine, book) if one in listed}
        strange = frozenset(one.namespace for key, one in derived.items() if whose[key] is not Whose.THEIRS)
        contested = [one for one in old if whose[one] is Whose.CONTESTED and one not in derived]
        return _Mine(mine | derived, contested, strange)

    def _derived(
        self, erasure: Erasure, traces: Traces, mine: Iterable[str], book: Sequence[tuple[str, Entry | Note]]
    ) -> set[str]:
        """Ids of what merges made of the person's records, and merges of that, by the night's own book alone."""
        memory, ids = self._doors.memory, set(mine)
        while True:
            names = ids | {name for name, one in book if one.record_id in ids}
            found = {
                one.record_id
                for _, one in book
                if any(s in names or known_record(erasure, memory, s) in traces.runs for s in one.sources)
            }
            if found <= ids:
                return found
            ids |= found


class AccessStore:
    """Reads of the person's records in the ledger of accesses, which knows records by their ids alone."""

    name = "agentcore-accesses"

    def __init__(self, doors: EntryDoors) -> None:
        self._doors = doors

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally, gone = Tally(self.name), self._theirs(erasure, traces)
        if gone:
            self._doors.accesses.change(lambda ledger: ledger.without(self._doors.memory.memory_id, gone))
        tally.remove(*gone)
        return tally.swept(), traces

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return len(self._theirs(erasure, traces))

    def _theirs(self, erasure: Erasure, traces: Traces) -> list[str]:
        memory = self._doors.memory
        ledger = self._doors.accesses.ledger()
        held = sorted({*ledger.accesses.get(memory.memory_id, {}), *ledger.used.get(memory.memory_id, {})})
        if erasure.whole and not self._doors.shared:
            return held
        return [one for one in held if known_record(erasure, memory, one) in traces.runs]


def all_records(doors: EntryDoors) -> Iterator[Record]:
    """Every record of the entry, all pages."""
    for prefix in doors.memory.namespaces:
        for record in doors.records.listed(Asked(prefix)):
            if doors.memory.holds(record.namespace):
                yield record


def namespaces_of(doors: EntryDoors, erasure: Erasure, namespaces: Iterable[str]) -> Namespaces:
    """Whose namespaces are, by those who are known to the memory now."""
    actors = [] if erasure.whole else doors.events.actors()
    return Namespaces(doors.memory, doors.theirs(erasure), namespaces=namespaces, actors=actors)


def _told(tally: Tally, *, contested: bool) -> Swept:
    swept = tally.swept()
    return swept.model_copy(update={"error": CONTESTED}) if contested else swept
