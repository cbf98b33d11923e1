"""regression_cases: people and pipelines add regression cases and ask them; asking counts as no access."""

from typing import Any

from agent_memory import contract
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.privacy import scrub_texts
from agent_memory.domain.recall import Recalled
from agent_memory.domain.regression_desk import DeskDoors, attend
from agent_memory.wiring import services
from agent_memory.wiring_quality import asking
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: Any, context: object) -> dict[str, Any]:
    try:
        answer = attend(event, _doors_of, now=services().now())
    except RefusedInputError as refused:
        metrics.add_metric(name="RegressionCasesRefused", unit="Count", value=1)
        return {"error": {"field": refused.field, "rule": refused.rule, "message": str(refused)}}
    metrics.add_metric(name="RegressionCasesAsked", unit="Count", value=len(answer.get("cases", ())))
    logger.info("regression cases", extra={"tenant_id": event["tenant_id"], "action": event["action"]})
    return answer


def _doors_of(tenant_id: str) -> DeskDoors:
    own = services()
    return DeskDoors(
        regressions=own.tenant(tenant_id).regressions,
        ask=asking(own, tenant_id, saw=_count).scores,
        scrub=lambda texts: scrub_texts(texts, own.detector, own.privacy_policy).texts,
        user_ref=lambda user_id: own.user_refs.user_ref(tenant_id, user_id),
    )


def _count(found: Recalled) -> None:
    metrics.add_metric(name=contract.CROSS_TENANT_RESULTS, unit="Count", value=found.cross_tenant)
