"""Counts what a run did with the procedures that it knew of: followed and succeeded, or passed over.

A result counts for the very steps that the run was shown. What its memory context showed decides when the context is
known; an agent that followed a procedure without naming its context is believed (docs/adr/0018).
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from agent_memory.domain import retention
from agent_memory.domain.errors import StoreBusyError
from agent_memory.domain.models import Claim, Model, Outcome, RetrievedMemory
from agent_memory.domain.ports import Ledger
from agent_memory.domain.procedure_notices import Publish, announce
from agent_memory.domain.procedure_ports import Procedures, RunResult
from agent_memory.domain.procedure_transitions import settled
from agent_memory.domain.procedures import COUNTED, PROCEDURAL, Procedure, ProcedureRules, ProcedureState
from agent_memory.domain.retention import RetentionRules

ROUNDS = 10
FIRST_REST, LONGEST_REST = 0.05, 1.0


class FeedbackDoors(NamedTuple):
    """What recording touches. *rest*: waits for a random part of so many seconds."""

    procedures: Procedures
    ledger: Ledger
    publish: Publish
    rest: Callable[[float], None]


class FeedbackRules(NamedTuple):
    """The deployment's part. *environment*: for the event that tells reviewers."""

    procedures: ProcedureRules
    retention: RetentionRules
    environment: str


class ProcedureFeedback(Model):
    """What was counted. *reason*: a code, why a result was not. *moved_to*: the state that this result led to."""

    decision: Literal["recorded", "duplicate", "ignored", "erased", "none"]
    reason: str | None = None
    procedure_id: str | None = None
    passed_over: int = 0
    moved_to: ProcedureState | None = None


def record_procedures(claim: Claim, doors: FeedbackDoors, rules: FeedbackRules, *, now: int) -> ProcedureFeedback:
    """Count the run of *claim*, once. Safe to repeat: a state that the counters ask for is settled by the repetition.

    Raises RetryableError only, or the defects that AgentMemoryError stands for."""
    shown = _shown(claim, doors.ledger)
    for attempt in range(ROUNDS):
        applied, reason = _applied(claim, shown, doors.procedures)
        passed_over = _passed_over(claim, shown or {}, doors.procedures)
        if applied is None and not passed_over:
            word: Literal["ignored", "none"] = "ignored" if reason else "none"
            return ProcedureFeedback(decision=word, reason=reason, procedure_id=_known_id(claim, reason))
        result = _result(claim, applied, passed_over, rules, now)
        written = doors.procedures.record(result)
        if written == "moved":
            doors.rest(min(LONGEST_REST, FIRST_REST * 2**attempt))
            continue
        if written == "erased":
            return ProcedureFeedback(decision="erased", reason="tombstone")
        return ProcedureFeedback(
            decision=written,
            reason=reason,
            procedure_id=applied.procedure_id if applied else None,
            passed_over=len(passed_over) if written == "recorded" else 0,
            moved_to=_settle(applied, doors, rules, now, again=written == "duplicate") if applied else None,
        )
    raise StoreBusyError("a procedure kept changing while its result was recorded")


def _shown(claim: Claim, ledger: Ledger) -> Mapping[str, RetrievedMemory] | None:
    """The procedures that the run's memory context showed; None when it named none, or none that is known."""
    context = ledger.context(claim.memory_context_id) if claim.memory_context_id else None
    if context is None:
        return None
    return {memory.memory_id: memory for memory in context if memory.tier == PROCEDURAL}


def _known_id(claim: Claim, reason: str | None) -> str | None:
    # The id of a procedure that is not there is the caller's text.
    return claim.procedure_id if reason not in (None, "unknown") else None


def _applied(
    claim: Claim, shown: Mapping[str, RetrievedMemory] | None, procedures: Procedures
) -> tuple[Procedure | None, str | None]:
    """The procedure that the run followed, or why its result does not count."""
    if claim.procedure_id is None:
        return None, None
    if _succeeded(claim) is None:
        return None, "no_result"
    memory = shown.get(claim.procedure_id) if shown is not None else None
    if shown is not None and memory is None:
        return None, "not_offered"
    found = procedures.get(memory.task_type, memory.memory_id) if memory else procedures.find(claim.procedure_id)
    if found is None:
        return None, "unknown"
    if found.state not in COUNTED:
        return None, "retired" if found.state is ProcedureState.RETIRED else "not_approved"
    if memory is not None and memory.steps_sha256 != found.steps_sha256:
        return None, "older_steps"
    return found, None


def _succeeded(claim: Claim) -> bool | None:
    """Whether the run's use of the procedure succeeded; what the event does not say, its outcome may."""
    if claim.procedure_succeeded is not None:
        return claim.procedure_succeeded
    return {Outcome.COMPLETED: True, Outcome.FAILED: False}.get(claim.outcome) if claim.outcome else None


def _passed_over(claim: Claim, shown: Mapping[str, RetrievedMemory], procedures: Procedures) -> tuple[Procedure, ...]:
    """What the run was shown, still stands as it was shown, and was not followed."""
    found = [
        procedures.get(memory.task_type, memory.memory_id)
        for memory_id, memory in sorted(shown.items())
        if memory_id != claim.procedure_id
    ]
    return tuple(
        procedure
        for procedure in found
        if procedure is not None
        and procedure.state in COUNTED
        and procedure.steps_sha256 == shown[procedure.procedure_id].steps_sha256
    )


def _result(
    claim: Claim, applied: Procedure | None, passed_over: tuple[Procedure, ...], rules: FeedbackRules, now: int
) -> RunResult:
    return RunResult(
        agent_id=claim.agent_id,
        run_id=claim.run_id,
        ended_at=claim.ended_at,
        expires_at=retention.ledger_expires_at(rules.retention, now=now),
        user_ref=claim.user_ref,
        applied=applied,
        succeeded=applied is not None and bool(_succeeded(claim)),
        passed_over=passed_over,
    )


def _settle(
    applied: Procedure, doors: FeedbackDoors, rules: FeedbackRules, now: int, *, again: bool
) -> ProcedureState | None:
    """Bring the procedure into the state that its counters ask for. Whoever reads it before checks them as well."""
    for attempt in range(ROUNDS):
        found = doors.procedures.get(applied.task_type, applied.procedure_id)
        if found is None:
            return None
        after = settled(found, rules.procedures, now=now)
        if after.state is found.state:
            if again:
                # The function may have ended between the withdrawal and its notice.
                announce(found, doors.publish, environment=rules.environment)
            return None
        if doors.procedures.save(after):
            announce(after, doors.publish, environment=rules.environment)
            return after.state
        doors.rest(min(LONGEST_REST, FIRST_REST * 2**attempt))
    raise StoreBusyError("a procedure kept changing while its state was settled")
