"""What a night changes of memories that stay: noted before it is done, so that a run can be taken back whole.

Ids, dates and counts; it lies under `changed/<room>/` of the run, beside what the step of that room did.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, Protocol

from agent_memory.domain.keys import room_prefix, slice_key
from agent_memory.domain.lifecycle import MemoryKey
from agent_memory.domain.lifecycle_ports import NightFiles
from agent_memory.domain.models import Episode, Model

What = Literal["expiry", "review", "survivor"]
Value = int | str | tuple[str, ...] | None
# The later a step, the earlier it is taken back.
ROOMS: Final = ("merge", "expire", "look")


class Changed(MemoryKey):
    """One change of one episode. *before*, *after*: the attributes that it changes, None where there is none.

    *what*: `expiry` (settings that changed shortened it), `review` (left alone after a refused merge), `survivor`
    (stands for its near-duplicates)."""

    what: What
    before: Mapping[str, Value]
    after: Mapping[str, Value]


class Changes(Model):
    """The changes of one slice, in their order."""

    changed: tuple[Changed, ...] = ()


def shortened(episode: Episode, expires_at: int | None) -> Changed | None:
    """What giving *episode* this expiry changes; None: nothing."""
    if expires_at is None or expires_at == episode.expires_at:
        return None
    before, after = {"expires_at": episode.expires_at}, {"expires_at": expires_at}
    return _changed(episode, "expiry", before, after)


def held_back(episode: Episode, *, review: str, kept_until: int, decays_at: int) -> Changed:
    """What a refused merge leaves on *episode*."""
    after: dict[str, Value] = {"review": review, "kept_until": kept_until, "decays_at": decays_at}
    return _changed(episode, "review", {name: getattr(episode, name) for name in after}, after)


def collapsed(seen: Episode, survivor: Episode) -> Changed:
    """What standing for its near-duplicates changes of *seen*."""
    before, after = ({name: getattr(one, name) for name in _OF_SURVIVORS} for one in (seen, survivor))
    return _changed(seen, "survivor", before, after)


_OF_SURVIVORS: Final = (
    "sources", "access_count", "last_access_at", "oldest_source_at", "kept_until", "decays_at",
)  # fmt: skip


def _changed(episode: Episode, what: What, before: Mapping[str, Value], after: Mapping[str, Value]) -> Changed:
    return Changed(agent_id=episode.agent_id, run_id=episode.run_id, what=what, before=before, after=after)


class EpisodeChanges(Protocol):
    """The episodes of ONE tenant, as a rollback puts single attributes right."""

    def take_back(self, change: Changed) -> bool:
        """Undo *change*, reads in between kept. False when the episode is gone or is not what the night made of it."""


class Journal:
    """What one slice of a room changes."""

    def __init__(self, files: NightFiles, run_id: str, room: str, tenant_id: str, name: str) -> None:
        self._files = files
        self._key = slice_key(run_id, f"changed/{room}", tenant_id, name)

    def note(self, *changed: Changed) -> None:
        """Keep *changed* beside what an earlier try of the slice noted. Before the change itself: one that was noted
        and not done is found undone."""
        if changed:
            known = self._files.get(self._key, Changes) or Changes()
            self._files.put(self._key, Changes(changed=(*known.changed, *changed)))


def of_run(files: NightFiles, run_id: str, tenant_id: str) -> Iterator[Changed]:
    """Every change of a run in one tenant, the latest first."""
    for room in ROOMS:
        keys = files.keys(f"{room_prefix(run_id, f'changed/{room}')}{tenant_id}/")
        for slice_of in reversed(files.get_many(keys, Changes)):
            yield from reversed(slice_of.changed)
