"""The AI server as unchanged botocore clients see it."""

import json
import math
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from support.local_stack import ai_client, an_ai_server

MODEL = "local.all-minilm-l6-v2"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with an_ai_server(tmp_path_factory.mktemp("ai")) as running:
        yield running


def embed(server, body, model=MODEL):
    answer = ai_client("bedrock-runtime", server).invoke_model(modelId=model, body=json.dumps(body))
    return json.loads(answer["body"].read())


def refusal(call, *arguments, **options):
    with pytest.raises(ClientError) as refused:
        call(*arguments, **options)
    error = refused.value.response
    return error["Error"]["Code"], error["ResponseMetadata"]["HTTPStatusCode"]


def test_a_text_becomes_a_unit_vector_of_the_models_dimensions(server):
    answer = embed(server, {"inputText": "change my flight", "normalize": True, "dimensions": 384})
    assert len(answer["embedding"]) == 384
    assert math.isclose(sum(x * x for x in answer["embedding"]), 1.0, abs_tol=1e-3)
    assert answer["inputTextTokenCount"] == 5
    assert answer["embeddingsByType"]["float"] == answer["embedding"]


@pytest.mark.parametrize(
    ("body", "model"),
    [
        ({"inputText": "text"}, "amazon.titan-embed-text-v2:0"),
        ({"inputText": ""}, MODEL),
        ({"inputText": 7}, MODEL),
        ({"inputText": "x" * 50_001}, MODEL),
        ({"inputText": "text", "dimensions": 512}, MODEL),
        ({"inputText": "text", "unknown": 1}, MODEL),
        (["not an object"], MODEL),
    ],
)
def test_a_request_that_titan_would_refuse_is_refused_in_its_own_words(server, body, model):
    assert refusal(embed, server, body, model) == ("ValidationException", 400)


def test_personal_data_is_found_with_its_place(server):
    text = "Write to Hannah at hannah.orsted@example.org."
    found = ai_client("comprehend", server).detect_pii_entities(Text=text, LanguageCode="en")["Entities"]
    emails = [entity for entity in found if entity["Type"] == "EMAIL"]
    assert [text[entity["BeginOffset"] : entity["EndOffset"]] for entity in emails] == ["hannah.orsted@example.org"]


@pytest.mark.parametrize(
    ("text", "language", "code"),
    [
        ("Guten Tag", "de", "UnsupportedLanguageException"),
        ("é" * 50_001, "en", "TextSizeLimitExceededException"),
        ("x" * 100_001, "en", "TextSizeLimitExceededException"),
    ],
)
def test_comprehends_limits_are_its_own(server, text, language, code):
    detect = ai_client("comprehend", server).detect_pii_entities
    assert refusal(detect, Text=text, LanguageCode=language) == (code, 400)


def test_both_languages_of_comprehend_are_served(server):
    answer = ai_client("comprehend", server).detect_pii_entities(Text="Escribe a ana@example.org", LanguageCode="es")
    assert "EMAIL" in [entity["Type"] for entity in answer["Entities"]]


def test_without_a_chat_model_converse_says_that_the_distiller_is_extractive(server):
    with pytest.raises(ClientError, match="distiller is extractive") as refused:
        converse(server)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_throttling_can_be_switched_on_and_off_for_benches(server):
    fault(server, throttle=True)
    try:
        assert refusal(embed, server, {"inputText": "text"}) == ("ThrottlingException", 429)
        detect = ai_client("comprehend", server).detect_pii_entities
        assert refusal(detect, Text="text", LanguageCode="en") == ("ThrottlingException", 429)
    finally:
        fault(server, throttle=False)
    assert embed(server, {"inputText": "text"})["embedding"]


def test_a_fault_that_is_not_a_boolean_is_refused(server):
    with pytest.raises(urllib.error.HTTPError, match="400"):
        fault(server, throttle="yes")


def test_an_operation_that_does_not_run_here_is_named_as_such(server):
    detect = ai_client("comprehend", server).detect_sentiment
    assert refusal(detect, Text="text", LanguageCode="en") == ("UnknownOperationException", 400)


def test_a_forced_tool_is_answered_by_the_chat_server_through_its_schema(tmp_path):
    with a_chat_server({"content": '{"city": "Bergen"}'}) as chat, an_ai_server(tmp_path, chat=chat.url) as server:
        tool = {"toolSpec": {"name": "record", "inputSchema": {"json": SCHEMA}}}
        answer = converse(server, toolConfig={"tools": [tool], "toolChoice": {"tool": {"name": "record"}}})
    (block,) = answer["output"]["message"]["content"]
    assert block["toolUse"]["input"] == {"city": "Bergen"}
    assert answer["stopReason"] == "tool_use"
    assert answer["usage"] == {"inputTokens": 12, "outputTokens": 3, "totalTokens": 15}
    (asked,) = chat.asked
    assert asked["response_format"]["json_schema"]["schema"] == SCHEMA
    assert asked["max_tokens"] == 100


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "ThrottlingException"), (500, "ServiceUnavailableException"), (404, "ValidationException")],
)
def test_the_chat_servers_errors_become_bedrocks(tmp_path, status, code):
    with a_chat_server({}, status=status) as chat, an_ai_server(tmp_path, chat=chat.url) as server:
        assert refusal(converse, server)[0] == code


def test_a_chat_server_that_is_not_there_is_worth_a_retry(tmp_path):
    with an_ai_server(tmp_path, chat="http://127.0.0.1:9/v1") as server:
        assert refusal(converse, server) == ("ServiceUnavailableException", 503)


def converse(server, **options):
    return ai_client("bedrock-runtime", server).converse(
        modelId="local.chat",
        messages=[{"role": "user", "content": [{"text": "Where?"}]}],
        inferenceConfig={"maxTokens": 100},
        **options,
    )


def fault(server, *, throttle):
    body = json.dumps({"throttle": throttle}).encode()
    urllib.request.urlopen(f"{server.url}/control/faults", data=body).close()  # noqa: S310 - loopback


@contextmanager
def a_chat_server(message, *, status=200):
    """An OpenAI-compatible server that always says the same and keeps what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            usage = {"prompt_tokens": 12, "completion_tokens": 3}
            body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}/v1", asked=asked)
        server.shutdown()
