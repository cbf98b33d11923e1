"""Who speaks for which tenants, from the command, on the real adapter over moto."""

import json
from collections.abc import Iterator

import pytest
from agent_memory import contract
from agent_memory.cli import app as command
from support.aws import ENVIRONMENT, AwsAccount, an_aws_account

ROLE = "arn:aws:iam::123456789012:role/support-desk"
SESSION = "arn:aws:sts::123456789012:assumed-role/support-desk/i-1"
WHERE = ("--env", ENVIRONMENT)


@pytest.fixture(autouse=True)
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as aws:
        values = dict.fromkeys(contract.PARAMETER_NAMES, "unused") | {"operator-settings": json.dumps(aws.variables)}
        for name, value in values.items():
            aws.client("ssm").put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=value, Type="String")
        yield aws


def run(*words: str) -> int:
    return command.run([*words, *WHERE])


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert run("callers", "list", "--output", "json") == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_tenants_add_up_and_a_session_is_its_role(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("callers", "allow", ROLE, "--tenant", "acme") == 0
    assert run("callers", "allow", SESSION, "--tenant", "bmx", "--reviewer") == 0
    assert listed(capsys) == [{"principal": ROLE, "tenants": ["acme", "bmx"], "reviewer": True}]


def test_a_tenant_is_taken_back_alone_and_the_last_one_takes_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    run("callers", "allow", ROLE, "--tenant", "acme", "--tenant", "bmx")
    assert run("callers", "revoke", ROLE, "--tenant", "acme") == 0
    assert [row["tenants"] for row in listed(capsys)] == [["bmx"]]
    assert run("callers", "revoke", ROLE) == 0
    assert listed(capsys) == []
    assert run("callers", "revoke", ROLE) == 3


@pytest.mark.parametrize("tenant", ["registry", "a#b", "canary-a", "../acme", ""])
def test_nobody_speaks_for_the_registry_the_canary_or_what_is_no_tenant(
    tenant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("callers", "allow", ROLE, "--tenant", tenant) == 2
    assert listed(capsys) == []


def test_what_is_no_principal_is_refused_with_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("callers", "allow", "support-desk", "--tenant", "acme") == 2
    assert "arn:aws:iam" in capsys.readouterr().err


def test_a_row_that_somebody_else_changed_meanwhile_is_not_overwritten(account: AwsAccount) -> None:
    callers = account.services.callers
    run("callers", "allow", ROLE, "--tenant", "acme")
    read = callers.known(ROLE)
    assert read is not None
    run("callers", "revoke", ROLE, "--tenant", "acme")
    assert not callers.allow(read.model_copy(update={"reviewer": True}), before=read, now=2)
    assert callers.all() == []
