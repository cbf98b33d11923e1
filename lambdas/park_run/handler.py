"""ParkRun: a run that consolidation gave up on is kept with its input and reason."""

from typing import Any

from agent_memory.domain.models import RunTicket
from agent_memory.domain.parking import park_run
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket = RunTicket.model_validate({name: event[name] for name in RunTicket.model_fields if name in event})
    own, tenant = services(), services().tenant(ticket.tenant_id)
    failure = event.get("failure")
    parked = park_run(ticket, failure, tenant.ledger, tenant.claims, own.retention_rules, now=own.now())
    metrics.add_metric(name="RunsParked", unit="Count", value=int(parked.written == "stored"))
    ids = ticket.model_dump(include={"tenant_id", "agent_id", "run_id", "attempt"})
    logger.warning("run parked", extra={**ids, "written": parked.written, "reason": parked.reason})
    return ticket.decided("parked", parked.reason).model_dump()
