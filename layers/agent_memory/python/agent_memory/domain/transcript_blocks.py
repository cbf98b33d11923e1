"""Content blocks of every dialect (LangChain, OpenAI, Anthropic, Bedrock Converse) read into four kinds of pieces.

Nothing is imported or executed because a block names it; a block that nobody knows becomes a named gap.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from agent_memory.domain.memory_context import strip_memory_context
from agent_memory.domain.models import Model
from agent_memory.domain.plain_text import marker, plain, without_binary

MAX_DEPTH = 12
MAX_NAME = 128


class Text(Model):
    """Words of the message itself."""

    text: str


class Call(Model):
    """A tool was asked for. *arguments*: JSON text, or the text as it came when it is not JSON."""

    id: str | None
    name: str
    arguments: str


class Result(Model):
    """What a tool answered."""

    id: str | None
    name: str
    text: str
    failed: bool = False


class Gap(Model):
    """A block of a type that nobody knows."""

    type: str


Piece = Text | Call | Result | Gap

_TEXT_KEYS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "text-plain": "text",
    "refusal": "refusal",
    "guardContent": "guardContent",
    "guard_content": "guard_content",
}
_THINKING = frozenset((
    "thinking", "redacted_thinking", "reasoning", "reasoning_content", "reasoningContent", "reasoning_text",
    "summary_text"
))  # fmt: skip
_CALLS = frozenset((
    "tool_use", "toolUse", "tool_call", "toolCall", "function_call", "function", "server_tool_use",
    "serverToolUse", "server_tool_call", "mcp_tool_use", "mcp_call", "invalid_tool_call", "custom_tool_call",
    "tool_call_chunk"
))  # fmt: skip
_RESULTS = re.compile(r"(?:\w+_)?(?:tool_result|call_output)|toolResult|serverToolResult", re.ASCII)
_BINARY = frozenset((
    "image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file", "document",
    "media", "blob"
))  # fmt: skip
_CONTROL = frozenset(("cachePoint", "cache_point", "cache_control"))
_NESTED = ("citationsContent", "citations_content", "searchResult", "search_result", "non_standard", "message")
# Converse names a block by its only key; these are the keys that can be one.
_KEYS_THAT_NAME = (
    "text", "toolUse", "toolResult", "reasoningContent", "image", "document", "video", "audio", "json",
    "cachePoint", "guardContent", "citationsContent", "searchResult", "serverToolUse", "serverToolResult"
)  # fmt: skip


def cleaned(text: str, counts: Counter[str]) -> str:
    """Return *text* without hidden characters, inline binary and our own memory contexts, each counted."""
    visible = plain(text)
    if len(visible) != len(text):
        counts["hidden_characters"] += max(0, len(text) - len(visible))
    visible, contexts = strip_memory_context(visible)
    visible, binary = without_binary(visible)
    if contexts:
        counts["memory_contexts_left_out"] += contexts
    if binary:
        counts["binary_left_out"] += binary
    return visible


def name_of(value: object, otherwise: str = "unnamed") -> str:
    """A tool's or a block type's name, as far as one is given: one word, bounded."""
    name = re.sub(r"\s+", "_", plain(value).strip())[:MAX_NAME] if isinstance(value, str) else ""
    return name or otherwise


def call_id(value: object) -> str | None:
    """The id of a call: text, or a number that some frameworks use."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:x}"
    return value if isinstance(value, str) and value else None


def as_text(value: object) -> str:
    """Return *value* as it would stand in JSON; text stays itself."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "[unreadable value]"


def pieces_of(content: object, counts: Counter[str], depth: int = 0) -> Iterator[Piece]:
    """Read *content* (text, a block, or a list of both) in its order."""
    if isinstance(content, str):
        yield Text(text=content)
    elif isinstance(content, Mapping) and depth < MAX_DEPTH:
        yield from _block(content, counts, depth + 1)
    elif isinstance(content, list | tuple) and depth < MAX_DEPTH:
        for part in content:
            yield from pieces_of(part, counts, depth + 1)
    elif content is not None:
        yield Gap(type="nested_too_deep" if depth >= MAX_DEPTH else type(content).__name__)


def _type_of(block: Mapping[object, object]) -> str:
    named = block.get("type")
    if isinstance(named, str) and named:
        return named
    return next((key for key in _KEYS_THAT_NAME if key in block), name_of(next(iter(block), None), "empty"))


def _block(block: Mapping[object, object], counts: Counter[str], depth: int) -> Iterator[Piece]:
    kind = _type_of(block)
    if kind in _TEXT_KEYS:
        yield from _text(block.get(_TEXT_KEYS[kind]), counts, depth)
    elif kind in _THINKING:
        counts["thinking_left_out"] += 1
    elif kind in _CALLS:
        yield _call(_inner(block, kind))
    elif _RESULTS.fullmatch(kind):
        yield _result(_inner(block, kind), counts, depth)
    elif kind in _BINARY:
        yield from _binary(kind, block, counts, depth)
    elif kind in _NESTED:
        inner = block.get("value", block.get(kind, block.get("content")))
        inner = inner.get("content") if isinstance(inner, Mapping) and "content" in inner else inner
        yield from pieces_of(inner, counts, depth)
    elif kind == "json":
        yield Text(text=as_text(block.get("json")))
    elif kind not in _CONTROL:
        yield Gap(type=name_of(kind))


def _inner(block: Mapping[object, object], kind: str) -> Mapping[object, object]:
    inner = block.get(kind)
    return inner if isinstance(inner, Mapping) else block


def _text(value: object, counts: Counter[str], depth: int) -> Iterator[Piece]:
    if isinstance(value, Mapping):
        value = value.get("text")
        value = value.get("text") if isinstance(value, Mapping) else value
    if isinstance(value, str):
        yield Text(text=value)
    elif isinstance(value, list):
        yield from pieces_of(value, counts, depth)


def _call(block: Mapping[object, object]) -> Call:
    function = block.get("function")
    source = function if isinstance(function, Mapping) else block
    given = (source.get(key) for key in ("args", "arguments", "input"))
    arguments = next((value for value in given if value is not None), {})
    name = source.get("name") or block.get("name")
    found = (call_id(block.get(key)) for key in ("call_id", "id", "toolUseId", "tool_use_id", "tool_call_id"))
    return Call(id=next(filter(None, found), None), name=name_of(name, "unnamed_tool"), arguments=as_text(arguments))


def tool_call(value: object) -> Call | None:
    """Read one entry of a message's tool_calls."""
    return _call(value) if isinstance(value, Mapping) else None


def _result(block: Mapping[object, object], counts: Counter[str], depth: int) -> Result:
    body = block.get("content", block.get("output", block.get("result")))
    found = (call_id(block.get(key)) for key in ("tool_use_id", "toolUseId", "call_id", "tool_call_id", "id"))
    failed = block.get("is_error") is True or block.get("status") == "error"
    return Result(
        id=next(filter(None, found), None),
        name=name_of(block.get("name"), ""),
        text=result_text(body, counts, depth),
        failed=failed,
    )


def result_text(body: object, counts: Counter[str], depth: int = 0) -> str:
    """The text of a tool's answer: its text blocks, or the JSON of whatever else it returned."""
    if _is_data(body) or (isinstance(body, list) and any(_is_data(row) for row in body)):
        return as_text(body)
    pieces = list(pieces_of(body, counts, depth))
    texts = [piece.text for piece in pieces if isinstance(piece, Text | Result)]
    gaps = sum(isinstance(piece, Gap) for piece in pieces)
    if gaps and not texts:
        return as_text(body)
    if gaps:
        counts["unknown_blocks"] += gaps
    return joined(texts)


def _is_data(value: object) -> bool:
    """Whether *value* is something that a tool returned, not a block around it: a row of a table has no type."""
    if isinstance(value, Mapping):
        return not isinstance(value.get("type"), str) and not (len(value) == 1 and next(iter(value)) in _KEYS_THAT_NAME)
    return isinstance(value, bool | int | float)


def joined(parts: Iterable[str]) -> str:
    """Texts in their order; a line break where two would run into each other."""
    text: list[str] = []
    for part in parts:
        if not part:
            continue
        if text and not text[-1][-1].isspace() and not part[0].isspace():
            text.append("\n")
        text.append(part)
    return "".join(text)


def _binary(kind: str, block: Mapping[object, object], counts: Counter[str], depth: int) -> Iterator[Piece]:
    inner = block.get(kind)
    source = inner if isinstance(inner, Mapping) else block
    nested = source.get("source")
    holder = nested if isinstance(nested, Mapping) else source
    written = holder.get("text") if kind == "document" else None
    if kind == "document" and holder.get("type") == "text":
        written = holder.get("data")
    if isinstance(written, str):
        yield Text(text=written)
    elif kind == "document" and isinstance(holder.get("content"), list | str):
        yield from pieces_of(holder.get("content"), counts, depth)
    else:
        counts["binary_left_out"] += 1
        yield Text(text=_binary_marker(kind, inner, source, holder))


def _binary_marker(kind: str, inner: object, source: Mapping[object, object], holder: Mapping[object, object]) -> str:
    keys = ("url", "data", "bytes", "base64", "file_data", "image_url")
    found = [inner] if isinstance(inner, str) else [holder.get(key) for key in keys]
    body = next((value for value in found if isinstance(value, str)), "")
    if body.startswith("data:"):
        return without_binary(body)[0][:200]
    types = (holder.get("media_type"), source.get("mime_type"), source.get("media_type"))
    written = next((value for value in types if isinstance(value, str)), None)
    form = source.get("format")
    if written is None and isinstance(form, str):
        written = f"{kind}/{form}"
    label = name_of(written, kind.removeprefix("input_").removesuffix("_url"))[:80]
    return marker(label, None if not body or "://" in body[:12] else len(body) * 3 // 4)
