"""Records of an AgentCore memory as the plan and the examination of a night read them: as episodes, by their names.

A record keeps its name when it comes back under another id, and what a merge made is known by the merge.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from agent_memory.domain.accesses import AccessLedger
from agent_memory.domain.agentcore import AgentCoreMemory, place_of
from agent_memory.domain.agentcore_index import OVERLAP_SECONDS, Note, RecordIndex
from agent_memory.domain.agentcore_ports import AccessBook, Asked, RecordBook, Records
from agent_memory.domain.agentcore_records import Known, Record, episode_of
from agent_memory.domain.agentcore_twins import twins
from agent_memory.domain.episodes import embedded
from agent_memory.domain.errors import CrossTenantError, RefusedInputError
from agent_memory.domain.models import Episode, EpisodeView
from agent_memory.domain.ports import Embedder, Read, Written

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


class AgentCoreReading:
    """The records of one entry of agentcoreMemories, as Episodes and EpisodeDates of its tenant."""

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

    def stay_apart(self, agent_id: str, run_ids: Collection[str]) -> None:
        """Note the near-duplicates that are all among *run_ids*: no night lists the namespace for them again, until one
        of them changes or everything is listed."""
        for (place, mark), names in twins(self._index, now=self._rules.now).items():
            if place == agent_id and names <= set(run_ids):
                namespace = self._index.namespaces.get(place, "")
                self._write(Note(kind="apart", name=mark, place=place, namespace=namespace, at=self._rules.now))

    def forget_date(self, agent_id: str, run_id: str) -> bool:
        """AgentCore knows no pins."""
        return False

    def put(self, episode: Episode) -> Written:
        """Records are written by agents, merges and imports."""
        raise RefusedInputError("record", "is created by an import or a merge, not as an episode")

    def pin(self, agent_id: str, run_id: str, *, pinned: bool, expires_at: int | None, decays_at: int | None) -> bool:
        """AgentCore knows no pins: hold the namespace instead."""
        raise RefusedInputError("pin", "is not known to AgentCore: agent-memory agentcore hold keeps nights off")

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
