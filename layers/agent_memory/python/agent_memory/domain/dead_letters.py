"""Messages that a function could not take, as ids: what else is in them is not for screens."""

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import run_ids
from agent_memory.domain.intake import event_of
from agent_memory.domain.models import Model


class Letter(Model):
    """One dead letter. Ids are absent when the message has none that can be read."""

    message_id: str
    tenant_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None


def letter(message_id: str, body: str) -> Letter:
    """Return what may be shown of a message."""
    try:
        return Letter(message_id=message_id, **dict(run_ids(event_of(body))))
    except RefusedInputError:
        return Letter(message_id=message_id)
