"""The guardrail over real HTTP: what is sent, and what each answer means."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlparse

import boto3
import pytest
from agent_memory.aws.guardrail import BedrockGuardrail
from agent_memory.domain.errors import AccessRefusedError, AgentMemoryError, ModelBusyError
from agent_memory.domain.guardrails import GuardrailVerdict
from botocore.config import Config
from support.converse_server import ConverseServer, a_converse_server


@pytest.fixture
def server() -> Iterator[ConverseServer]:
    with a_converse_server() as server:
        yield server


def checked(text: str = "It closes at 16:00.", guardrail_id: str = "abc123", **changes: Any) -> GuardrailVerdict:
    once = Config(retries={"mode": "standard", "total_max_attempts": 1})
    client = boto3.client("bedrock-runtime", config=once)
    sources = changes.get("sources", ["Depot K closes at 16:00."])
    return BedrockGuardrail(client, guardrail_id=guardrail_id).check(text, sources, query="When does it close?")


def an_answer(answered: str = "NONE", /, **grounding: Any) -> dict[str, Any]:
    policy = {"type": "GROUNDING", "threshold": 0.7, "score": 0.9, "action": "NONE", **grounding}
    assessments = [{"contextualGroundingPolicy": {"filters": [policy]}}] if grounding else [{}]
    return {"usage": {}, "action": answered, "outputs": [], "assessments": assessments}


def test_the_text_is_sent_with_its_sources_and_the_question(server: ConverseServer) -> None:
    server.answers = [an_answer(score=0.9)]
    assert checked() == GuardrailVerdict(passed=True, grounding_checked=True)
    ((name, body),) = server.requests
    assert name == "abc123"
    assert (body["source"], body["outputScope"]) == ("OUTPUT", "FULL")
    assert [(one["text"]["text"], one["text"]["qualifiers"]) for one in body["content"]] == [
        ("Depot K closes at 16:00.", ["grounding_source"]),
        ("When does it close?", ["query"]),
        ("It closes at 16:00.", ["guard_content"]),
    ]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (an_answer("GUARDRAIL_INTERVENED", action="BLOCKED", score=0.2), "ungrounded_by_guardrail"),
        # A filter that only detects says so without intervening.
        (an_answer(detected=True, score=0.9), "ungrounded_by_guardrail"),
        (an_answer(score=0.5), "ungrounded_by_guardrail"),
        (an_answer("GUARDRAIL_INTERVENED"), "refused_by_guardrail"),
        ({"usage": {}, "outputs": [], "assessments": []}, "refused_by_guardrail"),
    ],
)
def test_what_the_guardrail_objects_to_does_not_pass(server: ConverseServer, answer: Any, reason: str) -> None:
    server.answers = [answer]
    verdict = checked()
    assert (verdict.passed, verdict.reason) == (False, reason)


def test_a_guardrail_without_a_grounding_check_passes_and_says_that_nobody_looked(server: ConverseServer) -> None:
    server.answers = [an_answer()]
    assert checked() == GuardrailVerdict(passed=True, grounding_checked=False)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("abc123", "/guardrail/abc123/version/DRAFT/apply"),
        ("abc123:7", "/guardrail/abc123/version/7/apply"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:guardrail/abc123:7",
            "/guardrail/arn:aws:bedrock:us-east-1:123456789012:guardrail/abc123/version/7/apply",
        ),
    ],
)
def test_a_version_may_follow_the_id(server: ConverseServer, given: str, path: str) -> None:
    server.answers = [an_answer()]
    seen: list[str] = []
    client = boto3.client("bedrock-runtime")
    client.meta.events.register("before-send.bedrock-runtime", lambda request, **_: seen.append(request.url))
    BedrockGuardrail(client, guardrail_id=given).check("x", ["y"], query="z")
    assert unquote(urlparse(seen[0]).path) == path


def test_what_is_too_long_to_check_does_not_pass_unchecked(server: ConverseServer) -> None:
    assert checked("x" * 5_001).reason == "guardrail_too_long"
    assert checked(sources=["y" * 100_001]).reason == "guardrail_too_long"
    assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((429, "ThrottlingException", "slow down"), ModelBusyError),
        ((403, "AccessDeniedException", "no"), AccessRefusedError),
        ((404, "ResourceNotFoundException", "no such guardrail"), AgentMemoryError),
    ],
)
def test_errors_are_ours(server: ConverseServer, answer: Any, error: type[Exception]) -> None:
    server.answers = [answer]
    with pytest.raises(error):
        checked()
