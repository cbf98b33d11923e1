"""RecordFeedback: which of the memories that its context returned did the run use, and how did its procedure do?"""

from typing import Any

from agent_memory.domain.errors import TranscriptError
from agent_memory.domain.models import RunTicket
from agent_memory.domain.procedure_feedback import FeedbackDoors, FeedbackRules, ProcedureFeedback, record_procedures
from agent_memory.domain.tickets import claim_for
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {"recorded": "ProcedureResults", "ignored": "ProcedureResultsIgnored"}


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket = RunTicket.model_validate(event)
    used, told = _record(ticket)
    metrics.add_metric(name="MemoriesUsed", unit="Count", value=used)
    if told.decision in METRICS:
        metrics.add_metric(name=METRICS[told.decision], unit="Count", value=1)
    metrics.add_metric(name="ProceduresPassedOver", unit="Count", value=told.passed_over)
    metrics.add_metric(name="ProceduresWithdrawn", unit="Count", value=int(told.moved_to == "needs_review"))
    ids = ticket.model_dump(include={"tenant_id", "agent_id", "run_id", "attempt"})
    logger.info("feedback recorded", extra={**ids, "used": used, "procedure": told.model_dump(mode="json")})
    counted = used or told.decision == "recorded"
    return ticket.decided("recorded" if counted else "nothing_to_record").model_dump()


def _record(ticket: RunTicket) -> tuple[int, ProcedureFeedback]:
    own, tenant = services(), services().tenant(ticket.tenant_id)
    try:
        claim = claim_for(ticket, tenant.claims)
    except TranscriptError:
        return 0, ProcedureFeedback(decision="none")
    doors = FeedbackDoors(tenant.procedures, tenant.ledger, own.publish, own.rest)
    rules = FeedbackRules(own.procedure_rules, own.retention_rules, own.settings.environment)
    told = record_procedures(claim, doors, rules, now=own.now())
    run, context_id = (ticket.agent_id, ticket.run_id), claim.memory_context_id
    used = tenant.ledger.record_use(context_id=context_id, run=run, used=claim.memory_used) if context_id else 0
    return used, told
