"""refresh_records: first step of a night over AgentCore; counts accesses, lists what is new, works out due times."""

from typing import Any

from agent_memory.domain.agentcore_night import refresh
from agent_memory.domain.lifecycle import NightTicket
from agent_memory.wiring import services
from agent_memory.wiring_agentcore import AgentCoreServices
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {"records": "RecordsKnown", "due": "RecordsDue", "listed": "RecordsListed", "undated": "RecordsUndated"}
METRICS |= {"accesses": "AccessesSeen", "bad_lines": "TrailLinesUnreadable", "files_cut": "TrailFilesCut"}


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    own, ticket = AgentCoreServices(services()), NightTicket.model_validate(event["ticket"])
    done, counts = refresh(ticket, own.memories, own.refresh_doors, own.refresh_rules)
    for name, metric in METRICS.items():
        metrics.add_metric(name=metric, unit="Count", value=counts.get(name, 0))
    ids = {"run": ticket.run.run_id, "decision": done.decision, "reason": done.reason}
    logger.info("records refreshed", extra={**ids, "counts": counts})
    return done.model_dump(mode="json")
