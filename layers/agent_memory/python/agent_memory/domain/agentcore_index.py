"""The night's own small index of an AgentCore memory: which records there are, from when, and when each is due.

AgentCore can only list, and listing grows with the store. So an ordinary night lists what is new since the last one
and what is older than its retention, and asks this index for the rest; once a week, or when the index is lost, it
lists everything. The index also is the book of what the night itself did: which record a merge made of which, which
one came back under another id. What metadata say of that is provenance for people, and believed by nobody.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pydantic import ValidationError

from agent_memory.domain.accesses import AccessLedger
from agent_memory.domain.agentcore import AgentCoreMemory, place_of
from agent_memory.domain.agentcore_records import Known, Record, expiry_of, words_of
from agent_memory.domain.decay import DecayRules, decays_at
from agent_memory.domain.json_text import read_json
from agent_memory.domain.models import Model, Outcome
from agent_memory.domain.retention import DAY_SECONDS, HOUR_SECONDS, RetentionRules

VERSION: Final = 1
FULL_DAYS: Final = 7
# What was stored while the last night listed, or by a clock behind ours, is looked for again.
OVERLAP_SECONDS: Final = 2 * HOUR_SECONDS


class Entry(Model):
    """One record, by the name under which plans know it. *record_id*: in AgentCore; *was*: the ids that it had before
    it was brought back, and those of its near-duplicates. *due*: when the night must look at it, None when never.
    *itself_at*: since when it stands for itself again, whatever an earlier merge says. *words*: a hash of what it says,
    the same for near-duplicates. Times are epoch seconds."""

    record_id: str
    place: str
    strategy_id: str = ""
    created_at: int
    due: int | None = None
    was: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    kept_until: int | None = None
    expires_after: int | None = None
    review: str | None = None
    itself_at: int | None = None
    words: str = ""


class Note(Model):
    """What the night noted of one record while it worked; the next refresh takes it into the index.

    *kind*: `merge` (made of *sources*; without *record_id*: it was about to be made), `restored` (back under
    *record_id*), `kept` (left alone until *kept_until*), `gone` (what stood for others was put away), `apart` (of no
    record: near-duplicates that the rules keep apart, *name* is their mark). *at*: when it was noted; the latest of a
    name counts."""

    kind: Literal["merge", "restored", "kept", "gone", "apart"]
    name: str
    place: str
    namespace: str = ""
    record_id: str = ""
    strategy_id: str = ""
    created_at: int = 0
    was: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    kept_until: int | None = None
    expires_after: int | None = None
    review: str | None = None
    at: int = 0


class RecordIndex(Model):
    """The index of one entry of agentcoreMemories. *namespaces*: by place. *listed_at*, *full_at*: when new records,
    and when all, were listed last, by which run; *prefixes*: below what. *undated*: records without a date, which no
    night touches. *apart*: by place, marks of near-duplicates that the rules keep apart, until all is listed."""

    schema_version: int = VERSION
    run_id: str = ""
    prefixes: tuple[str, ...] = ()
    listed_at: int = 0
    full_at: int = 0
    namespaces: Mapping[str, str] = {}
    entries: Mapping[str, Entry] = {}
    undated: int = 0
    apart: Mapping[str, tuple[str, ...]] = {}

    def wants_all(self, memory: AgentCoreMemory, *, now: int) -> bool:
        """Whether this night must list everything: weekly, at first, for other namespaces, when the clock went back."""
        lately = self.full_at <= now < self.full_at + FULL_DAYS * DAY_SECONDS
        return not self.full_at or not lately or self.prefixes != memory.namespaces

    def known(self, name: str, memory: AgentCoreMemory, ledger: AccessLedger, *, summary_days: int) -> Known:
        """What the night knows of a record beside what the service says."""
        entry = self.entries.get(name)
        if entry is None:
            reads = ledger.of(memory.memory_id, name)
            return Known(name, reads.times, reads.last_at, summary_days=summary_days)
        reads = ledger.of(memory.memory_id, entry.record_id, *entry.was)
        return Known(
            name=name,
            access_count=reads.times,
            last_access_at=reads.last_at,
            kept_until=entry.kept_until,
            expires_after=entry.expires_after,
            review=entry.review,
            sources=entry.sources,
            summary_days=summary_days,
        )

    def represented_by(self) -> Mapping[tuple[str, str], str]:
        """The entry that stands for each record that was merged and is still there, within its own namespace."""
        standing = {}
        for name, entry in self.entries.items():
            for one in entry.sources:
                source = self.entries.get(one)
                itself_at = None if source is None else source.itself_at
                if itself_at is None or itself_at < entry.created_at:
                    standing[entry.place, one] = name
        return standing

    def due(self, upto: int) -> list[tuple[str, str]]:
        """(place, name) of what is due, earliest first."""
        ripe = [(entry.due, entry.place, name) for name, entry in self.entries.items() if entry.due is not None]
        return [(place, name) for due, place, name in sorted(ripe) if due <= upto]

    def record_ids(self) -> frozenset[str]:
        """The ids of all records, those included that they had before they were brought back."""
        return frozenset(one for entry in self.entries.values() for one in (entry.record_id, *entry.was))

    def live(self, place: str) -> int:
        """How many records a namespace has."""
        return sum(entry.place == place for entry in self.entries.values())


class Listing(NamedTuple):
    """What a refresh found. *whole*: these are all records there are. *gone*: names of what the last night removed."""

    records: Iterable[Record]
    whole: bool
    run_id: str
    notes: Sequence[Note] = ()
    gone: Collection[str] = ()


def listed(index: RecordIndex, listing: Listing, memory: AgentCoreMemory, *, now: int) -> RecordIndex:
    """The index after a listing, with what the night noted."""
    before, book = without(index, listing.gone), _book(index, listing.notes)
    entries = {} if listing.whole else dict(before.entries)
    spaces = {} if listing.whole else dict(before.namespaces)
    undated: set[str] = set()
    for record in listing.records:
        if not memory.holds(record.namespace):
            continue
        if record.created_at is None:
            undated.add(record.record_id)
            continue
        place = place_of(memory.memory_id, record.namespace)
        spaces[place] = record.namespace
        name = book.names.get(record.record_id) or _of_merge(record, place, book) or record.record_id
        entries[name] = _entry(record, place, index.entries.get(name))
    for note in book.notes.values():
        _take_in(note, entries, spaces)
    return RecordIndex(
        run_id=listing.run_id,
        prefixes=memory.namespaces,
        listed_at=now,
        full_at=now if listing.whole else index.full_at,
        namespaces=spaces,
        entries=entries,
        undated=len(undated) if listing.whole else max(len(undated), index.undated),
        apart={} if listing.whole else _apart(before, listing.notes),
    )


def _apart(before: RecordIndex, notes: Iterable[Note]) -> dict[str, tuple[str, ...]]:
    """The marks that were there, and those that the night noted."""
    marks = {place: set(held) for place, held in before.apart.items()}
    for note in notes:
        if note.kind == "apart":
            marks.setdefault(note.place, set()).add(note.name)
    return {place: tuple(sorted(held)) for place, held in marks.items()}


def _take_in(note: Note, entries: dict[str, Entry], spaces: dict[str, str]) -> None:
    """A note of a record that came back, or was made, brings it along: a listing by date may not show it."""
    if note.kind == "gone":
        entries.pop(note.name, None)
        return
    found = entries.get(note.name)
    if note.record_id and note.created_at and (found is None or found.record_id != note.record_id):
        found = Entry(
            record_id=note.record_id, place=note.place, strategy_id=note.strategy_id, created_at=note.created_at
        )
        spaces[note.place] = note.namespace
    if found is not None and found.place == note.place:
        entries[note.name] = _noted(found, note)


class _Book(Model):
    names: Mapping[str, str]
    notes: Mapping[tuple[str, str], Note]


def _book(index: RecordIndex, notes: Iterable[Note]) -> _Book:
    """The names of records that have other ids, by these ids, and what was noted, the latest of each."""
    ordered = sorted(notes, key=lambda note: (note.at, note.record_id != ""))
    names = {entry.record_id: name for name, entry in index.entries.items() if entry.record_id != name}
    names |= {note.record_id: note.name for note in ordered if note.record_id and note.record_id != note.name}
    return _Book(names=names, notes={(note.place, note.name): note for note in ordered})


def _of_merge(record: Record, place: str, book: _Book) -> str:
    """The name of a record that a merge made before it broke off: its intention was noted in this very namespace."""
    note = book.notes.get((place, record.merge_id)) if record.merge_id else None
    intended = note is not None and note.kind == "merge" and not note.record_id
    return record.merge_id if intended and note and set(note.sources) == set(record.sources) else ""


def _entry(record: Record, place: str, before: Entry | None) -> Entry:
    found = Entry(
        record_id=record.record_id,
        place=place,
        strategy_id=record.strategy_id,
        created_at=record.created_at or 0,
        words=words_of(record),
    )
    if before is not None:
        kept = before.model_dump(include={"was", "sources", "kept_until", "expires_after", "review", "itself_at"})
        found = found.model_copy(update=kept)
    return found


def _noted(entry: Entry, note: Note) -> Entry:
    changes: dict[str, object] = {"sources": note.sources} if note.sources or note.kind == "merge" else {}
    if note.kind != "merge":
        changes |= {"kept_until": note.kept_until, "review": note.review}
        if note.expires_after is not None:
            changes |= {"expires_after": note.expires_after, "itself_at": note.at}
    if note.was:
        changes["was"] = tuple(dict.fromkeys((*entry.was, *note.was)))
    return entry.model_copy(update=changes)


def dated(
    index: RecordIndex,
    memory: AgentCoreMemory,
    ledger: AccessLedger,
    decay: DecayRules,
    retention: RetentionRules,
    *,
    now: int,
) -> RecordIndex:
    """The index with the due time of every record, by today's accesses and settings."""
    standing = index.represented_by()
    dates = {}
    for name, entry in index.entries.items():
        reads = ledger.of(memory.memory_id, entry.record_id, *entry.was)
        expires_after, summary_days = entry.expires_after, retention.summary_ttl_days
        known = Known(name, expires_after=expires_after, sources=entry.sources, summary_days=summary_days)
        due = decays_at(
            ended_at=entry.created_at,
            outcome=Outcome.UNKNOWN,
            expires_at=expiry_of(min(entry.created_at, now), entry.strategy_id, known, memory),
            access_count=reads.times,
            last_access_at=reads.last_at,
            kept_until=entry.kept_until,
            decay=decay,
            retention=retention,
            now=now,
        )
        # A record that is represented is on its way out, whenever it would have been due.
        dates[name] = entry.model_copy(update={"due": now if (entry.place, name) in standing else due})
    return index.model_copy(update={"entries": dates})


def without(index: RecordIndex, names: Iterable[str]) -> RecordIndex:
    """The index without records that are gone."""
    gone = set(names)
    entries = {name: entry for name, entry in index.entries.items() if name not in gone}
    used = {entry.place for entry in entries.values()}
    spaces = {place: namespace for place, namespace in index.namespaces.items() if place in used}
    changed = {index.entries[name].place for name in gone & index.entries.keys()}
    apart = {place: marks for place, marks in index.apart.items() if place in used - changed}
    return index.model_copy(update={"entries": entries, "namespaces": spaces, "apart": apart})


def read_index(body: bytes | str) -> RecordIndex:
    """A stored index; of nothing, or of what can't be read, an empty one: everything is listed then."""
    try:
        value = read_json(body) if body.strip() else {}
        return RecordIndex.model_validate(value)
    except (ValueError, RecursionError, ValidationError):
        return RecordIndex()
