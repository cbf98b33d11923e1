"""What the canary tries: the doors of everybody, and the stores on the credentials of its two tenants."""

import json
import time
from typing import TYPE_CHECKING, Final

from agent_memory import contract
from agent_memory.domain.canary import CanaryDoors
from agent_memory.settings import canary_settings
from agent_memory.wiring import Services

if TYPE_CHECKING:
    from agent_memory.aws.remote import Recalls

TIMEOUT: Final = 20.0


def canary_doors(own: Services) -> CanaryDoors:
    """The doors of this deployment."""
    from agent_memory.aws.crossing import StorageCrossing
    from agent_memory.aws.remote import ClientEvents

    events = own.sessions.own_client("events")
    s = own.settings
    crossing = StorageCrossing(
        own.sessions.client,
        tables={
            s.episodes_table: contract.EPISODES_PARTITION_KEY,
            s.facts_table: contract.FACTS_PARTITION_KEY,
            s.procedures_table: contract.PROCEDURES_PARTITION_KEY,
            s.ledger_table: contract.LEDGER_PARTITION_KEY,
        },
        buckets={
            s.transcripts_bucket: "",
            s.parked_bucket: "parked/",
            s.knowledge_bucket: contract.KNOWLEDGE_PREFIX,
            s.archive_bucket: contract.ARCHIVE_PREFIX,
        },
    )

    def lists(tenant_id: str, agent_id: str, domain: str) -> object:
        tenant = own.tenant(tenant_id)
        return [*tenant.episodes.views(agent_id, now=own.now()), *tenant.facts.facts(domain)]

    def plant(tenant_id: str, detail: str) -> None:
        ClientEvents(events, bus=s.bus, tenant_id=tenant_id, pause=time.sleep).put(contract.RUN_ENDED, detail)

    return CanaryDoors(
        ask=_bootstrap(own).ask,
        lists=lists,
        search=lambda query: own.knowledge.retrieve(query),
        plant=lambda tenant_id, detail: plant(tenant_id, json.dumps(detail)),
        crosses=crossing.crossed if s.canary_storage_probe else None,
    )


def _bootstrap(own: Services) -> "Recalls":
    from agent_memory.aws.remote import BOOTSTRAP, BootstrapFunction, Clients
    from agent_memory.aws.signed_url import SignedUrl

    where = canary_settings()
    if own.caller_auth == "principal":
        session = Clients(timeout_seconds=TIMEOUT).session
        return SignedUrl(session, url=where.bootstrap_url, timeout_seconds=TIMEOUT, function=BOOTSTRAP)
    return BootstrapFunction(own.sessions.own_client("lambda"), function=where.bootstrap_function)
