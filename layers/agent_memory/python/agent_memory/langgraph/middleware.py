"""Memory as middleware of LangChain agents."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langgraph.runtime import Runtime

from agent_memory.client import AgentMemory
from agent_memory.langgraph.messages import with_context
from agent_memory.langgraph.nodes import MemoryNodes
from agent_memory.langgraph.state import MemoryAgentState


class MemoryMiddleware(AgentMiddleware[MemoryAgentState, Any, Any]):
    """Recalls once when a run begins, shows it to every model call, compresses long runs, hands the run over.

    Takes the options of `MemoryNodes`; with *tools* the agent may also recall, remember and rate by itself. What memory
    said stands in the system prompt of each call and in the agent's private state, never among its messages, so it
    does not pile up.

    Example: `create_agent(model, tools, middleware=[MemoryMiddleware(AgentMemory("acme", "support-desk"))])`
    """

    state_schema = MemoryAgentState
    transformers = (InternalCallTransformer,)

    def __init__(self, memory: AgentMemory, *, tools: bool = False, **options: Any) -> None:
        super().__init__()
        self.nodes = MemoryNodes(memory, **options)
        self.tools = self.nodes.tools() if tools else []

    def before_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return self.nodes.recall(state, runtime)

    async def abefore_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return await asyncio.to_thread(self.nodes.recall, state, runtime)

    def before_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return self.nodes.compress(state)

    async def abefore_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return await asyncio.to_thread(self.nodes.compress, state)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(self._with_memory(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        return await handler(self._with_memory(request))

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return self.nodes.end_run(state, runtime)

    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return await asyncio.to_thread(self.nodes.end_run, state, runtime)

    def _with_memory(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        context = self.nodes.context(request.state)
        return request.override(system_message=with_context(request.system_message, context)) if context else request
