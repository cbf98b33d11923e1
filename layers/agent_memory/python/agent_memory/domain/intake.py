"""The door of the pipeline: the body of a queue message, as an event or as a refusal for a person to look at."""

import json
import re
from collections.abc import Mapping

from agent_memory.contract import MAX_RECEIVES
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import body_digest, without_user_id
from agent_memory.domain.json_text import read_json

# A queue message holds at most 1 MiB; an event that would make it larger than this is named by its digest only.
MAX_MESSAGE_BYTES = 1_000_000
_NOT_FOR_QUEUES = re.compile(r"[\ud800-\udfff\ufffe\uffff]")


def event_of(body: str) -> Mapping[str, object]:
    """Return the EventBridge event in *body*. Raises RefusedInputError when it is no JSON object."""
    try:
        event = read_json(body)
    except (ValueError, RecursionError):
        raise RefusedInputError("event", "must be JSON") from None
    if not isinstance(event, Mapping):
        raise RefusedInputError("event", "must be a JSON object")
    return event


def last_try(receives: str | int) -> bool:
    """Whether a message that was received this often goes to the dead letters when it is not taken now."""
    return int(receives) >= MAX_RECEIVES


def refusal(error: RefusedInputError, body: str) -> dict[str, object]:
    """Return what is kept of an event without valid ids: field, rule, digest, and the event without its user."""
    kept: dict[str, object] = {
        "field": error.field,
        "rule": error.rule,
        "sha256": body_digest(body),
        "characters": len(body),
    }
    try:
        whole = kept | {"event": without_user_id(event_of(body))}
        return whole if len(message_of(whole).encode()) <= MAX_MESSAGE_BYTES else kept
    except (RefusedInputError, RecursionError):
        # Text that is no JSON can't be searched for a user id, so none of it is kept.
        return kept


def message_of(kept: Mapping[str, object]) -> str:
    """Return *kept* as the text of a queue message: short, and without the characters that SQS does not take."""
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    return _NOT_FOR_QUEUES.sub("\ufffd", text)
