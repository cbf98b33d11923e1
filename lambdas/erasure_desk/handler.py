"""erasure_desk: people ask for the erasure of a user or a tenant, see how it stands, and have a receipt proved."""

from typing import Any

from agent_memory.domain.erasing_desk import attend
from agent_memory.domain.errors import RefusedInputError
from agent_memory.wiring_erasure import erasure_services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: Any, context: object) -> dict[str, Any]:
    own = erasure_services()
    try:
        answer = attend(event, own.desk_doors, now=own.own.now())
    except RefusedInputError as refused:
        metrics.add_metric(name="ErasureQuestionsRefused", unit="Count", value=1)
        return {"error": {"field": refused.field, "rule": refused.rule, "message": str(refused)}}
    metrics.add_metric(name="ErasureQuestions", unit="Count", value=1)
    ids = {"tenant_id": event["tenant_id"], "action": event["action"], "erasure_id": answer.get("erasure_id")}
    logger.info("erasure desk", extra=ids)
    return answer
