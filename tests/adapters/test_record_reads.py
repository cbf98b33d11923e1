"""Reads of AgentCore: from the client to the bus, and the contract of the event between them."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agent_memory.client import AgentMemory
from agent_memory.domain.agentcore import AgentCoreMemory
from agent_memory.domain.errors import ConfigurationError, RefusedInputError
from agent_memory.domain.record_reads import records_read, records_read_schema, report_of
from jsonschema import Draft202012Validator
from support.agentcore import MEMORY_ID, names
from support.builders import NOW
from support.stand_in import StandIn, a_stand_in

EVENTS = Path(__file__).parents[2] / "docs" / "events"
SCHEMA = records_read_schema()
ONE, TWO, THREE = names([1, 2, 3])
DETAIL: dict[str, Any] = {
    "tenant_id": "meadow",
    "agent_id": "gardener",
    "memory_id": MEMORY_ID,
    "context_id": "c-1",
    "record_ids": [ONE, TWO],
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    with a_stand_in() as stand_in:
        stand_in.names["agentcore-memories"] = json.dumps({"meadow": MEMORY_ID})
        yield stand_in


def gardener(**options: Any) -> AgentMemory:
    return AgentMemory("meadow", "gardener", "test", **options)


def test_a_report_goes_to_the_bus_under_the_source_of_its_tenant(world: StandIn) -> None:
    read_at = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
    done = gardener().report_reads(MEMORY_ID, (ONE, TWO), used={TWO}, context_id="turn-7", read_at=read_at)
    [entry] = world.entries
    assert (entry["Source"], entry["DetailType"]) == ("agent-memory.client/meadow", "AgentCore Records Read")
    assert world.details == [
        {
            **DETAIL,
            "schema_version": 1,
            "context_id": "turn-7",
            "used": [TWO],
            "read_at": "2026-12-01T09:30:00+00:00",
        }
    ]
    assert (done.sent, done.context_id, bool(done.event_id), done.reason) == (True, "turn-7", True, None)


def test_what_the_client_sends_is_what_the_function_takes(world: StandIn) -> None:
    gardener().report_reads(MEMORY_ID, [ONE, ONE, TWO])
    [entry] = world.entries
    event = {"source": entry["Source"], "detail": json.loads(entry["Detail"])}
    Draft202012Validator(SCHEMA).validate(event["detail"])
    named = AgentCoreMemory(memory_id=MEMORY_ID, tenant_id="meadow", namespaces=("/",))
    report = report_of(event, [named], now=int(datetime.now(UTC).timestamp()) + 1)
    assert report
    assert report.record_ids == (ONE, TWO)


def test_a_context_is_made_up_where_none_is_given_and_handed_back(world: StandIn) -> None:
    first, second = (gardener().report_reads(MEMORY_ID, [ONE]) for _ in range(2))
    assert first.context_id != second.context_id
    assert [one["context_id"] for one in world.details] == [first.context_id, second.context_id]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"memory_id": "harbour"}, "memory_id"),
        ({"memory_id": None}, "memory_id"),
        ({"record_ids": []}, "record_ids"),
        ({"record_ids": ONE}, "record_ids"),
        ({"record_ids": [ONE, None]}, "record_ids"),
        ({"record_ids": ["episode-1"]}, "record_ids"),
        ({"record_ids": [ONE] * 101}, "record_ids"),
        ({"used": [THREE]}, "used"),
        ({"used": TWO}, "used"),
        ({"context_id": "two words"}, "context_id"),
        ({"read_at": "2026-12-01T09:30:00"}, "read_at"),
        ({"read_at": 7}, "read_at"),
    ],
)
def test_what_breaks_a_rule_is_a_mistake_of_the_program_and_raises(
    world: StandIn, changes: dict[str, Any], field: str
) -> None:
    said = {"memory_id": MEMORY_ID, "record_ids": [ONE], **changes}
    with pytest.raises(RefusedInputError) as refused:
        gardener().report_reads(**said)
    assert refused.value.field == field
    assert world.entries == []


@pytest.mark.parametrize("named", ["{}", '{"quays": "harbour-Abc1234567"}', "[]", "no JSON"])
def test_a_report_that_nobody_would_hear_is_not_sent_and_says_so(world: StandIn, named: str) -> None:
    world.names["agentcore-memories"] = named
    with pytest.warns(RuntimeWarning, match="no memory of AgentCore"):
        done = gardener().report_reads(MEMORY_ID, [ONE])
    assert (done.sent, world.entries) == (False, [])
    assert "agentcoreMemories" in str(done.reason)
    with pytest.raises(ConfigurationError, match="agentcoreMemories"):
        gardener(strict=True).report_reads(MEMORY_ID, [ONE])


def test_a_bus_that_refuses_never_breaks_the_run(world: StandIn) -> None:
    world.refused_actions = {"PutEvents"}
    with pytest.warns(RuntimeWarning, match="reads were not reported"):
        assert not gardener().report_reads(MEMORY_ID, [ONE]).sent


def test_the_file_holds_what_the_code_says() -> None:
    file = EVENTS / "agentcore-records-read.schema.json"
    if os.environ.get("UPDATE_CONTRACTS"):
        file.write_text(json.dumps(SCHEMA, indent=2) + "\n")
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(file.read_text()) == SCHEMA


def test_the_example_beside_the_schema_is_taken() -> None:
    detail = json.loads((EVENTS / "agentcore-records-read.example.json").read_text())
    Draft202012Validator(SCHEMA).validate(detail)
    assert set(detail) == set(SCHEMA["properties"])  # type: ignore[call-overload]  # it is an object
    read = records_read({"detail": detail}, detail, now=int(datetime(2026, 12, 2, tzinfo=UTC).timestamp()))
    assert (len(read.record_ids), len(read.used)) == (2, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"schema_version": 1, "used": [ONE], "read_at": NOW - 60},
        {"read_at": "2027-01-14T09:30:00Z", "used": None},
        {"a field of a newer client": 1},
        {"used": []},
        {"schema_version": 2},
        {"tenant_id": "registry"},
        {"tenant_id": ".."},
        {"tenant_id": None},
        {"agent_id": "a b"},
        {"agent_id": 7},
        {"memory_id": "harbour"},
        {"memory_id": None},
        {"context_id": ""},
        {"context_id": "x" * 129},
        {"record_ids": []},
        {"record_ids": [ONE] * 101},
        {"record_ids": ["mem-1"]},
        {"record_ids": [7]},
        {"record_ids": ONE},
        {"used": "all"},
        {"used": [7]},
        {"read_at": True},
    ],
    ids=lambda changes: json.dumps(changes)[:60],
)
def test_the_schema_takes_a_report_exactly_when_the_function_does(changes: dict[str, Any]) -> None:
    detail = {**DETAIL, **changes}
    try:
        taken = bool(records_read({"time": "2027-01-15T07:00:00Z"}, detail, now=NOW))
    except RefusedInputError:
        taken = False
    assert Draft202012Validator(SCHEMA).is_valid(detail) is taken


@pytest.mark.parametrize("field", DETAIL)
def test_a_report_without_what_is_required_is_none(field: str) -> None:
    detail = {name: value for name, value in DETAIL.items() if name != field}
    assert not Draft202012Validator(SCHEMA).is_valid(detail)
    with pytest.raises(RefusedInputError):
        records_read({"time": "2027-01-15T07:00:00Z"}, detail, now=NOW)
