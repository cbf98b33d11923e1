"""What the night does for procedures: those that fail, or that nobody used for long, go to the review queue. Nothing
is deleted."""

from agent_memory.domain.procedure_flagging import Flagged
from agent_memory.domain.procedure_notices import Publish, announce
from agent_memory.domain.procedure_ports import Procedures
from agent_memory.domain.procedure_transitions import flag_stale, give_back, settled
from agent_memory.domain.procedures import Procedure, ProcedureRules, ProcedureState

ROUNDS = 5


class NightlyProcedures:
    """The procedures of one tenant, as a night sees them. Safe to repeat, late or twice."""

    def __init__(self, procedures: Procedures, publish: Publish, rules: ProcedureRules, *, environment: str) -> None:
        self._procedures = procedures
        self._publish = publish
        self._rules = rules
        self._environment = environment

    def flag(self, *, now: int) -> tuple[Flagged, ...]:
        """Move what should not be offered any more to the review queue, and tell the reviewers."""
        found = [self._flag(one, now) for one in self._procedures.offered() if self._withdrawn(one, now)]
        return tuple(one for one in found if one is not None)

    def give_back(self, run_id: str, *, withdrawn_at: int, now: int) -> tuple[Flagged, ...]:
        """Offer again what the run that began at *withdrawn_at* withdrew, unless somebody decided since."""
        found = (
            self._given_back(one, run_id, withdrawn_at, now)
            for one in self._procedures.in_state(ProcedureState.NEEDS_REVIEW)
        )
        return tuple(one for one in found if one is not None)

    def _given_back(self, read: Procedure, run_id: str, withdrawn_at: int, now: int) -> Flagged | None:
        for _ in range(ROUNDS):
            found = self._procedures.get(read.task_type, read.procedure_id)
            back = give_back(found, withdrawn_at=withdrawn_at, now=now, why=run_id) if found else None
            if back is None:
                return None
            if self._procedures.save(back):
                return Flagged(
                    task_type=back.task_type, procedure_id=back.procedure_id, decision="restored", reason="flagged"
                )
        return None  # somebody is at work on it, whose word it is then

    def _flag(self, read: Procedure, now: int) -> Flagged | None:
        for _ in range(ROUNDS):
            # What is used or decided on meanwhile is read again, and may stay.
            found = self._procedures.get(read.task_type, read.procedure_id)
            moved = self._withdrawn(found, now) if found else None
            if moved is None:
                return None
            if self._procedures.save(moved):
                announce(moved, self._publish, environment=self._environment)
                return _flagged(moved, "flagged")
        return _flagged(read, "kept")  # somebody is at work on it all the time, so it is not unused

    def _withdrawn(self, procedure: Procedure, now: int) -> Procedure | None:
        # Results withdraw a procedure when they are counted; settings that changed since are the night's to apply.
        judged = settled(procedure, self._rules, now=now)
        if judged.state is ProcedureState.NEEDS_REVIEW and judged is not procedure:
            return judged
        return flag_stale(procedure, now, self._rules).procedure


def _flagged(procedure: Procedure, decision: str) -> Flagged:
    last = procedure.history[-1] if procedure.history else None
    reason = str(last.why) if last and decision == "flagged" else "busy"
    return Flagged(task_type=procedure.task_type, procedure_id=procedure.procedure_id, decision=decision, reason=reason)
