"""The review function as a reviewer reaches it: signed over real HTTP, or invoked by name."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from agent_memory.aws.reviews import REVIEWS, DirectReviews
from agent_memory.aws.signed_url import SignedUrl
from agent_memory.domain.errors import AccessRefusedError, ConfigurationError, RefusedInputError, RetryableError

ADA = "arn:aws:sts::123456789012:assumed-role/Reviewers/ada"


class Url:
    """A function URL: what it was asked, and what it answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, str], Any]] = []
        self.status = 200
        self.answer: object = {"decision": "listed"}
        self.address = ""


@pytest.fixture
def url() -> Iterator[Url]:
    held = Url()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            held.asked.append(({name.lower(): value for name, value in self.headers.items()}, json.loads(body)))
            answer = held.answer if isinstance(held.answer, bytes) else json.dumps(held.answer).encode()
            self.send_response(held.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    held.address = f"http://127.0.0.1:{server.server_port}/"
    yield held
    server.shutdown()
    server.server_close()


def a_session(region: str | None = "us-east-1") -> boto3.session.Session:
    return boto3.session.Session("AKIATEST", "secret", "session-token", region_name=region)


def signed(url: Url) -> SignedUrl:
    return SignedUrl(a_session(), url=url.address, timeout_seconds=5.0, function=REVIEWS)


def test_a_call_of_the_url_carries_the_callers_signature_and_names_nobody(url: Url) -> None:
    assert signed(url).ask({"action": "list", "tenant_id": "northwind"}) == {"decision": "listed"}
    ((headers, body),) = url.asked
    assert body == {"action": "list", "tenant_id": "northwind"}
    assert "Credential=AKIATEST/" in headers["authorization"]
    assert "/us-east-1/lambda/aws4_request" in headers["authorization"]
    assert headers["x-amz-security-token"] == "session-token"
    assert "host" in headers["authorization"].partition("SignedHeaders=")[2]


@pytest.mark.parametrize("status", [200, 404, 409])
def test_a_decision_that_went_against_the_caller_is_an_answer(url: Url, status: int) -> None:
    url.status = status
    assert signed(url).ask({"action": "approve"}) == {"decision": "listed"}


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (403, {"Message": "Forbidden"}, AccessRefusedError),
        (400, {"error": {"field": "action", "rule": "must be one"}}, RefusedInputError),
        (502, "Internal Server Error", RetryableError),
        (429, {}, RetryableError),
        (200, b"<html>", RetryableError),
        (200, [1], RetryableError),
    ],
)
def test_what_goes_wrong_is_one_of_our_errors(url: Url, status: int, answer: object, error: type[Exception]) -> None:
    url.status, url.answer = status, answer
    with pytest.raises(error):
        signed(url).ask({"action": "list"})


def test_a_url_that_nobody_serves_is_worth_another_try() -> None:
    reviews = SignedUrl(a_session(), url="http://127.0.0.1:9/", timeout_seconds=0.5, function=REVIEWS)
    with pytest.raises(RetryableError, match="InvokeFunctionUrl"):
        reviews.ask({"action": "list"})


def test_without_a_region_it_is_said_what_to_set(url: Url, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ConfigurationError, match="AWS_DEFAULT_REGION"):
        SignedUrl(a_session(None), url=url.address, timeout_seconds=5.0, function=REVIEWS).ask({})


class Invoked:
    """A Lambda client that answers *answer*."""

    def __init__(self, answer: object, **more: object) -> None:
        self.answer, self.more = answer, more
        self.payloads: list[Any] = []

    def invoke(self, **request: Any) -> dict[str, object]:
        assert request["FunctionName"] == "reviews"
        self.payloads.append(json.loads(request["Payload"]))
        return {"Payload": io.BytesIO(json.dumps(self.answer).encode()), **self.more}


def test_a_direct_invocation_says_whose_credentials_it_is_made_with() -> None:
    client = Invoked({"decision": "listed"})
    reviews = DirectReviews(client, function="reviews", identity=lambda: ADA)
    assert reviews.ask({"action": "list", "reviewer": "somebody else"}) == {"decision": "listed"}
    assert client.payloads == [{"action": "list", "reviewer": ADA}]


def test_a_function_that_failed_is_worth_another_try() -> None:
    client = Invoked({"errorMessage": "x"}, FunctionError="Unhandled")
    with pytest.raises(RetryableError, match="its log says why"):
        DirectReviews(client, function="reviews", identity=lambda: ADA).ask({"action": "list"})
