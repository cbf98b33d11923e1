"""The Memory Retrieved event: what a bootstrap returned, in our own words, checked all the same."""

import re
from collections.abc import Mapping

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import instant
from agent_memory.domain.keys import identifier, label, tenant_identifier
from agent_memory.domain.models import Model, RetrievedMemory
from agent_memory.domain.procedures import PROCEDURAL
from agent_memory.domain.retention import DAY_SECONDS

EPISODIC = "episodic"
_HASH = re.compile(r"[0-9a-f]{64}")


class Retrieval(Model):
    """One memory context and the items in it."""

    tenant_id: str
    context_id: str
    at: int
    expires_at: int
    items: tuple[RetrievedMemory, ...]


def retrieval_of(event: Mapping[str, object], *, now: int, context_days: int) -> Retrieval:
    """Return the retrieval in an EventBridge event. Raises RefusedInputError."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise RefusedInputError("detail", "must be an object")
    items = detail.get("items")
    if not isinstance(items, list):
        raise RefusedInputError("items", "must be a list")
    at = instant(detail.get("at"), "at", now=now)
    return Retrieval(
        tenant_id=tenant_identifier(detail.get("tenant_id")),
        context_id=identifier(detail.get("context_id"), "context_id"),
        at=at,
        expires_at=at + context_days * DAY_SECONDS,
        items=tuple(_item(item) for item in items),
    )


def _item(item: object) -> RetrievedMemory:
    if not isinstance(item, Mapping) or not isinstance(item.get("memory_id"), str):
        raise RefusedInputError("items", "must be objects with memory_id, tier, agent_id and run_id")
    tier = identifier(item.get("tier"), "items.tier")
    if tier == PROCEDURAL:
        steps = item.get("steps_sha256")
        if not isinstance(steps, str) or not _HASH.fullmatch(steps):
            raise RefusedInputError("items.steps_sha256", "must be 64 hex digits")
        memory_id = identifier(item["memory_id"], "items.memory_id")
        task_type = label(item.get("task_type"), "items.task_type")
        return RetrievedMemory(memory_id=memory_id, tier=tier, task_type=task_type, steps_sha256=steps)
    if tier != EPISODIC:
        # A fact is nobody's run.
        return RetrievedMemory(memory_id=identifier(item["memory_id"], "items.memory_id"), tier=tier)
    return RetrievedMemory(
        memory_id=item["memory_id"],
        tier=tier,
        agent_id=identifier(item.get("agent_id"), "items.agent_id"),
        run_id=identifier(item.get("run_id"), "items.run_id"),
    )
