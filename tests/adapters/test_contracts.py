"""The published contracts of the bootstrap function say what the code does. UPDATE_CONTRACTS=1 writes them anew."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from agent_memory.domain.bootstrap_contract import request_schema, response_schema
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.recall_request import recall_request
from jsonschema import Draft202012Validator
from support.recalls import RULES, an_episode_at, recalled

CONTRACTS = Path(__file__).parents[2] / "docs" / "contracts"
SCHEMAS = {"bootstrap-request": request_schema(), "bootstrap-response": response_schema()}
QUESTION: dict[str, Any] = {"tenant_id": "meadow", "agent_id": "gardener", "task": "kiln upkeep"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_file_holds_what_the_code_says(name: str) -> None:
    file = CONTRACTS / f"{name}.schema.json"
    if os.environ.get("UPDATE_CONTRACTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(SCHEMAS[name], indent=2) + "\n")
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert json.loads(file.read_text()) == SCHEMAS[name]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"task_type": "a-b", "domain": "c", "user_id": "u", "tiers": ["semantic"], "explain": True},
        {"max_episodes": 0, "max_facts": 20, "max_context_tokens": 100_000, "budget_ms": 25_000},
        {"max_episodes": 2.0},
        {"task_type": None, "domain": None, "user_id": None, "tiers": None, "max_facts": None, "explain": None},
        {"prefetch": True},
        {"prefetch": False, "context_id": "c-1"},
        {"context_id": "c-1", "task": None},
        {"context_id": None},
        {"favourite": "blue"},
        {"user_id": ""},
        {"tenant_id": "registry"},
        {"tenant_id": "a#b"},
        {"tenant_id": None},
        {"agent_id": ".."},
        {"agent_id": 7},
        {"task": None},
        {"task": ""},
        {"task": 7},
        {"task": "x" * 50_001},
        {"task_type": "a@b"},
        {"domain": 3},
        {"domain": ""},
        {"user_id": 12},
        {"user_id": "u" * 257},
        {"tiers": "episodic"},
        {"tiers": []},
        {"tiers": ["dreams"]},
        {"max_episodes": -1},
        {"max_episodes": 6},
        {"max_episodes": True},
        {"max_episodes": "3"},
        {"max_episodes": 2.5},
        {"max_facts": 21},
        {"max_context_tokens": 100_001},
        {"budget_ms": 0},
        {"explain": "yes"},
        {"prefetch": 1},
        {"prefetch": True, "context_id": "c-1"},
        {"context_id": "a b"},
        {"context_id": 7},
    ],
    ids=lambda changes: json.dumps(changes)[:60],
)
def test_the_schema_takes_a_question_exactly_when_the_function_does(changes: dict[str, Any]) -> None:
    question = {**QUESTION, **changes}
    try:
        accepted = bool(recall_request(question, RULES))
    except RefusedInputError:
        accepted = False
    assert Draft202012Validator(SCHEMAS["bootstrap-request"]).is_valid(question) is accepted


@pytest.mark.parametrize("field", ["tenant_id", "agent_id", "task"])
def test_a_question_without_what_is_required_is_none(field: str) -> None:
    question = {name: value for name, value in QUESTION.items() if name != field}
    assert not Draft202012Validator(SCHEMAS["bootstrap-request"]).is_valid(question)


@pytest.mark.parametrize("explain", [True, False])
def test_real_answers_are_answers_by_the_schema(explain: bool) -> None:
    validator = Draft202012Validator(SCHEMAS["bootstrap-response"])
    for answer in (recalled(an_episode_at(0.95), explain=explain), recalled(explain=explain)):
        validator.validate(answer.model_dump(mode="json", exclude_none=True))
    validator.validate({"error": {"field": "task", "rule": "is required", "message": "task is required"}})
    assert not validator.is_valid({"context": 7})
    assert not validator.is_valid([])
