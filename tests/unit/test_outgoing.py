"""What an agent holds becomes JSON, whatever it is."""

import json

import pytest
from agent_memory.domain.json_text import read_json
from agent_memory.domain.outgoing import as_json


@pytest.mark.parametrize("number", [10**4_300, -(10**4_300), 7**9_000], ids=["longest", "negative", "odd"])
def test_an_integer_that_python_will_not_write_in_decimal_travels_as_text(number: int) -> None:
    [sent] = json.loads(json.dumps(as_json([number])))
    assert int(sent, 16) == number


@pytest.mark.parametrize("number", [0, True, -5, 10**4_299], ids=["zero", "true", "negative", "long"])
def test_other_integers_travel_as_they_are(number: int) -> None:
    text = json.dumps(as_json([number]))
    assert read_json(text) == [number]
