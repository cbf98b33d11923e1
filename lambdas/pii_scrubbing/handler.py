"""ScrubPii: every text of a distillation loses its personal data before it may be stored."""

from typing import Any

from agent_memory.domain.errors import AccessRefusedError, AgentMemoryError, ConfigurationError, RetryableError
from agent_memory.domain.models import RunTicket
from agent_memory.domain.privacy import reason_not_scrubbed, scrub_distillation
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, single_metric
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    ticket = RunTicket.model_validate(event)
    logger.append_keys(tenant_id=ticket.tenant_id, agent_id=ticket.agent_id, run_id=ticket.run_id)
    try:
        decided = _scrub(ticket)
    except (RetryableError, AccessRefusedError, ConfigurationError):
        raise
    except AgentMemoryError as error:
        decided = ticket.decided("parked", reason_not_scrubbed(error))
    logger.info("run scrubbed", decision=decided.decision, reason=decided.reason)
    return decided.model_dump()


def _scrub(ticket: RunTicket) -> RunTicket:
    if not ticket.artifacts_key:
        return ticket.decided("parked", "not_distilled")
    own, claims = services(), services().tenant(ticket.tenant_id).claims
    distillation = claims.get_distillation(ticket.artifacts_key)
    scrubbed, counts = scrub_distillation(distillation, own.detector, own.privacy_policy)
    key = claims.put_distillation(ticket.claim_key, ticket.attempt, scrubbed)
    for entity_type, count in counts.items():
        with single_metric(name="EntitiesScrubbed", unit=MetricUnit.Count, value=count) as metric:
            metric.add_dimension(name="entity_type", value=entity_type)
    return ticket.decided("scrubbed", scrubbed_key=key)
