"""Facts of a domain, the observations behind them and their states."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from pydantic import Field

from agent_memory.contract import SCHEMA_VERSION
from agent_memory.domain.models import FactScope, Model, Outcome, SourceKind, Vector
from agent_memory.domain.retention import DAY_SECONDS


class FactState(StrEnum):
    """OBSERVED -> PROMOTED -> INGESTED; CONTESTED, SUPERSEDED and RETIRED leave that line."""

    OBSERVED = "observed"
    PROMOTED = "promoted"
    INGESTED = "ingested"
    CONTESTED = "contested"
    SUPERSEDED = "superseded"
    RETIRED = "retired"


# Shown to agents; a contested fact is, with its label.
BELIEVED = frozenset({FactState.PROMOTED, FactState.INGESTED, FactState.CONTESTED})
WITHDRAWN = frozenset({FactState.SUPERSEDED, FactState.RETIRED})
# The reason of a retirement that new observations can undo; a person's retirement stays.
EXPIRED = "expired"


class ConfirmationSettings(Protocol):
    """The settings that the gate reads; settings.Settings will do."""

    @property
    def confirmation_threshold(self) -> int: ...

    @property
    def require_distinct_users(self) -> bool: ...

    @property
    def min_fact_confidence(self) -> float: ...


class Candidate(Model):
    """One fact that one run claims, embedded. *position*: its place among the run's candidates.

    *source_hash*: the document or tool answer that said it; None when a user or the agent did.
    *cleared*: a person let it out of quarantine.
    """

    tenant_id: str
    domain: str
    agent_id: str
    run_id: str
    position: int
    outcome: Outcome
    content: str
    confidence: float
    evidence: str = ""
    scope: FactScope = FactScope.DOMAIN
    user_ref: str | None = None
    source: SourceKind = SourceKind.AGENT
    source_hash: str | None = None
    vector: Vector
    embedding_model: str
    valid_until: int | None = None
    cleared: bool = False


class Observation(Model):
    """One run's word for a fact. A run may have several, one per source or wording; it counts once."""

    agent_id: str
    run_id: str
    user_ref: str | None = None
    source: SourceKind
    source_hash: str | None = None
    content: str
    evidence: str = ""
    confidence: float
    vector: Vector
    embedding_model: str
    observed_at: int

    @property
    def run(self) -> tuple[str, str]:
        """The run, as far as a tenant is concerned."""
        return self.agent_id, self.run_id


class FactChange(Model):
    """One entry of a fact's history. *other*: the fact that caused it."""

    at: int
    state: FactState
    reason: str
    agent_id: str | None = None
    run_id: str | None = None
    other: str | None = None


class Fact(Model):
    """One fact of tenant and domain. *content* is the wording that opened it; *confidence* the best of its
    observations. *user_ref* is set for facts about a user only. *contested_by*: facts that contradict it. *kept_until*:
    it was brought back and does not expire before.
    """

    tenant_id: str
    domain: str
    fact_id: str
    content: str
    scope: FactScope = FactScope.DOMAIN
    user_ref: str | None = None
    state: FactState = FactState.OBSERVED
    confidence: float
    observations: tuple[Observation, ...] = ()
    history: tuple[FactChange, ...] = ()
    contested_by: tuple[str, ...] = ()
    superseded_by: str | None = None
    valid_until: int | None = None
    pinned: bool = False
    cleared: bool = False
    created_at: int
    last_confirmed_at: int
    promoted_at: int | None = None
    ingested_at: int | None = None
    kept_until: int | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def runs(self) -> frozenset[tuple[str, str]]:
        """The runs that observed it."""
        return frozenset(observation.run for observation in self.observations)

    @property
    def users(self) -> frozenset[str]:
        """The users in whose runs it was observed."""
        return frozenset(observation.user_ref for observation in self.observations if observation.user_ref)

    @property
    def expired_away(self) -> bool:
        """Whether it was withdrawn because nobody confirmed it any more, not by a person or a newer fact."""
        return self.state is FactState.RETIRED and bool(self.history) and self.history[-1].reason == EXPIRED

    def due_at(self, ttl_days: int) -> int | None:
        """When it expires: so long after its last confirmation, or when what it says ends. None: never.

        A person's word that something is no fact has no end: else the next run would teach it anew."""
        if self.pinned or (self.state is FactState.RETIRED and not self.expired_away):
            return None
        return expiry_of(self.last_confirmed_at, self.valid_until, self.kept_until, ttl_days)

    def moved(self, change: FactChange, **updates: object) -> "Fact":
        """The fact in the state of *change*, which its history keeps."""
        return self.model_copy(update={"state": change.state, "history": (*self.history, change), **updates})


def expiry_of(confirmed_at: int, valid_until: int | None, kept_until: int | None, ttl_days: int) -> int:
    """When a fact that was last confirmed then expires."""
    expiry = confirmed_at + ttl_days * DAY_SECONDS
    ends = expiry if valid_until is None else min(expiry, valid_until)
    return max(ends, kept_until or 0)


class Action(StrEnum):
    """What one candidate leads to."""

    REFUSED = "refused"
    REPEATED = "repeated"
    OPENED = "opened"
    CONFIRMED = "confirmed"


class Decision(Model):
    """What to write for one candidate. REFUSED and REPEATED write nothing.

    *fact*: what the candidate observes, as it is afterwards. *others*: known facts whose state changes with it.
    *promoted*: this observation made it believed. *close_calls*: known facts that a judge could decide otherwise.
    """

    action: Action
    reason: str
    fact: Fact | None = None
    observation: Observation | None = None
    others: tuple[Fact, ...] = ()
    promoted: bool = False
    close_calls: tuple[str, ...] = ()
    counts: Mapping[str, int] = Field(default_factory=dict)
