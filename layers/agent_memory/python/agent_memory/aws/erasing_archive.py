"""The archive without a person: snapshots of theirs go with all versions, facts of many stay in the others' words."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

from agent_memory.aws.erasing_facts import is_theirs
from agent_memory.aws.erasing_objects import read_object
from agent_memory.aws.erasing_rows import run_test
from agent_memory.aws.fact_items import FactItems
from agent_memory.aws.item_codec import attributes
from agent_memory.aws.object_versions import ObjectVersions, Version
from agent_memory.aws.snapshots import item_of, item_text
from agent_memory.domain.archive import Snapshot
from agent_memory.domain.erasing_facts import reduced
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces, belongs
from agent_memory.domain.errors import UnreadableItemError
from agent_memory.domain.facts import ConfirmationSettings
from agent_memory.domain.keys import archive_root


class ArchiveStore:
    """The archive bucket of one tenant; *items*: reads and writes the rows of facts."""

    def __init__(self, objects: ObjectVersions, items: FactItems, gate: ConfirmationSettings) -> None:
        self._objects = objects
        self._items = items
        self._gate = gate

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally, known = Tally("archive"), traces
        for version, content in self._theirs(erasure, traces):
            snapshot = _snapshot(content)
            if snapshot is not None and snapshot.tier == "episodic" and not erasure.whole:
                runs = _runs(snapshot)
                known = known.with_runs(erasure.run_hash(snapshot.place[0], run) for run in runs)
            kept = None if erasure.whole or snapshot is None else self._without(snapshot, erasure, traces)
            if kept is not None:
                self._objects.put(_key_of(version.key, kept), _packed(content, kept), "application/gzip")
            if self._objects.delete([version]):
                tally.fail(version.key)
            elif kept is not None:
                tally.change(version.key)
            else:
                tally.remove(f"{version.key}?{version.version_id}")
        return tally.swept(), known

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self._theirs(erasure, traces))

    def _theirs(self, erasure: Erasure, traces: Traces) -> Iterator[tuple[Version, Any]]:
        for version in list(self._objects.all(archive_root(erasure.tenant_id))):
            if erasure.whole:
                yield version, None
                continue
            content = read_object(self._objects.body(version) or b"")
            if version.marker:
                continue
            if content is None:
                raise UnreadableItemError("an archived memory can't be read, so nobody knows whose it is")
            snapshot = _snapshot(content)
            if snapshot is not None and _has_part(snapshot, erasure, traces):
                yield version, content

    def _without(self, snapshot: Snapshot, erasure: Erasure, traces: Traces) -> Snapshot | None:
        """The archived fact without the person's part; None: nothing of it stays."""
        if snapshot.tier != "semantic":
            return None
        [fact], marks = self._items.read_all([attributes(item_of(text)) for text in snapshot.items])
        theirs, their_run = is_theirs(erasure, traces), run_test(erasure, traces)
        held, at = marks[fact.fact_id], fact.last_confirmed_at
        change = reduced(fact, held, erasure.user_ref or "", theirs, their_run, self._gate, now=at)
        if change is None or change.fact is None:
            return None
        kept = change.fact.observations
        rows = [self._items.fact(change.fact, change.marks)]
        rows += [self._items.observation(fact.domain, fact.fact_id, one) for one in kept]
        return snapshot.model_copy(
            update={
                "items": tuple(sorted(item_text(row) for row in rows)),
                "documents": {} if change.unpublish else snapshot.documents,
                "user_refs": tuple(ref for ref in snapshot.user_refs if ref != erasure.user_ref),
                "since": min(one.observed_at for one in kept),
            }
        )


def _snapshot(content: object) -> Snapshot | None:
    if not isinstance(content, dict):
        return None
    return Snapshot.model_validate(content["snapshot"])


def _runs(snapshot: Snapshot) -> tuple[str, ...]:
    plain = attributes(item_of(snapshot.items[0]))
    return (snapshot.place[1], *plain.get("sources", ()))


def _has_part(snapshot: Snapshot, erasure: Erasure, traces: Traces) -> bool:
    rows = [attributes(item_of(text)) for text in snapshot.items]
    if snapshot.tier == "episodic":
        return any(belongs(row | {"agent_id": snapshot.place[0]}, erasure, traces) for row in rows)
    return any(belongs(row, erasure, traces) for row in rows)


def _key_of(key: str, snapshot: Snapshot) -> str:
    """A copy's name ends in the hash of what it holds."""
    return f"{key.rpartition('-')[0]}-{snapshot.sha256[:32]}.json.gz"


def _packed(content: dict[str, Any], snapshot: Snapshot) -> bytes:
    new = {**content, "sha256": snapshot.sha256, "snapshot": snapshot.model_dump()}
    return gzip.compress(json.dumps(new, separators=(",", ":")).encode("ascii"), mtime=0)
