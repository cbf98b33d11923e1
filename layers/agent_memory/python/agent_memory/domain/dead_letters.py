"""Messages that a function could not take, as ids: what else is in them is not for screens."""

from collections.abc import Mapping

from agent_memory.contract import CLIENT_SOURCE_PREFIX, OWN_SOURCE
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.intake import event_of
from agent_memory.domain.keys import identifier
from agent_memory.domain.models import Model

_IDS = ("tenant_id", "agent_id", "run_id", "context_id", "memory_id")


class Letter(Model):
    """One dead letter. Ids are absent when the message has none that can be read: a run that ended has *run_id*, what
    a recall returned *context_id*, a report of reads from AgentCore that and *memory_id*."""

    message_id: str
    tenant_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    context_id: str | None = None
    memory_id: str | None = None


def letter(message_id: str, body: str) -> Letter:
    """Return what may be shown of a message; nothing of one whose source may not speak for the tenant it names."""
    try:
        event = event_of(body)
    except RefusedInputError:
        return Letter(message_id=message_id)
    detail = event.get("detail")
    found = _ids(detail) if isinstance(detail, Mapping) else {}
    if event.get("source") not in (OWN_SOURCE, f"{CLIENT_SOURCE_PREFIX}{found.get('tenant_id')}"):
        return Letter(message_id=message_id)
    return Letter(message_id=message_id, **found)


def _ids(detail: Mapping[str, object]) -> dict[str, str]:
    found = {}
    for name in _IDS:
        try:
            found[name] = identifier(detail.get(name), name)
        except RefusedInputError:
            continue
    return found
