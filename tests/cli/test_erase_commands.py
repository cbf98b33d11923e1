"""`agent-memory erase`, on the real functions and adapters over moto."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from agent_memory import contract
from agent_memory.aws.erasure_function import ErasureFunction
from agent_memory.cli import app as command
from agent_memory.deployment import Deployment
from support.aws import ENVIRONMENT, AwsAccount
from support.builders import TENANT, LambdaContext
from support.erasures import ALICE, MARK, an_account_that_erases, plant, ticket_of, worked_off

from lambdas.erasure_desk.handler import handler

WHERE = ("--tenant", TENANT, "--env", ENVIRONMENT)


class InvokedHere:
    """Lambda's Invoke, in this process; the machine's work is done as soon as somebody asks how it stands."""

    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 - as the SDK names them
        question = json.loads(Payload)
        with redirect_stdout(io.StringIO()):  # what Lambda sends to its log
            answer = handler(question, LambdaContext())
            if question["action"] == "request" and "error" not in answer:
                worked_off(ticket_of(answer))
        if question["action"] == "status" and answer.get("receipt"):
            answer["state"] = "SUCCEEDED"  # moto never ends an execution
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsAccount]:
    with an_account_that_erases() as aws:
        values = dict.fromkeys(contract.PARAMETER_NAMES, "unused") | {"operator-settings": json.dumps(aws.variables)}
        for name, value in values.items():
            aws.client("ssm").put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=value, Type="String")
        monkeypatch.setattr(Deployment, "erasures", ErasureFunction(InvokedHere(), function="erasure-desk"))
        yield aws


def asked(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert command.run([*words, "--output", "json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_user_is_erased_and_the_receipt_proves_it(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plant(account, ALICE, "alice", MARK)
    receipt = asked(capsys, "erase", "user", ALICE, "--confirm", *WHERE)
    assert receipt["receipt"]["decision"] == "erased"
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt))
    proved = asked(capsys, "erase", "verify", str(file), "--env", ENVIRONMENT)
    assert (proved["signature"], proved["clean"]) == ("valid", True)
    listed = asked(capsys, "erase", "status", *WHERE)
    assert listed == {"ended": [receipt["receipt"]["erasure_id"]], "under_way": []}
    nothing = asked(capsys, "erase", "retry", str(file), "--env", ENVIRONMENT)
    assert nothing["execution"] is None


def test_nothing_is_erased_without_a_word(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    plant(account, ALICE, "alice", MARK)
    assert command.run(["erase", "user", ALICE, *WHERE]) == 2
    assert "Add --confirm. The person's episodes" in capsys.readouterr().err
    assert command.run(["erase", "tenant", "acme", "--env", ENVIRONMENT]) == 2
    assert "Add --confirm. All the tenant's episodes" in capsys.readouterr().err
    assert account.episodes()


def test_a_receipt_that_is_not_there_is_told_from_a_file_that_is_none(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert command.run(["erase", "verify", str(tmp_path / "away.json"), "--env", ENVIRONMENT]) == 2
    assert "must be a file that can be read" in capsys.readouterr().err
    (tmp_path / "note.txt").write_text("erased")
    assert command.run(["erase", "verify", str(tmp_path / "note.txt"), "--env", ENVIRONMENT]) == 2
    assert "must be the JSON" in capsys.readouterr().err


def test_an_edited_receipt_is_refused(account: AwsAccount, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    receipt = asked(capsys, "erase", "user", ALICE, "--confirm", *WHERE)
    receipt["receipt"]["finished_at"] += 1
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt))
    assert command.run(["erase", "verify", str(file), "--env", ENVIRONMENT]) == 2
    assert "exactly as agent-memory wrote it" in capsys.readouterr().err


def test_an_unknown_erasure_is_not_found(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["erase", "status", "x-0", *WHERE]) == 3
    assert "no erasure x-0" in capsys.readouterr().err


def test_who_erases_a_tenant_is_told_that_its_callers_stay(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert command.run(["erase", "tenant", "acme", "--confirm", "--env", ENVIRONMENT]) == 0
    assert "agent-memory callers list" in capsys.readouterr().err


@pytest.mark.parametrize("tenant", ["a#b", "..", "%23", "ａ", "a\u0301", "registry", *contract.CANARY_TENANTS])
def test_what_is_no_tenant_to_be_erased_is_refused(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], tenant: str
) -> None:
    assert command.run(["erase", "tenant", tenant, "--confirm", "--env", ENVIRONMENT]) == 2
    assert "tenant" in capsys.readouterr().err
    assert account.items(account.settings.ledger_table) == []
