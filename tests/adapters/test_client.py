"""The client against a small server that speaks the AWS protocols over HTTP."""

import inspect
import json
import math
import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from agent_memory import client as client_module
from agent_memory.client import AgentMemory, Recall, hand_over
from agent_memory.deployment import Deployment
from agent_memory.domain.errors import AccessRefusedError, ConfigurationError, RefusedInputError, RetryableError
from agent_memory.domain.recall import Recalled
from agent_memory.domain.semantic_recall import ELSEWHERE
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from support.recalls import FixedEmbedder, an_episode_at, recalled
from support.stand_in import PAGE, StandIn, a_stand_in

SPOKEN = [{"role": "user", "content": "Water the plants."}, {"role": "assistant", "content": "Watered."}]
ITEM = {
    "id": "gardener/run-7",
    "tier": "episodic",
    "text": "watered",
    "score": 0.91,
    "provenance": {"run_id": "run-7"},
    "a field of a newer function": 1,
}


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_stand_in() as stand_in:
        yield stand_in


def gardener(**options: object) -> AgentMemory:
    return AgentMemory("meadow", "gardener", "test", **options)  # type: ignore[arg-type]


def test_a_recall_asks_only_what_was_said_and_returns_the_context(world: StandIn) -> None:
    world.answer = lambda _: {
        "context": "<memory>",
        "items": [ITEM],
        "degraded": [],
        "context_id": "c-9",
        "timings": {"total_ms": 12},
        "explain": [],
    }
    found = gardener().recall("Water the plants", task_type="watering", max_episodes=0, user_id="u")
    assert world.questions == [
        {
            "tenant_id": "meadow",
            "agent_id": "gardener",
            "task": "Water the plants",
            "task_type": "watering",
            "max_episodes": 0,
            "user_id": "u",
        }
    ]
    assert (found.context, found.context_id, found.items[0].id) == ("<memory>", "c-9", "gardener/run-7")
    assert not found.nothing_relevant


def answered(world: StandIn, answer: Recalled) -> Recall:
    """What the client makes of a real answer of the function."""
    world.answer = lambda _: answer.model_dump(mode="json", exclude_none=True)
    return gardener().recall("Anything")


DENIED = AccessRefusedError("bedrock:InvokeModel was refused")
ANSWERS = {
    "whole": recalled(an_episode_at(0.95), explain=True),
    "degraded but useful": recalled(an_episode_at(0.95), tiers=["episodic", "procedural"]),
    "degraded": recalled(an_episode_at(0.95), embedder=FixedEmbedder(DENIED)),
    "empty": recalled(),
    "with a note": recalled().model_copy(update={"notes": ({"tier": "semantic", "note": ELSEWHERE, "elsewhere": 2},)}),
    "without room": recalled(an_episode_at(0.95), max_context_tokens=5),
    "of a tier that is not there": recalled(an_episode_at(0.95), tiers=["procedural"]),
    "of nothing asked for": recalled(an_episode_at(0.05), max_episodes=0),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_client_says_what_the_function_said(world: StandIn, answer: Recalled) -> None:
    found = answered(world, answer)
    assert (found.context, found.context_id) == (answer.context, answer.context_id)
    assert [item.model_dump() for item in found.items] == [item.model_dump() for item in answer.items]
    assert [one.model_dump() for one in found.degraded] == list(answer.degraded)
    assert (found.nothing_relevant, found.dropped) == (answer.nothing_relevant, answer.dropped)
    assert dict(found.timings) == dict(answer.timings)
    assert found.notes == answer.notes
    assert found.explanation == (answer.explain or ())


def test_nothing_relevant_and_nothing_readable_are_told_apart(world: StandIn) -> None:
    assert gardener().recall("Anything").nothing_relevant
    found = answered(world, ANSWERS["degraded"])
    assert [str(one) for one in found.degraded] == ["embedding: denied"]
    assert not found.nothing_relevant


@pytest.mark.parametrize(
    "odd",
    [
        {"degraded": "episodic: timeout"},
        {"degraded": [{"tier": "episodic"}, 7, {"tier": None, "reason": {}, "since": 1}]},
        {"timings": [1]},
        {"explain": "no"},
        {"dropped": "two"},
        {"nothing_relevant": "yes"},
    ],
)
def test_an_odd_word_on_how_it_went_never_costs_the_memories(world: StandIn, odd: dict[str, object]) -> None:
    world.answer = lambda _: {"context": "<memory>", "items": [ITEM], "context_id": "c-9", **odd}
    found = gardener().recall("Anything")
    assert (found.context, len(found.items), found.context_id) == ("<memory>", 1, "c-9")
    assert bool(found.degraded) is ("degraded" in odd)
    assert not found.nothing_relevant


@pytest.mark.parametrize("answer", [None, [], "text", {"items": "x"}, {"items": [{"id": 1}]}, {"context": 5}])
def test_an_answer_of_another_shape_is_degraded_and_not_an_exception(world: StandIn, answer: object) -> None:
    world.answer = lambda _: answer
    found = gardener().recall("Anything")
    assert found.context == ""
    assert found.degraded


def test_a_function_that_fails_is_degraded_unless_strict(world: StandIn) -> None:
    world.function_error = True
    assert gardener().recall("Anything").degraded
    with pytest.raises(RetryableError):
        gardener(strict=True).recall("Anything")


def test_refused_input_always_raises_because_it_is_a_mistake_of_the_program(world: StandIn) -> None:
    world.answer = lambda _: {"error": {"field": "tiers", "rule": "must be known", "message": "tiers must be known"}}
    with pytest.raises(RefusedInputError, match="tiers must be known"):
        gardener().recall("Anything", tiers=["imaginary"])
    with pytest.raises(RefusedInputError, match="tenant_id"):
        AgentMemory("a/b", "gardener")
    with pytest.raises(RefusedInputError, match="task"):
        gardener().recall("  ")


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("run_id", {"run_id": "a#b"}),
        ("messages", {"messages": []}),
        ("messages", {"messages": "a transcript"}),
        ("messages", {"messages": {"messages": []}}),
        ("messages", {"messages": None}),
        ("outcome", {"outcome": "DONE"}),
        ("ended_at", {"ended_at": datetime(2026, 11, 30)}),  # noqa: DTZ001 - without a zone on purpose
        ("ended_at", {"ended_at": "yesterday"}),
        ("ended_at", {"ended_at": 5}),
        ("task_type", {"task_type": "a@b"}),
        ("domain", {"domain": ""}),
        ("user_id", {"user_id": 7}),
        ("task", {"task": 7}),
        ("used", {"used": "gardener/run-7"}),
    ],
)
def test_a_handover_that_breaks_a_rule_names_the_field_and_sends_nothing(
    world: StandIn, field: str, options: dict[str, object]
) -> None:
    with pytest.raises(RefusedInputError) as refused:
        gardener().end_run(**{"run_id": "r-1", "messages": SPOKEN, **options})  # type: ignore[arg-type]
    assert refused.value.field == field
    assert world.entries == []


def test_a_run_takes_over_what_its_recall_was_asked_with_unless_it_says_otherwise(world: StandIn) -> None:
    found = gardener().recall("Water the plants", task_type="watering", domain="garden")
    assert "plants" not in repr(found) + found.model_dump_json()
    gardener().end_run("r-1", messages=SPOKEN, recall=found)
    gardener().end_run("r-2", messages=SPOKEN, recall=found, task="Prune the roses", task_type="pruning")
    gardener().end_run("r-3", messages=SPOKEN)
    said = [[one.get(name) for name in ("task", "task_type", "domain")] for one in world.details]
    assert said == [
        ["Water the plants", "watering", "garden"], ["Prune the roses", "pruning", "garden"], [None, None, None],
    ]  # fmt: skip


def test_a_run_hands_back_the_task_of_a_recall_that_nothing_answered(world: StandIn) -> None:
    world.answer = lambda _: "text"
    gardener().end_run("r-1", messages=SPOKEN, recall=gardener().recall("Water the plants"))
    assert world.details[0]["task"] == "Water the plants"


def test_a_run_is_put_under_the_source_that_names_its_tenant(world: StandIn) -> None:
    recalled = Recall(context_id="c-3")
    done = gardener().end_run(
        "r-1",
        messages=SPOKEN,
        outcome="COMPLETED",
        task="Water the plants",
        user_id="someone",
        recall=recalled,
        used=["gardener/run-7"],
        ended_at=datetime(2026, 12, 1, 9, tzinfo=UTC),
    )
    assert done.sent
    assert done.event_id == "e-1"
    (entry,) = world.entries
    assert entry["Source"] == "agent-memory.client/meadow"
    assert entry["DetailType"] == "Agent Run Ended"
    assert entry["EventBusName"] == "the-bus"
    assert world.details == [
        {
            "schema_version": 1,
            "tenant_id": "meadow",
            "agent_id": "gardener",
            "run_id": "r-1",
            "ended_at": "2026-12-01T09:00:00+00:00",
            "transcript": {"messages": SPOKEN},
            "task": "Water the plants",
            "user_id": "someone",
            "outcome": "COMPLETED",
            "memory": {"context_id": "c-3", "used": ["gardener/run-7"]},
        }
    ]


def test_langchain_messages_travel_with_their_tool_calls(world: StandIn) -> None:
    call = {"name": "open_tap", "args": {"minutes": 3}, "id": "call-1"}
    messages = [
        SystemMessage("You garden."),
        HumanMessage([{"type": "text", "text": "Water them."}]),
        AIMessage("", tool_calls=[call]),
        ToolMessage("open", tool_call_id="call-1", name="open_tap"),
    ]
    gardener().end_run("r-1", messages=iter(messages))
    (detail,) = world.details
    sent = detail["transcript"]["messages"]
    assert [message["type"] for message in sent] == ["system", "human", "ai", "tool"]
    assert sent[2]["tool_calls"][0]["args"] == {"minutes": 3}
    assert sent[3]["tool_call_id"] == "call-1"


class Unwilling:
    def model_dump(self) -> object:
        raise RuntimeError("not now")


def test_what_json_cannot_hold_becomes_a_named_gap_and_stops_nothing(world: StandIn) -> None:
    circle: dict[str, object] = {}
    circle["again"] = circle
    deep: object = "bottom"
    for _ in range(500):
        deep = [deep]
    odd = [
        {"role": "user", "content": "half a pair \ud83d and a whole one \ud83c\udf31"},
        {"role": "tool", "content": [b"\x89PNG", float("nan"), {1: {2}}, circle, deep, Unwilling(), object]},
    ]
    gardener().end_run("r-1", messages=odd)
    sent = world.details[0]["transcript"]["messages"]
    assert sent[0]["content"] == "half a pair \ufffd and a whole one \N{SEEDLING}"
    assert sent[1]["content"][:4] == ["[binary, 4 bytes]", None, {"1": [2]}, {"again": "[refers to itself]"}]
    assert "nested too deep" in json.dumps(sent[1]["content"][4])
    assert sent[1]["content"][5:] == ["[Unwilling]", "[type]"]


def test_a_large_transcript_goes_to_the_tenants_prefix_and_travels_as_a_pointer(world: StandIn) -> None:
    long = [{"role": "user", "content": "ü" * 150_000}, *SPOKEN]
    first = gardener().end_run("r-1", messages=long, ended_at="2026-12-01T09:00:00Z")
    again = gardener().end_run("r-1", messages=long, ended_at="2026-12-01T09:00:00Z")
    assert first.transcript_uri == again.transcript_uri
    assert first.transcript_uri is not None
    assert first.transcript_uri.startswith("s3://the-transcripts-bucket/meadow/gardener/r-1/upload-")
    assert world.details[0]["transcript"] == {"s3_uri": first.transcript_uri}
    assert world.transcript(first.transcript_uri) == {"messages": long}


def test_what_is_too_large_beside_the_transcript_is_refused(world: StandIn) -> None:
    with pytest.raises(RefusedInputError, match="detail"):
        gardener().end_run("r-1", messages=SPOKEN, artifacts={"key_findings": ["x" * 1_000_000]})
    assert world.entries == []


def test_a_failed_entry_of_a_successful_answer_is_tried_again(world: StandIn) -> None:
    world.failures_of_put = ["ThrottlingException", "InternalFailure"]
    assert gardener().end_run("r-1", messages=SPOKEN).sent
    assert len(world.entries) == 1
    assert world.calls.count("PutEvents") == 3


def test_an_entry_that_keeps_failing_is_told_and_never_silent(world: StandIn) -> None:
    world.failures_of_put = ["InternalFailure"] * 10
    with (
        patch("agent_memory.deployment.time.sleep"),
        pytest.warns(RuntimeWarning, match="run r-1 was not handed over"),
    ):
        done = gardener().end_run("r-1", messages=SPOKEN)
    assert not done.sent
    assert done.reason is not None
    assert "InternalFailure" in done.reason


def test_a_source_of_another_tenant_is_refused_at_once(world: StandIn) -> None:
    world.failures_of_put = ["NotAuthorizedForSourceException"] * 10
    with pytest.raises(AccessRefusedError, match=r"as agent-memory[.]client/meadow"):
        gardener(strict=True).end_run("r-1", messages=SPOKEN)
    assert world.calls.count("PutEvents") == 1


def test_names_are_read_once_over_all_pages(world: StandIn) -> None:
    memory = gardener()
    memory.recall("One")
    memory.recall("Two")
    memory.end_run("r-1", messages=SPOKEN)
    assert world.calls.count("GetParametersByPath") == math.ceil(len(world.names) / PAGE)


def test_a_missing_name_says_which_environment_and_what_to_do(world: StandIn) -> None:
    del world.names["bus"]
    with pytest.raises(ConfigurationError, match=r"/agent-memory/test/bus is missing.*cdk deploy -c env=test"):
        gardener(strict=True).end_run("r-1", messages=SPOKEN)
    elsewhere = AgentMemory("meadow", "gardener", "nowhere")
    assert "no agent-memory deployment called 'nowhere'" in elsewhere.recall("Anything").degraded[0].reason


def test_a_refusal_by_iam_is_not_taken_for_no_memory(world: StandIn) -> None:
    world.refused_actions = {"GetParametersByPath"}
    found = gardener().recall("Anything")
    assert "ssm:GetParametersByPath" in found.degraded[0].reason
    assert not found.nothing_relevant


def test_a_deployment_that_is_not_there_degrades_quickly(world: StandIn) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with patch.dict(os.environ, {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}):
        started = time.monotonic()
        assert gardener().recall("Anything").degraded
        assert time.monotonic() - started < 5


def test_a_detail_of_ones_own_is_handed_over_with_what_it_says(world: StandIn) -> None:
    detail = {"tenant_id": "meadow", "agent_id": "gardener", "run_id": "r-2", "transcript": {"s3_uri": "s3://b/k"}}
    assert hand_over(Deployment("test"), detail).sent
    assert world.details == [detail]


def test_every_public_name_has_a_docstring_with_an_example() -> None:
    public = [getattr(client_module, name) for name in client_module.__all__]
    methods = [AgentMemory.recall, AgentMemory.prefetch, AgentMemory.end_run]
    for thing in [*public, *methods]:
        assert "Example:" in (inspect.getdoc(thing) or ""), thing


def test_a_run_that_names_itself_decides_which_trials_it_gets(world: StandIn) -> None:
    memory = AgentMemory("meadow", "gardener", environment="test")
    memory.recall("Water", run_id="run-7")
    memory.recall("Water")
    assert [question.get("run_id") for question in world.questions] == ["run-7", None]
    with pytest.raises(RefusedInputError, match="run_id"):
        memory.recall("Water", run_id="a#b")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", None),
        ("outcome", ["COMPLETED"]),
        ("used", None),
        ("used", [1]),
        ("facts", None),
        ("facts", "Ferns drink."),
        ("artifacts", "a record"),
        ("artifacts", [1]),
        ("context_id", 5),
        ("context_id", "two words"),
        ("recall", "c-9"),
        ("procedure_id", 5),
    ],
)
def test_what_a_run_is_handed_over_with_is_refused_by_the_name_of_its_field(
    world: StandIn, field: str, value: object
) -> None:
    given: dict[str, object] = {"messages": SPOKEN, field: value}
    with pytest.raises(RefusedInputError, match=f"^{field} must be"):
        gardener().end_run("run-1", **given)  # type: ignore[arg-type]
    assert world.details == []


def test_a_result_that_names_no_procedure_is_refused_and_not_forgotten(world: StandIn) -> None:
    with pytest.raises(RefusedInputError, match="procedure_id is required beside procedure_succeeded"):
        gardener().end_run("run-1", messages=SPOKEN, procedure_succeeded=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout_seconds", 0),
        ("timeout_seconds", -1.0),
        ("timeout_seconds", math.nan),
        ("timeout_seconds", math.inf),
        ("timeout_seconds", "10"),
        ("timeout_seconds", True),
        ("spool", ""),
        ("spool", 5),
        ("on_unsent", "a name"),
    ],
)
def test_a_client_that_can_not_work_is_refused_when_it_is_made(field: str, value: object) -> None:
    with pytest.raises(RefusedInputError, match=f"^{field} must be"):
        gardener(**{field: value})
