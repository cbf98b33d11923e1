"""Erasure of a person or a tenant: what is asked, what belongs to it, and how the work goes from store to store.

A request is a cut-off and no ban: what ended after `erased_before` stays. Runs are known by salted hashes, so that
neither the work's own files nor the receipt say which runs were a person's.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, Protocol

from pydantic import Field

from agent_memory.contract import SCHEMA_VERSION
from agent_memory.domain.errors import AgentMemoryError, RetryableError
from agent_memory.domain.keys import run_entry
from agent_memory.domain.models import Model

# The order matters: whose runs they are is learnt from the ledger, tables and archive, before objects are looked at;
# the rows of runs go last, because until then they tell what is still at work.
STORES: Final = (
    "episodes",
    "facts",
    "procedures",
    "archive",
    "ledger-parked",
    "ledger-confirmed",
    "ledger-proposals",
    "ledger-procedure-results",
    "ledger-context",
    "ledger-prefetch",
    "ledger-quarantine",
    "ledger-regressions",
    "ledger-quality-baselines",
    "ledger-quality",
    "ledger-holds",
    "ledger-agents",
    "ledger-domains",
    "transcripts",
    "pipeline-objects",
    "parked-objects",
    "night-files",
    "knowledge-documents",
    "knowledge-base",
    "intake-dead-letters",
    "retrievals-dead-letters",
    "refused-events",
    "registry",
    "ledger-run",
)
# Only of a tenant that agentcoreMemories names. The archive tells which records there were, before they are looked at.
AGENTCORE_STORES: Final = (
    "agentcore-events",
    "agentcore-archive",
    "agentcore-records",
    "agentcore-book",
    "agentcore-accesses",
    "agentcore-night-files",
    "agentcore-rows",
)
# Of every tenant where a memory is named, after those that tell which records were a person's.
READS_LETTERS: Final = "agentcore-reads-dead-letters"
EVERY_STORE: Final = (*STORES[:-2], *AGENTCORE_STORES, READS_LETTERS, *STORES[-2:])
# What the second sweep needs to find its way.
LAST: Final = ("ledger-agents", "ledger-domains", "registry", "ledger-run")
NOT_DEPLOYED: Final = "not_deployed"
SWEEPS: Final = 2
MAX_ROUNDS: Final = 400
DRAIN_SECONDS: Final = 15
WHOLE_TENANT: Final = "*"
Word = Literal["more", "wait", "finished"]


def first_sweep(stores: Iterable[str]) -> tuple[str, ...]:
    """What of *stores* the first sweep goes through."""
    return tuple(name for name in stores if name not in LAST)


class Erasure(Model):
    """What is to be forgotten. *user_ref* None: the whole tenant. Times in epoch seconds."""

    erasure_id: str
    tenant_id: str
    user_ref: str | None = None
    erased_before: int
    schema_version: int = SCHEMA_VERSION

    @property
    def whole(self) -> bool:
        """Whether all of the tenant goes."""
        return self.user_ref is None

    @property
    def tombstone_entry(self) -> str:
        return self.user_ref or WHOLE_TENANT

    def run_hash(self, agent_id: str, run_id: str) -> str:
        """By which a run is known to this erasure alone, 32 hex digits."""
        text = f"{self.erasure_id}\n{run_entry(agent_id, run_id)}"
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


class Traces(Model):
    """What earlier stores told: the person's runs by their hashes, and (domain, fact_id) whose documents go.

    *partitions*: (store, name) of a whole tenant's partitions, whose list goes before the last look at them.
    *job_id*: the ingestion job that takes them out of the Knowledge Base."""

    runs: frozenset[str] = frozenset()
    facts: frozenset[tuple[str, str]] = frozenset()
    partitions: frozenset[tuple[str, str]] = frozenset()
    job_id: str | None = None

    def with_runs(self, hashes: Iterable[str]) -> "Traces":
        return self.model_copy(update={"runs": self.runs | frozenset(hashes)})

    def with_facts(self, facts: Iterable[tuple[str, str]]) -> "Traces":
        return self.model_copy(update={"facts": self.facts | frozenset(facts)})

    def with_partitions(self, store: str, names: Iterable[str]) -> "Traces":
        found = frozenset((store, name) for name in names)
        return self.model_copy(update={"partitions": self.partitions | found})

    def partitions_of(self, store: str) -> list[str]:
        return sorted(name for kind, name in self.partitions if kind == store)


class Swept(Model):
    """What one sweep did in one store. *changed*: kept for others, without the person's part. *failed*: hashes of the
    keys of what could not be removed. *sha256*: of the keys of all that was removed or changed, in order.
    *wait*: seconds after which the store is to be asked again; 0: it is done."""

    store: str
    found: int = 0
    removed: int = 0
    changed: int = 0
    failed: tuple[str, ...] = ()
    sha256: str = ""
    wait: int = 0
    error: str | None = None


class Tally:
    """Counts what happens in a store while it is swept."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._keys: list[str] = []
        self._failed: list[str] = []
        self.removed = self.changed = 0

    def remove(self, *keys: str) -> None:
        self._keys += keys
        self.removed += len(keys)

    def change(self, key: str) -> None:
        self._keys.append(key)
        self.changed += 1

    def fail(self, *keys: str) -> None:
        self._failed += [hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:32] for key in keys]

    def swept(self, *, wait: int = 0) -> Swept:
        digest = hashlib.sha256("\n".join(sorted(self._keys)).encode("utf-8", "backslashreplace")).hexdigest()
        return Swept(
            store=self._store,
            found=self.removed + self.changed + len(self._failed),
            removed=self.removed,
            changed=self.changed,
            failed=tuple(sorted(self._failed)),
            sha256=digest if self._keys else "",
            wait=wait,
        )


class ErasableStore(Protocol):
    """One place where something of a person or a tenant may be. Whatever it holds of others stays as it is."""

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        """Remove, or reduce to the others' part, everything older than the cut-off; all pages, all versions.

        Raises RetryableError to be asked again. Doing it twice does it once."""

    def left(self, erasure: Erasure, traces: Traces) -> int:
        """How many things it still holds, looked for anew."""


class ErasureTicket(Model):
    """What travels through the machine: ids, names of stores, counts. *stores*: still to do in this sweep."""

    erasure_id: str
    tenant_id: str
    sweep: int = Field(default=1, ge=1)
    stores: tuple[str, ...] = first_sweep(STORES)
    rounds: int = 0
    draining: bool = False
    decision: Word | Literal["erased", "partial_failure"] = "more"
    seconds: int = 0


class ErasureFiles(Protocol):
    """The requests, results and receipts of ONE tenant's erasures."""

    def request(self, erasure_id: str) -> Erasure | None: ...

    def traces(self, erasure_id: str) -> Traces: ...

    def keep_traces(self, erasure_id: str, traces: Traces) -> None: ...

    def keep_swept(self, erasure_id: str, sweep: int, swept: Swept) -> None: ...


class ErasureDoors(NamedTuple):
    """What the work touches. *stores*: those that are deployed for the tenant, by their names and in order. *at_work*:
    what may still write what the first sweep missed."""

    files: ErasureFiles
    stores: Mapping[str, ErasableStore]
    at_work: "AtWork"
    settle_seconds: int


class AtWork(Protocol):
    """What was under way when the tombstone was written."""

    def count(self, erasure: Erasure) -> int:
        """Runs of the person whose execution goes on, and a night that is at work."""


class UnknownErasureError(AgentMemoryError):
    """No such request is kept."""


def work(ticket: ErasureTicket, doors: ErasureDoors) -> ErasureTicket:
    """Do one step: a store, or a look at what is still under way. Raises only what is worth another try."""
    erasure = _required(ticket, doors)
    if ticket.draining:
        return _drained(ticket, erasure, doors)
    traces = doors.files.traces(ticket.erasure_id)
    swept, known = _swept(ticket.stores[0], erasure, traces, doors)
    if known != traces:
        doors.files.keep_traces(ticket.erasure_id, known)
    if swept.wait and ticket.rounds < MAX_ROUNDS:
        return _after(ticket, decision="wait", seconds=swept.wait, rounds=ticket.rounds + 1)
    if swept.wait:
        swept = swept.model_copy(update={"error": "took_too_long"})
    doors.files.keep_swept(ticket.erasure_id, ticket.sweep, swept)
    return _next(ticket, doors)


def _swept(name: str, erasure: Erasure, traces: Traces, doors: ErasureDoors) -> tuple[Swept, Traces]:
    if name not in doors.stores:
        return Swept(store=name, error=NOT_DEPLOYED), traces
    try:
        return doors.stores[name].sweep(erasure, traces)
    except RetryableError:
        raise
    except AgentMemoryError as error:
        return Swept(store=name, error=type(error).__name__), traces


def give_up(ticket: ErasureTicket, doors: ErasureDoors) -> ErasureTicket:
    """Note that a store could not be swept however often it was tried, and go on with the next."""
    if ticket.draining:
        return _second(ticket, doors)
    swept = Swept(store=ticket.stores[0], error="kept_failing")
    doors.files.keep_swept(ticket.erasure_id, ticket.sweep, swept)
    return _next(ticket, doors)


def _required(ticket: ErasureTicket, doors: ErasureDoors) -> Erasure:
    erasure = doors.files.request(ticket.erasure_id)
    if erasure is None or erasure.tenant_id != ticket.tenant_id:
        raise UnknownErasureError(f"erasure {ticket.erasure_id} is not known: agent-memory erase status lists all")
    return erasure


def _next(ticket: ErasureTicket, doors: ErasureDoors) -> ErasureTicket:
    left = ticket.stores[1:]
    if left:
        return _after(ticket, decision="more", stores=left)
    if ticket.sweep >= SWEEPS:
        return _after(ticket, decision="finished", stores=())
    return _after(ticket, decision="wait", stores=(), seconds=doors.settle_seconds, draining=True, rounds=0)


def _drained(ticket: ErasureTicket, erasure: Erasure, doors: ErasureDoors) -> ErasureTicket:
    """Whatever was under way when the tombstone came must be over, or the second sweep would come too early."""
    if doors.at_work.count(erasure) and ticket.rounds < MAX_ROUNDS:
        return _after(ticket, decision="wait", seconds=DRAIN_SECONDS, rounds=ticket.rounds + 1)
    return _second(ticket, doors)


def _second(ticket: ErasureTicket, doors: ErasureDoors) -> ErasureTicket:
    return _after(ticket, decision="more", stores=tuple(doors.stores), sweep=ticket.sweep + 1, draining=False, rounds=0)


def _after(ticket: ErasureTicket, **updates: object) -> ErasureTicket:
    return ticket.model_copy(update={"seconds": 0, **updates})


def belongs(row: Mapping[str, object], erasure: Erasure, traces: Traces) -> bool:
    """Whether a row is the subject's: of one of its runs, or under its pseudonym and older than the cut-off."""
    agent, run = row.get("agent_id"), row.get("run_id")
    if isinstance(agent, str) and isinstance(run, str) and erasure.run_hash(agent, run) in traces.runs:
        return True
    if erasure.whole or row.get("user_ref") != erasure.user_ref:
        return False
    times = [row[name] for name in _TIMES if isinstance(row.get(name), int)]
    return not times or times[0] <= erasure.erased_before  # type: ignore[operator]  # held to int above


# The first of these that a row has tells how old it is.
_TIMES = ("oldest_source_at", "ended_at", "observed_at", "proposed_at", "kept_at", "added_at")
