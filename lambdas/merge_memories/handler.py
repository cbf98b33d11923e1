"""merge_memories: several memories of one agent and user become one, group by group, in one slice of one tenant."""

from typing import Any

from agent_memory.domain import audit
from agent_memory.domain.lifecycle import SliceTicket
from agent_memory.domain.merging import merge
from agent_memory.domain.pruning import part_of
from agent_memory.wiring_night import merge_services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {"created": "SummariesCreated", "merged": "MemoriesMerged", "collapsed": "MemoriesCollapsed"}
METRICS |= {"flagged": "MemoriesFlagged", "failed": "MemoriesNotMerged"}
# A question to the model may take four minutes with its second try.
ENOUGH_MS = 300_000


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket, own = SliceTicket.model_validate(event), merge_services()
    _, part = part_of(ticket, own.own.night_files)
    doors = own.merge_doors(part.tenant_id, ticket.run, lambda: context.get_remaining_time_in_millis() < ENOUGH_MS)
    result = merge(ticket.run, part, doors, own.merge_rules(ticket.run))
    for decision, name in METRICS.items():
        metrics.add_metric(name=name, unit="Count", value=result.counts.get(decision, 0))
    for line in audit.acted(result, night=ticket.run.run_id, at=own.own.now()):
        logger.info(line["action"], extra=line)
    ids = {"run": ticket.run.run_id, "tenant_id": result.tenant_id, "slice": result.name}
    logger.info("slice merged", extra={**ids, "counts": dict(result.counts)})
    return {}
