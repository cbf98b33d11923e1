"""A procedure on the laptop's stack: proposed, approved by a person, tried, established, withdrawn by its results."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command

from local import runtime

pytestmark = pytest.mark.e2e

TENANT, AGENT, TASK_TYPE = "meadow", "seed-desk", "seed-order"
TITLE = "How seed is ordered from the cooperative"
STEPS = [
    "Check the stock list for the variety.",
    "Compare the price of the cooperative with last year's.",
    "Send the order with the delivery week in the subject.",
]
TASK = "Order barley seed for the north field."
PATIENCE = 90.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    """A folder that looks like the project, with a stack of its own."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "local").mkdir()
    (folder / "local" / "__main__.py").touch()
    stack = runtime.up(folder / ".local", context={"ingestionMinutes": "0"})
    yield folder, stack
    stack.down()


@pytest.fixture
def answered(stack: runtime.Stack, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """What a command answers when all goes well."""

    def ask(*words: str) -> Any:
        code = command.run([*words, "--tenant", TENANT, "--env", "local", "--output", "json"])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return json.loads(printed.out)

    return ask


def a_run(run_id: str, **changes: object) -> dict[str, object]:
    """A finished run whose agent made the artifacts itself."""
    return {
        "schema_version": 1,
        "tenant_id": TENANT,
        "agent_id": AGENT,
        "run_id": run_id,
        "task_type": TASK_TYPE,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60)),
        "outcome": "COMPLETED",
        "transcript": {
            "messages": [
                {"role": "user", "content": f"{TASK} It is order {run_id}."},
                {"role": "assistant", "content": "The seed is ordered."},
            ]
        },
        "artifacts": {"task_summary": "Ordered seed.", "outcome": "COMPLETED", "confidence": 0.9},
        **changes,
    }


def ended(tmp_path: Path, capsys: pytest.CaptureFixture[str], runs: Sequence[dict[str, object]]) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(map(json.dumps, runs)))
    code = command.run(["emit", str(file), "--wait", "--env", "local", "--output", "json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert {arrival["state"] for arrival in json.loads(printed.out)} == {"stored"}


def waited_for(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """What *look* gives once it *holds*, or what it gave last."""
    ends_at = time.monotonic() + PATIENCE
    while not holds(found := look()) and time.monotonic() < ends_at:
        time.sleep(0.5)
    return found


def test_from_a_proposal_to_an_established_procedure_and_back_into_the_queue(
    answered: Callable[..., Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def recalled() -> tuple[str, list[dict[str, Any]], str]:
        words = ("recall", TASK, "--agent", AGENT, "--task-type", TASK_TYPE, "--budget-ms", "20000")
        found = answered(*words)
        assert found["degraded"] == []
        return found["context_id"], [i for i in found["items"] if i["tier"] == "procedural"], found["context"]

    def shown() -> dict[str, Any]:
        return dict(answered("procedures", "show", procedure_id))

    def followed(runs: Sequence[str], *, succeeded: bool) -> None:
        used = [
            {
                "memory": {"context_id": recalled()[0], "used": []},
                "procedure": {"procedure_id": procedure_id, "succeeded": succeeded},
            }
            for _ in runs
        ]
        ended(tmp_path, capsys, [a_run(run, **report) for run, report in zip(runs, used, strict=True)])

    proposal = a_run("r-1")
    proposal["artifacts"] = {**dict(proposal["artifacts"]), "procedure": {"title": TITLE, "steps": STEPS}}  # type: ignore[call-overload]  # the artifacts above
    ended(tmp_path, capsys, [proposal])
    (waiting,) = waited_for(lambda: answered("procedures", "list", "--waiting"), bool)
    procedure_id = waiting["procedure_id"]
    assert (waiting["state"], waiting["task_type"], waiting["title"]) == ("pending", TASK_TYPE, TITLE)
    assert recalled()[1] == []

    assert answered("procedures", "approve", procedure_id, "--sha", waiting["steps_sha256"])["decision"] == "done"
    _, (item,), context = recalled()
    assert (item["id"], item["provenance"]["trial"]) == (procedure_id, True)
    assert "on trial until 3 times followed" in context
    assert all(step in context for step in STEPS)

    followed(["r-2", "r-3", "r-4"], succeeded=True)
    proven = waited_for(shown, lambda found: found["state"] == "established")
    assert (proven["state"], proven["applied"], proven["succeeded"]) == ("established", 3, 3)
    _, (item,), context = recalled()
    assert item["provenance"]["trial"] is False
    assert "followed 3 times, succeeded 3 times (100%)" in context

    followed(["r-5", "r-6", "r-7"], succeeded=False)
    withdrawn = waited_for(shown, lambda found: found["state"] == "needs_review")
    assert (withdrawn["state"], withdrawn["applied"], withdrawn["succeeded"]) == ("needs_review", 6, 3)
    assert recalled()[1] == []
    assert [one["procedure_id"] for one in answered("procedures", "list", "--waiting")] == [procedure_id]

    assert [change["what"] for change in withdrawn["history"]] == ["proposed", "approved", "established", "withdrawn"]
    assert [change["kind"] for change in withdrawn["history"]] == ["run", "person", "memory", "memory"]
    assert [said["run_id"] for said in withdrawn["proposals"]] == ["r-1"]
