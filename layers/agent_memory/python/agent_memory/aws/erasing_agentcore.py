"""What an erasure removes from the bucket of AgentCore's nights and from our ledger: by namespace, all versions."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from agent_memory.aws.erasing_objects import read_object
from agent_memory.aws.erasing_rows import Partitions
from agent_memory.aws.item_codec import Item, attributes
from agent_memory.aws.object_versions import ObjectVersions, Version
from agent_memory.contract import AGENTCORE_PREFIX, LEDGER_SORT_KEY
from agent_memory.domain.agentcore_actors import Namespaces, Whose
from agent_memory.domain.agentcore_erasure import (
    CONTESTED,
    EntryDoors,
    known_place,
    known_record,
    made_before,
    namespaces_of,
    theirs_of,
    with_records,
)
from agent_memory.domain.agentcore_index import Note, RecordIndex, without
from agent_memory.domain.agentcore_records import Record
from agent_memory.domain.archive import Snapshot
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces
from agent_memory.domain.keys import archive_root, ledger_key

ROWS: Mapping[str, str] = {"hold": "noted_at", "regressions": "added_at"}
"""Kinds of rows that name a namespace by its place, and which date says how old one is."""


class _Held(NamedTuple):
    """An archived record, as far as it can be read."""

    snapshot: Snapshot
    record: Record


class AgentCoreArchive:
    """Archived records of one entry. What can't be read goes as well: nobody could bring it back, and nobody can say
    whose it is."""

    name = "agentcore-archive"

    def __init__(self, objects: ObjectVersions, doors: EntryDoors) -> None:
        self._objects = objects
        self._doors = doors

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally, known, contested = Tally(self.name), traces, False
        for key, versions, whose, held in list(self._theirs(erasure)):
            if whose is Whose.CONTESTED:
                contested = True
                tally.fail(key)
                continue
            ids = {one for a in held for one in (a.record.record_id, a.snapshot.place[1])}
            known = with_records(known, erasure, self._doors, ids, {one.snapshot.place[0] for one in held})
            _remove(self._objects, key, versions, tally)
        swept = tally.swept()
        return (swept.model_copy(update={"error": CONTESTED}) if contested else swept), known

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self._theirs(erasure))

    def _theirs(self, erasure: Erasure) -> Iterator[tuple[str, list[Version], Whose, list[_Held]]]:
        """Every object that goes, with all its versions; what was one record's is never another's."""
        kept = _by_key(self._objects.all(archive_root(erasure.tenant_id)))
        read = {key: [self._read(one) for one in versions if not one.marker] for key, versions in kept.items()}
        spaces = {one.record.namespace for found in read.values() for one in found if one}
        whose_is = namespaces_of(self._doors, erasure, spaces | set(self._doors.book.index().namespaces.values()))
        for key, versions in kept.items():
            found = [self._whose(one, erasure, whose_is) for one in read[key]] or [Whose.OTHERS]
            if erasure.whole or Whose.THEIRS in found:
                yield key, versions, Whose.THEIRS, [one for one in read[key] if one]
            elif Whose.CONTESTED in found:
                yield key, versions, Whose.CONTESTED, []

    def _whose(self, held: _Held | None, erasure: Erasure, spaces: Namespaces) -> Whose:
        if held is None:
            return Whose.THEIRS
        cutoff = erasure.erased_before
        old = held.snapshot.since <= cutoff or made_before(held.record, cutoff)
        return spaces.whose(held.record.namespace) if old else Whose.OTHERS

    def _read(self, version: Version) -> _Held | None:
        content = read_object(self._objects.body(version) or b"")
        try:
            snapshot = Snapshot.model_validate(content["snapshot"])
            return _Held(snapshot, Record.model_validate(json.loads(snapshot.items[0])))
        except (TypeError, KeyError, IndexError, ValueError, RecursionError, ValidationError):
            return None


class AgentCoreBook:
    """The index of one entry and the notes beside it, former versions too: they hold namespaces."""

    name = "agentcore-book"

    def __init__(self, objects: ObjectVersions, doors: EntryDoors) -> None:
        self._objects = objects
        self._doors = doors
        self._root = f"{AGENTCORE_PREFIX}{doors.memory.name}/"
        self._index = f"{self._root}index.json.gz"

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally, index = Tally(self.name), self._doors.book.index()
        spaces = namespaces_of(self._doors, erasure, index.namespaces.values())
        gone = theirs_of(index, erasure, traces, self._doors.memory, spaces)
        ids = {one for name, entry in gone.items() for one in (name, entry.record_id, *entry.was)}
        places = {entry.place for entry in gone.values() if _theirs(index, entry.place, spaces)}
        known = with_records(traces, erasure, self._doors, ids, places)
        if not erasure.whole and (gone or self._names_them(index, erasure, known, spaces)):
            self._doors.book.keep(without(index, gone))
        for name in gone:
            tally.change(name)
        for key, versions in self._versions(erasure, known, spaces):
            _remove(self._objects, key, versions, tally)
        contested = self._contested(index, erasure, spaces)
        tally.fail(*contested)
        swept = tally.swept()
        return (swept.model_copy(update={"error": CONTESTED}) if contested else swept), known

    def left(self, erasure: Erasure, traces: Traces) -> int:
        index = self._doors.book.index()
        spaces = namespaces_of(self._doors, erasure, index.namespaces.values())
        found = sum(1 for _ in self._versions(erasure, traces, spaces)) + len(self._contested(index, erasure, spaces))
        return found + self._names_them(index, erasure, traces, spaces)

    def _contested(self, index: RecordIndex, erasure: Erasure, spaces: Namespaces) -> list[str]:
        """Places of the index that may be the person's, with something from before."""
        old = {one.place for one in index.entries.values() if one.created_at <= erasure.erased_before}
        return [p for p in sorted(old) if spaces.whose(index.namespaces.get(p, "")) is Whose.CONTESTED]

    def _versions(self, erasure: Erasure, traces: Traces, spaces: Namespaces) -> Iterator[tuple[str, list[Version]]]:
        """Former versions of the index that name them, and every version of notes that do."""
        for key, versions in _by_key(self._objects.all(self._root)).items():
            if erasure.whole:
                yield key, versions
            elif key == self._index:
                old = [one for one in versions if not one.latest and self._is_theirs(one, erasure, traces, spaces)]
                if old:
                    yield key, old
            elif any(self._noted(one, erasure, traces, spaces) for one in versions if not one.marker):
                yield key, versions

    def _is_theirs(self, version: Version, erasure: Erasure, traces: Traces, spaces: Namespaces) -> bool:
        if version.marker:
            return False
        index = _model(RecordIndex, self._objects.body(version))
        return index is None or self._names_them(index, erasure, traces, spaces)

    def _names_them(self, index: RecordIndex, erasure: Erasure, traces: Traces, spaces: Namespaces) -> bool:
        if theirs_of(index, erasure, traces, self._doors.memory, spaces):
            return True
        used = {entry.place for entry in index.entries.values()}
        return any(_theirs(index, place, spaces) for place in index.namespaces if place not in used)

    def _noted(self, version: Version, erasure: Erasure, traces: Traces, spaces: Namespaces) -> bool:
        note, memory = _model(Note, self._objects.body(version)), self._doors.memory
        if note is None:
            return True
        marks = (known_record(erasure, memory, one) for one in (note.record_id, note.name, *note.sources) if one)
        if any(mark in traces.runs for mark in marks):
            return True
        return spaces.whose(note.namespace) is Whose.THEIRS and note.created_at <= erasure.erased_before


class AgentCoreRows:
    """Holds and regression cases of the person's namespaces, which our ledger knows by their places."""

    name = "agentcore-rows"

    def __init__(self, rows: Partitions) -> None:
        self._rows = rows

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally = Tally(self.name)
        for kind, row in self._theirs(erasure, traces):
            self._rows.delete(row)
            tally.remove(f"{kind}/{row[LEDGER_SORT_KEY]['S']}")
        return tally.swept(), traces

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self._theirs(erasure, traces))

    def _theirs(self, erasure: Erasure, traces: Traces) -> Iterator[tuple[str, Item]]:
        """Of a whole tenant, the stores of these kinds take all."""
        for kind, dated in ROWS.items():
            for row in self._rows.rows(ledger_key(erasure.tenant_id, kind)):
                plain = attributes(row)
                place = str(plain.get("agent_id") or plain[LEDGER_SORT_KEY])
                if known_place(erasure, place) in traces.runs and int(plain.get(dated, 0)) <= erasure.erased_before:
                    yield kind, row


def records_test(doors: EntryDoors) -> Callable[[Erasure, Traces], Callable[[str, str], bool]]:
    """Whether what a night's file names is the subject's: by its namespace's place, or by the record's id."""

    def test(erasure: Erasure, traces: Traces) -> Callable[[str, str], bool]:
        def theirs(place: str, name: str) -> bool:
            if known_place(erasure, place) in traces.runs:
                return True
            return bool(name) and known_record(erasure, doors.memory, name) in traces.runs

        return theirs

    return test


def _theirs(index: RecordIndex, place: str, spaces: Namespaces) -> bool:
    return spaces.whose(index.namespaces.get(place, "")) is Whose.THEIRS


def _by_key(versions: Iterator[Version]) -> dict[str, list[Version]]:
    found: defaultdict[str, list[Version]] = defaultdict(list)
    for version in versions:
        found[version.key].append(version)
    return dict(found)


def _remove(objects: ObjectVersions, key: str, versions: Sequence[Version], tally: Tally) -> None:
    failed = objects.delete(versions)
    if failed:
        tally.fail(key)
    else:
        tally.remove(*(f"{key}?{one.version_id}" for one in versions if not one.marker))


def _model(kind: Any, body: bytes | None) -> Any:
    try:
        return kind.model_validate(read_object(body or b""))
    except ValidationError:
        return None
