"""What every end-to-end module shares: its own stack, and a process that is pointed at it."""

from pathlib import Path

import pytest
from agent_memory.cli.session import FOREIGN

from local import runtime


@pytest.fixture
def stack(project: tuple[Path, runtime.Stack], monkeypatch: pytest.MonkeyPatch) -> runtime.Stack:
    """The module's `project`, as a user in its folder meets it."""
    folder, running = project
    monkeypatch.setenv("AGENT_MEMORY_HOME", str(folder))
    monkeypatch.delenv("AGENT_MEMORY_ENV", raising=False)
    for name in FOREIGN:
        monkeypatch.delenv(name, raising=False)
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    return running
