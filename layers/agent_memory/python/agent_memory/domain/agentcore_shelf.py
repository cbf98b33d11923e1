"""Records of an AgentCore memory as the night handles episodes: judged, merged, put away, brought back.

AgentCore has neither conditions nor transactions. So what is to go is read again right before it goes and left alone
when it changed, and a merge notes its intention, makes the record, and notes which one it is: the note is the mark on
its sources. Whatever breaks off in between, every record is either itself or represented by one that is there.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Literal

from pydantic import ValidationError

from agent_memory.domain.agentcore import place_of
from agent_memory.domain.agentcore_index import Note
from agent_memory.domain.agentcore_reading import AgentCoreReading
from agent_memory.domain.agentcore_records import OLDEST_AT, Record, canonical, merged_record, restored_record
from agent_memory.domain.archive import ArchiveError, Lease, PutBack, Removed, Snapshot
from agent_memory.domain.errors import AgentMemoryError, CrossTenantError, StoreBusyError
from agent_memory.domain.models import Episode
from agent_memory.domain.shelves import Merged


class AgentCoreShelf(AgentCoreReading):
    """The records of one entry of agentcoreMemories, as EpisodeShelf of its tenant."""

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
        if self._known(*snapshot.place).sources:
            # A restore puts away what a night made, and no report of that night says so.
            place, name = snapshot.place
            self._write(Note(kind="gone", name=name, place=place, at=self._rules.now))
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
        # An answer that was lost is asked for again; what came back and went again is another request.
        before = f"{snapshot.sha256}\n{self._resolved(place, name)}"
        token = f"r-{hashlib.sha256(before.encode()).hexdigest()[:40]}"
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
        """Leave the best of near-duplicates alone for as long as it is kept, and let the reads of its twins be its own;
        they are put away after that."""
        if any(self._changed((one.agent_id, one.run_id)) for one in (seen, *others)):
            return "changed"
        twins = [self._seen[one.agent_id, one.run_id].record_id for one in others]
        self._keep((seen.agent_id, seen.run_id), kept_until=survivor.kept_until, review=None, was=twins)
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

    def _keep(
        self, place: tuple[str, str], *, kept_until: int | None, review: str | None, was: Sequence[str] = ()
    ) -> bool:
        record = self._read(place)
        if record is None:
            return False
        note = self._note("kept", *place, record, (), None)
        self._write(note.model_copy(update={"kept_until": kept_until, "review": review, "was": tuple(was)}))
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
