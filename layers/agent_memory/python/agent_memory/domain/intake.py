"""The door of the pipeline: the body of a queue message, as an event or as a refusal for a person to look at."""

import json
from collections.abc import Mapping

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import body_digest, without_user_ids

# A queue message holds at most 1 MiB; what is larger than this is named by its digest only.
MAX_KEPT_BODY = 200_000


def event_of(body: str) -> Mapping[str, object]:
    """Return the EventBridge event in *body*. Raises RefusedInputError when it is no JSON object."""
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedInputError("event", "must be JSON") from None
    if not isinstance(event, Mapping):
        raise RefusedInputError("event", "must be a JSON object")
    return event


def refusal(error: RefusedInputError, body: str) -> dict[str, object]:
    """Return what is kept of an event without valid ids: field, rule, digest, and its JSON without user ids."""
    kept: dict[str, object] = {
        "field": error.field,
        "rule": error.rule,
        "sha256": body_digest(body),
        "characters": len(body),
    }
    try:
        event = json.dumps(without_user_ids(event_of(body)))
    except RefusedInputError:
        # Text that is no JSON can't be searched for user ids, so none of it is kept.
        return kept
    return kept | {"body": event} if len(event) <= MAX_KEPT_BODY else kept
