"""The stores as the night handles them: ports beside those of every day, for functions that may remove."""

from collections.abc import Sequence
from typing import Literal, Protocol

from agent_memory.domain.archive import Shelf
from agent_memory.domain.models import Episode
from agent_memory.domain.ports import Episodes

Merged = Literal["stored", "duplicate", "erased", "changed"]
"""stored: this call wrote it. duplicate: it was there. erased: a tombstone is newer than a source. changed: a source
was pinned, read, merged or removed since it was seen; nothing was written."""


class EpisodeShelf(Episodes, Shelf, Protocol):
    """The episodes of ONE tenant, on credentials that may remove them."""

    def merge(self, summary: Episode, sources: Sequence[Episode]) -> Merged:
        """Write *summary* and mark every one of *sources* as merged into it, together or not at all."""

    def collapse(self, survivor: Episode, seen: Episode, others: Sequence[Episode]) -> Merged:
        """Write *survivor* over what was *seen* of it and mark *others* as merged into it, together or not at all."""

    def unmark(self, place: tuple[str, str], target: str) -> bool:
        """Take the mark of a merge into *target* off; False when the episode is gone or has another."""

    def hold_for_review(self, place: tuple[str, str], *, review: str, kept_until: int, decays_at: int) -> bool:
        """Note why a merge was refused, and leave the episode alone until *kept_until*. False: gone or pinned."""
