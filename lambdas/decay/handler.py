"""decay: the nightly plan. Takes the lock, reads what is due across tenants (keys only), weighs it, ends the night."""

from typing import Any

from agent_memory.domain import night, planning, weighing
from agent_memory.domain.lifecycle import NightTicket
from agent_memory.wiring_night import night_services
from aws_lambda_powertools import Logger

logger = Logger()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    own, action = night_services(), str(event["action"])
    if action == "give_up":
        released = own.desk.release(str(event["owner"]))
        logger.error("night gave up", extra={"owner": event["owner"], "released": released})
        return {"decision": "given_up"}
    ticket = (
        _begun(event["start"]) if action == "begin" else _moved(action, NightTicket.model_validate(event["ticket"]))
    )
    if ticket is None:
        logger.warning("night is at work already", extra={"owner": event["start"]["owner"]})
        return {"decision": "busy"}
    logger.info("night", extra={"action": action, "run": ticket.run.run_id, "decision": ticket.decision})
    return ticket.model_dump(mode="json")


def _begun(start: dict[str, Any]) -> NightTicket | None:
    own = night_services()
    hours, settings = own.own.settings.lifecycle_limit_hours, own.settings_hash
    owner, asked = str(start["owner"]), start.get("asked")
    return night.begin(owner, asked, own.doors, settings=settings, limit_hours=hours, now=own.own.now())


def _moved(action: str, ticket: NightTicket) -> NightTicket:
    own = night_services()
    if action == "plan":
        return planning.plan(ticket, own.plan_doors, own.desk.last(), shards=own.own.settings.due_shards)
    if action == "weigh":
        approvals = own.desk.approvals(now=ticket.run.now)
        return weighing.weigh(ticket, own.weigh_doors, own.blast_rules, approvals)
    return night.end(ticket, own.doors)
