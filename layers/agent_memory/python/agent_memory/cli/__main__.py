"""`python -m agent_memory.cli` is `agent-memory`."""

from agent_memory.cli import main

main()
