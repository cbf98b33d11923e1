"""Takes what a run proposes to the procedures of its task type: evidence for one that means the same, or a new one.

A proposal never changes what a person decided: what means the same as a rejected procedure is counted there.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, NamedTuple

from agent_memory.domain import retention
from agent_memory.domain.errors import ModelAnswerError, RefusedInputError, StoreBusyError, TranscriptError
from agent_memory.domain.keys import procedure_id
from agent_memory.domain.models import (
    Artifacts,
    CandidateProcedure,
    Claim,
    Distillation,
    DistilledBy,
    Model,
    Outcome,
    RunTicket,
    Vector,
)
from agent_memory.domain.plain_text import one_line, plain, shortened
from agent_memory.domain.ports import Claims, Embedder
from agent_memory.domain.procedure_hygiene import Proposed, cleaned_procedure
from agent_memory.domain.procedure_matching import MAX_EMBEDDED, procedure_text, same_procedure, same_steps, standing
from agent_memory.domain.procedure_notices import Publish, announce
from agent_memory.domain.procedure_ports import Procedures, ProposalWrite, TaskProcedures
from agent_memory.domain.procedure_transitions import merge_evidence
from agent_memory.domain.procedures import (
    MAX_PROPOSERS,
    OFFERED,
    QUEUED,
    Procedure,
    ProcedureChange,
    ProcedureState,
    ProposalEvidence,
    steps_hash,
)
from agent_memory.domain.retention import RetentionRules
from agent_memory.domain.tickets import claim_for

ProposalDecision = Literal[
    "proposed", "seen_again", "rejected_before", "retired_before", "enough_seen", "duplicate", "refused", "erased",
    "nothing_proposed", "not_proposed",
]  # fmt: skip
ROUNDS = 14
FIRST_REST, LONGEST_REST = 0.1, 1.5
# What one task type may hold: beyond it a person is not helped by more, and reading it must stay cheap.
MAX_EVIDENCE, MAX_WAITING = 200, 50
MAX_TASK = 500


class ProposeDoors(NamedTuple):
    """What proposing touches. *rest*: waits for a random part of so many seconds."""

    procedures: Procedures
    claims: Claims
    embedder: Embedder
    publish: Publish
    rest: Callable[[float], None]


class ProposeRules(NamedTuple):
    """The deployment's part. *environment*: for the event that tells reviewers."""

    retention: RetentionRules
    environment: str


class ProposalDecided(Model):
    """What became of a proposal. *reason*: a code. *announced*: reviewers were told."""

    decision: ProposalDecision
    reason: str | None = None
    procedure_id: str | None = None
    evidence: int = 0
    announced: bool = False


def propose_procedure(ticket: RunTicket, doors: ProposeDoors, rules: ProposeRules, *, now: int) -> ProposalDecided:
    """Propose what the run of *ticket* learnt. Safe to repeat: a run proposes once.

    Raises RetryableError only, or the defects that AgentMemoryError stands for."""
    if not ticket.scrubbed_key:
        return ProposalDecided(decision="not_proposed", reason="not_scrubbed")
    try:
        claim = claim_for(ticket, doors.claims)
        distillation = doors.claims.get_distillation(ticket.scrubbed_key)
    except TranscriptError as error:
        return ProposalDecided(decision="not_proposed", reason=error.reason)
    reason = _not_to_be_proposed(claim, distillation)
    if reason:
        return ProposalDecided(decision="nothing_proposed", reason=reason)
    if doors.procedures.proposal_of(ticket.agent_id, ticket.run_id) is not None:
        return _counted_before(claim, doors, rules)
    candidate = distillation.artifacts.procedure
    if candidate is None:
        return ProposalDecided(decision="nothing_proposed", reason="no_procedure")
    return _cleaned_and_proposed(claim, distillation, candidate, doors, rules, now)


def propose_released(
    claim: Claim, candidate: CandidateProcedure, outcome: Outcome, doors: ProposeDoors, rules: ProposeRules, *, now: int
) -> ProposalDecided:
    """Propose what a person let out of quarantine, as its run would have. It still waits for a review."""
    candidate = candidate.model_copy(update={"cleared": True})
    artifacts = Artifacts(task_summary="", outcome=outcome, procedure=candidate)
    released = Distillation(task="", asked="", artifacts=artifacts, distilled_by=DistilledBy.MODEL, scrubbed=True)
    reason = _not_to_be_proposed(claim, released)
    if reason:
        return ProposalDecided(decision="nothing_proposed", reason=reason)
    if doors.procedures.proposal_of(claim.agent_id, claim.run_id) is not None:
        return _counted_before(claim, doors, rules)
    return _cleaned_and_proposed(claim, released, candidate, doors, rules, now)


def _cleaned_and_proposed(
    claim: Claim,
    distillation: Distillation,
    candidate: CandidateProcedure,
    doors: ProposeDoors,
    rules: ProposeRules,
    now: int,
) -> ProposalDecided:
    cleaned = cleaned_procedure(candidate.title, candidate.steps)
    if cleaned.refusal:
        return ProposalDecided(decision="refused", reason=cleaned.refusal)
    if candidate.from_tools:
        cleaned = cleaned._replace(warnings=(*cleaned.warnings, "steps_of_tools"))
    cleaned = cleaned._replace(cleared=candidate.cleared)
    return _Proposal(claim, distillation, cleaned, doors, rules, now).answer()


def _not_to_be_proposed(claim: Claim, distillation: Distillation) -> str | None:
    if not distillation.scrubbed:
        return "not_scrubbed"
    if distillation.artifacts.outcome is not Outcome.COMPLETED:
        return "run_not_completed"
    return None if claim.task_type else "no_task_type"


def _counted_before(claim: Claim, doors: ProposeDoors, rules: ProposeRules) -> ProposalDecided:
    """A run proposes once, also when what it proposed is gone since."""
    before = doors.procedures.proposal_of(claim.agent_id, claim.run_id)
    if before is None:
        return ProposalDecided(decision="duplicate")
    return _announced(ProposalDecided(decision="duplicate", procedure_id=before.procedure_id), before, doors, rules)


def _announced(
    decided: ProposalDecided, procedure: Procedure, doors: ProposeDoors, rules: ProposeRules
) -> ProposalDecided:
    # After the write: a notice that is lost with its function comes with the retry, which finds the run counted.
    # And not for each of two hundred runs: one by one they raise its place in the queue.
    doubled = procedure.evidence & (procedure.evidence - 1) == 0
    told = doubled and announce(procedure, doors.publish, environment=rules.environment)
    return decided.model_copy(update={"announced": told, "evidence": procedure.evidence})


class _Proposal:
    """One run's proposal on its way through the store."""

    def __init__(
        self,
        claim: Claim,
        distillation: Distillation,
        cleaned: Proposed,
        doors: ProposeDoors,
        rules: ProposeRules,
        now: int,
    ) -> None:
        self._claim = claim
        self._task_type = claim.task_type or ""
        self._hash = steps_hash(cleaned.title, cleaned.steps)
        self._cleaned = cleaned
        self._doors = doors
        self._rules = rules
        self._now = now
        self._task = shortened(one_line(plain(distillation.task)), MAX_TASK)
        self._embed = cache(doors.embedder.embed)
        self._vector = self._embedded(procedure_text(cleaned.title, cleaned.steps))

    def answer(self) -> ProposalDecided:
        for attempt in range(ROUNDS):
            seen = self._doors.procedures.of_task_type(self._task_type)
            change, decision = self._decided(seen)
            if isinstance(change, ProposalDecided):
                return change
            written = self._doors.procedures.propose(change)
            if written == "erased":
                return ProposalDecided(decision="erased", reason="tombstone")
            if written == "written":
                found = change.procedure
                return _announced(
                    ProposalDecided(decision=decision, procedure_id=found.procedure_id), found, self._doors, self._rules
                )
            if written == "duplicate":
                return _counted_before(self._claim, self._doors, self._rules)
            self._doors.rest(min(LONGEST_REST, FIRST_REST * 2**attempt))
        raise StoreBusyError("the procedures of a task type kept changing while one was proposed")

    def _decided(self, seen: TaskProcedures) -> tuple[ProposalWrite | ProposalDecided, ProposalDecision]:
        known = self._same(seen.procedures)
        if known is None:
            waiting = sum(procedure.state in QUEUED for procedure in seen.procedures)
            if waiting >= MAX_WAITING:
                return ProposalDecided(decision="refused", reason="queue_full"), "refused"
            return self._write(seen, self._opened(), opens=True), "proposed"
        if known.evidence >= MAX_EVIDENCE and not self._unknown_to(known):
            enough = ProposalDecided(decision="enough_seen", procedure_id=known.procedure_id, evidence=known.evidence)
            return enough, "enough_seen"
        more = merge_evidence(known, self._claim.agent_id)
        if self._cleaned.cleared and known.steps_sha256 == self._hash:
            more = more.model_copy(update={"cleared_sha256": self._hash})
        return self._write(seen, more, opens=False), _WORDS[known.state]

    def _unknown_to(self, known: Procedure) -> bool:
        """Whether the run's agent is to be noted, however many proposed it: it may not approve its own proposal."""
        return self._claim.agent_id not in known.proposers and len(known.proposers) < MAX_PROPOSERS

    def _same(self, procedures: Sequence[Procedure]) -> Procedure | None:
        """The procedure that means the same. A person's no weighs most, then what is in use; the oldest of equals."""
        own, ordered = self._identity(), sorted(procedures, key=standing)
        return next((one for one in ordered if one.procedure_id == own or self._means_the_same(one)), None)

    def _means_the_same(self, known: Procedure) -> bool:
        comparable = self._vector if known.embedding_model == self._doors.embedder.model else None
        try:
            return same_procedure(known, self._cleaned.title, self._cleaned.steps, comparable, self._embed)
        except (ModelAnswerError, RefusedInputError):
            return same_steps(known.steps, self._cleaned.steps)

    def _identity(self) -> str:
        return procedure_id(self._claim.tenant_id, self._task_type, self._cleaned.steps)

    def _opened(self) -> Procedure:
        claim = self._claim
        task_vector = self._embedded(self._task)
        opening = ProcedureChange(
            at=self._now,
            who=f"{claim.agent_id}/{claim.run_id}",
            kind="run",
            what="proposed",
            after=ProcedureState.PENDING,
        )
        return Procedure(
            tenant_id=claim.tenant_id,
            task_type=self._task_type,
            procedure_id=self._identity(),
            title=self._cleaned.title,
            steps=self._cleaned.steps,
            created_at=self._now,
            proposed_by=(claim.agent_id, claim.run_id),
            proposers=(claim.agent_id,),
            evidence=1,
            last_used_at=self._now,
            task=self._task,
            task_vector=task_vector,
            vector=self._vector,
            embedding_model=None if task_vector is None and self._vector is None else self._doors.embedder.model,
            warnings=self._cleaned.warnings,
            cleared_sha256=self._hash if self._cleaned.cleared else None,
            history=(opening,),
        )

    def _write(self, seen: TaskProcedures, procedure: Procedure, *, opens: bool) -> ProposalWrite:
        claim, cleaned = self._claim, self._cleaned
        said = ProposalEvidence(
            agent_id=claim.agent_id,
            run_id=claim.run_id,
            user_ref=claim.user_ref,
            proposed_at=self._now,
            title=cleaned.title,
            steps=cleaned.steps,
            steps_sha256=self._hash,
        )
        expires_at = retention.ledger_expires_at(self._rules.retention, now=self._now)
        return ProposalWrite(
            seen=seen, procedure=procedure, evidence=said, opens=opens, ended_at=claim.ended_at, expires_at=expires_at
        )

    def _embedded(self, text: str) -> Vector | None:
        """Not every text can be embedded: then the procedure is found by its task type and its words alone."""
        if not text.strip():
            return None
        try:
            return self._embed(text[:MAX_EMBEDDED])
        except (ModelAnswerError, RefusedInputError):
            return None


_WORDS: dict[ProcedureState, ProposalDecision] = {
    ProcedureState.REJECTED: "rejected_before",
    ProcedureState.RETIRED: "retired_before",
    **dict.fromkeys(QUEUED | OFFERED, "seen_again"),
}
