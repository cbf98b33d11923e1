"""BedrockChatModel against a Bedrock Runtime that speaks HTTP: what is asked, what is read, what each failure means."""

import warnings
from collections.abc import Iterator

import pytest
from agent_memory.aws import chat_model
from agent_memory.aws.chat_model import BedrockChatModel
from agent_memory.domain.errors import AccessRefusedError, ConfigurationError, ModelAnswerError, ModelBusyError
from support.converse_server import ConverseServer, a_converse_server, converse, tool_use

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"task_summary": {"type": "string"}, "long_name_of_a_field": {"type": "string"}},
    "required": ["task_summary"],
}
FORCED = "us.anthropic.claude-sonnet-5"
NOT_FORCED = "us.anthropic.claude-sonnet-5-5"
TAKES_TEMPERATURE = "us.anthropic.claude-sonnet-4-6"
WITHOUT_TOOLS = "local.some-model"


@pytest.fixture
def bedrock() -> Iterator[ConverseServer]:
    with a_converse_server() as server:
        server.answers = [converse(tool_use({"task_summary": "done"}))]
        yield server


def ask(model: str = FORCED, text: str = "the transcript", max_tokens: int = 4000) -> chat_model.Answer:
    return BedrockChatModel(model).answer(instruction="Distil.", text=text, schema=SCHEMA, max_tokens=max_tokens)


def test_the_tool_is_forced_and_its_schema_arrives_as_it_is(bedrock: ConverseServer) -> None:
    answer = ask()
    model, body = bedrock.requests[0]
    assert model == FORCED
    assert body["toolConfig"]["toolChoice"] == {"tool": {"name": "record"}}
    assert body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"] == SCHEMA
    assert body["inferenceConfig"] == {"maxTokens": 4000}
    assert (answer.arguments, answer.stop_reason) == ({"task_summary": "done"}, "tool_use")
    assert (answer.input_tokens, answer.output_tokens) == (700, 90)


def test_the_instruction_comes_first_and_the_transcript_last_and_whole(bedrock: ConverseServer) -> None:
    ask(text="braces {0} {messages!r} %s and </transcript>")
    body = bedrock.requests[0][1]
    assert body["system"] == [{"text": "Distil."}]
    assert body["messages"] == [{"role": "user", "content": [{"text": "braces {0} {messages!r} %s and </transcript>"}]}]


def test_a_model_that_refuses_a_forced_tool_is_asked_to_call_it(bedrock: ConverseServer) -> None:
    ask(NOT_FORCED)
    body = bedrock.requests[0][1]
    assert "tool" not in body["toolConfig"].get("toolChoice", {})
    assert "any" not in body["toolConfig"].get("toolChoice", {})
    assert "record" in body["system"][0]["text"]


def test_temperature_0_is_sent_only_to_a_model_that_takes_one(bedrock: ConverseServer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (TAKES_TEMPERATURE, FORCED, WITHOUT_TOOLS):
            ask(model)
    assert [body["inferenceConfig"].get("temperature") for _, body in bedrock.requests] == [0.0, None, None]


def test_a_model_without_tools_gets_the_schema_in_the_instruction(bedrock: ConverseServer) -> None:
    bedrock.answers = [converse({"text": '{"task_summary": "done"}'}, stop="end_turn")]
    answer = ask(WITHOUT_TOOLS)
    body = bedrock.requests[0][1]
    assert "toolConfig" not in body
    assert '"long_name_of_a_field"' in body["system"][0]["text"]
    assert (answer.arguments, answer.text) == (None, '{"task_summary": "done"}')


def test_reasoning_and_unknown_blocks_are_skipped_by_type(bedrock: ConverseServer) -> None:
    reasoning = {"reasoningContent": {"reasoningText": {"text": '{"task_summary": "draft"}', "signature": "QUJD"}}}
    bedrock.answers = [converse(reasoning, {"text": "Here it is."}, tool_use({"task_summary": "done"}))]
    answer = ask()
    assert answer.arguments == {"task_summary": "done"}
    assert answer.text == "Here it is."


def test_arguments_that_are_json_text_are_handed_on_as_text(bedrock: ConverseServer) -> None:
    bedrock.answers = [converse(tool_use('{"task_summary": "done"}'))]
    assert ask().arguments == '{"task_summary": "done"}'


def test_an_empty_answer_and_missing_usage_are_an_answer_of_nothing(bedrock: ConverseServer) -> None:
    bedrock.answers = [converse(stop="max_tokens", usage={})]
    answer = ask()
    assert (answer.arguments, answer.text, answer.stop_reason, answer.input_tokens) == (None, "", "max_tokens", 0)


def test_a_blank_text_is_never_sent(bedrock: ConverseServer) -> None:
    with pytest.raises(ModelAnswerError):
        ask(text=" \n ")
    assert bedrock.requests == []


@pytest.mark.parametrize(
    ("status", "code", "said", "error"),
    [
        (429, "ThrottlingException", "slow down", ModelBusyError),
        (503, "ServiceUnavailableException", "later", ModelBusyError),
        (500, "InternalServerException", "oops", ModelBusyError),
        (408, "ModelTimeoutException", "too long", ModelBusyError),
        (403, "AccessDeniedException", "no", AccessRefusedError),
        (404, "ResourceNotFoundException", "no such model", ConfigurationError),
        (400, "ValidationException", "The provided model identifier is invalid.", ConfigurationError),
        (400, "ValidationException", "on-demand throughput isn't supported", ConfigurationError),
        (400, "ValidationException", "prompt is too long: SECRET", ModelAnswerError),
    ],
)
def test_each_failure_says_whether_to_try_again_and_quotes_nothing(
    bedrock: ConverseServer, monkeypatch: pytest.MonkeyPatch, status: int, code: str, said: str, error: type[Exception]
) -> None:
    monkeypatch.setattr(chat_model, "ATTEMPTS", 1)
    bedrock.answers = [(status, code, said)]
    with pytest.raises(error) as caught:
        ask(text="SECRET")
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_server_that_is_down_is_a_busy_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_model, "ATTEMPTS", 1)
    with a_converse_server() as server:
        server.answers = [converse()]
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://127.0.0.1:9")
        with pytest.raises(ModelBusyError):
            ask()


def test_what_is_no_model_at_all_is_a_mistake_of_the_deployment(bedrock: ConverseServer) -> None:
    bedrock.answers = [(400, "ValidationException", "The provided model identifier is invalid.")]
    with pytest.raises(ConfigurationError):
        ask("nonsense")
    with pytest.raises(ConfigurationError):
        ask("arn:nonsense")
