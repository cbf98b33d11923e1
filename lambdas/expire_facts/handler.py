"""expire_facts: facts that nobody confirms any more are archived, withdrawn and removed, in one slice of one tenant."""

from typing import Any

from agent_memory.domain import audit
from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.fact_expiry import expire_facts
from agent_memory.domain.lifecycle import FactSlice, SliceTicket
from agent_memory.wiring_merging import merge_services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {"withdrawn": "FactsWithdrawn", "expired": "FactsExpired", "failed": "FactsNotExpired"}


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    ticket, own = SliceTicket.model_validate(event), merge_services()
    part = own.own.night_files.get(ticket.key, FactSlice)
    if part is None:
        raise AgentMemoryError(f"the slice {ticket.key} is gone")
    doors, ttl_days = own.expiry_doors(part.tenant_id), own.own.settings.semantic_ttl_days
    result = expire_facts(ticket.run, part, doors, ttl_days=ttl_days)
    for decision, name in METRICS.items():
        metrics.add_metric(name=name, unit="Count", value=result.counts.get(decision, 0))
    for line in audit.acted(result, night=ticket.run.run_id, at=own.own.now()):
        logger.info(line["action"], extra=line)
    ids = {"run": ticket.run.run_id, "tenant_id": result.tenant_id, "slice": result.name}
    logger.info("facts looked at", extra={**ids, "counts": dict(result.counts)})
    return {}
