"""StoreEpisode: a scrubbed run becomes an episode, once."""

from typing import Any

from agent_memory.domain.episodes import StoreDoors, StoreRules, store_run
from agent_memory.domain.models import RunTicket
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
METRICS = {"stored": "EpisodesStored", "expired_on_arrival": "ExpiredOnArrival", "erased": "RunsErased"}


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ticket = RunTicket.model_validate(event)
    own, tenant = services(), services().tenant(ticket.tenant_id)
    doors = StoreDoors(tenant.episodes, tenant.ledger, tenant.claims, own.embedder)
    stored = store_run(ticket, doors, StoreRules(own.decay_rules, own.retention_rules), now=own.now())
    if stored.decision in ("stored", "duplicate"):
        # The night looks at the cap and the near-duplicates of these agents only.
        tenant.agent_notes.note_agent(ticket.agent_id, now=own.now())
        own.stored.note(ticket.tenant_id, ticket.agent_id, now=own.now())
    metrics.add_metric(name=METRICS.get(stored.decision, "EpisodesNotStored"), unit="Count", value=1)
    metrics.add_metric(name="VectorsMissing", unit="Count", value=stored.counts.get("vectors_missing", 0))
    ids = ticket.model_dump(include={"tenant_id", "agent_id", "run_id", "attempt"})
    logger.info("episode written", extra={**ids, **stored.model_dump()})
    decided = ticket.decided(stored.decision, stored.reason)
    follows = {"fact_indexes": stored.fact_indexes, "proposal": stored.proposal}
    return decided.model_copy(update=follows).model_dump()
