"""Memory for LangChain agents and LangGraph graphs. Needs the extra: `pip install "agent-memory[langgraph]"`.

from agent_memory.langgraph import AgentMemory, MemoryMiddleware

agent = create_agent(model, tools, middleware=[MemoryMiddleware(AgentMemory("acme", "support-desk"))])
"""

from agent_memory.client import AgentMemory

try:
    from agent_memory.langgraph.compression import WorkingMemory
    from agent_memory.langgraph.middleware import MemoryMiddleware
    from agent_memory.langgraph.nodes import MemoryNodes
    from agent_memory.langgraph.state import MemoryAgentState, MemoryState
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f'{error.name} is missing: install it with pip install "agent-memory[langgraph]"', name=error.name
    ) from None

__all__ = ["AgentMemory", "MemoryAgentState", "MemoryMiddleware", "MemoryNodes", "MemoryState", "WorkingMemory"]
