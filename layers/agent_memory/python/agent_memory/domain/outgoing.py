"""Turns what an agent holds (dicts, LangChain messages, whatever tools returned) into plain JSON values.

Nothing in a transcript may stop a run from being handed over: what JSON can't hold becomes a named gap.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from datetime import date
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


def as_json(value: object, path: tuple[int, ...] = ()) -> object:
    """Return *value* as what JSON can hold. *path*: the ids of the containers around it."""
    if isinstance(value, Enum):
        return as_json(value.value, path)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _without_lone_surrogates(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[binary, {len(value)} bytes]"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if id(value) in path or len(path) > MAX_DEPTH:
        return "[refers to itself]" if id(value) in path else "[nested too deep]"
    return _nested(value, (*path, id(value)))


def _nested(value: object, path: tuple[int, ...]) -> object:
    if isinstance(value, Mapping):
        return {_without_lone_surrogates(str(k)): as_json(v, path) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(v, path) for v in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_json(getattr(value, f.name), path) for f in dataclasses.fields(value)}
    return as_json(_dumped(value), path)


def _dumped(value: object) -> object:
    """What the object says of itself (pydantic, LangChain, numpy), or its type's name as a gap."""
    for method in ("model_dump", "dict", "to_dict", "tolist"):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            try:
                return dump()
            except Exception:  # a message that can't dump itself must not stop the handover
                break
    return f"[{type(value).__name__}]"


def _without_lone_surrogates(text: str) -> str:
    """UTF-8 can't hold half a pair; a whole pair becomes the character it stands for."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
