"""quality_check: the night's quality gate; asks each touched tenant's regression cases before and after."""

from typing import Any

from agent_memory import contract
from agent_memory.domain.lifecycle import NightTicket
from agent_memory.domain.night_quality import STEPS, NightGate, TenantGate
from agent_memory.domain.recall import Recalled
from agent_memory.wiring import services
from agent_memory.wiring_night import asking
from agent_memory.wiring_quality import asking_kept_until
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()
# One tenant's cases, each judged by a slow model, still fit into what is left then.
LEAST_MILLISECONDS = 450_000


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    own, ticket = services(), NightTicket.model_validate(event["ticket"])

    def late() -> bool:
        return int(context.get_remaining_time_in_millis()) < LEAST_MILLISECONDS

    doors = NightGate(own.night_files, _gate_of, late, now=own.now(), expires_at=asking_kept_until(own))
    done = STEPS[str(event["action"])](ticket, doors)
    logger.info("quality gate", extra={"night": done.run.run_id, "action": event["action"], "decision": done.decision})
    return done.model_dump(mode="json")


def _gate_of(tenant_id: str) -> TenantGate:
    own = services()
    return TenantGate(own.tenant(tenant_id).regressions, asking(own, tenant_id, saw=_count).scores)


def _count(found: Recalled) -> None:
    metrics.add_metric(name=contract.CROSS_TENANT_RESULTS, unit="Count", value=found.cross_tenant)
