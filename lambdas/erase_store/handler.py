"""erase_store: one step of an erasure: one store, a look at what is still under way, or the receipt."""

from typing import Any

from agent_memory import contract
from agent_memory.domain.erasure import ErasureTicket, give_up, work
from agent_memory.wiring_erasure import ErasureServices, erasure_services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    own, ticket = erasure_services(), ErasureTicket.model_validate(event["ticket"])
    if event["action"] == "report":
        done = _report(own, ticket)
    else:
        step = give_up if event["action"] == "give_up" else work
        done = step(ticket, own.doors(ticket.tenant_id))
    metrics.add_metric(name="ErasureSteps", unit="Count", value=1)
    ids = {"tenant_id": ticket.tenant_id, "erasure_id": ticket.erasure_id, "sweep": ticket.sweep}
    logger.info("erase", extra={**ids, "store": next(iter(ticket.stores), None), "decision": done.decision})
    return done.model_dump(mode="json")


def _report(own: ErasureServices, ticket: ErasureTicket) -> ErasureTicket:
    receipt = own.report(ticket)["receipt"]
    partial = receipt["decision"] != "erased"
    metrics.add_metric(name=contract.ERASURES_PARTIAL, unit="Count", value=int(partial))
    return ticket.model_copy(update={"decision": receipt["decision"]})
