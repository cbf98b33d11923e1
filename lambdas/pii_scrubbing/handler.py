"""ScrubPii: every text of a distillation loses its personal data before it may be stored, and what gives orders is held
back."""

from typing import Any

from agent_memory.domain.cleansing import Cleansed, CleanseDoors, cleanse
from agent_memory.domain.models import RunTicket
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, single_metric
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    ticket = RunTicket.model_validate(event)
    logger.append_keys(tenant_id=ticket.tenant_id, agent_id=ticket.agent_id, run_id=ticket.run_id)
    own, tenant = services(), services().tenant(ticket.tenant_id)
    doors = CleanseDoors(tenant.claims, tenant.quarantine, own.detector)
    cleansed = cleanse(ticket, doors, own.privacy_policy, own.retention_rules, now=own.now())
    _report(cleansed)
    return cleansed.ticket.model_dump()


def _report(cleansed: Cleansed) -> None:
    for entity_type, count in cleansed.entities.items():
        with single_metric(name="EntitiesScrubbed", unit=MetricUnit.Count, value=count) as metric:
            metric.add_dimension(name="entity_type", value=entity_type)
    held = sum(cleansed.held.values())
    with single_metric(name="TextsQuarantined", unit=MetricUnit.Count, value=held):
        pass
    ticket = cleansed.ticket
    logger.info("run scrubbed", decision=ticket.decision, reason=ticket.reason, quarantined=dict(cleansed.held))
