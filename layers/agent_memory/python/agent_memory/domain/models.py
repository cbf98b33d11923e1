"""The nouns of memory. Frozen pydantic models; every other module speaks in these."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from agent_memory.contract import SCHEMA_VERSION

Vector = NDArray[np.float32]


class Model(BaseModel):
    """Base of every model: immutable, strict about names, and silent about values in its errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True)


class Outcome(StrEnum):
    """How a run ended. UNKNOWN: it can't be told."""

    COMPLETED = "COMPLETED"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class EpisodeKind(StrEnum):
    """`run`: distilled from one run. `summary`: merged from several episodes by the nightly lifecycle."""

    RUN = "run"
    SUMMARY = "summary"


class DistilledBy(StrEnum):
    """Which distiller made the artifacts."""

    MODEL = "model"
    AGENT = "agent"
    EXTRACTIVE = "extractive"


class FactScope(StrEnum):
    """Whether a fact is about one user or about the domain."""

    USER = "user"
    DOMAIN = "domain"


class SourceKind(StrEnum):
    """Who said it in the run."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    DOCUMENT = "document"


class CandidateFact(Model):
    """A fact that one run claims. *evidence* is a verbatim quote of the transcript; *confidence* in [0, 1].

    *source*: who said the quote. *source_hash*: of the tool answer or document that it stands in; None for others.
    *cleared*: a person let it out of quarantine.
    """

    content: str
    confidence: float
    evidence: str
    scope: FactScope = FactScope.DOMAIN
    valid_until: int | None = None
    source: SourceKind = SourceKind.AGENT
    source_hash: str | None = None
    cleared: bool = False


class CandidateProcedure(Model):
    """A step list that one run proposes. Nothing that decides (state, counters, keys) is ever read from a model.

    *from_tools*: how many steps stand in what tools or documents said. *cleared*: a person let it out of quarantine.
    """

    title: str
    steps: tuple[str, ...]
    from_tools: int = 0
    cleared: bool = False


class Artifacts(Model):
    """What one run leaves behind. *confidence* in [0, 1] is the distiller's own."""

    task_summary: str
    outcome: Outcome
    key_findings: tuple[str, ...] = ()
    approach_used: str = ""
    tools_used: tuple[str, ...] = ()
    time_taken_steps: int = 0
    reusable_patterns: tuple[str, ...] = ()
    confidence: float = 0.0
    facts: tuple[CandidateFact, ...] = ()
    procedure: CandidateProcedure | None = None


class Distillation(Model):
    """The result of one distiller on one run; unscrubbed until `scrubbed` says otherwise.

    *task*: the task as it was asked. *asked*: everything the user asked for, in order.
    *counts*: what was dropped, coerced, left out or retried (`facts_without_evidence`, `unknown_blocks`, ...).
    *read_outside*: the run read tools or documents. *withheld*: its texts that are in quarantine.
    """

    task: str
    asked: str
    artifacts: Artifacts
    distilled_by: DistilledBy
    counts: Mapping[str, int] = Field(default_factory=dict)
    scrubbed: bool = False
    names_unchecked: bool = False
    read_outside: bool = False
    withheld: int = 0


class RunTicket(Model):
    """What travels between the states of the consolidation machine: ids, pointers and decisions, no content.

    *claim_key*, *artifacts_key*, *scrubbed_key*: objects in the transcripts bucket. *reason*: a short code.
    *fact_indexes*: which facts of the scrubbed distillation may be confirmed, one ConfirmFact each. *proposal*: the
    word by which the run goes to ProposeProcedure, `candidate`, or past it, `none`.
    """

    tenant_id: str
    agent_id: str
    run_id: str
    attempt: int = Field(ge=1)
    claim_key: str
    artifacts_key: str | None = None
    scrubbed_key: str | None = None
    decision: str | None = None
    reason: str | None = None
    step: str | None = None
    fact_indexes: tuple[int, ...] = ()
    proposal: Literal["candidate", "none"] = "none"

    def decided(self, decision: str, reason: str | None = None, **pointers: str) -> "RunTicket":
        """Return the ticket with the word that the next Choice reads."""
        return self.model_copy(update={"decision": decision, "reason": reason, **pointers})


class Claim(Model):
    """The run as accepted: the run-ended event with user_id replaced by user_ref and messages inline.

    *ended_at*: epoch seconds, never later than the time of acceptance. *messages*: outside text, as it came.
    """

    tenant_id: str
    agent_id: str
    run_id: str
    ended_at: int
    task: str | None = None
    task_type: str | None = None
    domain: str = "general"
    user_ref: str | None = None
    outcome: Outcome | None = None
    messages: tuple[object, ...] = ()
    artifacts: Mapping[str, object] | None = None
    memory_context_id: str | None = None
    memory_used: tuple[str, ...] = ()
    procedure_id: str | None = None
    procedure_succeeded: bool | None = None
    content_sha256: str
    schema_version: int = SCHEMA_VERSION


class Episode(Model):
    """One compact record of a finished run. All times are whole epoch seconds UTC; all text is scrubbed.

    *task* <= 500 and *digest* <= 1,000 characters (the recall view); vectors are unit length or None when the
    text could not be embedded. *expires_at* None: pinned. *decays_at* None: pinned or never due.

    Of the night: *sources*: the runs that a summary, or the survivor of near-duplicates, stands for, the first of
    which ended at *oldest_source_at*. *merged_into*: the entry that stands for this one, which is about to go.
    *kept_until*: no relevance, however low, makes it due before (its expiry does). *review*: why a merge was refused.

    Of quarantine: *withheld*: texts of the run that are held. *cleared*: marks of those that a person let back in.
    """

    tenant_id: str
    agent_id: str
    run_id: str
    kind: EpisodeKind = EpisodeKind.RUN
    task: str
    digest: str
    task_vector: Vector | None = None
    digest_vector: Vector | None = None
    embedding_model: str | None = None
    outcome: Outcome
    task_summary: str = ""
    key_findings: tuple[str, ...] = ()
    approach_used: str = ""
    tools_used: tuple[str, ...] = ()
    time_taken_steps: int = 0
    reusable_patterns: tuple[str, ...] = ()
    confidence: float = 0.0
    distilled_by: DistilledBy
    names_unchecked: bool = False
    domain: str = "general"
    task_type: str | None = None
    user_ref: str | None = None
    created_at: int
    ended_at: int
    expires_at: int | None = None
    decays_at: int | None = None
    access_count: int = 0
    last_access_at: int | None = None
    use_count: int = 0
    withheld: int = 0
    cleared: tuple[str, ...] = ()
    pinned: bool = False
    sources: tuple[str, ...] = ()
    oldest_source_at: int | None = None
    merged_into: str | None = None
    kept_until: int | None = None
    review: str | None = None
    schema_version: int = SCHEMA_VERSION


class EpisodeView(Model):
    """The small view of an episode that agent-time-index holds and ranking needs."""

    agent_id: str
    run_id: str
    kind: EpisodeKind
    task: str
    digest: str
    task_vector: Vector | None
    digest_vector: Vector | None
    embedding_model: str | None
    outcome: Outcome
    ended_at: int
    expires_at: int | None


class DetectedSpan(Model):
    """One finding of the detector: code-point offsets, *end* exclusive, *score* in [0, 1], Comprehend's type name."""

    type: str
    start: int
    end: int
    score: float


class RunState(StrEnum):
    """Where a run is, in its ledger row."""

    ACCEPTED = "accepted"
    STORED = "stored"
    PARKED = "parked"
    EXPIRED_ON_ARRIVAL = "expired_on_arrival"
    ERASED = "erased"


class LedgerRun(Model):
    """The ledger row of a run: the proof that it was seen. It outlives the episode."""

    tenant_id: str
    agent_id: str
    run_id: str
    content_sha256: str
    attempt: int
    state: RunState
    accepted_at: int
    ended_at: int
    expires_at: int
    user_ref: str | None = None
    reason: str | None = None


class ParkedRun(Model):
    """A run that could not be processed: kept with its input and reason, countable, redrivable."""

    tenant_id: str
    agent_id: str
    run_id: str
    reason: str
    step: str
    attempt: int
    parked_at: int
    expires_at: int
    content_key: str
    ended_at: int = 0
    user_ref: str | None = None


class RetrievedMemory(Model):
    """One item that a bootstrap returned, as its context row keeps it. *memory_id* is the item's id; *agent_id* and
    *run_id* are set for episodes only, *task_type* and *steps_sha256* for procedures only."""

    memory_id: str
    tier: str
    agent_id: str = ""
    run_id: str = ""
    task_type: str = ""
    steps_sha256: str = ""
