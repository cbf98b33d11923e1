"""The main job on the laptop's stack: a run ends, the next run remembers. The real pipeline, end to end."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_memory import contract
from agent_memory.cli import app as command
from agent_memory.client import AgentMemory
from agent_memory.deployment import Deployment

from local import runtime

pytestmark = pytest.mark.e2e

TENANT = "meadow"
PATIENCE = 90.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    """A folder that looks like the project, with a stack of its own in .local."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "local").mkdir()
    (folder / "local" / "__main__.py").touch()
    stack = runtime.up(folder / ".local")
    yield folder, stack
    stack.down()


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = command.run([*words, "--env", "local", "--output", "json"])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    return code, json.loads(printed.out)


def a_detail(run_id: str, agent: str, question: str, answer: str, **changes: object) -> dict[str, object]:
    return {
        "schema_version": 1,
        "tenant_id": TENANT,
        "agent_id": agent,
        "run_id": run_id,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60)),
        "outcome": "COMPLETED",
        "transcript": {
            "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
        },
        **changes,
    }


def written(folder: Path, *details: dict[str, object]) -> str:
    file = folder / "runs.jsonl"
    file.write_text("".join(json.dumps(detail) + "\n" for detail in details))
    return str(file)


def test_the_demo_recalls_the_right_run_and_keeps_no_personal_data(
    stack: runtime.Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = answered(capsys, "demo")
    assert (code, report["faults"]) == (0, [])
    assert [item["id"] for item in report["recall"]["items"]] == [f"{report['agent_id']}/first"]
    assert "[NAME]" in json.dumps(report["episodes"])


def test_a_task_never_seen_finds_nothing_and_is_not_degraded(
    stack: runtime.Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = answered(capsys, "recall", "Translate a poem into Latin", "--tenant", "demo", "--agent", "never-ran")
    assert (code, found["nothing_relevant"], found["degraded"]) == (0, True, [])


def test_a_run_delivered_twice_is_one_episode_and_another_content_is_refused(
    stack: runtime.Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = "gardener"
    once = a_detail("r-1", agent, "Repot the old fern.", "Repotted; it needed a larger pot and peat-free soil.")
    for _ in range(2):
        code, arrivals = answered(capsys, "emit", written(tmp_path, once, once), "--wait")
        assert (code, [arrival["state"] for arrival in arrivals]) == (0, ["stored", "stored"])
    other = a_detail("r-1", agent, "Cut the hedge.", "Cut.")
    code, arrivals = answered(capsys, "emit", written(tmp_path, other), "--wait")
    assert (code, arrivals[0]["state"]) == (1, "refused")
    _, episodes = answered(capsys, "episodes", "list", "--tenant", TENANT, "--agent", agent)
    assert [(episode["run_id"], episode["task"]) for episode in episodes] == [("r-1", "Repot the old fern.")]


def test_a_large_transcript_travels_as_a_pointer_and_is_stored(
    stack: runtime.Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "Row after row of the planting register, none of it remarkable. " * 15_000
    detail = a_detail("r-long", "archivist", f"Summarise the planting register.\n{long}", "It lists 15,000 rows.")
    code, arrivals = answered(capsys, "emit", written(tmp_path, detail), "--wait")
    assert (code, arrivals[0]["state"]) == (0, "stored")
    assert f"/{TENANT}/archivist/r-long/upload-" in arrivals[0]["transcript_uri"]


def test_a_run_that_cannot_be_read_is_parked_with_its_reason_and_can_be_looked_at(
    stack: runtime.Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = a_detail("r-empty", "gardener", "", "", transcript={"messages": []})
    assert command.run(["emit", written(tmp_path, empty), "--env", "local"]) == 2
    capsys.readouterr()
    # The command sees it before it is sent; who puts events by other means is told by the pipeline.
    Deployment("local").events(TENANT).put(contract.RUN_ENDED, json.dumps(empty))
    ends_at = time.monotonic() + PATIENCE
    while command.run(["parked", "show", "r-empty", "--tenant", TENANT, "--env", "local"]) and (
        time.monotonic() < ends_at
    ):
        time.sleep(1)
    capsys.readouterr()
    code, parked = answered(capsys, "parked", "show", "r-empty", "--tenant", TENANT)
    assert (code, parked["reason"]) == (0, "no_messages")


def test_an_event_without_valid_ids_ends_in_the_refused_queue(stack: runtime.Stack) -> None:
    deployment = Deployment("local")
    deployment.events(TENANT).put(contract.RUN_ENDED, json.dumps({"tenant_id": TENANT, "agent_id": "a/b"}))
    sqs, queue = deployment.clients.get("sqs"), deployment.directory.name("refused-queue")
    ends_at = time.monotonic() + PATIENCE
    bodies: list[str] = []
    while not bodies and time.monotonic() < ends_at:
        answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2, VisibilityTimeout=0)
        bodies = [message["Body"] for message in answer.get("Messages", [])]
    assert bodies
    assert "agent_id" in bodies[0]


def test_runs_survive_workers_that_are_killed_and_a_restart_of_the_stack(
    project: tuple[Path, runtime.Stack], stack: runtime.Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = "survivor"
    details = [a_detail(f"r-{i}", agent, f"Prune tree {i} of the orchard.", f"Tree {i} is pruned.") for i in range(4)]
    assert answered(capsys, "emit", written(tmp_path, *details))[0] == 0
    time.sleep(1)
    stack.kill_workers()
    code, arrivals = answered(capsys, "emit", written(tmp_path, *details), "--wait")
    assert (code, {arrival["state"] for arrival in arrivals}) == (0, {"stored"})
    stack.down()
    runtime.up(project[0] / ".local")
    _, episodes = answered(capsys, "episodes", "list", "--tenant", TENANT, "--agent", agent)
    assert {episode["run_id"] for episode in episodes} == {"r-0", "r-1", "r-2", "r-3"}
    found = AgentMemory(TENANT, agent, "local", strict=True).recall("Prune tree 2 of the orchard.")
    assert f"{agent}/r-2" in [item.id for item in found.items] or found.degraded


def test_a_recalled_memory_counts_as_read_and_a_reported_one_as_used(
    stack: runtime.Stack, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    agent = "reader"
    detail = a_detail("r-1", agent, "Label the seed trays.", "Labelled with pencil; ink fades in the sun.")
    assert answered(capsys, "emit", written(tmp_path, detail), "--wait")[0] == 0
    memory = AgentMemory(TENANT, agent, "local", strict=True)
    recalled = memory.recall("Label the seed trays.")
    assert [item.id for item in recalled.items] == [f"{agent}/r-1"]
    memory.end_run("r-2", messages=[{"role": "user", "content": "Done."}], recall=recalled, used=[f"{agent}/r-1"])
    ends_at = time.monotonic() + PATIENCE
    counts = (0, 0)
    while counts != (1, 1) and time.monotonic() < ends_at:
        _, episode = answered(capsys, "episodes", "show", "r-1", "--tenant", TENANT, "--agent", agent)
        counts = (episode["access_count"], episode["use_count"])
        time.sleep(0.5)
    assert counts == (1, 1)
