"""bootstrap: what earlier runs learnt about a task, before a run starts. It answers whatever happens to memory."""

import uuid
from typing import Any

from agent_memory.cold_start import loaded
from agent_memory.domain.callers import authorised
from agent_memory.domain.deadlines import Budget
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.prefetching import Desk, PrefetchDoors
from agent_memory.domain.recall import RecallDoors
from agent_memory.domain.recall_request import recall_request
from agent_memory.domain.semantic_recall import FactDoors
from agent_memory.domain.url_answers import answered, metric_of, refusal
from agent_memory.wiring import open_for_recall, services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
open_for_recall()
loaded()


@metrics.log_metrics
def handler(event: Any, context: object) -> dict[str, Any]:
    own = services()
    try:
        call = authorised(event, own.caller_auth, own.known_caller)
        request = recall_request(call.request, own.recall_rules)
    except RefusedInputError as refused:
        metrics.add_metric(name=metric_of(refused, "RecallsRefused"), unit="Count", value=1)
        return answered(event, refusal(refused))
    budget = Budget(request.budget_ms, own.clock)
    found = _desk_of(request.tenant_id).answer(request, budget, f"c-{uuid.uuid4()}")
    for name, value in found.counts().items():
        metrics.add_metric(name=name, unit="Count", value=value)
    ids = {"tenant_id": request.tenant_id, "agent_id": request.agent_id, "context_id": found.context_id}
    logger.info("memory recalled", extra={**ids, **found.counts(), "degraded": list(found.degraded)})
    return answered(event, found.model_dump(mode="json", exclude_none=True))


def _desk_of(tenant_id: str) -> Desk:
    own = services()
    facts = FactDoors(lambda: own.tenant(tenant_id).facts, lambda: own.knowledge, lambda: own.user_refs)
    episodes, procedures = lambda: own.tenant(tenant_id).episodes, lambda: own.tenant(tenant_id).procedures
    recall = RecallDoors(episodes, lambda: own.embedder, own.publish, facts, procedures)
    prefetch = PrefetchDoors(lambda: own.tenant(tenant_id).prefetches, lambda: own.user_refs)
    return Desk(recall, prefetch, rules=own.recall_rules, now=own.now(), keep_minutes=own.settings.prefetch_minutes)
