"""ProposeProcedure: what a completed run would do again becomes a proposal that waits for a person."""

from typing import Any

from agent_memory.domain.models import RunTicket
from agent_memory.domain.procedure_proposal import ProposeDoors, ProposeRules, propose_procedure
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {
    "proposed": "ProceduresProposed",
    "seen_again": "ProceduresSeenAgain",
    "rejected_before": "RejectedProceduresSeenAgain",
    "retired_before": "RejectedProceduresSeenAgain",
    "refused": "ProceduresRefused",
}


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket = RunTicket.model_validate(event)
    own, tenant = services(), services().tenant(ticket.tenant_id)
    doors = ProposeDoors(tenant.procedures, tenant.claims, own.embedder, own.publish, own.rest)
    rules = ProposeRules(own.retention_rules, own.settings.environment)
    decided = propose_procedure(ticket, doors, rules, now=own.now())
    metrics.add_metric(name=METRICS.get(decided.decision, "ProceduresNotProposed"), unit="Count", value=1)
    ids = ticket.model_dump(include={"tenant_id", "agent_id", "run_id", "attempt"})
    logger.info("procedure proposed", extra={**ids, **decided.model_dump()})
    return ticket.decided(decided.decision, decided.reason).model_dump()
