"""canary: every hour, two tenants of nobody's look for each other's secrets; who sees one is heard of."""

from typing import Any

from agent_memory import contract
from agent_memory.domain.canary import watch
from agent_memory.wiring import services
from agent_memory.wiring_canary import canary_doors
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: Any, context: object) -> dict[str, Any]:
    own = services()
    settings = own.settings
    report = watch(canary_doors(own), settings.environment, runs=settings.confirmation_threshold, now=own.now())
    metrics.add_metric(name=contract.CANARY_LEAKS, unit="Count", value=len(report.leaks))
    # Counted only when everything was looked at: an alarm misses it.
    metrics.add_metric(name=contract.CANARY_LOOKED, unit="Count", value=int(not report.blind))
    logger.info("canary looked", extra={"decision": report.decision, **report.model_dump(mode="json")})
    return {"decision": report.decision, **report.model_dump(mode="json")}
