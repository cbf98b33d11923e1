"""Bedrock Converse said in chat/completions, and back."""

import json

import pytest

from local.aws_wire import AwsError
from local.converse import chat_request, converse_answer

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def a_tool(name="record"):
    return {"toolSpec": {"name": name, "description": "what it is for", "inputSchema": {"json": SCHEMA}}}


def user(text="hello"):
    return {"role": "user", "content": [{"text": text}]}


def an_answer(finish="stop", **message):
    return {"choices": [{"message": message, "finish_reason": finish}]}


def content_of(answer, **request):
    return converse_answer(request, answer, milliseconds=5)["output"]["message"]["content"]


def test_system_texts_come_first_and_cache_points_are_left_out():
    request = {"system": [{"text": "one"}, {"cachePoint": {"type": "default"}}, {"text": "two"}], "messages": [user()]}
    assert chat_request("m", request)["messages"] == [
        {"role": "system", "content": "one\n\ntwo"},
        {"role": "user", "content": "hello"},
    ]


def test_limits_keep_their_meaning_and_absent_ones_stay_absent():
    body = chat_request("m", {"messages": [user()], "inferenceConfig": {"maxTokens": 9, "stopSequences": ["x"]}})
    assert (body["max_tokens"], body["stop"]) == (9, ["x"])
    assert "temperature" not in body


def test_a_forced_tool_becomes_a_schema_that_the_prompt_shows_too():
    config = {"tools": [a_tool("other"), a_tool()], "toolChoice": {"tool": {"name": "record"}}}
    body = chat_request("m", {"messages": [user()], "toolConfig": config})
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert json.dumps(SCHEMA) in body["messages"][0]["content"]
    assert "tools" not in body


def test_structured_output_becomes_the_same_schema():
    text_format = {"type": "json_schema", "structure": {"jsonSchema": {"schema": json.dumps(SCHEMA)}}}
    body = chat_request("m", {"messages": [user()], "outputConfig": {"textFormat": text_format}})
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA


def test_a_schema_that_is_not_json_is_refused():
    text_format = {"structure": {"jsonSchema": {"schema": "{"}}}
    with pytest.raises(AwsError, match="ValidationException"):
        chat_request("m", {"messages": [user()], "outputConfig": {"textFormat": text_format}})


def test_free_tools_are_offered_and_any_of_them_may_be_required():
    config = {"tools": [a_tool("a"), a_tool("b")], "toolChoice": {"any": {}}}
    body = chat_request("m", {"messages": [user()], "toolConfig": config})
    assert [tool["function"]["name"] for tool in body["tools"]] == ["a", "b"]
    assert body["tool_choice"] == "required"


def test_a_choice_of_a_tool_that_is_not_there_is_refused():
    config = {"tools": [a_tool()], "toolChoice": {"tool": {"name": "absent"}}}
    with pytest.raises(AwsError, match="absent"):
        chat_request("m", {"messages": [user()], "toolConfig": config})


def test_calls_and_results_keep_their_ids():
    messages = [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "find", "input": {"q": 1}}}]},
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "t1", "content": [{"json": {"r": 2}}]}}, {"text": "so?"}],
        },
    ]
    calls, result, text = chat_request("m", {"messages": messages})["messages"]
    assert json.loads(calls["tool_calls"][0]["function"]["arguments"]) == {"q": 1}
    assert result == {"role": "tool", "tool_call_id": "t1", "content": '{"r": 2}'}
    assert text == {"role": "user", "content": "so?"}


def test_a_picture_is_refused_by_name():
    with pytest.raises(AwsError, match="not image"):
        chat_request("m", {"messages": [{"role": "user", "content": [{"image": {}}]}]})


@pytest.mark.parametrize("text", ['{"city": "Oslo"}', '```json\n{"city": "Oslo"}\n```'])
def test_a_forced_answer_comes_back_as_the_tools_input(text):
    config = {"tools": [a_tool()], "toolChoice": {"tool": {"name": "record"}}}
    (block,) = content_of(an_answer(content=text), toolConfig=config)
    assert (block["toolUse"]["name"], block["toolUse"]["input"]) == ("record", {"city": "Oslo"})


def test_a_forced_answer_that_is_prose_comes_back_as_prose():
    config = {"tools": [a_tool()], "toolChoice": {"tool": {"name": "record"}}}
    answer = converse_answer({"toolConfig": config}, an_answer(content="I would say Oslo"), milliseconds=5)
    assert answer["output"]["message"]["content"] == [{"text": "I would say Oslo"}]
    assert answer["stopReason"] == "end_turn"


@pytest.mark.parametrize(
    ("finish", "stop"), [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "content_filtered")]
)
def test_the_reason_to_stop_is_translated(finish, stop):
    assert converse_answer({}, an_answer(finish, content="text"), milliseconds=5)["stopReason"] == stop


def test_a_cut_forced_answer_says_that_it_was_cut():
    config = {"tools": [a_tool()], "toolChoice": {"tool": {"name": "record"}}}
    answer = converse_answer({"toolConfig": config}, an_answer("length", content='{"city": "Os'), milliseconds=5)
    assert answer["stopReason"] == "max_tokens"


def test_tool_calls_become_tool_uses():
    call = {"id": "c1", "function": {"name": "find", "arguments": '{"q": 1}'}}
    (block,) = content_of(an_answer("tool_calls", content=None, tool_calls=[call]))
    assert block == {"toolUse": {"toolUseId": "c1", "name": "find", "input": {"q": 1}}}


@pytest.mark.parametrize(
    "answer", [{}, {"choices": []}, {"choices": [{}]}, {"choices": "no"}, {"choices": [{"message": 3}]}]
)
def test_an_answer_in_another_form_is_a_fault_of_the_model(answer):
    with pytest.raises(AwsError, match="ModelErrorException"):
        converse_answer({}, answer, milliseconds=5)


def test_arguments_that_are_not_an_object_are_a_fault_of_the_model():
    call = {"id": "c1", "function": {"name": "find", "arguments": "[1]"}}
    with pytest.raises(AwsError, match="ModelErrorException"):
        converse_answer({}, an_answer("tool_calls", tool_calls=[call]), milliseconds=5)
