"""Small builders: a valid value of every noun, with the one thing a test cares about put in by name."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from agent_memory.domain.keys import claim_key
from agent_memory.domain.models import (
    Artifacts,
    Claim,
    Distillation,
    DistilledBy,
    Episode,
    LedgerRun,
    Outcome,
    ParkedRun,
    RetrievedMemory,
    RunState,
    RunTicket,
    Vector,
)

NOW = 1_800_000_000  # 2027-01-15T08:00:00Z
DAY = 86_400
TENANT, AGENT, RUN = "northwind", "claims-bot", "r-1"
HASH = hashlib.sha256(b"content").hexdigest()


def some_messages(*pairs: tuple[str, object]) -> list[dict[str, object]]:
    """OpenAI-style messages of (role, content); a short finished conversation when none are given."""
    pairs = pairs or (("user", "Move booking K7 to Friday."), ("assistant", "Booking K7 is now on Friday."))
    return [{"role": role, "content": content} for role, content in pairs]


def a_detail(**changes: object) -> dict[str, Any]:
    """The detail of an Agent Run Ended event. A change to None removes the field."""
    detail: dict[str, object] = {
        "schema_version": 1,
        "tenant_id": TENANT,
        "agent_id": AGENT,
        "run_id": RUN,
        "ended_at": "2027-01-15T07:59:00Z",
        "transcript": {"messages": some_messages()},
    }
    detail.update(changes)
    return {name: value for name, value in detail.items() if value is not None}


def an_event(detail: object | None = None, *, source: str | None = None, **changes: object) -> dict[str, Any]:
    """A whole EventBridge event; the source names the tenant of the detail unless given."""
    detail = a_detail(**changes) if detail is None else detail
    tenant = detail.get("tenant_id") if isinstance(detail, dict) else None
    return {
        "version": "0",
        "id": "5e0c1f2a-0000-4000-8000-000000000001",
        "detail-type": "Agent Run Ended",
        "source": source if source is not None else f"agent-memory.client/{tenant}",
        "time": "2027-01-15T08:00:00Z",
        "detail": detail,
    }


def an_sqs_event(*bodies: object, receives: int = 1) -> dict[str, Any]:
    """An SQS batch; a body that is not text is encoded as JSON. Message ids are m-0, m-1, ..."""
    texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies]
    return {
        "Records": [
            {
                "messageId": f"m-{i}",
                "body": text,
                "eventSource": "aws:sqs",
                "attributes": {"ApproximateReceiveCount": str(receives)},
            }
            for i, text in enumerate(texts)
        ]
    }


def a_claim(**changes: object) -> Claim:
    return Claim.model_validate(
        {
            "tenant_id": TENANT,
            "agent_id": AGENT,
            "run_id": RUN,
            "ended_at": NOW - 60,
            "messages": tuple(some_messages()),
            "content_sha256": HASH,
            **changes,
        }
    )


def some_artifacts(**changes: object) -> Artifacts:
    return Artifacts.model_validate(
        {
            "task_summary": "Moved booking K7 to Friday.",
            "outcome": Outcome.COMPLETED,
            "key_findings": ("Booking K7 could be moved without a fee.",),
            "approach_used": "Looked the booking up, then changed its date.",
            "tools_used": ("find_booking", "move_booking"),
            "time_taken_steps": 2,
            "reusable_patterns": ("Check the fee before a move.",),
            "confidence": 0.8,
            **changes,
        }
    )


def a_distillation(**changes: object) -> Distillation:
    """A scrubbed distillation."""
    return Distillation.model_validate(
        {
            "task": "Move booking K7 to Friday.",
            "asked": "Move booking K7 to Friday.",
            "artifacts": some_artifacts(),
            "distilled_by": DistilledBy.MODEL,
            "scrubbed": True,
            **changes,
        }
    )


def a_vector(*hot: int, dimensions: int = 8) -> Vector:
    """A unit vector with equal weight on the dimensions *hot* (the first when none is given)."""
    vector = np.zeros(dimensions, dtype=np.float32)
    vector[list(hot or (0,))] = 1.0
    return vector / np.float32(np.linalg.norm(vector))


def an_episode(**changes: object) -> Episode:
    return Episode.model_validate(
        {
            "tenant_id": TENANT,
            "agent_id": AGENT,
            "run_id": RUN,
            "task": "Move booking K7 to Friday.",
            "digest": "Move booking K7 to Friday. Booking K7 could be moved without a fee.",
            "task_vector": a_vector(0),
            "digest_vector": a_vector(1),
            "embedding_model": "test-model",
            "outcome": Outcome.COMPLETED,
            "task_summary": "Moved booking K7 to Friday.",
            "key_findings": ("Booking K7 could be moved without a fee.",),
            "confidence": 0.8,
            "distilled_by": DistilledBy.MODEL,
            "created_at": NOW,
            "ended_at": NOW - 60,
            "expires_at": NOW + 90 * DAY,
            "decays_at": NOW + 34 * DAY,
            **changes,
        }
    )


def a_ticket(**changes: object) -> RunTicket:
    return RunTicket.model_validate(
        {
            "tenant_id": TENANT,
            "agent_id": AGENT,
            "run_id": RUN,
            "attempt": 1,
            "claim_key": claim_key(TENANT, AGENT, RUN, HASH),
            **changes,
        }
    )


def a_ledger_run(**changes: object) -> LedgerRun:
    return LedgerRun.model_validate(
        {
            "tenant_id": TENANT,
            "agent_id": AGENT,
            "run_id": RUN,
            "content_sha256": HASH,
            "attempt": 1,
            "state": RunState.ACCEPTED,
            "accepted_at": NOW,
            "ended_at": NOW - 60,
            "expires_at": NOW + 210 * DAY,
            **changes,
        }
    )


def a_parked_run(**changes: object) -> ParkedRun:
    return ParkedRun.model_validate(
        {
            "tenant_id": TENANT,
            "agent_id": AGENT,
            "run_id": RUN,
            "reason": "model_busy",
            "step": "DistillRun",
            "attempt": 1,
            "parked_at": NOW,
            "expires_at": NOW + 30 * DAY,
            "content_key": f"parked/{TENANT}/{AGENT}/{RUN}/0.json.gz",
            **changes,
        }
    )


def a_retrieved_memory(run_id: str = RUN, agent_id: str = AGENT, tier: str = "episodic") -> RetrievedMemory:
    return RetrievedMemory(memory_id=f"{agent_id}/{run_id}", tier=tier, agent_id=agent_id, run_id=run_id)


def a_memory_retrieved_event(
    items: Sequence[RetrievedMemory] = (), *, context_id: str = "c-1", at: int | str = NOW, **changes: object
) -> Mapping[str, Any]:
    """A whole Memory Retrieved event of our own bus."""
    detail: dict[str, object] = {
        "schema_version": 1,
        "tenant_id": TENANT,
        "agent_id": AGENT,
        "context_id": context_id,
        "at": at,
        "items": [item.model_dump() for item in items],
        **changes,
    }
    return {"detail-type": "Memory Retrieved", "source": "agent-memory", "detail": detail}


class LambdaContext:
    """What a handler may ask its context for."""

    function_name = "test"
    memory_limit_in_mb = 128
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:test"
    aws_request_id = "00000000-0000-4000-8000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000
