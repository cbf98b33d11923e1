"""Agents of several makes on the laptop's stack: the example, a prefetch, and the MCP server, on the real functions."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_memory.client import AgentMemory
from mcp import Client, StdioServerParameters

from local import runtime

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
TENANT = "meadow"
PATIENCE = 90.0
TASK = "Repot the old fern in the north window."
SPOKEN = [
    {"role": "user", "content": TASK},
    {"role": "assistant", "content": "Repotted: it needed a larger pot and soil without peat."},
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    """A folder that looks like the project, with a stack of its own in .local."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "local").mkdir()
    (folder / "local" / "__main__.py").touch()
    stack = runtime.up(folder / ".local")
    yield folder, stack
    stack.down()


def known(memory: AgentMemory, task: str) -> list[str]:
    ends_at = time.monotonic() + PATIENCE
    while True:
        found = memory.recall(task, budget_ms=20_000)
        if found.items or time.monotonic() > ends_at:
            return [item.id for item in found.items]
        time.sleep(0.5)


def test_run_two_of_the_example_begins_with_what_run_one_discovered(stack: runtime.Stack) -> None:
    words = [sys.executable, "-m", "examples.contract_review", "--env", "local", "--output", "json", "--tenant", TENANT]
    done = subprocess.run(
        words, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    one, two = report["runs"]
    assert "liability cap: section B" in report["context"]
    assert "1,500,000 euros" in two["answer"]
    assert two["tool_calls"] == 3 < one["tool_calls"]
    assert two["input_tokens"] < one["input_tokens"]


def test_a_prefetched_recall_is_picked_up_and_counts_as_one_read(stack: runtime.Stack) -> None:
    memory = AgentMemory(TENANT, "prefetcher", "local", strict=True, timeout_seconds=30)
    memory.end_run("r-1", messages=SPOKEN, outcome="COMPLETED")
    assert known(memory, TASK) == ["prefetcher/r-1"]
    context_id = memory.prefetch(TASK, budget_ms=20_000)
    assert context_id is not None
    for _ in range(2):
        found = memory.recall(TASK, context_id=context_id)
        assert (found.prefetched, found.context_id) == (True, context_id)
        assert [item.id for item in found.items] == ["prefetcher/r-1"]
    other = AgentMemory(TENANT, "stranger", "local", strict=True, timeout_seconds=30)
    assert other.recall(TASK, context_id=context_id).items == ()


def test_a_run_through_the_mcp_server_is_remembered(stack: runtime.Stack) -> None:
    arguments = ["-m", "agent_memory.cli", "mcp", "--tenant", TENANT, "--agent", "hosted", "--env", "local"]

    async def run() -> str:
        server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        async with Client(server) as client:
            told = await client.call_tool("recall", {"task": TASK})
            run_id = told.content[0].text.partition("run_id: ")[2]  # type: ignore[union-attr]
            end = {"run_id": run_id, "messages": SPOKEN, "outcome": "COMPLETED"}
            assert (await client.call_tool("end_run", end)).content[0].text.startswith("Handed over")  # type: ignore[union-attr]
            return run_id

    run_id = anyio.run(run)
    assert known(AgentMemory(TENANT, "hosted", "local", timeout_seconds=30), TASK) == [f"hosted/{run_id}"]
