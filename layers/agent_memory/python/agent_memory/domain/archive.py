"""What leaves the stores is kept first: archived whole, read back, and only then removed.

What a store holds travels through here as opaque text, exactly as the store gave it, so that what comes back is the
very item: vectors, index attributes and whatever a later release added.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Protocol

from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.models import Model

Tier = Literal["episodic", "semantic"]
Removed = Literal["removed", "changed", "pinned", "gone"]
"""removed: this call removed what the archive holds. changed: it is no longer what the archive holds, and stays.
pinned: likewise, because somebody pinned it. gone: it was not there."""
PutBack = Literal["restored", "present", "erased"]
"""restored: it is back. present: it was never gone. erased: a tombstone is newer than what it was made of."""


class ArchiveError(AgentMemoryError):
    """The archive does not hold what was put into it; nothing may be removed."""


class Snapshot(Model):
    """A memory as its store holds it. *place*: what its key is made of beside the tenant: (agent_id, run_id) of an
    episode, (domain, fact_id) of a fact. *items*: its stored items, opaque. *documents*: its objects by their keys.

    *user_refs*: whose it is. *since*: when the oldest run in it ended, which a tombstone is held against.
    *represented_by*: the entry that stands for it, when it is an original of a merge.
    """

    tenant_id: str
    tier: Tier
    place: tuple[str, str]
    items: tuple[str, ...]
    documents: Mapping[str, str] = {}
    user_refs: tuple[str, ...] = ()
    since: int
    represented_by: str | None = None

    @property
    def memory_id(self) -> str:
        """The id under which agents and operators know it."""
        return memory_id(self.tier, self.place)

    @property
    def sha256(self) -> str:
        """Of everything that the store holds."""
        digest = hashlib.sha256()
        for text in (*self.items, *(text for pair in sorted(self.documents.items()) for text in pair)):
            digest.update(f"{len(text)}:".encode() + text.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def memory_id(tier: Tier, place: tuple[str, str]) -> str:
    """The id under which agents and operators know a memory: agent_id/run_id, or the fact's own."""
    return "/".join(place) if tier == "episodic" else place[1]


class Archived(Model):
    """One memory in the archive. *reason*: a code, as in the plan."""

    key: str
    night: str
    reason: str
    archived_at: int
    snapshot: Snapshot


class Lease(Model):
    """The dates of a memory that comes back *at* a time: no night may take it before *kept_until*, when one looks at it
    again, and it does not expire before *expires_at*."""

    at: int
    kept_until: int
    expires_at: int


class Archive(Protocol):
    """The archived memories of ONE tenant. A key of another tenant raises CrossTenantError."""

    def put(self, snapshot: Snapshot, *, night: str, reason: str, at: int) -> str:
        """Keep *snapshot* and return its key; keeping the same once more in a night changes nothing."""

    def get(self, key: str) -> Archived:
        """Raises ArchiveError when it is missing, damaged or not what its hash says."""

    def of_night(self, night: str) -> Iterator[str]:
        """The keys of all that left in *night*, every page."""

    def of_memory(self, tier: Tier, place: tuple[str, str]) -> Iterator[str]:
        """The keys of every archived state of one memory, latest night first."""

    def holds(self, tier: Tier, place: tuple[str, str], *, night: str) -> bool:
        """Whether a copy of one memory was made in *night*."""

    def nights(self) -> list[str]:
        """The nights in which something left, latest first."""


class Shelf(Protocol):
    """Where memories of one tier of ONE tenant stand, as the night and an undo handle them."""

    def snapshot(self, place: tuple[str, str]) -> Snapshot | None:
        """The memory as it is stored now, read consistently; None when it is gone."""

    def remove(self, snapshot: Snapshot) -> Removed:
        """Remove the memory if it is still what *snapshot* says."""

    def put_back(self, snapshot: Snapshot, lease: Lease | None = None) -> PutBack:
        """Write it as it was, byte for byte; with a *lease*, with the dates of that and without marks of the night. One
        that is still there gets the lease and loses the marks."""


def keep(snapshot: Snapshot, archive: Archive, *, night: str, reason: str, now: int) -> Archived:
    """Archive *snapshot* and read it back. Raises ArchiveError when what was read is something else."""
    kept = archive.get(archive.put(snapshot, night=night, reason=reason, at=now))
    if kept.snapshot != snapshot:
        raise ArchiveError(f"the archived copy of {snapshot.tier} memory {snapshot.memory_id} differs from it")
    return kept


def put_away(
    place: tuple[str, str], shelf: Shelf, archive: Archive, *, night: str, reason: str, now: int
) -> tuple[Removed, Archived | None]:
    """Archive one memory, read the copy back, then remove what the copy holds. Raises before anything is removed."""
    snapshot = shelf.snapshot(place)
    if snapshot is None:
        return "gone", None
    kept = keep(snapshot, archive, night=night, reason=reason, now=now)
    return shelf.remove(snapshot), kept


def fullest(archived: Iterable[Archived]) -> Archived | None:
    """The latest whole state of one memory; what broke off while it was removed has lost some of its items."""
    return max(archived, key=lambda one: (len(one.snapshot.items), one.archived_at, one.key), default=None)
