"""restore_memories: takes a run of the night back in one tenant, as far as it removed something there."""

from typing import Any

from agent_memory.domain import audit
from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.keys import result_key
from agent_memory.domain.lifecycle import SliceResult, SliceTicket, TenantSlice
from agent_memory.domain.restoring import ROOM, roll_back
from agent_memory.wiring_night import merge_services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
ENOUGH_MS = 30_000


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket, own = SliceTicket.model_validate(event), merge_services()
    run_id, files = ticket.run.run_id, own.own.night_files
    part = files.get(ticket.key, TenantSlice)
    if part is None:
        raise AgentMemoryError(f"the slice {ticket.key} is gone")
    doors = own.restore_doors(part.tenant_id, lambda: context.get_remaining_time_in_millis() < ENOUGH_MS)
    finished = roll_back(part.tenant_id, part.name, run_id, doors, own.restore_rules, now=own.own.now())
    result = files.get(result_key(run_id, ROOM, part.tenant_id, part.name), SliceResult) if finished else None
    if result is not None:
        metrics.add_metric(name="MemoriesRestored", unit="Count", value=result.counts.get("restored", 0))
        for line in audit.acted(result, night=run_id, at=own.own.now()):
            logger.info(line["action"], extra=line)
    logger.info("run taken back", extra={"run": run_id, "tenant_id": part.tenant_id, "finished": finished})
    return ticket.model_copy(update={"decision": "restored" if finished else "more"}).model_dump()
