"""LangChain messages as the rules of working memory read them, and the few messages that are ours."""

from collections import Counter
from collections.abc import Sequence

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM

from agent_memory.domain.outgoing import as_json
from agent_memory.domain.plain_text import estimated_tokens
from agent_memory.domain.transcript_blocks import Text as TextPiece
from agent_memory.domain.transcript_blocks import as_text, joined, pieces_of
from agent_memory.domain.transcripts import Transcript, read_transcript
from agent_memory.domain.working_memory import MESSAGE_TOKENS, Held

MARK = "agent_memory_summary_of"
_ROLES: dict[type[BaseMessage], str] = {
    SystemMessage: "system",
    HumanMessage: "user",
    AIMessage: "assistant",
    ToolMessage: "tool",
}
# What a picture or a file costs differs by model; a guess that is not nought keeps it in the reckoning.
BINARY_TOKENS = 300


def held(message: BaseMessage) -> Held:
    """One message as the rules see it."""
    role = next((name for kind, name in _ROLES.items() if isinstance(message, kind)), "other")
    return Held(
        role=role,
        calls=_call_ids(message) if isinstance(message, AIMessage) else (),
        answers=message.tool_call_id if isinstance(message, ToolMessage) else None,
        stands_for=summary_of(message),
        tokens=tokens_of(message),
    )


def summary_of(message: BaseMessage) -> int:
    """How many messages a summary of ours replaced; 0 for every other message."""
    count = message.additional_kwargs.get(MARK)
    return count if isinstance(message, HumanMessage) and isinstance(count, int) and count > 0 else 0


def summary_message(text: str, count: int, message_id: str | None) -> HumanMessage:
    """The message that stands for *count* others. The user's role: many models take a system message in front only."""
    return HumanMessage(content=text, id=message_id, additional_kwargs={MARK: count})


def text_of(message: BaseMessage) -> str:
    """The words of a message, whatever shape its content has."""
    return joined(piece.text for piece in pieces_of(message.content, Counter()) if isinstance(piece, TextPiece)).strip()


def transcript_of(messages: Sequence[BaseMessage]) -> Transcript:
    """What the messages say, without thinking, binary and memory contexts."""
    return read_transcript([as_json(message) for message in messages])


def tokens_of(message: BaseMessage) -> int:
    """An estimate: content, arguments of calls, and what every message costs."""
    content = message.content
    blocks = [content] if isinstance(content, str) else content
    total = MESSAGE_TOKENS + sum(_block_tokens(block) for block in blocks or [])
    if isinstance(message, AIMessage):
        asked = [*message.tool_calls, *message.invalid_tool_calls]
        total += sum(estimated_tokens(f"{call.get('name')}{as_text(call.get('args'))}") for call in asked)
    return total


def unseen(purpose: str) -> RunnableConfig:
    """How memory calls a model: what it answers is no answer of the agent's, so nobody who streams the run sees it."""
    return {"tags": [TAG_NOSTREAM], "metadata": {"lc_source": f"agent_memory_{purpose}", **internal_call_metadata()}}


def _block_tokens(block: object) -> int:
    if isinstance(block, str):
        return estimated_tokens(block)
    pieces = list(pieces_of(block, Counter()))
    texts = [piece.text for piece in pieces if isinstance(piece, TextPiece)]
    kind = block.get("type") if isinstance(block, dict) else None
    return sum(map(estimated_tokens, texts)) + (0 if kind in ("text", "tool_use") else BINARY_TOKENS)


def _call_ids(message: AIMessage) -> tuple[str, ...]:
    asked = [*message.tool_calls, *message.invalid_tool_calls]
    return tuple(call_id for call in asked if isinstance(call_id := call.get("id"), str) and call_id)


def with_context(system: SystemMessage | None, context: str) -> SystemMessage | None:
    """The system message with what memory said behind it, in a block of its own where it consists of blocks."""
    if not context:
        return system
    if system is None:
        return SystemMessage(content=context)
    content = system.content
    longer = f"{content}\n\n{context}" if isinstance(content, str) else [*content, {"type": "text", "text": context}]
    return system.model_copy(update={"content": longer})
