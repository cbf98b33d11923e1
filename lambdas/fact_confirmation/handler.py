"""ConfirmFact: a fact that a run claims is observed, and believed when enough independent runs observed it."""

from typing import Any

from agent_memory.domain.fact_confirming import ConfirmDoors, ConfirmRules, confirm_fact
from agent_memory.domain.models import RunTicket
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {
    "observed": "FactsObserved",
    "promoted": "FactsPromoted",
    "duplicate": "FactsRepeated",
    "contested": "FactsContested",
    "superseded": "FactsSuperseded",
    "refused": "FactsRefused",
}


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket = RunTicket.model_validate({name: event[name] for name in RunTicket.model_fields if name in event})
    own, tenant = services(), services().tenant(ticket.tenant_id)
    doors = ConfirmDoors(
        tenant.facts, tenant.documents, tenant.claims, own.dirty, own.embedder, own.judge, own.rest, own.now
    )
    rules = ConfirmRules(own.settings, own.retention_rules)
    confirmed = confirm_fact(ticket, event["fact_index"], doors, rules, now=own.now())
    for one in confirmed.fresh:
        metrics.add_metric(name=METRICS.get(one.decision, "FactsNotConfirmed"), unit="Count", value=1)
    metrics.add_metric(name="FactConflicts", unit="Count", value=confirmed.counts.get("conflicts", 0))
    ids = ticket.model_dump(include={"tenant_id", "agent_id", "run_id", "attempt"})
    fresh = [one.model_dump() for one in confirmed.fresh]
    logger.info("facts confirmed", extra={**ids, "fresh": fresh, **confirmed.asked.model_dump(), **confirmed.counts})
    return confirmed.asked.model_dump()
