"""`agent-memory lifecycle`, over nights that are walked with the real functions on moto."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

import pytest
from agent_memory import contract
from agent_memory.aws.machines import LifecycleMachine
from agent_memory.cli import app as command
from agent_memory.deployment import Deployment
from agent_memory.wiring_lifecycle import NightServices
from support.aws import ACCOUNT, ENVIRONMENT, AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, TENANT, LambdaContext, an_episode
from support.lifecycle import a_night_passes, at
from support.machines import CONTEXT, Task, TaskFailed
from support.recalls import FixedEmbedder
from support.regressions import a_case
from support.retrieval import a_knowledge_base

from lambdas.lifecycle_report.handler import handler as lifecycle_report
from lambdas.quality_check.handler import handler as quality_check
from lambdas.restore_memories.handler import handler as restore_memories

NIGHT = "n-2027-01-15"
WHERE = ("--env", ENVIRONMENT)
OWN_STEPS: Mapping[str, Task] = {
    "Baseline": lambda event: quality_check(event, LambdaContext()),
    "QualityCheck": lambda event: quality_check(event, LambdaContext()),
    "RestoreMemories": lambda event: restore_memories(event, LambdaContext()),
    "Report": lambda event: lifecycle_report(event, LambdaContext()),
}


class Nights:
    """The machine, run here to its end when it is started. *tasks* take the place of steps."""

    def __init__(self, account: AwsAccount) -> None:
        self.account = account
        self.tasks: dict[str, Task] = {}
        self.ended: dict[str, str] = {}

    def start(self, asked: Mapping[str, object] | None = None) -> str:
        dry_run, name = bool((asked or {}).get("dry_run")), f"e-{len(self.ended) + 1}"
        with redirect_stdout(io.StringIO()), patch.dict(CONTEXT["Execution"], {"Name": name}):  # Lambda's logs
            walked = a_night_passes(self.account, dry_run=dry_run, **{**OWN_STEPS, **self.tasks})
        self.ended[name] = walked.status
        return name

    def status(self, name: str) -> str:
        return self.ended.get(name, "RUNNING")


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    arn = f"arn:aws:states:us-east-1:{ACCOUNT}:stateMachine:agent-memory-lifecycle-{ENVIRONMENT}"
    with an_aws_account(lifecycleMachine=arn) as aws:
        values = dict.fromkeys(contract.PARAMETER_NAMES, "unused") | {"operator-settings": json.dumps(aws.variables)}
        for name, value in values.items():
            aws.client("ssm").put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=value, Type="String")
        vars(aws.services)["embedder"] = FixedEmbedder()
        a_knowledge_base(aws)
        at(aws, NOW)
        yield aws


@pytest.fixture
def nights(account: AwsAccount, monkeypatch: pytest.MonkeyPatch) -> Nights:
    held = Nights(account)
    monkeypatch.setattr(LifecycleMachine, "start", lambda _, asked=None: held.start(asked))
    monkeypatch.setattr(LifecycleMachine, "status", lambda _, name: held.status(name))
    monkeypatch.setattr(LifecycleMachine, "recent", lambda _, limit=5: [])
    monkeypatch.setattr(Deployment, "now", lambda _: account.services.now())
    monkeypatch.setattr(Deployment, "pause", lambda *_: None)
    return held


def remembered(account: AwsAccount, number: int, *, age_days: int, start: int = 0) -> None:
    """Episodes that ended *age_days* ago and say nothing alike."""
    for n in range(start, start + number):
        then = NOW - age_days * DAY
        words = f"alpha{n} beta{n} gamma{n}"
        episode = an_episode(
            run_id=f"r-{age_days}-{n}",
            ended_at=then,
            created_at=then,
            expires_at=then + 90 * DAY,
            decays_at=then + 35 * DAY,
            task=words,
            digest=words,
            task_vector=None,
            digest_vector=None,
        )
        assert account.services.tenant(TENANT).episodes.put(episode) == "stored"
        account.services.tenant(TENANT).agent_notes.note_agent(AGENT, now=NOW)


def run(*words: str) -> int:
    return command.run(["lifecycle", *words, *WHERE])


def asked(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run(*words, "--output", "json") == code
    return json.loads(capsys.readouterr().out)


def test_a_plan_shows_who_would_go_why_and_with_which_score_and_changes_nothing(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    remembered(account, 2, age_days=40)
    remembered(account, 3, age_days=1)
    before = account.episodes()
    found = asked(capsys, "plan")
    assert found["run"]["dry_run"] is True
    assert [(t["tenant_id"], t["counts"]["prune"], t["removed"]) for t in found["tenants"]] == [(TENANT, 2, 2)]
    assert account.episodes() == before
    items = asked(capsys, "plan", NIGHT, "--tenant", TENANT)
    assert [(one["run_id"], one["action"], one["reason"]) for one in items] == [
        (f"r-40-{n}", "prune", "low_relevance") for n in range(2)
    ]
    assert all(0 < one["score"] < 0.3 for one in items)
    assert all("task" not in one for one in items)
    with_contents = asked(capsys, "plan", NIGHT, "--tenant", TENANT, "--contents")
    assert [one["task"] for one in with_contents] == [f"alpha{n} beta{n} gamma{n}" for n in range(2)]
    assert run("plan", NIGHT, "--tenant", TENANT) == 0
    assert "low_relevance" in capsys.readouterr().out


def test_a_run_ends_with_its_report_and_the_status_lists_it(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(capsys, "status") == {"last_completed": None, "runs": [], "approvals": [], "executions": []}
    remembered(account, 2, age_days=40)
    report = asked(capsys, "run")
    assert (report["ended"], report["totals"]["pruned"], report["quality"]) == ("completed", 2, "not_run")
    assert account.episodes() == []
    status = asked(capsys, "status")
    assert status["last_completed"]["run_id"] == NIGHT
    assert [(one["run_id"], one["ended"]) for one in status["runs"]] == [(NIGHT, "completed")]
    assert run("report") == 0
    printed = capsys.readouterr()
    assert "2 pruned" in printed.out
    assert "NOT RUN" in printed.err
    assert run("status") == 0
    assert NIGHT in capsys.readouterr().out


def test_a_dry_run_prints_the_plan_and_a_later_run_is_told_apart(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    remembered(account, 1, age_days=40)
    assert asked(capsys, "run", "--dry-run")["tenants"][0]["removed"] == 1
    assert len(account.episodes()) == 1
    assert asked(capsys, "run")["run"]["attempt"] == 2
    assert account.episodes() == []
    assert asked(capsys, "report", NIGHT)["ended"] == "planned"
    assert asked(capsys, "report")["run"]["attempt"] == 2


def test_too_much_for_one_night_is_held_until_a_person_approves_it(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    remembered(account, 40, age_days=40)
    remembered(account, 60, age_days=1)
    held = asked(capsys, "run", code=1)
    assert (held["ended"], held["totals"]["pruned"], len(account.episodes())) == ("held", 0, 100)
    assert run("report") == 1
    assert "lifecycle approve" in capsys.readouterr().err
    approved = asked(capsys, "approve", NIGHT, "--by", "ops-lead")
    assert (approved["removed"], approved["by"]) == ({TENANT: 40}, "ops-lead")
    assert asked(capsys, "status")["approvals"][0]["by"] == "ops-lead"
    assert asked(capsys, "run")["totals"]["pruned"] == 40
    assert len(account.episodes()) == 60


def test_a_gate_that_fails_is_said_and_the_run_is_not_good(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    remembered(account, 1, age_days=40)
    case = a_case(question="alpha0 beta0 gamma0", criteria=("alpha0 beta0 gamma0",), minimum=0.9)
    account.services.tenant(TENANT).regressions.put(case)
    report = asked(capsys, "run", code=1)
    assert (report["ended"], report["quality"], report["gates"]) == ("rolled_back", "fail", {"FAIL": 1})
    assert (report["totals"]["pruned"], report["totals"]["restored"]) == (1, 1)
    [tenant] = report["tenants"]
    assert [(one["baseline"], one["after"], one["verdict"]) for one in tenant["cases"]] == [(1.0, 0.0, "FAIL")]
    assert len(account.episodes()) == 1
    assert asked(capsys, "run")["totals"] == {**dict.fromkeys(report["totals"], 0), "processed": 0}


def test_what_a_night_removed_comes_back_whole_by_run_or_one_by_one(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    remembered(account, 3, age_days=40)
    before = {row["run_id"]["S"]: row for row in account.episodes()}
    asked(capsys, "run")
    assert account.episodes() == []
    one = f"{AGENT}/r-40-1"
    [back] = asked(capsys, "restore", one, "--tenant", TENANT)
    assert (back["memory_id"], back["decision"], back["run_id"]) == (one, "restored", NIGHT)
    whole = asked(capsys, "restore", NIGHT)
    assert sorted(item["decision"] for item in whole) == ["present", "restored", "restored"]
    found = {row["run_id"]["S"]: row for row in account.episodes()}
    assert set(found) == set(before)
    dates = {"decays_at", "due_shard", "expires_at", "kept_until"}
    for run_id, row in before.items():
        assert {k: v for k, v in found[run_id].items() if k not in dates} == {
            k: v for k, v in row.items() if k not in dates
        }
    assert asked(capsys, "run")["totals"]["pruned"] == 0
    assert run("restore", NIGHT, "--tenant", TENANT) == 0
    assert "was never gone" in capsys.readouterr().out


def test_what_was_erased_or_removed_too_long_ago_does_not_come_back(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    remembered(account, 1, age_days=40)
    asked(capsys, "run")
    target = ("restore", f"{AGENT}/r-40-0", "--tenant", TENANT)
    at(account, NOW + 31 * DAY)
    assert asked(capsys, *target, code=1)[0]["decision"] == "too_old"
    at(account, NOW + DAY)
    account.erase(TENANT, "*", before=NOW)
    assert asked(capsys, *target, code=1)[0]["decision"] == "erased"
    assert account.episodes() == []


def test_a_second_run_beside_another_says_that_it_did_nothing(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    assert NightServices(account.services).desk.take("another", night=NIGHT, now=NOW, until=NOW + 3600)
    capsys.readouterr()
    assert run("run") == 1
    assert "another run is at work" in capsys.readouterr().err


def test_a_run_that_gives_up_before_its_plan_says_where_to_look(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(event: dict[str, Any]) -> Any:
        raise TaskFailed("Runtime.HandlerError")

    nights.tasks["Plan"] = broken
    assert run("run") == 1
    assert "gave up" in capsys.readouterr().err


def test_a_run_can_be_left_to_itself(account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(capsys, "run", "--no-wait") == {"execution": "e-1", "status": "RUNNING"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("report", "yesterday"), 2),
        (("report", NIGHT), 3),
        (("report",), 3),
        (("plan", "../x"), 2),
        (("plan", NIGHT), 3),
        (("plan", NIGHT, "--contents"), 2),
        (("approve", NIGHT, "--by", " "), 2),
        (("approve", NIGHT, "--by", "me"), 2),
        (("approve", NIGHT), 2),
        (("restore", "a/b"), 2),
        (("restore", "odd", "--tenant", TENANT), 2),
        (("restore", "a/b", "--tenant", TENANT), 3),
        (("restore", NIGHT), 3),
        (("restore", NIGHT, "--tenant", TENANT), 3),
    ],
)
def test_wrong_usage_is_a_sentence(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int
) -> None:
    assert run(*words) == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_hold_keeps_nights_off_until_it_is_released(
    account: AwsAccount, nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    remembered(account, 1, age_days=40)
    assert asked(capsys, "hold", "-t", TENANT, "--agent", AGENT) == {
        "tenant_id": TENANT, "agent_id": AGENT, "held": True,
    }  # fmt: skip
    assert asked(capsys, "holds", "-t", TENANT) == [{"tenant_id": TENANT, "agent_id": AGENT}]
    run("run")
    assert len(account.episodes()) == 1
    assert asked(capsys, "release", "-t", TENANT, "--agent", AGENT)["held"] is False
    assert run("release", "-t", TENANT, "--agent", AGENT) != 0
    at(account, NOW + DAY)
    run("run")
    assert account.episodes() == []
