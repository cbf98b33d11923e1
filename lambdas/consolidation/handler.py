"""DistilRun: the messages of a finished run become its artifacts; a run that nobody can read is parked."""

from typing import Any

from agent_memory.domain.deadlines import Budget
from agent_memory.domain.distillery import reason_not_distilled
from agent_memory.domain.errors import TranscriptError, UnsupportedLanguageError
from agent_memory.domain.models import Distillation, RunTicket
from agent_memory.domain.tickets import claim_for
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket = RunTicket.model_validate(event)
    logger.append_keys(tenant_id=ticket.tenant_id, agent_id=ticket.agent_id, run_id=ticket.run_id)
    own, claims = services(), services().tenant(ticket.tenant_id).claims
    budget = Budget(context.get_remaining_time_in_millis(), own.clock)
    try:
        distillation = own.distillery.distil(claim_for(ticket, claims), budget)
    except (TranscriptError, UnsupportedLanguageError) as error:
        metrics.add_metric(name="RunsNotDistilled", unit=MetricUnit.Count, value=1)
        logger.warning("run parked", reason=reason_not_distilled(error))
        return ticket.decided("parked", reason_not_distilled(error)).model_dump()
    key = claims.put_distillation(ticket.claim_key, ticket.attempt, distillation)
    _report(distillation)
    return ticket.decided("distilled", artifacts_key=key).model_dump()


def _report(distillation: Distillation) -> None:
    metrics.add_dimension(name="distilled_by", value=distillation.distilled_by)
    metrics.add_metric(name="RunsDistilled", unit=MetricUnit.Count, value=1)
    for name, count in distillation.counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    logger.info("run distilled", distilled_by=distillation.distilled_by, counts=distillation.counts)
