"""The AI server of one state folder as a child process."""

import os
from typing import Final

from local.layout import AI_VENV, ROOT, Layout, python_of
from local.models import tokenizer_path
from local.processes import Server

READY_SECONDS: Final = 120.0


def server(layout: Layout, *, port: int) -> Server:
    return Server("AI server", pid_file=layout.pid_file("ai"), port=port, log=layout.ai_log, health="/health")


def start(ai: Server, layout: Layout, *, chat_url: str, emulator_url: str = "") -> None:
    """Start it unless it runs; loading the models takes it some seconds. Without an emulator: no Knowledge Base."""
    if ai.pid:
        return
    environment = {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "HOME": str(layout.temporary),
        "TMPDIR": str(layout.temporary),
        "AGENT_MEMORY_LLM_URL": chat_url,
        "AGENT_MEMORY_LLM_MODEL": os.environ.get("AGENT_MEMORY_LLM_MODEL", ""),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": emulator_url,
        "AI_SERVER_KNOWLEDGE": str(layout.knowledge),
        "AI_SERVER_INGESTION_SECONDS": os.environ.get("AI_SERVER_INGESTION_SECONDS", ""),
    }
    command = [str(python_of(AI_VENV)), "-m", "local.ai_server", str(ai.port), str(tokenizer_path())]
    ai.start(command, environment=environment, folder=ROOT)
