"""The opt-in chat model of the laptop: installed on request, started beside the stack, OpenAI-compatible."""

import os
from collections.abc import Callable
from typing import Final

from local import environments, models
from local.layout import LLM_VENV, ROOT, Layout, LocalRuntimeError, python_of
from local.processes import Server

READY_SECONDS: Final = 120.0
Say = Callable[[str], None]


def install(say: Say) -> None:
    environments.install(say, environments.WITH_CHAT_MODEL)
    models.fetch_chat_model(say)


def server(layout: Layout, *, port: int) -> Server:
    return Server(
        "chat model", pid_file=layout.pid_file("chat"), port=port, log=layout.logs / "chat.log", health="/health"
    )


def start(chat: Server, say: Say) -> None:
    if chat.pid:
        return
    if not (environments.installed(LLM_VENV) and models.chat_model_path().exists()):
        raise LocalRuntimeError(
            "the chat model is not installed. Run `python -m local llm-install` once (about 1.2 GB)."
        )
    say("loading the chat model")
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8"}
    command = [
        str(python_of(LLM_VENV)),
        "-P",
        str(ROOT / "local" / "chat_server.py"),
        str(chat.port),
        str(models.chat_model_path()),
    ]
    chat.start(command, environment=environment, folder=ROOT)
    chat.wait_until_ready(READY_SECONDS)
