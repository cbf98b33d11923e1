"""refresh_records: first step of a night over AgentCore; lists what is new, counts accesses, works out due times."""

from typing import Any

from agent_memory.contract import TRAIL_DIGESTS
from agent_memory.domain.agentcore_night import refresh
from agent_memory.domain.lifecycle import NightTicket
from agent_memory.wiring import services
from agent_memory.wiring_agentcore import AgentCoreServices
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {"records": "RecordsKnown", "due": "RecordsDue", "listed": "RecordsListed", "undated": "RecordsUndated"}
METRICS |= {"accesses": "AccessesSeen", "bad_lines": "TrailLinesUnreadable", "files_cut": "TrailFilesCut"}
METRICS |= {"digests": TRAIL_DIGESTS, "reads_by_agent": "ReadsReported", "reads_by_bootstrap": "ReadsRecalled"}
METRICS |= {"reads_of_unknown": "ReadsOfUnknownRecords", "reports_unreadable": "ReportsUnreadable"}
# What is left when it stops is for the next call: reading one more batch, or working out every due time.
ENOUGH_MS = 180_000


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    def late() -> bool:
        return int(context.get_remaining_time_in_millis()) < ENOUGH_MS

    own, ticket = AgentCoreServices(services()), NightTicket.model_validate(event["ticket"])
    done, counts = refresh(ticket, own.memories, own.refresh_doors, own.refresh_rules, late)
    for name, metric in METRICS.items():
        metrics.add_metric(name=metric, unit="Count", value=counts.get(name, 0))
    ids = {"run": ticket.run.run_id, "decision": done.decision, "reason": done.reason}
    logger.info("records refreshed", extra={**ids, "counts": counts})
    return done.model_dump(mode="json")
