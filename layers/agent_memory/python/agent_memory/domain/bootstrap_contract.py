"""What the bootstrap function takes and gives, as JSON Schemas for programs that are not written in Python.

docs/contracts holds them as files; a test keeps those equal to what is made here.
"""

from typing import Any

from agent_memory.domain.recall import Recalled
from agent_memory.domain.recall_request import (
    MAX_BUDGET_MS,
    MAX_CONTEXT_TOKENS,
    MAX_EPISODES,
    MAX_FACTS,
    MAX_TASK_CHARACTERS,
    TIERS,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Rules of keys.py, in the regular expressions that JSON Schema knows.
ID = {"type": "string", "pattern": r"^(?!\.+$)[A-Za-z0-9._:@-]{1,128}$"}
LABEL = {"type": ["string", "null"], "pattern": r"^(?!\.+$)[A-Za-z0-9._:-]{1,128}$"}
_REFUSAL = {
    "title": "Refused",
    "description": "The question breaks a rule; nothing was read.",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["field", "rule", "message"],
            "properties": {name: {"type": "string"} for name in ("field", "rule", "message")},
        }
    },
}


def request_schema() -> dict[str, Any]:
    """The payload of an invocation. What is null or left out takes the deployment's own setting."""
    return {
        "$schema": DIALECT,
        "$id": "agent-memory/bootstrap-request/1",
        "title": "Bootstrap, the question",
        "description": "A recall; with prefetch, a recall for a run that is queued; with context_id, its pick-up. "
        "Fields not named here are ignored.",
        "type": "object",
        "required": ["tenant_id", "agent_id"],
        "anyOf": [
            {"required": ["task"], "properties": {"task": {"type": "string"}}},
            {"required": ["context_id"], "properties": {"context_id": {"type": "string"}}},
        ],
        "not": {
            "required": ["prefetch", "context_id"],
            "properties": {"prefetch": {"const": True}, "context_id": {"type": "string"}},
        },
        "properties": _fields(),
    }


def _fields() -> dict[str, Any]:
    return {
        "tenant_id": {**ID, "not": {"const": "registry"}},
        "agent_id": ID,
        "task": {
            "type": ["string", "null"],
            "minLength": 1,
            "maxLength": MAX_TASK_CHARACTERS,
            "description": "The task as the run is asked it. A pick-up may leave it out, but then finds nothing "
            "when what was kept is gone.",
        },
        "task_type": {**LABEL, "description": "Which tiers are read may depend on it."},
        "run_id": {
            **ID,
            "type": ["string", "null"],
            "description": "Whether a procedure on trial is tried then depends on the run, however often it asks.",
        },
        "domain": {**LABEL, "description": "Facts of this domain only."},
        "user_id": {
            "type": ["string", "null"],
            "maxLength": 256,
            "description": "Facts about this user as well. Replaced by a pseudonym; stored nowhere.",
        },
        "tiers": {"type": ["array", "null"], "minItems": 1, "items": {"enum": list(TIERS)}},
        "max_episodes": _whole(0, MAX_EPISODES),
        "max_facts": _whole(0, MAX_FACTS),
        "max_context_tokens": _whole(0, MAX_CONTEXT_TOKENS),
        "budget_ms": _whole(1, MAX_BUDGET_MS),
        "explain": {"type": ["boolean", "null"], "description": "Also the best candidates and their scores."},
        "prefetch": {
            "type": ["boolean", "null"],
            "description": "Keep the answer for a run that has not started; only its context_id is returned.",
        },
        "context_id": {
            **ID,
            "type": ["string", "null"],
            "description": "Pick up what was prefetched under this id for the same agent, user and question.",
        },
    }


def response_schema() -> dict[str, Any]:
    """The answer of an invocation: what was found, or why the question was refused."""
    answer = Recalled.model_json_schema(mode="serialization")
    definitions = answer.pop("$defs", {})
    # What only our own metrics need does not leave the function.
    left_out = [name for name, field in Recalled.model_fields.items() if field.exclude]
    answer["properties"] = {name: rule for name, rule in answer["properties"].items() if name not in left_out}
    answer["required"] = [name for name in answer.get("required", []) if name not in left_out]
    answer["title"] = "Recalled"
    # Absent when nobody asked for an explanation, and more may come.
    answer["additionalProperties"] = True
    answer["required"] = [name for name in answer["required"] if name != "explain"]
    return {
        "$schema": DIALECT,
        "$id": "agent-memory/bootstrap-response/1",
        "title": "Bootstrap, the answer",
        "oneOf": [{**answer, "not": {"required": ["error"]}}, _REFUSAL],
        "$defs": definitions,
    }


def _whole(least: int, most: int) -> dict[str, Any]:
    return {"type": ["integer", "null"], "minimum": least, "maximum": most}
