"""The MCP server, driven by the SDK's own client in process, over stdio and over HTTP."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from agent_memory.client import AgentMemory
from agent_memory.contract import MEMORY_TOOLS
from agent_memory.domain.errors import ConfigurationError
from agent_memory.mcp import MAX_OPEN_RUNS, MemoryServer, OpenRuns, loopback
from mcp import Client, StdioServerParameters
from support.stand_in import StandIn, a_stand_in

WORDS = "the customer's own words"
QUOTE = "Ferns want shade from noon on."
SPOKEN = [{"role": "user", "content": f"Move the ferns. {QUOTE}"}, {"role": "assistant", "content": "Moved."}]
ARGUMENTS = [
    "-m",
    "agent_memory.cli",
    "mcp",
    "--tenant",
    "meadow",
    "--agent",
    "gardener",
    "--user",
    "u",
    "--env",
    "test",
]


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_stand_in() as stand_in:
        stand_in.answer = lambda _: {"context": "<memory>", "context_id": "c-9"}
        yield stand_in


@asynccontextmanager
async def in_process(_: StandIn) -> AsyncIterator[Client]:
    memory = AgentMemory("meadow", "gardener", "test")
    async with Client(MemoryServer(memory, user_id="u").mcp()) as client:
        yield client


@asynccontextmanager
async def over_stdio(_: StandIn) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=sys.executable, args=ARGUMENTS, env=dict(os.environ))
    async with Client(parameters) as client:
        yield client


def _free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@asynccontextmanager
async def over_http(_: StandIn) -> AsyncIterator[Client]:
    with a_server() as port:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            yield client


class a_server:  # noqa: N801 - reads as a sentence where it is used
    def __enter__(self) -> int:
        port = _free_port()
        self._process = subprocess.Popen(
            [sys.executable, *ARGUMENTS, "--http", "--port", str(port)], stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        ends_at = time.monotonic() + 30
        while time.monotonic() < ends_at and self._process.poll() is None:
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            time.sleep(0.05)
        raise AssertionError(self._process.communicate()[1].decode())

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self.said = self._process.communicate(timeout=10)


def text_of(result: Any) -> str:
    assert result.is_error is not True, result
    return "\n".join(block.text for block in result.content)


Opened = Callable[[StandIn], Any]


@pytest.mark.parametrize("opened", [in_process, over_stdio, over_http])
def test_a_run_from_recall_to_its_end(world: StandIn, opened: Opened) -> None:
    async def run() -> None:
        async with opened(world) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == {"recall", "remember", "rate_procedure", "end_run"} <= MEMORY_TOOLS
            asked = {name for tool in tools for name in tool.input_schema["properties"]}
            assert not {"tenant_id", "agent_id", "user_id", "tenant", "agent", "user"} & asked
            told = text_of(await client.call_tool("recall", {"task": "Move the ferns", "domain": "plants"}))
            context, _, run_id = told.partition("\n\nrun_id: ")
            assert context == "<memory>"
            fact = {"run_id": run_id, "fact": "Ferns want shade.", "evidence": QUOTE}
            assert text_of(await client.call_tool("remember", fact)).startswith("Noted")
            rated = {"run_id": run_id, "procedure_id": "p-1", "succeeded": True}
            assert text_of(await client.call_tool("rate_procedure", rated)).startswith("Noted")
            end = {"run_id": run_id, "messages": SPOKEN, "outcome": "COMPLETED", "used": ["gardener/run-7"]}
            assert text_of(await client.call_tool("end_run", end)).startswith("Handed over")
            assert "has ended" in text_of(await client.call_tool("end_run", end))

    anyio.run(run)
    (question,), (detail,) = world.questions, world.details
    assert (question["tenant_id"], question["agent_id"], question["user_id"]) == ("meadow", "gardener", "u")
    assert (detail["tenant_id"], detail["agent_id"], detail["user_id"]) == ("meadow", "gardener", "u")
    assert (detail["task"], detail["domain"], detail["outcome"]) == ("Move the ferns", "plants", "COMPLETED")
    assert detail["memory"] == {"context_id": "c-9", "used": ["gardener/run-7"]}
    assert detail["artifacts"]["facts"][0]["evidence"] == QUOTE
    assert detail["procedure"] == {"procedure_id": "p-1", "succeeded": True}
    assert detail["transcript"]["messages"] == SPOKEN


def called(world: StandIn, *calls: tuple[str, dict[str, object]]) -> list[Any]:
    async def run() -> list[Any]:
        async with in_process(world) as client:
            return [await client.call_tool(tool, arguments) for tool, arguments in calls]

    return anyio.run(run)


def test_a_model_that_names_another_tenant_speaks_for_its_own(world: StandIn) -> None:
    stray = {"tenant_id": "other", "agent_id": "other", "user_id": "other"}
    called(
        world,
        ("recall", {"task": "x", **stray}),
        ("end_run", {"run_id": "r-1", "messages": SPOKEN, "outcome": "FAILED", **stray}),
    )
    said = [*world.questions, *world.details]
    assert {(one["tenant_id"], one["agent_id"], one["user_id"]) for one in said} == {("meadow", "gardener", "u")}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("recall", {"task": "  "}),
        ("recall", {"task": "x", "domain": "a b"}),
        ("remember", {"run_id": "a b", "fact": "x", "evidence": "x"}),
        ("remember", {"run_id": "r-1", "fact": "", "evidence": "x"}),
        ("rate_procedure", {"run_id": "r-1", "procedure_id": "p 1", "succeeded": True}),
        ("end_run", {"run_id": "r-1", "messages": [], "outcome": "COMPLETED"}),
        ("end_run", {"run_id": "../r", "messages": SPOKEN, "outcome": "COMPLETED"}),
    ],
)
def test_what_breaks_a_rule_is_said_to_the_model_in_words(
    world: StandIn, tool: str, arguments: dict[str, object]
) -> None:
    (result,) = called(world, (tool, arguments))
    assert text_of(result).startswith(("Not ", "Memory was not asked"))
    assert world.entries == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("recall", {}),
        ("end_run", {"run_id": "r-1", "messages": SPOKEN, "outcome": "SPLENDID"}),
        ("end_run", {"run_id": "r-1", "messages": WORDS, "outcome": "FAILED"}),
        ("forget", {"run_id": "r-1"}),
    ],
)
def test_arguments_of_another_shape_are_an_error_of_the_call(
    world: StandIn, tool: str, arguments: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with in_process(world) as client:
            assert (await client.call_tool(tool, arguments)).is_error is True

    anyio.run(run)
    assert world.entries == []
    assert WORDS not in " ".join(record.getMessage() for record in caplog.records if record.levelname != "INFO")


def test_memory_that_cannot_be_reached_is_told_and_the_run_can_be_ended_again(world: StandIn) -> None:
    world.function_error = True
    world.refused_actions = {"PutEvents"}
    end = {"run_id": "r-1", "messages": SPOKEN, "outcome": "FAILED"}
    with pytest.warns(RuntimeWarning):
        told, kept = called(world, ("recall", {"task": "x"}), ("end_run", end))
    assert "can't be read now" in text_of(told)
    assert "run_id: r-" in text_of(told)
    assert text_of(kept).startswith("Not handed over yet: denied: events:PutEvents")


def test_a_page_in_a_browser_and_another_host_are_refused() -> None:
    with a_stand_in(), a_server() as port:
        url = f"http://127.0.0.1:{port}/mcp"
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accept = {"Accept": "application/json, text/event-stream"}
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Host": f"evil.example:{port}"}, 421),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": f"http://127.0.0.1:{port + 1}"}, 403),
        ):
            assert (
                httpx.post(
                    url, content=json.dumps(call), headers={"Content-Type": "application/json", **accept, **headers}
                ).status_code
                == status
            )


@pytest.mark.parametrize("host", ["0.0.0" + ".0", "192.168.0.7", "memory.example", "", "::"])
def test_a_server_that_others_could_reach_is_not_started(host: str) -> None:
    with pytest.raises(ConfigurationError, match="no login"):
        loopback(host)


def test_the_runs_under_way_are_bounded() -> None:
    runs = OpenRuns()
    first = runs.of("r-0")
    for number in range(1, MAX_OPEN_RUNS + 1):
        runs.of(f"r-{number}")
    assert runs.of("r-0") is not first


def test_stdio_carries_the_protocol_and_nothing_else(world: StandIn, tmp_path: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    done = subprocess.run(
        [sys.executable, *ARGUMENTS],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["id"] for line in lines] == [1]
    assert "meadow/gardener" in done.stderr
