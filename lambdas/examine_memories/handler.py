"""examine_memories: what is due in one slice of one tenant, judged by its recomputed date."""

from typing import Any

from agent_memory.domain import audit
from agent_memory.domain.examination import examine, look_of
from agent_memory.domain.lifecycle import SliceTicket
from agent_memory.wiring_night import night_services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket, own = SliceTicket.model_validate(event), night_services()
    look = look_of(ticket, own.own.night_files)
    plan, result = examine(ticket, look, own.examine_doors(look.tenant_id), own.rules(ticket.run))
    metrics.add_metric(name="MemoriesExamined", unit="Count", value=result.counts.get("looked", 0))
    for line in audit.scored(plan, night=ticket.run.run_id, at=own.own.now()):
        logger.info(line["action"], extra=line)
    ids = {"run": ticket.run.run_id, "tenant_id": result.tenant_id, "slice": result.name}
    logger.info("slice examined", extra={**ids, **result.counts})
    return {}
