"""A person is forgotten on the laptop's stack, through the command, by the deployed machine."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command
from agent_memory.deployment import Deployment

from local import runtime

pytestmark = pytest.mark.e2e

TENANT, AGENT, USER = "orchard", "press-desk", "ida@example.com"
PATIENCE = 90.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[runtime.Stack]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "local").mkdir()
    (folder / "local" / "__main__.py").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_MEMORY_HOME", str(folder))
        stack = runtime.up(folder / ".local", context={"ingestionMinutes": "0", "erasureSettleSeconds": "1"})
        yield stack
        stack.down()


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert command.run([*words, "--env", "local", "--output", "json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def a_run(run_id: str, user_id: str, tenant_id: str = TENANT) -> dict[str, object]:
    said = [{"role": "user", "content": f"Press apples, {run_id}."}, {"role": "assistant", "content": "Pressed."}]
    return {
        "schema_version": 1,
        "tenant_id": tenant_id,
        "agent_id": AGENT,
        "run_id": run_id,
        "user_id": user_id,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60)),
        "outcome": "COMPLETED",
        "transcript": {"messages": said},
    }


def test_a_person_is_forgotten_and_the_receipt_is_proved(
    stack: runtime.Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run_id, user_id in (("ida-1", USER), ("ida-2", USER), ("jon-1", "jon@example.com")):
        file = tmp_path / f"{run_id}.json"
        file.write_text(json.dumps(a_run(run_id, user_id)))
        answer(capsys, "emit", str(file), "--wait", "--timeout", str(int(PATIENCE)))
    receipt = answer(capsys, "erase", "user", USER, "--confirm", "--tenant", TENANT)
    assert receipt["receipt"]["decision"] == "erased"
    assert USER not in str(receipt)
    kept = answer(capsys, "episodes", "list", "--tenant", TENANT, "--agent", AGENT)
    assert [one["run_id"] for one in kept] == ["jon-1"]
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt))
    assert answer(capsys, "erase", "verify", str(file))["clean"] is True


def test_a_tenant_is_forgotten_with_what_a_night_at_work_still_had_in_hand_and_its_neighbour_stays(
    stack: runtime.Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tenant_id in ("grove", "grove2"):
        file = tmp_path / f"{tenant_id}.json"
        file.write_text(json.dumps(a_run("ann-1", "ann@example.com", tenant_id)))
        answer(capsys, "emit", str(file), "--wait", "--timeout", str(int(PATIENCE)))
    deployment = Deployment("local", timeout_seconds=60.0)
    grove, desk = deployment.services.tenant("grove"), deployment.night.desk
    in_hand = grove.episode_shelf.snapshot((AGENT, "ann-1"))
    assert in_hand is not None
    now = deployment.now()
    assert desk.take("a-night", night="n-2026-01-01", now=now, until=now + 600)
    asked = answer(capsys, "erase", "tenant", "grove", "--confirm", "--no-wait")
    until(lambda: grove.episodes.get(AGENT, "ann-1") is None)
    # The first sweep was there; the night goes on with what it had read before.
    grove.archive.put(in_hand, night="n-2026-01-01", reason="low_relevance", at=now)
    status = ("erase", "status", asked["erasure_id"], "--tenant", "grove")
    until(lambda: answer(capsys, *status)["state"] == "RUNNING")
    assert desk.release("a-night")
    until(lambda: "signature" in answer(capsys, *status))
    receipt = answer(capsys, *status)["receipt"]
    assert receipt["decision"] == "erased"
    assert sum(one["left"] for one in receipt["stores"]) == 0
    assert [one["removed"] for one in receipt["stores"] if one["store"] == "archive"] == [1]
    assert list(grove.archive.of_night("n-2026-01-01")) == []
    kept = answer(capsys, "episodes", "list", "--tenant", "grove2", "--agent", AGENT)
    assert [one["run_id"] for one in kept] == ["ann-1"]


def until(done: Callable[[], bool]) -> None:
    """Ask again and again until it is so."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.5)
