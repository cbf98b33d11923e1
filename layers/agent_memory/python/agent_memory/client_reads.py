"""What an agent that searches AgentCore Memory itself tells us: which records it was given, and which helped."""

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from agent_memory.contract import RECORDS_READ, SCHEMA_VERSION
from agent_memory.deployment import Deployment
from agent_memory.domain.errors import ConfigurationError
from agent_memory.domain.keys import identifier
from agent_memory.domain.models import Model
from agent_memory.domain.outgoing import zoned
from agent_memory.domain.record_reads import memory_identifier, record_identifiers, used_identifiers


class ReportedReads(Model):
    """How a report of reads went. *context_id*: under which a later report of the same search counts nothing twice.
    *sent* False: the night does not hear of it, *reason* says why.

    Example: `memory.report_reads(memory_id, ids, used=helped, context_id=reported.context_id)`
    """

    context_id: str
    sent: bool
    event_id: str | None = None
    reason: str | None = None


def reads_detail(
    tenant_id: str,
    agent_id: str,
    memory_id: object,
    record_ids: object,
    *,
    used: object,
    context_id: str | None,
    read_at: datetime | str | None,
) -> dict[str, object]:
    """The detail of the event (docs/events). Raises RefusedInputError naming the argument."""
    read = record_identifiers(_listed(record_ids))
    return {
        "schema_version": SCHEMA_VERSION,
        "tenant_id": tenant_id,
        "agent_id": agent_id,
        "memory_id": memory_identifier(memory_id),
        "context_id": f"c-{uuid.uuid4()}" if context_id is None else identifier(context_id, "context_id"),
        "record_ids": list(read),
        "used": list(used_identifiers(_listed(used), read)),
        "read_at": zoned(datetime.now(UTC) if read_at is None else read_at, "read_at"),
    }


def send_reads(deployment: Deployment, detail: Mapping[str, object]) -> ReportedReads:
    """Put one report on the bus. Raises ConfigurationError where nobody would listen for it."""
    tenant_id, memory_id = str(detail["tenant_id"]), str(detail["memory_id"])
    named = deployment.agentcore_memories.get(tenant_id)
    if named != memory_id:
        raise ConfigurationError(
            f"{deployment.environment!r} names {f'the memory {named}' if named else 'no memory of AgentCore'} for the "
            f"tenant {tenant_id}, not {memory_id}: deploy it with -c agentcoreMemories=... and this tenant_id in the "
            "memory's entry"
        )
    event_id = deployment.events(tenant_id).put(RECORDS_READ, json.dumps(detail))
    return ReportedReads(context_id=str(detail["context_id"]), sent=True, event_id=event_id)


def _listed(value: object) -> object:
    """A set, or another sequence, is a list as well; a text is not."""
    if isinstance(value, set | frozenset | Sequence) and not isinstance(value, str | bytes):
        return list(value)
    return value
