"""The agent-memory command."""

import sys


def main() -> None:
    """Run the command; the reason for the exit code is on stderr."""
    try:
        from agent_memory.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("the command needs two more packages: pip install 'agent-memory[cli]'")
    sys.exit(run())
