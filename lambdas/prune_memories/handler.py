"""prune_memories: archives what expires and removes what is to go, in one slice of one tenant."""

from typing import Any

from agent_memory.domain import audit
from agent_memory.domain.lifecycle import SliceTicket
from agent_memory.domain.pruning import part_of, prune
from agent_memory.wiring_night import night_services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {"removed": "MemoriesPruned", "archived": "MemoriesArchived", "failed": "MemoriesNotPruned"}


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket, own = SliceTicket.model_validate(event), night_services()
    room, part = part_of(ticket, own.own.night_files)
    result = prune(room, ticket.run, part, own.prune_doors(part.tenant_id), own.rules(ticket.run))
    for decision, name in METRICS.items():
        metrics.add_metric(name=name, unit="Count", value=result.counts.get(decision, 0))
    for line in audit.acted(result, night=ticket.run.run_id, at=own.own.now()):
        logger.info(line["action"], extra=line)
    ids = {"run": ticket.run.run_id, "tenant_id": result.tenant_id, "slice": result.name}
    logger.info("slice worked off", extra={**ids, "room": room, **result.counts})
    return {}
