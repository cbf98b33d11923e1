"""The Comprehend adapter against botocore's own client: what is asked, what comes back, what is raised."""

import json
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from agent_memory.aws.comprehend import ComprehendDetector
from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    ModelAnswerError,
    ModelBusyError,
    RefusedInputError,
    UnsupportedLanguageError,
)
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError


class RawBody:
    """The body of an HTTP response, as botocore reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Any:
        yield self._content


class Service:
    """Comprehend at the HTTP level: answers *body* with *status*, or raises *failure*."""

    def __init__(
        self, body: Mapping[str, object] | None = None, status: int = 200, failure: Exception | None = None
    ) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answer, self._status, self._failure = json.dumps(body or {}).encode(), status, failure
        self.client = boto3.client(
            "comprehend",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"total_max_attempts": 1}),
        )
        self.client.meta.events.register("before-send.comprehend.DetectPiiEntities", self._send)

    def _send(self, request: Any, **_: object) -> AWSResponse:
        self.asked.append(json.loads(request.body))
        if self._failure:
            raise self._failure
        return AWSResponse(request.url, self._status, {}, RawBody(self._answer))


def answering(*entities: object) -> Service:
    return Service({"Entities": list(entities)})


def failing(code: str, status: int = 400) -> Service:
    return Service({"__type": code, "message": "the text was: Rose Hill"}, status)


def an_entity(**changes: object) -> dict[str, object]:
    return {"Type": "NAME", "BeginOffset": 0, "EndOffset": 4, "Score": 0.97, **changes}


def test_entities_come_back_as_spans_and_the_language_is_sent() -> None:
    service = answering(an_entity(), an_entity(Type="EMAIL", BeginOffset=9, EndOffset=15))
    found = ComprehendDetector(service.client).detect("Rose has a@b.io.", "es")
    assert [(s.type, s.start, s.end, s.score) for s in found] == [("NAME", 0, 4, 0.97), ("EMAIL", 9, 15, 0.97)]
    assert service.asked == [{"Text": "Rose has a@b.io.", "LanguageCode": "es"}]


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_blank_text_costs_no_request(text: str) -> None:
    service = answering()
    assert ComprehendDetector(service.client).detect(text, "en") == []
    assert service.asked == []


def test_offsets_beyond_the_text_are_pulled_back() -> None:
    service = answering(an_entity(BeginOffset=-4, EndOffset=99), an_entity(BeginOffset=7, EndOffset=2))
    assert [(s.start, s.end) for s in ComprehendDetector(service.client).detect("Rose!", "en")] == [(0, 5)]


def test_a_finding_without_a_score_counts_as_certain() -> None:
    entity = an_entity()
    del entity["Score"]
    assert ComprehendDetector(answering(entity).client).detect("Rose!", "en")[0].score == 1.0


@pytest.mark.parametrize("body", [{}, {"Entities": None}, {"Entities": [{"Type": "NAME", "Score": 0.9}]}])
def test_an_answer_that_can_not_be_applied_is_not_nothing_found(body: dict[str, object]) -> None:
    with pytest.raises(ModelAnswerError):
        ComprehendDetector(Service(body).client).detect("Rose", "en")


@pytest.mark.parametrize(
    ("service", "error"),
    [
        (failing("ThrottlingException"), ModelBusyError),
        (failing("TooManyRequestsException", 429), ModelBusyError),
        (failing("InternalServerException", 500), ModelBusyError),
        (failing("SomethingNew", 503), ModelBusyError),
        (Service(failure=EndpointConnectionError(endpoint_url="https://example.org")), ModelBusyError),
        (Service(failure=ReadTimeoutError(endpoint_url="https://example.org")), ModelBusyError),
        (failing("AccessDeniedException"), AccessRefusedError),
        (failing("UnsupportedLanguageException"), UnsupportedLanguageError),
        (failing("TextSizeLimitExceededException"), RefusedInputError),
        (failing("InvalidRequestException"), AgentMemoryError),
    ],
)
def test_each_failure_has_its_own_meaning_and_quotes_no_text(service: Service, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        ComprehendDetector(service.client).detect("Rose Hill", "en")
    assert "Rose" not in repr(raised.value)
    assert raised.value.__cause__ is None


def test_a_text_over_the_limit_is_refused_before_it_is_sent() -> None:
    service = answering()
    with pytest.raises(RefusedInputError, match="bytes"):
        ComprehendDetector(service.client).detect("\u00e9" * 50_001, "en")
    assert service.asked == []
