"""Bedrock Converse in the words of an OpenAI-compatible server, and its answer back."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from local.aws_wire import AwsError

STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
}
# Hints of the service that change no answer here.
SKIPPED_BLOCKS: Final = ("cachePoint", "reasoningContent")
NO_MODEL: Final = (
    "this stack has no chat model: its distiller is extractive. Start it with AGENT_MEMORY_LLM_URL set to an "
    "OpenAI-compatible server, or with `make demo-llm`."
)

Json = dict[str, Any]


def chat_request(model: str, request: Mapping[str, Any]) -> Json:
    """The body of /v1/chat/completions for a Converse request."""
    forced = forced_tool(request)
    schema = forced[1] if forced else _schema_of_output(request)
    system = [_text(block) for block in request.get("system", []) if not _skipped(block)]
    if schema is not None:
        # Constrained decoding keeps the form; only the prompt tells the model what the fields mean.
        system.append(
            f"Answer with one JSON object that fits this JSON schema, and nothing else:\n{json.dumps(schema)}"
        )
    messages = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    for message in request.get("messages", []):
        messages += _messages(message)
    body: Json = {"model": model, "messages": messages, "stream": False, **_limits(request.get("inferenceConfig", {}))}
    if schema is not None:
        # Not tool_choice: Ollama ignores it, while every server can constrain an answer to a schema.
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }
    elif tools := _tools(request):
        body["tools"] = tools
        if "any" in request.get("toolConfig", {}).get("toolChoice", {}):
            body["tool_choice"] = "required"
    return body


def converse_answer(request: Mapping[str, Any], answer: Mapping[str, Any], *, milliseconds: int) -> Json:
    """The Converse answer for what the server said."""
    try:
        choice = answer["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason") or "stop"
        text = message.get("content") or ""
        calls = [_tool_use(call) for call in message.get("tool_calls") or []]
    except (KeyError, IndexError, TypeError, AttributeError):
        raise AwsError(
            "ModelErrorException", "the chat server answered in another form than chat/completions"
        ) from None
    stop = STOP_REASONS.get(finish, "end_turn")
    forced = forced_tool(request)
    if forced and not calls and (value := _object_in(text)) is not None:
        text, calls = "", [{"toolUse": {"toolUseId": "tooluse_local", "name": forced[0], "input": value}}]
    if calls and stop == "end_turn":
        stop = "tool_use"
    content: list[Json] = ([{"text": text}] if text else []) + calls
    usage = answer.get("usage") or {}
    spent, made = int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0))
    return {
        "output": {"message": {"role": "assistant", "content": content or [{"text": ""}]}},
        "stopReason": stop,
        "usage": {"inputTokens": spent, "outputTokens": made, "totalTokens": spent + made},
        "metrics": {"latencyMs": milliseconds},
    }


def forced_tool(request: Mapping[str, Any]) -> tuple[str, Json] | None:
    """Name and schema of the tool that the answer must call."""
    config = request.get("toolConfig") or {}
    choice = config.get("toolChoice") or {}
    tools = [tool["toolSpec"] for tool in config.get("tools", []) if "toolSpec" in tool]
    name = choice.get("tool", {}).get("name") or (tools[0]["name"] if "any" in choice and len(tools) == 1 else None)
    for tool in tools:
        if tool["name"] == name:
            return tool["name"], tool["inputSchema"]["json"]
    if name is not None:
        raise AwsError("ValidationException", f"toolChoice names {name}, which is not among the tools")
    return None


def _schema_of_output(request: Mapping[str, Any]) -> Json | None:
    output = (request.get("outputConfig") or {}).get("textFormat") or {}
    schema = output.get("structure", {}).get("jsonSchema", {}).get("schema")
    if schema is None:
        return None
    if (value := _object_in(schema)) is None:
        raise AwsError("ValidationException", "the schema of outputConfig is not a JSON object")
    return value


def _limits(config: Mapping[str, Any]) -> Json:
    names = {"maxTokens": "max_tokens", "temperature": "temperature", "topP": "top_p", "stopSequences": "stop"}
    return {theirs: config[ours] for ours, theirs in names.items() if config.get(ours) is not None}


def _tools(request: Mapping[str, Any]) -> list[Json]:
    specs = [tool["toolSpec"] for tool in (request.get("toolConfig") or {}).get("tools", []) if "toolSpec" in tool]
    return [
        {
            "type": "function",
            "function": {
                "name": s["name"],
                "description": s.get("description", ""),
                "parameters": s["inputSchema"]["json"],
            },
        }
        for s in specs
    ]


def _messages(message: Mapping[str, Any]) -> Iterable[Json]:
    """One message of Converse; tool results become messages of their own, before what the user says beside them."""
    blocks = [block for block in message.get("content", []) if not _skipped(block)]
    for block in blocks:
        if result := block.get("toolResult"):
            text = "\n".join(_result_text(part) for part in result.get("content", []))
            yield {"role": "tool", "tool_call_id": result["toolUseId"], "content": text}
    calls = [_call(block["toolUse"]) for block in blocks if "toolUse" in block]
    texts = [_text(block) for block in blocks if "toolUse" not in block and "toolResult" not in block]
    if calls:
        yield {"role": message["role"], "content": "\n".join(texts) or None, "tool_calls": calls}
    elif texts:
        yield {"role": message["role"], "content": "\n".join(texts)}


def _skipped(block: Mapping[str, Any]) -> bool:
    return any(kind in block for kind in SKIPPED_BLOCKS)


def _text(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    if not isinstance(text, str):
        raise AwsError(
            "ValidationException", f"the local Converse takes text and tools, not {', '.join(sorted(block))}"
        )
    return text


def _result_text(part: Mapping[str, Any]) -> str:
    return json.dumps(part["json"]) if "json" in part else _text(part)


def _call(tool_use: Mapping[str, Any]) -> Json:
    function = {"name": tool_use["name"], "arguments": json.dumps(tool_use.get("input", {}))}
    return {"id": tool_use["toolUseId"], "type": "function", "function": function}


def _tool_use(call: Mapping[str, Any]) -> Json:
    arguments = call["function"].get("arguments") or "{}"
    value = arguments if isinstance(arguments, dict) else _object_in(arguments)
    if value is None:
        raise AwsError("ModelErrorException", "the model called a tool with arguments that are not a JSON object")
    return {
        "toolUse": {"toolUseId": call.get("id") or "tooluse_local", "name": call["function"]["name"], "input": value}
    }


def _object_in(text: str) -> Json | None:
    bare = re.sub(r"^\s*```(?:json)?\s*|\s*```\s*$", "", text)
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
