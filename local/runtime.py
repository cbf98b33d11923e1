"""The laptop's stack as one thing: up, down, and the faults that benches inject."""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from local import ai_process, chat_model, environments, models
from local.deploy import client, deploy
from local.engine import Engine, client_environment
from local.layout import (
    DEFAULT_STATE,
    HOST,
    Layout,
    LocalRuntimeError,
    read_json,
    write_whole,
)
from local.processes import Server

EMULATOR_READY_SECONDS = 60.0
Say = Callable[[str], None]


def silent(message: str) -> None:
    """Progress for callers that want none."""


def install(say: Say = silent) -> None:
    """Everything that a stack needs and the project's own environment does not have."""
    environments.install(say)
    models.fetch_tokenizer(say)


def up(
    state: Path = DEFAULT_STATE, *, context: Mapping[str, str] | None = None, with_llm: bool = False, say: Say = silent
) -> "Stack":
    """Start what does not run on *state*, deploy what changed, and return the stack."""
    layout = Layout(state)
    layout.create()
    with _alone(layout):
        install(say)
        stack = Stack(layout)
        try:
            stack.start(dict(context or {}), with_llm=with_llm, say=say)
        except BaseException:
            if not layout.environment_file.exists():
                stack.stop()
            raise
    return stack


def running(state: Path = DEFAULT_STATE) -> "Stack | None":
    """The stack of *state* when its emulator runs."""
    layout = Layout(state)
    if not layout.ports_file.exists():
        return None
    stack = Stack(layout)
    return stack if stack.engine.server.pid else None


def sweep(state: Path = DEFAULT_STATE) -> None:
    """Stop what a crash of the emulator left running."""
    layout = Layout(state)
    if layout.ports_file.exists():
        Stack(layout).down()


def reset(state: Path = DEFAULT_STATE) -> None:
    """Stop the stack of *state* and forget all that it holds, its ports too."""
    layout = Layout(state)
    if layout.state.exists():
        with _alone(layout):
            if layout.ports_file.exists():
                Stack(layout).stop()
            for path in layout.owned():
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)


class Stack:
    """The emulator, the AI server and what is deployed to them."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        ports = _ports(layout)
        self._chat_server = chat_model.server(layout, port=ports["chat"])
        self.engine = Engine(layout, port=ports["emulator"])
        self.ai = ai_process.server(layout, port=ports["ai"])
        self.environment = client_environment(emulator_url=self.engine.server.url, ai_url=self.ai.url)
        self.changed: list[str] = []

    def start(self, context: dict[str, str], *, with_llm: bool, say: Say) -> None:
        fresh = self.engine.server.pid is None
        if with_llm:
            chat_model.start(self._chat_server, say)
        if fresh:
            say("starting the AWS emulator and the AI server")
            self.engine.start(self.environment)
        self._start_ai()
        if fresh:
            self.engine.server.wait_until_ready(EMULATOR_READY_SECONDS)
        if self._chat_url():
            context.setdefault("distiller", "model")
        self.changed = deploy(self.layout, self.environment, context, say)
        self.ai.wait_until_ready(ai_process.READY_SECONDS)
        lines = "".join(f"{name}={value}\n" for name, value in self.environment.items())
        write_whole(self.layout.environment_file, lines)

    def servers(self) -> list[Server]:
        return [self.engine.server, self.ai, self._chat_server]

    def deployed(self) -> list[tuple[str, str]]:
        """Name and status of each CloudFormation stack."""
        pages = client("cloudformation", self.environment).get_paginator("describe_stacks").paginate()
        return [(stack["StackName"], stack["StackStatus"]) for page in pages for stack in page["Stacks"]]

    def down(self) -> None:
        """Stop everything; what the stack holds stays in the state folder."""
        with _alone(self.layout):
            self.stop()

    def stop(self) -> None:
        self.layout.environment_file.unlink(missing_ok=True)
        for server in self.servers():
            server.stop()

    def kill_workers(self) -> int:
        """Kill the processes that run functions; return how many there were."""
        return self.engine.kill_workers()

    def stop_ai(self) -> None:
        self.ai.stop()

    def start_ai(self) -> None:
        self._start_ai()
        self.ai.wait_until_ready(ai_process.READY_SECONDS)

    def _start_ai(self) -> None:
        url = self.engine.server.url
        ai_process.start(self.ai, self.layout, chat_url=self._chat_url(), emulator_url=url)

    def _chat_url(self) -> str:
        given = os.environ.get("AGENT_MEMORY_LLM_URL", "")
        return given or (f"{self._chat_server.url}/v1" if self._chat_server.pid else "")


def _ports(layout: Layout) -> dict[str, int]:
    """The ports of this state folder. They stay: queue addresses that are stored in it contain them."""
    names = ("emulator", "ai", "chat")
    kept = {name: port for name, port in read_json(layout.ports_file).items() if isinstance(port, int)}
    if set(kept) != set(names):
        probes = [socket.create_server((HOST, 0)) for _ in names]
        kept = {name: probe.getsockname()[1] for name, probe in zip(names, probes, strict=True)}
        for probe in probes:
            probe.close()
        write_whole(layout.ports_file, json.dumps(kept))
    return kept


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """One command at a time per state folder."""
    with (layout.state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalRuntimeError(
                f"another command starts or stops the stack in {layout.state}. Wait until it has ended, then try again."
            ) from None
        yield
