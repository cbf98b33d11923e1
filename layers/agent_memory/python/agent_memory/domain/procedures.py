"""Procedures: step lists that runs propose, people approve, and results keep or withdraw.

What decides (state, counters, approval, keys) never comes from a model. How states change: procedure_transitions.py.
"""

import hashlib
import math
from enum import StrEnum
from typing import Literal

from agent_memory.contract import SCHEMA_VERSION
from agent_memory.domain.models import Model, Vector
from agent_memory.domain.retention import DAY_SECONDS

# The tier, as recalls and memory contexts name it.
PROCEDURAL = "procedural"
MAX_HISTORY = 50
# What the history calls it when the withdrawal of a night is taken back.
GIVEN_BACK = "given_back"
MAX_PROPOSERS = 50
# The normal quantile of a two-sided interval of 95 %.
Z = 1.959963984540054


class ProcedureState(StrEnum):
    """PENDING -> APPROVED (trial) -> ESTABLISHED; NEEDS_REVIEW, REJECTED and RETIRED leave that line."""

    PENDING = "pending"
    APPROVED = "approved"
    ESTABLISHED = "established"
    REJECTED = "rejected"
    NEEDS_REVIEW = "needs_review"
    RETIRED = "retired"


# Shown to agents, as long as the approval is of these very steps and the results are not against it.
OFFERED = frozenset({ProcedureState.APPROVED, ProcedureState.ESTABLISHED})
# Results are counted: a run that was offered a procedure may end after it was withdrawn.
COUNTED = OFFERED | {ProcedureState.NEEDS_REVIEW}
# Waiting for a person.
QUEUED = frozenset({ProcedureState.PENDING, ProcedureState.NEEDS_REVIEW})

ReviewerKind = Literal["person", "agent"]


class ProcedureRules(Model):
    """A deployment's rules. *min_success* and *trial_share* in [0, 1]; *stale_days* whole days."""

    min_uses: int = 3
    min_success: float = 0.6
    stale_days: int = 60
    trial_share: float = 1.0


class Reviewer(Model):
    """Who decides. *by*: an identity that IAM or the operator gave, never one that a model wrote; an agent's id for an
    agent. *stated*: the caller said so, IAM did not."""

    by: str
    kind: ReviewerKind = "person"
    stated: bool = False


class Approval(Model):
    """An approval holds for the steps that were read, and for no others."""

    by: str
    kind: ReviewerKind
    at: int
    steps_sha256: str
    stated: bool = False


class ProcedureChange(Model):
    """One entry of a procedure's history. *applied*, *succeeded*: the counters as they stood; *steps_sha256*: of the
    steps as they stood before. *who*: a reviewer, `agent/run`, or `agent-memory` itself. *why*: a reviewer's words or
    a code. *stated*: as of Reviewer."""

    at: int
    who: str
    kind: Literal["person", "agent", "run", "memory"]
    what: str
    why: str = ""
    before: ProcedureState | None = None
    after: ProcedureState
    steps_sha256: str = ""
    applied: int = 0
    succeeded: int = 0
    stated: bool = False


class Procedure(Model):
    """One step list for a task type of a tenant. All times are whole epoch seconds UTC.

    *proposed_by*: (agent_id, run_id) that opened it; *proposers*: the agents that proposed it, none of which may
    approve it. *evidence*: how many runs did. *applied*, *succeeded*: runs that followed these very steps; *offered*:
    memory contexts that showed it; *passed_over*: runs that were shown it and did not follow it. *last_used_at*: until
    it is used, when it was proposed or approved. *task_vector*: of the task as it was asked; *vector*: of title and
    steps. *warnings*: codes for the reviewer. *cleared_sha256*: hash of the words that a person let out of
    quarantine. *revision*: of the store, which refuses a write over another one.
    """

    tenant_id: str
    task_type: str
    procedure_id: str
    title: str
    steps: tuple[str, ...]
    state: ProcedureState = ProcedureState.PENDING
    pinned: bool = False
    created_at: int
    proposed_by: tuple[str, str]
    proposers: tuple[str, ...] = ()
    evidence: int = 0
    applied: int = 0
    succeeded: int = 0
    offered: int = 0
    passed_over: int = 0
    last_used_at: int
    last_offered_at: int | None = None
    task: str = ""
    task_vector: Vector | None = None
    vector: Vector | None = None
    embedding_model: str | None = None
    approval: Approval | None = None
    warnings: tuple[str, ...] = ()
    cleared_sha256: str | None = None
    history: tuple[ProcedureChange, ...] = ()
    revision: int = 0
    schema_version: int = SCHEMA_VERSION

    @property
    def steps_sha256(self) -> str:
        """Hash of title and steps; an approval is bound to it."""
        return steps_hash(self.title, self.steps)


class ProcedureView(Model):
    """What of a procedure is compared with a task before the procedure itself is read."""

    task_type: str
    procedure_id: str
    state: ProcedureState
    task_vector: Vector | None = None
    embedding_model: str | None = None


class ProposalEvidence(Model):
    """One run that proposed the procedure. *steps*: in its own words, which may be others than the procedure's.

    Users stand here only, so that what was learnt from one of them can be found."""

    agent_id: str
    run_id: str
    user_ref: str | None = None
    proposed_at: int
    title: str
    steps_sha256: str
    steps: tuple[str, ...] = ()


class Wording(Model):
    """Title and steps that a procedure had until somebody edited it. *at*: when they were replaced; *who*: by whom."""

    title: str
    steps: tuple[str, ...]
    steps_sha256: str
    at: int
    who: str


class Verdict(Model):
    """What a decision on a procedure leads to. *procedure*: as it is to be written; None when nothing changes.

    *decision*: `done`, `unchanged` or `refused`; *reason*: a code."""

    decision: Literal["done", "unchanged", "refused"]
    reason: str
    procedure: Procedure | None = None


def steps_hash(title: str, steps: tuple[str, ...]) -> str:
    """SHA-256 (64 hex digits) of title and steps; no two step lists share a form."""
    digest = hashlib.sha256()
    for text in (title, *steps):
        encoded = text.encode("utf-8", "backslashreplace")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def success_rate(procedure: Procedure) -> float | None:
    """Share of the runs that followed it and succeeded, in [0, 1]; None before the first."""
    return procedure.succeeded / procedure.applied if procedure.applied else None


def wilson_lower_bound(succeeded: int, applied: int) -> float:
    """Lower end of the 95 % score interval of a share, in [0, 1]; 0 before the first use.

    Wilson, E. B. (1927), Probable inference, the law of succession, and statistical inference, JASA 22 (158).
    """
    if applied <= 0:
        return 0.0
    share = min(max(succeeded, 0), applied) / applied
    square = Z * Z / applied
    spread = Z * math.sqrt(share * (1 - share) / applied + square / (4 * applied))
    return max(0.0, (share + square / 2 - spread) / (1 + square))


def rank(procedure: Procedure) -> tuple[bool, float, int]:
    """Sorts procedures by what speaks for them: a person's approval over an agent's, the lower bound, the evidence."""
    by_person = procedure.approval is not None and procedure.approval.kind == "person"
    return by_person, wilson_lower_bound(procedure.succeeded, procedure.applied), procedure.evidence


def on_trial(procedure: Procedure, rules: ProcedureRules) -> bool:
    """Whether it is shown as a trial: too few runs have followed it."""
    return procedure.applied < max(1, rules.min_uses)


def failing(procedure: Procedure, rules: ProcedureRules) -> bool:
    """Whether its results are against it."""
    rate = success_rate(procedure)
    return not on_trial(procedure, rules) and rate is not None and rate < rules.min_success


def injectable(procedure: Procedure, rules: ProcedureRules) -> bool:
    """Whether agents may be shown it: approved in these very words, and not failing, whatever a late write left."""
    approved = procedure.approval is not None and procedure.approval.steps_sha256 == procedure.steps_sha256
    return procedure.state in OFFERED and approved and not failing(procedure, rules)


def given_back_at(procedure: Procedure) -> int:
    """When a night that had withdrawn it was last taken back (epoch seconds); 0: never."""
    return max((one.at for one in procedure.history if one.kind == "memory" and one.what == GIVEN_BACK), default=0)


def stale(procedure: Procedure, now: int, rules: ProcedureRules) -> bool:
    """Whether nobody used it for so long that a person should look at it. A pin spares it."""
    idle = now - max(procedure.last_used_at, given_back_at(procedure))
    return procedure.state in OFFERED and not procedure.pinned and idle >= rules.stale_days * DAY_SECONDS


def moved(procedure: Procedure, change: ProcedureChange, **updates: object) -> Procedure:
    """The procedure in the state of *change*, which its history keeps: its first entry and the newest."""
    history = (*procedure.history, change)
    if len(history) > MAX_HISTORY:
        history = (history[0], *history[-MAX_HISTORY + 1 :])
    return procedure.model_copy(update={"state": change.after, "history": history, **updates})
