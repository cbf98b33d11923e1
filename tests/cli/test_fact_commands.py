"""Facts and ingestion from the command, on the real adapters over moto."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory import contract, deployment
from agent_memory.cli import app as command
from agent_memory.domain.models import FactScope
from agent_memory.wiring_tenant import TenantServices
from support.aws import ACCOUNT, ENVIRONMENT, AwsAccount, an_aws_account
from support.builders import TENANT
from support.fact_runs import (
    DOMAIN,
    StandInKnowledge,
    SubjectEmbedder,
    a_candidate_fact,
    a_run_with_facts,
    confirm_run,
    facts_of,
    ingest,
    said_by,
)

OLD, NEW = "Depot K closes at 16:00.", "Depot K closes at 17:00."
WHERE = ("--tenant", TENANT, "--env", ENVIRONMENT)
DAY = 86_400


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as aws:
        definition = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}})
        machine = aws.client("stepfunctions").create_state_machine(
            name="ingestion", definition=definition, roleArn=f"arn:aws:iam::{ACCOUNT}:role/machine"
        )["stateMachineArn"]
        variables = {**aws.variables, contract.environment_variable("ingestionMachine"): machine}
        values = dict.fromkeys(contract.PARAMETER_NAMES, "unused") | {"operator-settings": json.dumps(variables)}
        for name, value in values.items():
            aws.client("ssm").put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=value, Type="String")
        vars(aws.services)["embedder"] = SubjectEmbedder("depot")
        vars(aws.services)["knowledge"] = StandInKnowledge(aws)
        yield aws


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


@pytest.fixture
def contested(tenant: TenantServices) -> tuple[str, str]:
    """The ids of a believed fact and of one that contradicts it."""
    said_by(tenant, OLD, "r-1", "r-2", "r-3", user_ref="u-ada")
    assert said_by(tenant, NEW, "r-4") == ["contested"]
    old, new = facts_of(tenant)
    return old.fact_id, new.fact_id


def run(*words: str) -> int:
    return command.run(list(words))


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert run(*words, "--output", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_facts_are_listed_over_all_domains_with_the_runs_behind_each(
    tenant: TenantServices, contested: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    said_by(tenant, "The depot has a ramp.", "r-9", domain="sites")
    found = asked(capsys, "facts", "list", *WHERE)
    assert {(f["domain"], f["content"], f["state"], f["runs"]) for f in found} == {
        (DOMAIN, OLD, "contested", 3),
        (DOMAIN, NEW, "observed", 1),
        ("sites", "The depot has a ramp.", "observed", 1),
    }
    assert [f["content"] for f in asked(capsys, "facts", "list", *WHERE, "--state", "contested")] == [OLD]
    assert len(asked(capsys, "facts", "list", *WHERE, "--domain", DOMAIN, "--limit", "1")) == 1
    assert run("facts", "list", *WHERE) == 0
    assert "3 of 3 facts" in capsys.readouterr().err


def test_a_fact_is_shown_with_everything_that_speaks_for_and_against_it(
    contested: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = contested
    found = asked(capsys, "facts", "show", old, *WHERE)
    assert [(said["run_id"], said["user_ref"], said["evidence"]) for said in found["observations"]] == [
        (run_id, "u-ada", OLD) for run_id in ("r-1", "r-2", "r-3")
    ]
    assert [(c["state"], c["reason"]) for c in found["history"]] == [
        ("observed", "first_observed"),
        ("promoted", "confirmed"),
        ("contested", "contradicted"),
    ]
    assert found["rivals"] == [{"fact_id": new, "content": NEW, "runs": 1}]
    assert (found["runs"], found["runs_needed"], found["users"]) == (3, 3, 1)
    assert found["expires_at"] == found["last_confirmed_at"] + 270 * DAY
    assert run("facts", "show", old, *WHERE) == 0
    printed = capsys.readouterr()
    for word in ("r-2", "u-ada", OLD, "contradicted", new, "confirmed"):
        assert word in printed.out.replace("\n", "")
    assert "facts settle" in printed.err


def test_a_person_settles_a_dispute_and_the_loser_leaves(
    tenant: TenantServices, contested: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = contested
    words = ("facts", "settle", old, "--keep", new, "--reason", "They moved.", *WHERE)
    assert asked(capsys, *words) == {"fact_id": old, "domain": DOMAIN, "result": "settled"}
    assert [fact.state for fact in facts_of(tenant)] == ["superseded", "promoted"]
    assert run(*words) == 1
    assert "not contested" in capsys.readouterr().err
    assert run("facts", "settle", new, "--keep", "f-0", "--reason", "?", *WHERE) == 1


def test_a_fact_is_retired_with_a_reason_and_pinned_and_loosened(
    tenant: TenantServices, capsys: pytest.CaptureFixture[str]
) -> None:
    said_by(tenant, OLD, "r-1")
    (fact,) = facts_of(tenant)
    for words, result in (((), "pinned"), ((), "unchanged"), (("--unpin",), "unpinned")):
        assert asked(capsys, "facts", "pin", fact.fact_id, *words, *WHERE)["result"] == result
    assert run("facts", "retire", fact.fact_id, *WHERE) == 2
    assert run("facts", "retire", fact.fact_id, "--reason", "  ", *WHERE) == 2
    assert asked(capsys, "facts", "retire", fact.fact_id, "--reason", "gone", *WHERE)["result"] == "retired"
    assert facts_of(tenant)[0].history[-1].reason == "person: gone"


def test_what_is_about_a_user_is_shown_with_the_pseudonym(
    account: AwsAccount, tenant: TenantServices, capsys: pytest.CaptureFixture[str]
) -> None:
    fact = a_candidate_fact("This customer has a discount.", scope=FactScope.USER)
    confirm_run(a_run_with_facts(tenant, "r-1", [fact], user_ref="u-ada"))
    assert run("facts", "list", *WHERE) == 0
    assert "u-ada" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "f-" + "0" * 32), 3),
        (("pin", "f-" + "0" * 32, "--domain", DOMAIN), 3),
        (("show", "f-1"), 2),
        (("show", "f-" + "0" * 32, "--domain", "a#b"), 2),
        (("list", "--domain", "a b"), 2),
        (("list", "--state", "true"), 2),
        (("settle", "f-" + "0" * 32), 2),
    ],
)
def test_a_wrong_fact_or_domain_is_a_sentence(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int
) -> None:
    assert run("facts", *words, *WHERE) == code
    assert "Traceback" not in capsys.readouterr().err


def test_the_status_says_what_waits_and_how_the_last_ingestion_went(
    account: AwsAccount, tenant: TenantServices, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = asked(capsys, "ingestion", "status", "--env", ENVIRONMENT)
    assert nothing == {"waiting": [], "last_report": None, "executions": []}
    said_by(tenant, OLD, "r-1", "r-2", "r-3")
    (waiting,) = asked(capsys, "ingestion", "status", "--env", ENVIRONMENT)["waiting"]
    assert (waiting["tenant_id"], waiting["domain"], waiting["to_add"], waiting["to_remove"]) == (TENANT, DOMAIN, 1, 0)
    assert ingest()[-1] == "done"
    status = asked(capsys, "ingestion", "status", "--env", ENVIRONMENT)
    assert (status["waiting"], status["last_report"]["ingested"]) == ([], 1)
    assert run("ingestion", "status", "--env", ENVIRONMENT) == 0
    assert "Nothing waits" in capsys.readouterr().out


def test_an_ingestion_on_demand_is_started_awaited_and_judged_by_what_still_waits(
    account: AwsAccount, tenant: TenantServices, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    statuses = iter(["RUNNING", "SUCCEEDED", "SUCCEEDED", "FAILED"])
    monkeypatch.setattr("agent_memory.aws.machines.IngestionMachine.status", lambda *_: next(statuses))
    monkeypatch.setattr(deployment.Deployment, "pause", lambda *_: None)
    started = asked(capsys, "ingestion", "run", "--wait", "--env", ENVIRONMENT)
    assert (started["status"], started["waiting"]) == ("SUCCEEDED", [])
    said_by(tenant, OLD, "r-1", "r-2", "r-3")
    assert run("ingestion", "run", "--wait", "--env", ENVIRONMENT) == 1
    assert "1 still wait" in capsys.readouterr().err
    assert run("ingestion", "run", "--wait", "--env", ENVIRONMENT) == 1
    assert asked(capsys, "ingestion", "run", "--env", ENVIRONMENT)["status"] == "RUNNING"
    executions = asked(capsys, "ingestion", "status", "--env", ENVIRONMENT)["executions"]
    assert started["execution"] in [one["name"] for one in executions]
    assert abs(executions[0]["started_at"] - time.time()) < 60
