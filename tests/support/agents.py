"""Scripted chat models and a memory on a small server that speaks AWS's protocols."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agent_memory.client import AgentMemory
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr
from support.stand_in import StandIn, a_stand_in

Reply = str | AIMessage | Exception
CONTEXT_ID = "c-0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"


class ScriptedChat(BaseChatModel):
    """Answers by the script, the last reply again and again, and keeps every list of messages that it was sent."""

    script: list[Any]
    _sent: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _tools: list[Any] = PrivateAttr(default_factory=list)

    @property
    def sent(self) -> list[list[BaseMessage]]:
        return self._sent

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "ScriptedChat":  # type: ignore[override]
        self._tools = list(tools)
        return self

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self._sent.append(list(messages))
        reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(content=reply) if isinstance(reply, str) else reply.model_copy(deep=True)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages)
        words = str(reply.content).split(" ") if reply.content else [""]
        for place, word in enumerate(words):
            last = place == len(words) - 1
            calls = [
                {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": n}
                for n, c in enumerate(reply.tool_calls)
            ]
            chunk = AIMessageChunk(
                content=word if last else f"{word} ", tool_call_chunks=calls if last else [], id=reply.id
            )
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=ChatGenerationChunk(message=chunk))
            yield ChatGenerationChunk(message=chunk)


class CountingChat(ScriptedChat):
    """A model with a counter of its own: ten tokens a message."""

    def get_num_tokens_from_messages(
        self,
        messages: list[BaseMessage],
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool] | None = None,
    ) -> int:
        return 10 * len(messages)


def a_call(name: str, call_id: str, **arguments: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": call_id}])


def prompts(model: ScriptedChat) -> list[str]:
    """The system prompt of every call, or nothing."""
    return [str(sent[0].content) if sent and isinstance(sent[0], SystemMessage) else "" for sent in model.sent]


def an_answer(context: str = "", *items: dict[str, Any]) -> dict[str, Any]:
    """What the bootstrap function answers."""
    return {"context": context, "items": list(items), "degraded": [], "context_id": CONTEXT_ID, "timings": {}}


def an_item(item_id: str, tier: str = "episodic") -> dict[str, Any]:
    return {"id": item_id, "tier": tier, "text": "it was watered", "score": 0.9, "provenance": {}}


@contextmanager
def a_remembering_world(context: str = "MEMORY SAYS HELLO", *items: dict[str, Any]) -> Iterator[StandIn]:
    """A deployment whose recall always says *context*."""
    with a_stand_in() as world:
        world.answer = lambda _: an_answer(context, *items)
        yield world


def gardener(**options: Any) -> AgentMemory:
    return AgentMemory("meadow", "gardener", "test", **options)
