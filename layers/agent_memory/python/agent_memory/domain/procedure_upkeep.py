"""What the night does for procedures: those that nobody used for long go to the review queue. Nothing is deleted."""

from agent_memory.domain.procedure_notices import Publish, announce
from agent_memory.domain.procedure_ports import Procedures
from agent_memory.domain.procedure_transitions import flag_stale
from agent_memory.domain.procedures import OFFERED, Procedure, ProcedureRules, stale

ROUNDS = 5


def flag_unused(
    procedures: Procedures, publish: Publish, rules: ProcedureRules, *, environment: str, now: int
) -> tuple[str, ...]:
    """Flag every procedure of the tenant that is stale, and tell the reviewers. Returns the ids.

    Safe to repeat, late or twice. What is used meanwhile is read again, and stays."""
    flagged = []
    for one in [one for state in sorted(OFFERED) for one in procedures.in_state(state)]:
        if stale(one, now, rules) and (moved := _flag(one, procedures, rules, now)) is not None:
            announce(moved, publish, environment=environment)
            flagged.append(moved.procedure_id)
    return tuple(flagged)


def _flag(read: Procedure, procedures: Procedures, rules: ProcedureRules, now: int) -> Procedure | None:
    for _ in range(ROUNDS):
        found = procedures.get(read.task_type, read.procedure_id)
        flagged = flag_stale(found, now, rules).procedure if found else None
        if flagged is None or procedures.save(flagged):
            return flagged
    return None  # somebody is at work on it all the time, so it is not unused
