"""The tools of `agent_memory.tools` for LangChain: they outlive a run, so what the agent says through them is read from
its messages when the run ends."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool

from agent_memory.client import AgentMemory
from agent_memory.tools import UNREADABLE, MemoryTools

About = Callable[[Any, Any], Mapping[str, str | None] | None]


def langchain_tools(memory: AgentMemory, about: About) -> list[BaseTool]:
    """recall_memory, remember and rate_procedure. *about*: from state and runtime to task_type, domain and user_id, or
    None when they can't be told; the model has no say in them."""
    notes = MemoryTools(memory)

    def recall_memory(question: str, runtime: ToolRuntime[Any, Any]) -> str:
        said = about(runtime.state, runtime)
        return UNREADABLE if said is None else MemoryTools(memory, notes=None, **said).recall_memory(question)

    def remember(fact: str, evidence: str, about_user: bool = False) -> str:
        return notes.remember(fact, evidence, about_user)

    def rate_procedure(procedure_id: str, succeeded: bool) -> str:
        return notes.rate_procedure(procedure_id, succeeded)

    described = {tool: getattr(MemoryTools, tool.__name__) for tool in (recall_memory, remember, rate_procedure)}
    return [
        StructuredTool.from_function(tool, description=inspect.getdoc(method)) for tool, method in described.items()
    ]
