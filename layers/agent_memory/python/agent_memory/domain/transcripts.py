"""The normaliser: messages of any dialect become one Transcript, in one pass over the messages and one over the calls.

System prompts, thinking, binary and our own memory context stay out: memory must not confirm itself. Names of people,
additional_kwargs and artifacts of messages are never read at all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

from pydantic import Field

from agent_memory.domain.models import Model
from agent_memory.domain.thinking import without_thinking
from agent_memory.domain.token_usage import TokenUsage, token_usage, usage_of
from agent_memory.domain.transcript_blocks import (
    Call,
    Gap,
    Piece,
    Result,
    Text,
    call_id,
    cleaned,
    joined,
    name_of,
    pieces_of,
    result_text,
    tool_call,
)
from agent_memory.domain.transcript_calls import MatchedCalls, ToolCall
from agent_memory.domain.working_memory import is_summary


class Speaker(StrEnum):
    """Who said it. `tool`: output that no call explains. `other`: a role that nobody knows."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    OTHER = "other"


class Turn(Model):
    """What one message said, and the tools that it called. *documents*: parts of the text that were attached to it."""

    speaker: Speaker
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    documents: tuple[str, ...] = ()


class Transcript(Model):
    """A run as its distillers read it. *counts*: what was left out, doubled or not understood.

    *steps*: messages in which the agent spoke or called a tool. *gaps*: names of the unknown block types.
    """

    turns: tuple[Turn, ...] = ()
    steps: int = 0
    usage: TokenUsage = TokenUsage()
    gaps: tuple[str, ...] = ()
    counts: Mapping[str, int] = Field(default_factory=dict)

    @cached_property
    def user_texts(self) -> tuple[str, ...]:
        """Everything the user said, in order."""
        return tuple(turn.text for turn in self.turns if turn.speaker is Speaker.USER and turn.text)

    @cached_property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for turn in self.turns for call in turn.calls)

    @cached_property
    def tools_used(self) -> tuple[str, ...]:
        """Names of the tools in the order of their first use."""
        return tuple(dict.fromkeys(call.name for call in self.tool_calls))

    @cached_property
    def final_answer(self) -> str:
        """The last thing that the agent said, or the empty string."""
        said = (turn.text for turn in reversed(self.turns) if turn.speaker is Speaker.ASSISTANT and turn.text)
        return next(said, "")

    @cached_property
    def has_unanswered_calls(self) -> bool:
        return any(call.result is None for call in self.tool_calls)


_ROLES = {
    "human": "user",
    "user": "user",
    "humanmessage": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "aimessage": "assistant",
    "system": "system",
    "developer": "system",
    "systemmessage": "system",
    "tool": "tool",
    "toolmessage": "tool",
    "function": "tool",
    "functionmessage": "tool",
    "remove": "control",
    "removemessage": "control",
}
_KNOWN_CLASSES = frozenset(
    name + suffix
    for name in ("HumanMessage", "AIMessage", "SystemMessage", "ToolMessage", "FunctionMessage", "ChatMessage")
    for suffix in ("", "Chunk")
) | {"RemoveMessage"}


class _Said(Model):
    """One message after reading: its speaker and its pieces."""

    role: str
    pieces: tuple[Piece, ...]
    documents: tuple[str, ...] = ()


def read_transcript(messages: Sequence[object]) -> Transcript:
    """Normalise *messages* (outside objects, as they came). Nothing in them raises; what nobody knows is counted."""
    counts: Counter[str] = Counter()
    reports: list[Mapping[object, object]] = []
    said: list[_Said] = []
    for message in messages:
        fields = _fields(message)
        if fields is None:
            counts["unknown_messages"] += message is not None
            continue
        reports.append(usage_of(fields))
        said.append(_read(fields, counts))
    gaps = sorted({piece.type for one in said for piece in one.pieces if isinstance(piece, Gap)})
    turns = tuple(_turns(said, counts))
    return Transcript(
        turns=turns,
        steps=sum(turn.speaker is Speaker.ASSISTANT for turn in turns),
        usage=token_usage(reports, counts),
        gaps=tuple(gaps[:20]),
        counts={name: count for name, count in counts.items() if count},
    )


def _fields(message: object) -> Mapping[object, object] | None:
    """The fields of one message, out of whatever envelope it came in; None when it is no message."""
    if isinstance(message, str):
        return {"role": "user", "content": message}
    if isinstance(message, list | tuple):
        pair = len(message) == 2 and all(isinstance(part, str) for part in message)
        return {"role": message[0], "content": message[1]} if pair else None
    if not isinstance(message, Mapping):
        return None
    if message.get("type") == "constructor":
        return _constructed(message)
    data = message.get("data")
    if isinstance(data, Mapping) and "content" not in message:
        return {**data, "type": message.get("type")}
    return message


def _constructed(message: Mapping[object, object]) -> Mapping[object, object] | None:
    path, fields = message.get("id"), message.get("kwargs")
    name = path[-1] if isinstance(path, list) and path else None
    if not isinstance(name, str) or name not in _KNOWN_CLASSES or not isinstance(fields, Mapping):
        return None
    return fields if name.startswith("Chat") else {**fields, "type": name}


def _role(fields: Mapping[object, object]) -> str:
    kind, role = fields.get("type"), fields.get("role")
    # A ChatMessage, and OpenAI's "message" items, say who spoke in `role`.
    named = role if isinstance(role, str) else kind
    if not isinstance(named, str):
        return "other"
    return _ROLES.get(named.lower().removesuffix("chunk"), "item" if "content" not in fields else "other")


def _read(fields: Mapping[object, object], counts: Counter[str]) -> _Said:
    role = _role(fields)
    if role in ("system", "control"):
        counts[f"{role}_messages_left_out"] += 1
        if role == "system":
            cleaned(joined(p.text for p in pieces_of(fields.get("content"), counts) if isinstance(p, Text)), counts)
        return _Said(role=role, pieces=())
    if role == "tool":
        return _Said(role=role, pieces=(_tool_message(fields, counts),))
    if role == "item":
        # OpenAI's Responses items are blocks without a message around them.
        return _Said(role="assistant", pieces=tuple(_clean(pieces_of(fields, counts), "assistant", counts)))
    if role == "other":
        counts["unknown_roles"] += 1
    pieces = [*pieces_of(fields.get("content"), counts), *_listed_calls(fields)]
    documents = tuple(cleaned(p.text, Counter()) for p in pieces if isinstance(p, Text) and p.document)
    read = tuple(_clean(iter(pieces), role, counts))
    if role == "user" and any(isinstance(piece, Text) and is_summary(piece.text) for piece in read):
        # A model wrote it to save room: nobody asked for what it says.
        counts["working_memory_summaries"] += 1
        role = "other"
    return _Said(role=role, pieces=read, documents=documents)


def _listed_calls(fields: Mapping[object, object]) -> Iterator[Call]:
    for name in ("tool_calls", "invalid_tool_calls"):
        listed = fields.get(name)
        for entry in listed if isinstance(listed, list | tuple) else ():
            if call := tool_call(entry):
                yield call
    if call := tool_call(fields.get("function_call")):
        yield call


def _tool_message(fields: Mapping[object, object], counts: Counter[str]) -> Result:
    content = fields.get("content")
    if isinstance(content, list) and len(content) == 1:
        wrapped = next((p for p in pieces_of(content, counts) if isinstance(p, Result)), None)
        if wrapped:
            return wrapped.model_copy(update={"text": cleaned(wrapped.text, counts)})
    return Result(
        id=call_id(fields.get("tool_call_id")),
        name=name_of(fields.get("name"), ""),
        text=cleaned(result_text(content, counts), counts),
        failed=fields.get("status") == "error",
    )


def _clean(pieces: Iterator[Piece], role: str, counts: Counter[str]) -> Iterator[Piece]:
    """Clean the text that neighbouring blocks make together: a mark may be split between them."""
    found = list(pieces)
    text = cleaned(joined(piece.text for piece in found if isinstance(piece, Text)), counts)
    if role == "assistant":
        text, passages = without_thinking(text)
        counts["thinking_left_out"] += passages
    if text.strip():
        yield Text(text=text.strip())
    for piece in found:
        if isinstance(piece, Call):
            yield piece.model_copy(update={"arguments": cleaned(piece.arguments, counts)})
        elif isinstance(piece, Result):
            yield piece.model_copy(update={"text": cleaned(piece.text, counts)})
        elif isinstance(piece, Gap):
            counts["unknown_blocks"] += 1
            yield piece


def _turns(said: Sequence[_Said], counts: Counter[str]) -> Iterator[Turn]:
    matched = MatchedCalls([one.pieces for one in said], counts)
    for position, one in enumerate(said):
        text = "".join(piece.text for piece in one.pieces if isinstance(piece, Text))
        calls = matched.calls(position)
        if text or calls:
            yield Turn(speaker=Speaker(one.role), text=text, calls=calls, documents=one.documents)
        for orphan in matched.orphans(position):
            yield Turn(speaker=Speaker.TOOL, text=orphan)
