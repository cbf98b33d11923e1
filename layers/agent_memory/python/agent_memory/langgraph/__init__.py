"""Memory for LangChain agents and LangGraph graphs. Needs the extra: `pip install "agent-memory[langgraph]"`."""
