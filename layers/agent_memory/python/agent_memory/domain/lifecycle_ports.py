"""What the nightly lifecycle needs from the world. Adapters in aws/ fulfil these; tests/adapters holds them to it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar

from agent_memory.domain.models import Model

M = TypeVar("M", bound=Model)
DueSource = Literal["episodes", "facts"]


class DueKey(NamedTuple):
    """A due episode (*place*: its agent, *entry*: its run) or a due fact (its domain, its id). Nothing else is read."""

    tenant_id: str
    place: str
    entry: str


class DuePage(NamedTuple):
    """One page of due-index. *after*: where the next one begins, None at the end."""

    keys: tuple[DueKey, ...]
    after: Mapping[str, object] | None
    read_bytes: int = 0


class DueIndex(Protocol):
    """What is due, across tenants: keys only, for the plan function alone."""

    def page(self, source: DueSource, shard: str, *, upto: int, after: Mapping[str, object] | None) -> DuePage:
        """One page of *shard* up to *upto* (epoch seconds), earliest first. A page may be empty and not the last."""


class NightFiles(Protocol):
    """The lifecycle's own objects in the archive bucket: ids and counts, never content."""

    def put(self, key: str, content: Model) -> None:
        """Write *content* as JSON, over what was there."""

    def get(self, key: str, model: type[M]) -> M | None:
        """The object of *key*; None when it is not there. Raises UnreadableItemError."""

    def keys(self, prefix: str, *, after: str = "") -> Sequence[str]:
        """Every key under *prefix* in order, those up to *after* left out; every page."""

    def get_many(self, keys: Iterable[str], model: type[M]) -> Sequence[M]:
        """The objects of *keys* that are there, in this order, read side by side."""
