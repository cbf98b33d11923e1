"""What the nightly lifecycle needs from the world. Adapters in aws/ fulfil these; tests/adapters holds them to it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
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


class DueIndex(Protocol):
    """What is due, across tenants: keys only, for the plan function alone."""

    def page(
        self, source: DueSource, shard: str, *, upto: int, after: Mapping[str, object] | None, begin: int = 0
    ) -> DuePage:
        """One page of *shard* from *begin* up to *upto* (epoch seconds), earliest first. It may be empty and not the
        last."""


class NightFiles(Protocol):
    """The lifecycle's own objects in the archive bucket: ids and counts, never content."""

    @property
    def bucket(self) -> str: ...

    def put(self, key: str, content: Model) -> None:
        """Write *content* as JSON, over what was there."""

    def put_many(self, contents: Iterable[tuple[str, Model]]) -> None: ...

    def get(self, key: str, model: type[M]) -> M | None:
        """The object of *key*; None when it is not there. Raises UnreadableItemError."""

    def get_many(self, keys: Iterable[str], model: type[M]) -> Sequence[M]:
        """The objects of *keys* that are there, in this order, read side by side."""

    def keys(self, prefix: str, *, after: str = "") -> Sequence[str]:
        """Every key under *prefix* in order, those up to *after* left out; every page."""

    def put_text(self, key: str, text: str) -> None:
        """Write *text* for people, over what was there."""

    def runs(self) -> Sequence[str]:
        """The ids of all runs that left something here, latest first."""


class LastNight(Model):
    """What the last completed night left behind. *settings_hash*: by which all stored dates were made. *rewriting*: the
    settings under which dates are being rewritten since, as far as *rewritten* (a place in due-index)."""

    run_id: str
    now: int
    settings_hash: str
    rewriting: str | None = None
    rewritten: Mapping[str, object] | None = None


class Approval(Model):
    """A person's word on a plan. *removed*: how many memories of each tenant that was held may go."""

    run_id: str
    settings_hash: str
    removed: Mapping[str, int] = {}
    by: str
    at: int
    expires_at: int


class Seat(NamedTuple):
    """The lock as it was taken: which run of the night it is, and when that began."""

    attempt: int
    now: int


class NightDesk(Protocol):
    """Lets one execution of the lifecycle work at a time, and keeps what nights tell each other."""

    def take(self, owner: str, *, night: str, now: int, until: int) -> Seat | None:
        """Take the lock; the same owner gets the same seat again. None while another owner's has not run out."""

    def release(self, owner: str) -> bool:
        """Give the lock back. False when it is another's by now."""

    def last(self) -> LastNight | None: ...

    def complete(self, last: LastNight) -> None:
        """Keep *last* as the last completed night, unless a later one is kept."""

    def approve(self, approval: Approval) -> None: ...

    def approvals(self, *, now: int) -> Sequence[Approval]:
        """Those that have not expired."""


class StoredAgents(Protocol):
    """Which agents stored something since a night looked at them, across tenants."""

    def note(self, tenant_id: str, agent_id: str, *, now: int) -> None: ...

    def all(self) -> Mapping[tuple[str, str], int]:
        """Every noted (tenant_id, agent_id), with the time of its last note; every page."""

    def clear(self, tenant_id: str, agent_id: str, *, upto: int) -> None:
        """Forget an agent, unless it was noted again after *upto*."""


class EpisodeDates(Protocol):
    """The dates of ONE tenant's episodes."""

    def move(self, agent_id: str, run_id: str, *, seen: int | None, decays_at: int | None, expires_at: int) -> bool:
        """Set its date and expiry. False when it is gone, pinned, or its date is no longer the one that was *seen*."""

    def forget_date(self, agent_id: str, run_id: str) -> bool:
        """Take a pinned episode out of what is due."""

    def stay_apart(self, agent_id: str, run_ids: Collection[str]) -> None:
        """Remember near-duplicates that the rules keep apart, where a look at an agent has to be asked for."""

    def live(self, agent_id: str, *, now: int) -> int:
        """How many episodes of an agent have not expired."""

    def stored_since(self, agent_id: str, since: int) -> int: ...


class TenantNotes(Protocol):
    """What the ledger says of ONE tenant's agents."""

    def note_agent(self, agent_id: str, *, now: int) -> None: ...

    def agents(self) -> Sequence[str]:
        """Every agent that ever stored an episode."""

    def holds(self) -> Collection[str]:
        """Agents whose memories no night may touch; `*` for all of them."""

    def hold(self, agent_id: str, *, now: int) -> None: ...

    def unhold(self, agent_id: str) -> bool: ...
