"""Who reviews is told that a procedure waits: ids, counts and codes, no content."""

from collections.abc import Callable, Mapping

from agent_memory.contract import PROCEDURE_AWAITING_REVIEW, SCHEMA_VERSION
from agent_memory.domain.procedures import QUEUED, Procedure

Publish = Callable[[str, Mapping[str, object]], None]


def announce(procedure: Procedure, publish: Publish, *, environment: str) -> bool:
    """Put the event of a procedure that waits for a decision. False when it waits for none."""
    if procedure.state not in QUEUED:
        return False
    detail = {
        "schema_version": SCHEMA_VERSION,
        "environment": environment,
        "tenant_id": procedure.tenant_id,
        "task_type": procedure.task_type,
        "procedure_id": procedure.procedure_id,
        "state": procedure.state.value,
        "evidence": procedure.evidence,
        "reason": procedure.history[-1].why if procedure.history and procedure.history[-1].kind == "memory" else "",
    }
    publish(PROCEDURE_AWAITING_REVIEW, detail)
    return True
