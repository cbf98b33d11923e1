"""flag_procedures: procedures that fail or that nobody uses any more go to the reviewers' queue, tenant by tenant; and
how long the oldest parked run has been waiting for somebody is measured."""

from typing import Any

from agent_memory import contract
from agent_memory.domain import audit
from agent_memory.domain.lifecycle import NightTicket
from agent_memory.domain.procedure_flagging import flag_procedures
from agent_memory.wiring_merging import merge_services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
ENOUGH_MS = 30_000


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    own, ticket = merge_services(), NightTicket.model_validate(event["ticket"])
    doors = own.flag_doors(lambda: context.get_remaining_time_in_millis() < ENOUGH_MS)
    if ticket.work is None:
        metrics.add_metric(name=contract.OLDEST_PARKED_RUN_DAYS, unit="None", value=own.oldest_parked_days())
    done, results = flag_procedures(ticket, doors)
    for result in results:
        for line in audit.acted(result, night=ticket.run.run_id, at=own.own.now()):
            logger.info(line["action"], extra=line)
    flagged = sum(result.counts.get("flagged", 0) for result in results)
    metrics.add_metric(name="ProceduresFlagged", unit="Count", value=flagged)
    logger.info("procedures looked at", extra={"run": done.run.run_id, "tenants": len(results), "flagged": flagged})
    return done.model_dump(mode="json")
