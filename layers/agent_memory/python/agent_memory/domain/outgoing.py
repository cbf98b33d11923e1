"""Turns what an agent holds (dicts, LangChain messages, whatever tools returned) into plain JSON values.

Nothing in a transcript may stop a run from being handed over: what JSON can't hold becomes a named gap.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

from agent_memory.domain.errors import RefusedInputError

# EventBridge reads at most 1,000 levels; no real message comes near this.
MAX_DEPTH = 60


def messages_of(messages: object) -> list[object]:
    """Return *messages* as plain JSON values, one per message."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise RefusedInputError("messages", "must be a list of messages (dicts or LangChain messages)")
    plain = [as_json(message) for message in messages]
    if not plain:
        raise RefusedInputError("messages", "must hold at least one message")
    return plain


def as_json(value: object, depth: int = 0) -> object:
    """Return *value* as what JSON can hold."""
    if depth > MAX_DEPTH:
        return "[nested too deep]"
    if isinstance(value, Enum):
        return as_json(value.value, depth)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _without_lone_surrogates(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[binary, {len(value)} bytes]"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    return _nested(value, depth + 1)


def _nested(value: object, depth: int) -> object:
    if isinstance(value, Mapping):
        return {_without_lone_surrogates(str(k)): as_json(v, depth) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(v, depth) for v in value]
    for method in ("model_dump", "dict", "to_dict"):
        dump = getattr(value, method, None)
        if callable(dump):
            return as_json(dump(), depth)
    return f"[{type(value).__name__}]"


def _without_lone_surrogates(text: str) -> str:
    """UTF-8 can't hold half a pair; a whole pair becomes the character it stands for."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
