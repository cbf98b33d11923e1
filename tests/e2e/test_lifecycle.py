"""The night on the laptop's stack: plan, run, report, a gate that fails, the limit, and a night that is killed."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command
from agent_memory.deployment import Deployment
from agent_memory.domain.models import Episode
from agent_memory.domain.night_report import NightReport, report_key
from support.builders import an_episode

from local import runtime

pytestmark = pytest.mark.e2e

AGENT, DAY, PATIENCE = "caretaker", 86_400, 120.0
NOTHING_THERE = 3
PLACES = (
    "kiln", "orchard", "ferry", "archive", "turbine", "bakery", "harbour", "library", "quarry", "glasshouse",
    "tannery", "foundry", "vineyard", "lighthouse", "printshop", "apiary", "sawmill", "brewery", "observatory", "dairy",
)  # fmt: skip
Answered = Callable[..., Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    """A folder that looks like the project, with a stack of its own; its limit holds for stores of 10 memories on."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "local").mkdir()
    (folder / "local" / "__main__.py").touch()
    stack = runtime.up(folder / ".local", context={"blastRadiusFrom": "10"})
    yield folder, stack
    stack.down()


@pytest.fixture
def deployment(stack: runtime.Stack) -> Deployment:
    return Deployment("local", timeout_seconds=60.0)


@pytest.fixture
def answered(stack: runtime.Stack, capsys: pytest.CaptureFixture[str]) -> Answered:
    """What a command answers, and that it ends with *code*."""

    def ask(*words: str, code: int = 0) -> Any:
        ended = command.run([*words, "--env", "local", "--output", "json"])
        printed = capsys.readouterr()
        assert ended == code, printed.err
        return json.loads(printed.out)

    return ask


def told(place: str) -> str:
    return f"Inspect the {place} and note what has to be mended there."


def an_inspection(deployment: Deployment, tenant_id: str, place: str, *, days: int) -> Episode:
    """The episode of a run that ended *days* ago, as StoreEpisode writes it; older than 34 days it is due."""
    ended = deployment.now() - days * DAY
    embedder = deployment.services.embedder
    task, digest = told(place), f"The north door of the {place} has to be mended."
    return an_episode(
        tenant_id=tenant_id,
        agent_id=AGENT,
        run_id=place,
        task=task,
        digest=f"{task} {digest}",
        key_findings=(digest,),
        reusable_patterns=(),
        task_vector=embedder.embed(task),
        digest_vector=embedder.embed(digest),
        embedding_model=embedder.model,
        created_at=ended,
        ended_at=ended,
        expires_at=ended + 90 * DAY,
        decays_at=ended + 35 * DAY,
    )


def keep(deployment: Deployment, tenant_id: str, *, due: int, of: int, agent: str = AGENT) -> None:
    """A store of *of* memories, *due* of which are."""
    tenant = deployment.services.tenant(tenant_id)
    tenant.agent_notes.note_agent(agent, now=deployment.now())
    for number, place in enumerate(PLACES[:of]):
        episode = an_inspection(deployment, tenant_id, place, days=40 if number < due else 2)
        assert tenant.episodes.put(episode) == "stored"


def an_old_run(deployment: Deployment, answered: Answered, folder: Path, tenant_id: str, place: str) -> None:
    """A run that ended 40 days ago and comes late: what the pipeline makes of it is due at once."""
    said = [{"role": "user", "content": told(place)}, {"role": "assistant", "content": f"The {place} needs a door."}]
    ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(deployment.now() - 40 * DAY))
    ids = {"schema_version": 1, "tenant_id": tenant_id, "agent_id": AGENT, "run_id": place, "ended_at": ended}
    file = folder / "run.json"
    file.write_text(json.dumps({**ids, "outcome": "COMPLETED", "transcript": {"messages": said}}))
    assert answered("emit", str(file), "--wait")[0]["state"] == "stored"


def left(deployment: Deployment, tenant_id: str) -> set[str]:
    views = deployment.services.tenant(tenant_id).episodes.views(AGENT, now=deployment.now())
    return {view.run_id for view in views}


def until(condition: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    ends_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends_at, "it did not come to pass"
        time.sleep(0.2)


def a_case(answered: Answered, tenant_id: str, place: str) -> None:
    criterion = f"The north door of the {place} has to be mended."
    words = ("--agent", AGENT, "--question", told(place), "--criterion", criterion, "--minimum", "0.7")
    answered("regress", "add", f"{place}-door", "--tenant", tenant_id, *words)
    assert answered("regress", "run", "--tenant", tenant_id)["gate"] == "PASS"


def planned(answered: Answered, run: Sequence[str] = ()) -> dict[str, Any]:
    return {tenant["tenant_id"]: tenant for tenant in answered("lifecycle", "plan", *run)["tenants"]}


def test_a_night_prunes_what_is_due_takes_back_what_a_case_needed_and_holds_what_is_too_much(
    deployment: Deployment, answered: Answered, tmp_path: Path
) -> None:
    keep(deployment, "meadow", due=3, of=20)
    an_old_run(deployment, answered, tmp_path, "meadow", "windmill")
    keep(deployment, "harbour", due=3, of=20)
    keep(deployment, "quarry", due=8, of=20)
    answered("episodes", "pin", "kiln", "--tenant", "meadow", "--agent", AGENT)
    a_case(answered, "meadow", "library")
    a_case(answered, "harbour", "orchard")

    found = planned(answered)
    assert {name: (plan["removed"], plan["held"]) for name, plan in found.items()} == {
        "meadow": (3, None),
        "harbour": (3, None),
        "quarry": (8, "blast_radius"),
    }
    assert {name: len(left(deployment, name)) for name in found} == {"meadow": 21, "harbour": 20, "quarry": 20}

    report = answered("lifecycle", "run", code=1)
    assert (report["ended"], report["quality"]) == ("rolled_back", "fail")
    parts = {tenant["tenant_id"]: tenant for tenant in report["tenants"]}
    assert {name: part["quality"] for name, part in parts.items()} == {
        "meadow": "PASS",
        "harbour": "FAIL",
        "quarry": None,
    }
    assert left(deployment, "meadow") == set(PLACES) - {"orchard", "ferry"}
    assert left(deployment, "harbour") == set(PLACES)
    assert left(deployment, "quarry") == set(PLACES)
    gate = answered("regress", "report", "--tenant", "harbour", code=1)
    assert [(case["baseline"] > 0.9, case["after"] < 0.7, case["verdict"]) for case in gate["results"]] == [
        (True, True, "FAIL")
    ]
    assert answered("regress", "run", "--tenant", "harbour")["gate"] == "PASS"
    assert answered("lifecycle", "report", code=1)["run"] == report["run"]


def test_what_a_night_removed_comes_back_and_stays_and_what_is_approved_goes(
    deployment: Deployment, answered: Answered
) -> None:
    night = answered("lifecycle", "status")["runs"][0]["run_id"]
    [back] = answered("lifecycle", "restore", f"{AGENT}/ferry", "--tenant", "meadow")
    assert back["decision"] == "restored"
    answered("lifecycle", "approve", night, "--by", "ops-lead")
    report = answered("lifecycle", "run")
    assert (report["ended"], report["totals"]["pruned"]) == ("completed", 8)
    assert left(deployment, "meadow") == set(PLACES) - {"orchard"}
    assert left(deployment, "harbour") == set(PLACES)
    assert left(deployment, "quarry") == set(PLACES[8:])


def test_a_night_that_is_killed_half_way_loses_nothing_and_the_next_one_finishes(
    deployment: Deployment, answered: Answered, stack: runtime.Stack
) -> None:
    tenants = [f"farm-{number}" for number in range(8)]
    for tenant_id in tenants:
        keep(deployment, tenant_id, due=2, of=2)
    files = deployment.services.night_files
    before = set(files.runs())
    execution = answered("lifecycle", "run", "--no-wait")["execution"]
    until(lambda: set(files.runs()) - before)
    [run_id] = set(files.runs()) - before
    until(lambda: files.keys(f"lifecycle/{run_id}/done/prune/"))
    stack.kill_workers()
    machine = deployment.services.settings.lifecycle_machine.replace(":stateMachine:", ":execution:")
    deployment.clients.get("stepfunctions").stop_execution(executionArn=f"{machine}:{execution}")
    until(lambda: deployment.services.lifecycle_machine.status(execution) == "ABORTED")

    assert files.get(report_key(run_id), NightReport) is None
    # An hour and a quarter later the lock of the killed one has run out.
    forget_the_lock(deployment)
    report = answered("lifecycle", "run")
    assert (report["ended"], report["unfinished"]) == ("completed", {})
    assert all(left(deployment, tenant_id) == set() for tenant_id in tenants)
    # Each memory lies in the archive of the night that came to remove it; either may have come to none.
    for name in set(files.runs()) - before:
        assert command.run(["lifecycle", "restore", name, "--env", "local"]) in (0, NOTHING_THERE)
    assert all(left(deployment, tenant_id) == set(PLACES[:2]) for tenant_id in tenants)


def forget_the_lock(deployment: Deployment) -> None:
    deployment.clients.get("dynamodb").update_item(
        TableName=deployment.services.settings.ledger_table,
        Key={"ledger_key": {"S": "registry#lifecycle"}, "entry_id": {"S": "lock"}},
        UpdateExpression="SET #until = :past",
        ExpressionAttributeNames={"#until": "until"},
        ExpressionAttributeValues={":past": {"N": "1"}},
    )
