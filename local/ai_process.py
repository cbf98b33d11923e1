"""The AI server of one state folder as a child process."""

import os
from typing import Final

from local.layout import AI_VENV, ROOT, Layout, python_of
from local.models import tokenizer_path
from local.processes import Server

READY_SECONDS: Final = 120.0


def server(layout: Layout, *, port: int) -> Server:
    return Server("AI server", pid_file=layout.pid_file("ai"), port=port, log=layout.ai_log, health="/health")


def start(ai: Server, layout: Layout, *, chat_url: str) -> None:
    """Start it unless it runs; loading the models takes it some seconds."""
    if ai.pid:
        return
    environment = {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "HOME": str(layout.temporary),
        "TMPDIR": str(layout.temporary),
        "AGENT_MEMORY_LLM_URL": chat_url,
        "AGENT_MEMORY_LLM_MODEL": os.environ.get("AGENT_MEMORY_LLM_MODEL", ""),
    }
    command = [str(python_of(AI_VENV)), "-m", "local.ai_server", str(ai.port), str(tokenizer_path())]
    ai.start(command, environment=environment, folder=ROOT)
