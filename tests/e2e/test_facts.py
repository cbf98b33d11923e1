"""A fact on the laptop's stack: worded by three runs, believed, told at once, and then by the Knowledge Base."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command

from local import runtime

pytestmark = pytest.mark.e2e

TENANT, AGENT, DOMAIN = "meadow", "shipping-desk", "customs"
WORDINGS = (
    "Fragile parcels need a customs form.",
    "A customs form is needed for fragile parcels.",
    "For fragile parcels, a customs form is required.",
)
TASK = "Send a fragile parcel abroad: which customs form does it need?"
PATIENCE = 90.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    """A folder that looks like the project, with a stack of its own that ingests on demand only."""
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
        code = command.run([*words, "--env", "local", "--output", "json"])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return json.loads(printed.out)

    return ask


def a_run(run_id: str, rule: str) -> dict[str, object]:
    """A finished run whose agent made the artifacts itself."""
    return {
        "schema_version": 1,
        "tenant_id": TENANT,
        "agent_id": AGENT,
        "run_id": run_id,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60)),
        "domain": DOMAIN,
        "outcome": "COMPLETED",
        "transcript": {
            "messages": [
                {"role": "user", "content": f"Prepare the shipment of order {run_id}. {rule}"},
                {"role": "assistant", "content": "The shipment is prepared and the form is attached."},
            ]
        },
        "artifacts": {
            "task_summary": "Prepared a shipment.",
            "outcome": "COMPLETED",
            "confidence": 0.9,
            "facts": [{"content": rule, "confidence": 0.9, "evidence": rule}],
        },
    }


def known(answered: Callable[..., Any], *, runs: int) -> dict[str, Any]:
    """The one fact of the domain, once so many runs are behind it."""
    ends_at = time.monotonic() + PATIENCE
    while True:
        facts = answered("facts", "list", "--tenant", TENANT, "--domain", DOMAIN)
        if (facts and facts[0]["runs"] >= runs) or time.monotonic() > ends_at:
            (fact,) = facts
            return dict(fact)
        time.sleep(0.5)


def recalled(answered: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """The facts that the next run is told, and which path found each."""
    words = ("recall", TASK, "--tenant", TENANT, "--agent", AGENT, "--domain", DOMAIN)
    found = answered(*words, "--budget-ms", "20000", "--explain")
    assert found["degraded"] == []
    shown = [item["text"] for item in found["items"] if item["tier"] == "semantic"]
    paths = [row["source"] for row in found["explanation"] if row.get("tier") == "semantic" and row["passes"]]
    assert all(text in found["context"] for text in shown)
    return shown, paths


def test_three_wordings_make_one_fact_that_is_told_at_once_and_once_when_it_is_ingested(
    answered: Callable[..., Any], tmp_path: Path
) -> None:
    def ended(run_id: str, rule: str, *, times: int = 1) -> None:
        file = tmp_path / "runs.jsonl"
        file.write_text("\n".join([json.dumps(a_run(run_id, rule))] * times))
        arrivals = answered("emit", str(file), "--wait")
        assert {arrival["state"] for arrival in arrivals} == {"stored"}

    ended("r-1", WORDINGS[0], times=3)
    assert known(answered, runs=1)["state"] == "observed"
    ended("r-2", WORDINGS[1])
    assert known(answered, runs=2)["state"] == "observed"
    assert recalled(answered) == ([], [])
    ended("r-3", WORDINGS[2])
    fact = known(answered, runs=3)
    assert (fact["state"], fact["runs"]) == ("promoted", 3)
    assert recalled(answered) == ([WORDINGS[0]], ["fast_path"])

    assert answered("ingestion", "run", "--wait")["waiting"] == []
    assert known(answered, runs=3)["state"] == "ingested"
    assert recalled(answered) == ([WORDINGS[0]], ["knowledge_base"])

    shown = answered("facts", "show", fact["fact_id"], "--tenant", TENANT)
    assert sorted(said["content"] for said in shown["observations"]) == sorted(WORDINGS)
    assert [change["state"] for change in shown["history"]] == ["observed", "promoted", "ingested"]


def test_a_fact_that_a_person_retires_leaves_at_once_and_the_knowledge_base_with_the_next_ingestion(
    answered: Callable[..., Any],
) -> None:
    fact = known(answered, runs=3)
    words = ("facts", "retire", fact["fact_id"], "--tenant", TENANT, "--reason", "the rule was lifted")
    assert answered(*words)["result"] == "retired"
    assert recalled(answered) == ([], [])
    assert answered("ingestion", "run", "--wait")["waiting"] == []
    assert answered("ingestion", "status")["last_report"]["removed"] == 1
    assert recalled(answered) == ([], [])
