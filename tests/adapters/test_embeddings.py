"""Embedding through Bedrock's wire, against a client that answers as the service does."""

import io
import json
import math
from typing import Any

import numpy as np
import pytest
from agent_memory.aws.embeddings import MAX_TOKENS, BedrockEmbedder, embeddable
from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    ModelAnswerError,
    ModelBusyError,
    RefusedInputError,
)
from agent_memory.domain.plain_text import estimated_tokens
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError


class Runtime:
    """Answers InvokeModel with *answer*: a body, or an error to raise."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def invoke_model(self, **request: Any) -> dict[str, Any]:
        self.asked.append({**request, "body": json.loads(request["body"])})
        if isinstance(self.answer, Exception):
            raise self.answer
        body = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        return {"body": io.BytesIO(body)}


def embedder(answer: object) -> tuple[BedrockEmbedder, Runtime]:
    runtime = Runtime(answer)
    return BedrockEmbedder(runtime, model="amazon.titan-embed-text-v2:0", dimensions=4), runtime


def refusal(code: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "InvokeModel")


def test_one_text_is_asked_for_and_comes_back_at_length_one() -> None:
    ours, runtime = embedder({"embedding": [3.0, 0.0, 4.0, 0.0], "inputTextTokenCount": 3})
    vector = ours.embed("  keep the kiln warm ")
    assert vector == pytest.approx([0.6, 0.0, 0.8, 0.0])
    assert vector.dtype == np.float32
    assert runtime.asked[0]["body"] == {"inputText": "keep the kiln warm", "dimensions": 4, "normalize": True}
    assert runtime.asked[0]["modelId"] == "amazon.titan-embed-text-v2:0"


@pytest.mark.case("em-h03")
@pytest.mark.parametrize("text", ["", "   ", "\u200b\u200b", "\n", None, "\u2060 \ufeff"])
def test_blank_text_is_refused_before_any_call(text: Any) -> None:
    ours, runtime = embedder({"embedding": [1.0, 0, 0, 0]})
    with pytest.raises(RefusedInputError, match="text must not be blank"):
        ours.embed(text)
    assert runtime.asked == []


@pytest.mark.parametrize("text", ["word " * 60_000, "x" * 200_000, "窯の温度" * 20_000, "🔥" * 30_000, "é" * 100_000])
def test_what_is_longer_than_the_model_reads_is_cut(text: str) -> None:
    sent = embeddable(text)
    assert 0 < estimated_tokens(sent) <= MAX_TOKENS
    assert len(sent) <= 50_000
    assert sent[:50] == text[:50]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"embedding": [1.0, 0.0, 0.0]}, "vector_length"),
        ({"embedding": []}, "vector_length"),
        ({"embedding": [0.0, 0.0, 0.0, 0.0]}, "vector_zero"),
        ({"embedding": [math.nan, 0.0, 0.0, 0.0]}, "vector_not_finite"),
        ({"embedding": [1e39, 0.0, 0.0, 0.0]}, "vector_not_finite"),
        ({"embedding": ["a", "b", "c", "d"]}, "vector_not_numbers"),
        ({"embedding": [[1.0, 0.0], [0.0, 1.0]]}, "vector_length"),
        ({"embedding": None}, "vector_length"),
        ({"embeddings": [1.0]}, "not_an_embedding"),
        ([1.0, 0.0, 0.0, 0.0], "not_an_embedding"),
        (b"<html>", "not_an_embedding"),
        (b"", "not_an_embedding"),
        (b"\xff\xfe", "not_an_embedding"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_an_unusable_answer_is_named_and_never_kept(answer: object, reason: str) -> None:
    ours, _ = embedder(answer)
    with pytest.raises(ModelAnswerError) as refused:
        ours.embed("kiln")
    assert refused.value.reason == reason


@pytest.mark.case("em-h04")
@pytest.mark.parametrize(
    "error",
    [
        refusal("ThrottlingException"),
        refusal("ModelTimeoutException", 408),
        refusal("ServiceUnavailableException", 503),
        refusal("Odd", 500),
        EndpointConnectionError(endpoint_url="https://bedrock"),
        ReadTimeoutError(endpoint_url="https://bedrock"),
    ],
)
def test_what_passes_is_worth_another_try(error: Exception) -> None:
    with pytest.raises(ModelBusyError):
        embedder(error)[0].embed("kiln")


def test_denial_and_wrong_model_are_told_apart_and_say_nothing_of_the_text() -> None:
    with pytest.raises(AccessRefusedError) as denied:
        embedder(refusal("AccessDeniedException"))[0].embed("the secret kiln")
    with pytest.raises(AgentMemoryError) as invalid:
        embedder(refusal("ValidationException"))[0].embed("the secret kiln")
    assert not isinstance(invalid.value, ModelBusyError | AccessRefusedError)
    assert "secret" not in str(denied.value) + str(invalid.value)
