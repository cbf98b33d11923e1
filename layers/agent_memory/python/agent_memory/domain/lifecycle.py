"""The nouns of the nightly lifecycle: a run of it, what it looks at, what it means to do, what came of that.

Everything here is ids, counts, scores and reason codes. It lies in the archive bucket under `lifecycle/<run>/` and
travels between the states of the machine; no content and no user is ever part of it.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Literal

from pydantic import Field

from agent_memory.domain.models import Model

# How many memories one slice may hold: what a function reads, decides and writes in one call.
SLICE_ITEMS = 200
_RUN_ID = re.compile(r"(n-\d{4}-\d{2}-\d{2})(?:\.(\d{1,4}))?")
ROOMS = ("look", "expire", "merge", "prune", "facts", "rollback")
"""What the maps of the machine list."""


class Action(StrEnum):
    """What the night means to do with a memory."""

    MERGE = "merge"  # into one summary, with its group
    COLLAPSE = "collapse"  # near-duplicates into their best, with its group; needs no model
    PRUNE = "prune"  # archive, then remove
    EXPIRE = "expire"  # archive before TTL takes it; remove it when TTL is late
    EVICT = "evict"  # over the cap of its agent
    MOVE_DATE = "move_date"  # not due any more: write the date at which it will be
    KEEP = "keep"  # looked at and left alone
    FLAG = "flag"  # for a person to look at


class Reason(StrEnum):
    """Why."""

    LOW_RELEVANCE = "low_relevance"
    FAILED_RUN = "failed_run"
    EXPIRED = "expired"
    EXPIRES_SOON = "expires_soon"
    MERGED = "merged"  # the entry that stands for it is there; a night broke off before it was removed
    NEAR_DUPLICATE = "near_duplicate"
    OVER_THE_CAP = "over_the_cap"
    NOT_DUE = "not_due"
    PINNED = "pinned"
    ON_HOLD = "on_hold"
    UNDER_REVIEW = "under_review"
    UNREADABLE = "unreadable"
    NO_DATE = "no_date"


REMOVING = frozenset({Action.MERGE, Action.COLLAPSE, Action.PRUNE, Action.EXPIRE, Action.EVICT})
"""Actions after which the memory is not where it was. EXPIRE counts only when it removes."""


class LifecycleRun(Model):
    """One run of the lifecycle. *night*: n-YYYY-MM-DD in UTC; *attempt* counts the runs of that night from 1.

    *now*: epoch seconds, the same for every step. *since*: start of the last completed night, 0 before the first.
    *settings_hash*: of the decay and retention settings it goes by. *owner*: execution that holds the lock.
    *rewriting*: these settings are not those by which the stored dates were made, which are rewritten slice by slice.
    *changed*: they are not, and nobody approved that yet, so that nothing is written.
    """

    night: str = Field(pattern=r"^n-\d{4}-\d{2}-\d{2}$")
    attempt: int = Field(ge=1)
    owner: str
    now: int
    since: int = 0
    settings_hash: str
    rewriting: bool = False
    changed: bool = False
    dry_run: bool = False

    @property
    def may_write(self) -> bool:
        """Whether anything in a store may change at all."""
        return not self.dry_run and not self.changed

    @property
    def run_id(self) -> str:
        """The night, and from its second run on the number: n-2026-12-01, n-2026-12-01.2."""
        return self.night if self.attempt == 1 else f"{self.night}.{self.attempt}"


def latest_first(names: Iterable[str]) -> list[str]:
    """Those of *names* that are ids of lifecycle runs, the latest first."""
    found = [(match[1], int(match[2] or 1), match[0]) for name in names if (match := _RUN_ID.fullmatch(name))]
    return [name for _, _, name in sorted(found, reverse=True)]


class MemoryKey(Model):
    """An episode of the slice's tenant."""

    agent_id: str
    run_id: str

    @property
    def memory_id(self) -> str:
        """As recall and the CLI name it."""
        return f"{self.agent_id}/{self.run_id}"


class PlanItem(MemoryKey):
    """What is meant to happen to one episode. *group*: id of the group that it goes with (merge, collapse).

    *score*: its relevance in [0, 1] at the time of the run. *decays_at*: for `move_date` the new date, else as it was
    recomputed; None: never due. *expires_at*: its expiry under today's settings, None when it has none.
    *counts*: whether its removal counts towards the blast radius.
    """

    action: Action
    reason: Reason
    score: float = 0.0
    decays_at: int | None = None
    expires_at: int | None = None
    counts: bool = True
    group: str | None = None


class MemoryGroup(Model):
    """Episodes of one agent and one user (or of none) that become one. *group*: g- and a hash of its members, free of
    users. *action*: merge (a model writes a summary) or collapse (the first of *items* stays, the others go)."""

    group: str
    agent_id: str
    action: Literal[Action.MERGE, Action.COLLAPSE]
    items: tuple[PlanItem, ...]


class AgentDue(Model):
    """What is to be looked at of one agent. *stored*: it stored something since the last night, so its cap and its
    near-duplicates are looked at as well."""

    agent_id: str
    run_ids: tuple[str, ...] = ()
    stored: bool = False


class LookSlice(Model):
    """Due episodes of ONE tenant, whole agents where they fit. Room `look`."""

    tenant_id: str
    name: str
    agents: tuple[AgentDue, ...]


class FactSlice(Model):
    """Due facts of ONE tenant, as (domain, fact_id). Room `facts`."""

    tenant_id: str
    name: str
    facts: tuple[tuple[str, str], ...]


class PlanSlice(Model):
    """What is meant to happen in ONE tenant, of what one look slice showed. Room `plan`; after the blast radius was
    weighed its parts lie in the rooms `expire`, `merge` and `prune`, which the machine's maps list.

    *archive_only*: the tenant is held back, so what expires is archived and nothing is removed by us.
    """

    tenant_id: str
    name: str
    items: tuple[PlanItem, ...] = ()
    groups: tuple[MemoryGroup, ...] = ()
    archive_only: bool = False


class TenantPlan(Model):
    """What a night would do in one tenant. *removed*: memories that would be gone, merged ones and *facts* among them,
    without the evictions that do not count. *total*: its live memories, *facts_total* of them facts; None when so few
    go that nobody had to count.
    *held*: why nothing is removed: `blast_radius`, `changed_settings`; None when the night goes on."""

    tenant_id: str
    counts: Mapping[str, int] = {}
    removed: int = 0
    facts: int = 0
    total: int | None = None
    facts_total: int | None = None
    limit: float = 0.0
    held: Literal["blast_radius", "changed_settings"] | None = None


class Plan(Model):
    """The plan of a run: object `lifecycle/<run>/plan.json`."""

    run: LifecycleRun
    tenants: tuple[TenantPlan, ...] = ()
    facts_due: int = 0

    @property
    def held(self) -> tuple[str, ...]:
        """Tenants that wait for a person."""
        return tuple(tenant.tenant_id for tenant in self.tenants if tenant.held)


class TenantSlice(Model):
    """A whole tenant. Room `rollback`: the quality gate writes one for each tenant that got worse."""

    tenant_id: str
    name: str = "all"


class Done(MemoryKey):
    """What came of one plan item, or of something the step did by itself (a summary that it created)."""

    action: Action
    decision: str
    reason: str = ""


class SliceResult(Model):
    """What a step did with one slice of a room: object `lifecycle/<run>/done/<room>/<tenant>/<name>.json`, named like
    the slice. *step* is the room. A slice without its result is what makes a night unfinished.

    *counts*: merged, pruned, expired, evicted, collapsed, created, moved, kept, flagged, failed, facts_expired, ...
    """

    tenant_id: str
    step: str
    name: str
    done: tuple[Done, ...] = ()
    counts: Mapping[str, int] = {}


class NightTicket(Model):
    """What travels between the states of the machine. *work*: how far a step that loops has come; its own business.

    The prefixes are what the machine's maps list in *bucket*; *rooms* says of each of them `some` or `none`, because
    an empty listing is no input of a map. *quality*: `not_run`, `pass` or `fail`. *rewritten*: where the rewriting of
    dates goes on the next night; None when it came to the end.
    """

    run: LifecycleRun
    bucket: str
    look_prefix: str
    expire_prefix: str
    merge_prefix: str
    prune_prefix: str
    facts_prefix: str
    rollback_prefix: str
    rooms: Mapping[str, str] = {}
    decision: str = ""
    reason: str | None = None
    quality: str = "not_run"
    rewritten: Mapping[str, object] | None = None
    work: Mapping[str, object] | None = None

    def decided(self, decision: str, reason: str | None = None, **changes: object) -> "NightTicket":
        """Return the ticket with the word that the next Choice reads."""
        return self.model_copy(update={"decision": decision, "reason": reason, **changes})


class SliceTicket(Model):
    """What one child of a map gets: the run and the object that holds its slice. *after*, *decision*: for a child
    that is called again while it answers `more`."""

    run: LifecycleRun
    key: str
    after: str = ""
    decision: str = ""
