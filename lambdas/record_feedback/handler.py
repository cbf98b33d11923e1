"""RecordFeedback: which of the memories that its context returned did the run use?"""

from typing import Any

from agent_memory.domain.errors import TranscriptError
from agent_memory.domain.models import RunTicket
from agent_memory.domain.tickets import claim_for
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket = RunTicket.model_validate(event)
    used = _record(ticket)
    metrics.add_metric(name="MemoriesUsed", unit="Count", value=used)
    ids = ticket.model_dump(include={"tenant_id", "agent_id", "run_id", "attempt"})
    logger.info("feedback recorded", extra={**ids, "used": used})
    return ticket.decided("recorded" if used else "nothing_to_record").model_dump()


def _record(ticket: RunTicket) -> int:
    tenant = services().tenant(ticket.tenant_id)
    try:
        claim = claim_for(ticket, tenant.claims)
    except TranscriptError:
        return 0
    if claim.memory_context_id is None or not claim.memory_used:
        return 0
    run = (ticket.agent_id, ticket.run_id)
    return tenant.ledger.record_use(context_id=claim.memory_context_id, run=run, used=claim.memory_used)
