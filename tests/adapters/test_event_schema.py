"""The published schema of the event allows what the code allows."""

import json
import re
from pathlib import Path

import pytest
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import MAX_MEMORY_ID_CHARACTERS, MAX_TASK_CHARACTERS, MAX_USED
from agent_memory.domain.keys import identifier, label
from agent_memory.domain.models import Outcome

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "events" / "agent-run-ended.schema.json").read_text("utf-8"))
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
