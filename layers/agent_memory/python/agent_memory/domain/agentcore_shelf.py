"""Records of an AgentCore memory as the night handles episodes: judged, merged, put away, brought back.

AgentCore has neither conditions nor transactions. So what is to go is read again right before it goes and left alone
when it changed, and a merge notes its intention, makes the record, and notes which one it is: the note is the mark on
its sources. Whatever breaks off in between, every record is either itself or represented by one that is there.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from pydantic import ValidationError

from agent_memory.domain.accesses import AccessLedger
from agent_memory.domain.agentcore import AgentCoreMemory, place_of
from agent_memory.domain.agentcore_index import OVERLAP_SECONDS, Note, RecordIndex
from agent_memory.domain.agentcore_ports import AccessBook, Asked, RecordBook, Records
from agent_memory.domain.agentcore_records import (
    OLDEST_AT,
    Known,
    Record,
    canonical,
    episode_of,
    merged_record,
    restored_record,
)
from agent_memory.domain.archive import ArchiveError, Lease, PutBack, Removed, Snapshot
from agent_memory.domain.episodes import embedded
from agent_memory.domain.errors import AgentMemoryError, CrossTenantError, RefusedInputError, StoreBusyError
from agent_memory.domain.models import Episode, EpisodeView
from agent_memory.domain.ports import Embedder, Read, Written
from agent_memory.domain.shelves import Merged

# One page of a listing holds as many records; reading more than that one by one would be dearer.
PAGE = 100
_VIEW = tuple(EpisodeView.model_fields)


class ShelfDoors(NamedTuple):
    """What the records of one entry are made of. *embedder* None: nothing has to be compared by meaning."""

    records: Records
    book: RecordBook
    accesses: AccessBook
    embedder: Embedder | None = None


class ShelfRules(NamedTuple):
    """*now*: of the run. *summary_days*: how long what was merged is kept. *night*: the run's id."""

    now: int
    summary_days: int = 45
    night: str = ""


class AgentCoreShelf:
    """The records of one entry of agentcoreMemories, as Episodes, EpisodeShelf and EpisodeDates of its tenant."""

    def __init__(self, memory: AgentCoreMemory, doors: ShelfDoors, rules: ShelfRules) -> None:
        self._memory, self._doors, self._rules = memory, doors, rules
        self._seen: dict[tuple[str, str], Record] = {}

    @cached_property
    def _index(self) -> RecordIndex:
        return self._doors.book.index()

    @cached_property
    def _ledger(self) -> AccessLedger:
        return self._doors.accesses.ledger()

    @cached_property
    def _noted(self) -> dict[tuple[str, str], Note]:
        ordered = sorted(self._doors.book.notes(), key=lambda note: note.at)
        return {(note.place, note.name): note for note in ordered}

    # As the plan and the examination see it.

    def views(self, agent_id: str, *, now: int) -> Read[EpisodeView]:
        """Every live record of a namespace, for its cap; compared by words alone."""
        found = Read[EpisodeView]()
        for record in self._all_of(agent_id):
            episode = self._episode(record, self._name_of(record))
            if episode is None:
                found.unreadable += 1
            elif episode.expires_at is None or episode.expires_at > now:
                found.append(EpisodeView.model_construct(**{name: getattr(episode, name) for name in _VIEW}))
        return found

    def get(self, agent_id: str, run_id: str) -> Episode | None:
        """One record, as it is now."""
        record = self._read((agent_id, run_id))
        return None if record is None else self._episode(record, run_id)

    def get_many(self, keys: Sequence[tuple[str, str]]) -> Read[Episode]:
        """Several records; from pages of their namespace where that takes fewer calls."""
        wanted: defaultdict[str, list[str]] = defaultdict(list)
        for place, name in keys:
            wanted[place].append(name)
        read = {(place, name): record for place, names in wanted.items() for name, record in self._some(place, names)}
        found = Read[Episode]()
        for key in keys:
            record = read.get(key)
            episode = None if record is None else self._episode(record, key[1])
            if episode is not None:
                found.append(self._compared(episode))
            elif record is not None:
                found.unreadable += 1
        return found

    def live(self, agent_id: str, *, now: int) -> int:
        """How many records a namespace has, by the index."""
        return self._index.live(agent_id)

    def stored_since(self, agent_id: str, since: int) -> int:
        """How many of a namespace's records are newer than *since*, by the index."""
        entries = self._index.entries.values()
        return sum(entry.place == agent_id and entry.created_at >= since for entry in entries)

    def move(self, agent_id: str, run_id: str, *, seen: int | None, decays_at: int | None, expires_at: int) -> bool:
        """Dates are worked out anew by every refresh; there is none to write."""
        return True

    def forget_date(self, agent_id: str, run_id: str) -> bool:
        """AgentCore knows no pins."""
        return False

    def put(self, episode: Episode) -> Written:
        """Records are written by agents, merges and imports."""
        raise RefusedInputError("record", "is created by an import or a merge, not as an episode")

    def pin(self, agent_id: str, run_id: str, *, pinned: bool, expires_at: int | None, decays_at: int | None) -> bool:
        """AgentCore knows no pins: hold the namespace instead."""
        raise RefusedInputError("pin", "is not known to AgentCore: agent-memory agentcore hold keeps nights off")

    # As whoever removes and brings back sees it.

    def snapshot(self, place: tuple[str, str]) -> Snapshot | None:
        """The record as the service gives it now."""
        record = self._read(place)
        if record is None:
            return None
        known = self._known(*place)
        since = record.number(OLDEST_AT) if known.sources else None
        return Snapshot(
            tenant_id=self._memory.name,
            tier="episodic",
            place=place,
            items=(canonical(record),),
            since=since or record.created_at or 0,
            represented_by=known.merged_into,
        )

    def remove(self, snapshot: Snapshot) -> Removed:
        """Delete the record if it still is what *snapshot* says, as far as a read right before can tell."""
        archived = self._archived(snapshot)
        current = self._doors.records.get(archived.record_id)
        if current is None:
            return "gone"
        if canonical(current) != canonical(archived):
            return "changed"
        done = self._doors.records.delete([archived.record_id]).get(archived.record_id, "failed")
        if done == "failed":
            raise StoreBusyError("bedrock-agentcore could not delete a record")
        self._seen.pop(snapshot.place, None)
        return "removed" if done == "removed" else "gone"

    def put_back(self, snapshot: Snapshot, lease: Lease | None = None) -> PutBack:
        """Create the record again: all that it was, under an id that the service gives; the book keeps its name."""
        archived, (place, name) = self._archived(snapshot), snapshot.place
        there = self._read(snapshot.place)
        known = self._known(place, name)
        note = self._note("restored", place, name, archived, known.sources, lease)
        if there is not None:
            self._write(note.model_copy(update={"record_id": there.record_id, "kind": "kept"}))
            return "present"
        token = f"r-{snapshot.sha256[:40]}"
        made = self._doors.records.create([restored_record(archived, token)]).get(token)
        if made is None:
            raise StoreBusyError("bedrock-agentcore could not create a record")
        self._write(note.model_copy(update={"record_id": made, "was": (archived.record_id,)}))
        return "restored"

    def merge(self, summary: Episode, sources: Sequence[Episode]) -> Merged:
        """Create the record that stands for *sources*, if they are what was seen of them."""
        if any(self._changed((one.agent_id, one.run_id)) for one in sources):
            return "changed"
        first = self._seen[sources[0].agent_id, sources[0].run_id]
        found = self._resolved(summary.agent_id, summary.run_id)
        intended = Note(
            kind="merge",
            name=summary.run_id,
            place=summary.agent_id,
            namespace=first.namespace,
            strategy_id=first.strategy_id,
            created_at=summary.created_at,
            sources=summary.sources,
            at=self._rules.now,
        )
        self._write(intended)
        new = merged_record(summary, first.namespace, first.strategy_id, night=self._rules.night)
        made = found or self._doors.records.create([new]).get(summary.run_id)
        if made is None:
            raise AgentMemoryError("bedrock-agentcore could not create what stands for several records")
        self._write(intended.model_copy(update={"record_id": made}))
        return "duplicate" if found else "stored"

    def collapse(self, survivor: Episode, seen: Episode, others: Sequence[Episode]) -> Merged:
        """Leave the best of near-duplicates alone for as long as it is kept; its twins are put away after that."""
        if any(self._changed((one.agent_id, one.run_id)) for one in (seen, *others)):
            return "changed"
        self._keep((seen.agent_id, seen.run_id), kept_until=survivor.kept_until, review=None)
        return "stored"

    def unmark(self, place: tuple[str, str], target: str) -> bool:
        """Let *target* stand for nobody: its note is taken back."""
        note = self._noted.get((place[0], target))
        entry = self._index.entries.get(target)
        if note is None and (entry is None or not entry.sources):
            return False
        held = note or Note(kind="merge", name=target, place=place[0], record_id=entry.record_id if entry else "")
        self._write(held.model_copy(update={"sources": (), "at": self._rules.now}))
        return True

    def hold_for_review(self, place: tuple[str, str], *, review: str, kept_until: int, decays_at: int) -> bool:
        """Note why a merge was refused, and leave the record alone until *kept_until*."""
        return self._keep(place, kept_until=kept_until, review=review)

    # Inside.

    def _keep(self, place: tuple[str, str], *, kept_until: int | None, review: str | None) -> bool:
        record = self._read(place)
        if record is None:
            return False
        note = self._note("kept", *place, record, (), None)
        self._write(note.model_copy(update={"kept_until": kept_until, "review": review}))
        return True

    def _note(
        self,
        kind: Literal["restored", "kept"],
        place: str,
        name: str,
        record: Record,
        sources: Sequence[str],
        lease: Lease | None,
    ) -> Note:
        return Note(
            kind=kind,
            name=name,
            place=place,
            namespace=record.namespace,
            record_id=record.record_id,
            strategy_id=record.strategy_id,
            created_at=record.created_at or 0,
            sources=tuple(sources),
            kept_until=lease.kept_until if lease else None,
            expires_after=lease.expires_at if lease else None,
            at=lease.at if lease else self._rules.now,
        )

    def _write(self, note: Note) -> None:
        self._doors.book.note(note)
        self._noted[note.place, note.name] = note

    @cached_property
    def _standing(self) -> Mapping[tuple[str, str], str]:
        return self._index.represented_by()

    def _known(self, place: str, name: str) -> Known:
        known = self._index.known(name, self._memory, self._ledger, summary_days=self._rules.summary_days)
        note = self._noted.get((place, name))
        merged_into = self._represented_by(place, name, note)
        if note is None:
            return known._replace(merged_into=merged_into)
        sources = note.sources if note.sources or note.kind == "merge" else known.sources
        if note.kind == "merge":
            return known._replace(merged_into=merged_into, sources=sources)
        return known._replace(
            merged_into=merged_into,
            sources=sources,
            kept_until=note.kept_until,
            expires_after=note.expires_after if note.expires_after is not None else known.expires_after,
            review=note.review,
        )

    def _represented_by(self, place: str, name: str, note: Note | None) -> str | None:
        """The entry that stands for a record: of tonight by the notes, else by the index."""
        itself_at = note.at if note is not None and note.expires_after is not None else None
        for (at, target), one in self._noted.items():
            later = itself_at is None or one.created_at > itself_at
            if at == place and name in one.sources and later and self._resolved(place, target):
                return target
        standing = self._standing.get((place, name))
        if standing is None or itself_at is not None:
            return None
        taken_back = self._noted.get((place, standing))
        return None if taken_back is not None and not taken_back.sources else standing

    def _episode(self, record: Record, name: str) -> Episode | None:
        place = place_of(self._memory.memory_id, record.namespace)
        return episode_of(record, self._known(place, name), self._memory, now=self._rules.now)

    def _compared(self, episode: Episode) -> Episode:
        if self._doors.embedder is None:
            return episode
        vector = embedded(episode.task_summary, self._doors.embedder, Counter())
        vectors = {"task_vector": vector, "digest_vector": vector, "embedding_model": self._doors.embedder.model}
        return episode.model_copy(update=vectors)

    def _some(self, place: str, names: Sequence[str]) -> Iterator[tuple[str, Record]]:
        pages = -(-self._index.live(place) // PAGE)
        if len(names) <= max(pages, 1) or place not in self._index.namespaces:
            read = ((name, self._read((place, name))) for name in names)
            yield from ((name, record) for name, record in read if record is not None)
            return
        wanted = set(names)
        for record in self._all_of(place):
            name = self._name_of(record)
            if name in wanted:
                self._seen[place, name] = record
                yield name, record

    def _all_of(self, place: str) -> Iterator[Record]:
        namespace = self._index.namespaces.get(place)
        if namespace is None:
            return
        for record in self._doors.records.listed(Asked(f"{namespace.rstrip('/')}/")):
            if place_of(self._memory.memory_id, record.namespace) == place:
                yield record

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """Names by ids, of those that are known under another one."""
        names = {entry.record_id: name for name, entry in self._index.entries.items() if name != entry.record_id}
        return names | {note.record_id: name for (_, name), note in self._noted.items() if note.record_id}

    def _name_of(self, record: Record) -> str:
        return self._names.get(record.record_id, record.record_id)

    def _read(self, place: tuple[str, str]) -> Record | None:
        record_id = self._resolved(*place)
        record = self._doors.records.get(record_id) if record_id else None
        if record is None:
            self._seen.pop(place, None)
            return None
        if place_of(self._memory.memory_id, record.namespace) != place[0]:
            raise CrossTenantError(f"a record of another namespace was read for {place[0]}")
        self._seen[place] = record
        return record

    def _resolved(self, place: str, name: str) -> str:
        """The id in AgentCore of what is known as *name*; nothing for a merge that never came about."""
        note, entry = self._noted.get((place, name)), self._index.entries.get(name)
        if note is not None and note.record_id:
            return note.record_id
        if note is not None and note.kind == "merge":
            return self._made_before_it_broke_off(note)
        if entry is not None:
            return entry.record_id if entry.place == place else ""
        return "" if name.startswith("m-") else name

    def _made_before_it_broke_off(self, note: Note) -> str:
        asked = Asked(f"{note.namespace.rstrip('/')}/", after=note.created_at - OVERLAP_SECONDS)
        for record in self._doors.records.listed(asked):
            if record.merge_id == note.name and set(record.sources) == set(note.sources):
                self._write(note.model_copy(update={"record_id": record.record_id}))
                return record.record_id
        return ""

    def _changed(self, place: tuple[str, str]) -> bool:
        before = self._seen.get(place)
        record = self._read(place)
        return before is None or record is None or canonical(record) != canonical(before)

    def _archived(self, snapshot: Snapshot) -> Record:
        try:
            (text,) = snapshot.items
            record = Record.model_validate(json.loads(text))
        except (ValueError, RecursionError, ValidationError):
            raise ArchiveError(f"the archived copy of {snapshot.memory_id} holds no record") from None
        same = place_of(self._memory.memory_id, record.namespace) == snapshot.place[0]
        if snapshot.tenant_id != self._memory.name or not same or not self._memory.holds(record.namespace):
            raise CrossTenantError(f"an archived record does not belong to {self._memory.name}")
        return record
