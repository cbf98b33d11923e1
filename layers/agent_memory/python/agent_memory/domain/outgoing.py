"""Turns what an agent holds (dicts, LangChain messages, whatever tools returned) into plain JSON values.

Nothing in a transcript may stop a run from being handed over: what JSON can't hold becomes a named gap.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.json_text import MAX_DIGITS
from agent_memory.domain.keys import identifier, label, user_identity
from agent_memory.domain.models import Outcome

TIME_RULE = "must be ISO 8601 with a time zone, such as 2026-12-01T09:30:00Z"
# EventBridge reads at most 1,000 levels; no real message comes near this.
MAX_DEPTH = 60
_TOO_LONG = 10**MAX_DIGITS


def messages_of(messages: object) -> list[object]:
    """Return *messages* as plain JSON values, one per message."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise RefusedInputError("messages", "must be a list of messages (dicts or LangChain messages)")
    plain = [as_json(message) for message in messages]
    if not plain:
        raise RefusedInputError("messages", "must hold at least one message")
    return plain


def zoned(value: object, field: str = "ended_at") -> str:
    """Return a time that has a zone as ISO 8601."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise RefusedInputError(field, TIME_RULE)
    return moment.isoformat()


def about(*, task: object, task_type: object, domain: object, user_id: object, outcome: object) -> dict[str, object]:
    """Return what the caller says of its run; what it does not say is None."""
    if task is not None and not isinstance(task, str):
        raise RefusedInputError("task", "must be text")
    if outcome is not None and outcome not in list(Outcome):
        raise RefusedInputError("outcome", f"must be one of {', '.join(Outcome)}")
    return {
        "task": task,
        "task_type": None if task_type is None else label(task_type, "task_type"),
        "domain": None if domain is None else label(domain, "domain"),
        "user_id": user_identity(user_id),
        "outcome": outcome,
    }


def feedback(context_id: str | None, used: Sequence[str]) -> dict[str, object] | None:
    """Return which of the memories that a recall returned were used, or None when there was no recall."""
    if not _listed(used) or not all(isinstance(memory_id, str) for memory_id in used):
        raise RefusedInputError("used", "must be a list of the ids of recalled items")
    return None if context_id is None else {"context_id": identifier(context_id, "context_id"), "used": list(used)}


def result_of(procedure_id: object, succeeded: object) -> dict[str, object] | None:
    """Return how a recalled procedure did, or None when the run names none."""
    if procedure_id is None and succeeded is None:
        return None
    if procedure_id is None:
        raise RefusedInputError("procedure_id", "is required beside procedure_succeeded")
    if succeeded is not None and not isinstance(succeeded, bool):
        raise RefusedInputError("procedure_succeeded", "must be true, false or absent")
    rated = {"procedure_id": identifier(procedure_id, "procedure_id"), "succeeded": succeeded}
    return {name: value for name, value in rated.items() if value is not None}


def with_facts(
    artifacts: Mapping[str, object] | None, facts: Sequence[Mapping[str, object]]
) -> Mapping[str, object] | None:
    """Return *artifacts* with the facts that the agent itself wants remembered, which may be all there is in them."""
    if artifacts is not None and not isinstance(artifacts, Mapping):
        raise RefusedInputError("artifacts", "must be an object, as docs/events describes it")
    if not _listed(facts) or not all(isinstance(fact, Mapping) for fact in facts):
        raise RefusedInputError("facts", "must be a list of objects with content and evidence")
    if not facts:
        return artifacts
    made = (artifacts or {}).get("facts")
    return {**(artifacts or {}), "facts": [*(made if isinstance(made, list | tuple) else ()), *facts]}


def _listed(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def as_json(value: object, path: tuple[int, ...] = ()) -> object:
    """Return *value* as what JSON can hold. *path*: the ids of the containers around it."""
    if isinstance(value, Enum):
        return as_json(value.value, path)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # Python writes no longer integer in decimal.
        return value if abs(value) < _TOO_LONG else hex(value)
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
