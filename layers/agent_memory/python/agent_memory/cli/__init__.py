"""The agent-memory command."""
