"""The published schema of the event allows what the code allows."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from agent_memory.contract import CLIENT_SOURCE_PREFIX
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import (
    MAX_MEMORY_ID_CHARACTERS,
    MAX_TASK_CHARACTERS,
    MAX_USED,
    run_ended,
    run_ids,
)
from agent_memory.domain.keys import identifier, label
from agent_memory.domain.models import Outcome
from agent_memory.domain.transcripts import read_transcript

EVENTS = Path(__file__).parents[2] / "docs" / "events"
SCHEMA = json.loads((EVENTS / "agent-run-ended.schema.json").read_text("utf-8"))
EXAMPLE = EVENTS / "agent-run-ended.example.json"
IDS = ["a", "a.b_c:d@e-f", "x" * 128, "", ".", "..", "x" * 129, "a b", "a/b", "a#b", "é", "a\n", "\x00", "a@b"]


@pytest.mark.parametrize("value", IDS)
def test_ids_and_labels_of_the_schema_are_those_of_the_code(value: str) -> None:
    for name, rule in (("id", identifier), ("label", label)):
        # JSON Schema's $ is the end of the text, Python's allows a line feed before it.
        allowed = re.search(SCHEMA["$defs"][name]["pattern"].replace("$", r"\Z"), value) is not None
        try:
            accepted = rule(value, name) == value
        except RefusedInputError:
            accepted = False
        assert allowed == accepted


def test_words_and_limits_of_the_schema_are_those_of_the_code() -> None:
    fields = SCHEMA["properties"]
    assert fields["outcome"]["enum"] == list(Outcome)
    assert fields["task"]["maxLength"] == MAX_TASK_CHARACTERS
    used = fields["memory"]["properties"]["used"]
    assert (used["maxItems"], used["items"]["maxLength"]) == (MAX_USED, MAX_MEMORY_ID_CHARACTERS)


def test_the_example_beside_the_schema_is_a_run_that_is_accepted() -> None:
    detail = json.loads(EXAMPLE.read_text("utf-8"))
    ids = run_ids({"source": f"{CLIENT_SOURCE_PREFIX}{detail['tenant_id']}", "detail": detail})
    ended = run_ended({"detail": detail}, ids, now=int(datetime(2026, 12, 2, tzinfo=UTC).timestamp()))
    assert dict(ended.counts) == {}
    transcript = read_transcript(ended.messages or ())
    assert transcript.tools_used == ("list_charges", "refund")
    assert set(detail) <= set(SCHEMA["properties"])
