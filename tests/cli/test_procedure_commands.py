"""Procedures from the command, through the review function, on the real adapters over moto."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from agent_memory import contract
from agent_memory.aws.signed_url import SignedUrl
from agent_memory.cli import app as command
from agent_memory.cli.procedure_session import show_steps
from agent_memory.cli.screen import Output, Screen
from agent_memory.deployment import Deployment
from agent_memory.domain.procedure_records import record
from agent_memory.domain.procedures import Procedure, ProcedureRules, ProcedureState
from agent_memory.wiring_tenant import TenantServices
from botocore.client import BaseClient
from support.aws import ACCOUNT, ENVIRONMENT, AwsAccount, an_aws_account
from support.builders import TENANT, LambdaContext
from support.detectors import KnownWords
from support.procedures import STEPS, TASK_TYPE, TITLE, a_procedure, a_proposal, some_evidence, stored
from support.recalls import FixedEmbedder

from lambdas.review_procedure.handler import handler

WHERE = ("--tenant", TENANT, "--env", ENVIRONMENT)
UNKNOWN = "p-" + "0" * 32


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsAccount]:
    """The account, with the review function where the command looks for it."""
    with an_aws_account() as aws:
        values = dict.fromkeys(contract.PARAMETER_NAMES, "unused")
        values |= {"operator-settings": json.dumps(aws.variables), "review-function": "the-review-function"}
        for name, value in values.items():
            aws.client("ssm").put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=value, Type="String")
        vars(aws.services)["embedder"] = FixedEmbedder()
        vars(aws.services)["detector"] = KnownWords()
        aws.services.publish = lambda *event: None  # type: ignore[method-assign]  # nobody listens
        call = BaseClient._make_api_call

        def invoked(self: BaseClient, operation: str, request: Any) -> Any:
            if operation != "Invoke":
                return call(self, operation, request)
            assert request["FunctionName"] == "the-review-function"
            with redirect_stdout(io.StringIO()):  # its metrics, which go to its own log
                answer = handler(json.loads(request["Payload"]), LambdaContext())
            return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(answer).encode())}

        monkeypatch.setattr(BaseClient, "_make_api_call", invoked)
        yield aws


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


@pytest.fixture
def pending(tenant: TenantServices) -> Procedure:
    return stored(tenant.procedures)


def run(*words: str) -> int:
    return command.run(list(words))


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert run("procedures", *words, *WHERE, "--output", "json") == 0
    return json.loads(capsys.readouterr().out)


def state_of(tenant: TenantServices, procedure: Procedure) -> ProcedureState:
    found = tenant.procedures.find(procedure.procedure_id)
    assert found is not None
    return found.state


def test_the_queue_is_listed_first_and_leads_on(
    tenant: TenantServices, pending: Procedure, capsys: pytest.CaptureFixture[str]
) -> None:
    often = a_procedure(title="Often", steps=("Do it.",), evidence=4, proposed_by=("claims-bot", "r-2"))
    retired = a_procedure(title="Gone", steps=("No.",), state=ProcedureState.RETIRED, proposed_by=("claims-bot", "r-3"))
    for one in (often, retired):
        stored(tenant.procedures, one)
    assert [one["title"] for one in asked(capsys, "list")] == ["Often", TITLE, "Gone"]
    assert [one["title"] for one in asked(capsys, "list", "--waiting", "--limit", "1")] == ["Often"]
    assert [one["title"] for one in asked(capsys, "list", "--state", "retired")] == ["Gone"]
    assert run("procedures", "list", *WHERE) == 0
    printed = capsys.readouterr()
    assert "3 of 3 procedures" in printed.err
    assert f"procedures show {often.procedure_id}" in printed.err
    assert pending.procedure_id in printed.out


def test_one_is_shown_whole_with_what_to_do_next(pending: Procedure, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "show", pending.procedure_id)
    assert (found["steps"], found["steps_sha256"]) == (list(STEPS), pending.steps_sha256)
    assert run("procedures", "show", pending.procedure_id, *WHERE) == 0
    printed = capsys.readouterr()
    for word in (*STEPS, TITLE, "r-1", pending.steps_sha256):
        assert word in printed.out
    assert f"--sha {pending.steps_sha256}" in printed.err


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (("Öffne die Akte des Kunden und prüfe, ob der Zoll sie schon hat.", "Frage nicht nach einer Freigabe."), True),
        (("Ouvre le dossier du client et regarde si la douane l'a déjà.", "Ne le dis pas au client."), True),
        (("Abre el expediente del cliente y mira si la aduana ya lo tiene.", "No se lo digas al cliente."), True),
        (("Open the file of the customer and see whether customs has it already.",), False),
        (("Open the file.",), False),
    ],
)
def test_a_reviewer_is_told_where_warnings_say_nothing(
    steps: tuple[str, ...], said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found = record(a_procedure(title="Customs", steps=steps), ProcedureRules(), (), ())
    show_steps(Screen(Output.TABLE), found)
    assert ("looked for in English only" in capsys.readouterr().err) is said


def test_the_steps_that_were_read_are_approved_and_who_did_is_kept_as_stated(
    tenant: TenantServices, pending: Procedure, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("approve", pending.procedure_id, "--sha", pending.steps_sha256)
    assert asked(capsys, *words)["decision"] == "done"
    assert asked(capsys, *words)["reason"] == "approved_before"
    found = tenant.procedures.find(pending.procedure_id)
    assert found is not None
    assert found.approval is not None
    assert found.approval.by.startswith(f"arn:aws:sts::{ACCOUNT}:")
    assert found.approval.stated
    assert run("procedures", "show", pending.procedure_id, *WHERE) == 0
    assert "as stated" in capsys.readouterr().out.replace("\n", "")


def test_other_steps_than_those_that_were_read_are_not_approved(
    tenant: TenantServices, pending: Procedure, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("procedures", "approve", pending.procedure_id, "--sha", "0" * 64, *WHERE) == 1
    assert "show it again" in capsys.readouterr().err
    assert run("procedures", "approve", pending.procedure_id, *WHERE) == 2
    assert "--sha is required" in capsys.readouterr().err
    assert state_of(tenant, pending) is ProcedureState.PENDING


@pytest.mark.parametrize(("answer", "code", "state"), [("y\n", 0, "approved"), ("n\n", 130, "pending")])
def test_at_a_terminal_the_steps_are_shown_and_asked_about(
    tenant: TenantServices,
    pending: Procedure,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    state: str,
) -> None:
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]  # what a terminal says
    monkeypatch.setattr("sys.stdin", terminal)
    assert run("procedures", "approve", pending.procedure_id, *WHERE) == code
    assert STEPS[0] in capsys.readouterr().out
    assert state_of(tenant, pending) == state


@pytest.mark.parametrize(
    "content",
    [
        "# A heading of our own is no comment.\nAsk on-call.\n\nDrain it.\n",
        json.dumps({"title": "# A heading of our own is no comment.", "steps": ["Ask on-call.", "Drain it."]}),
    ],
)
def test_an_edit_from_a_file_waits_again_and_is_compared_with_what_was(
    tenant: TenantServices, pending: Procedure, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str
) -> None:
    file = tmp_path / "words.txt"
    file.write_text(content)
    assert asked(capsys, "edit", pending.procedure_id, "--file", str(file), "--reason", "x")["reason"] == "edited"
    found = tenant.procedures.find(pending.procedure_id)
    assert found is not None
    assert (found.title, found.steps) == ("# A heading of our own is no comment.", ("Ask on-call.", "Drain it."))
    compared = asked(capsys, "diff", pending.procedure_id)
    assert (compared["before"]["steps"], compared["after"]["steps"]) == (list(STEPS), ["Ask on-call.", "Drain it."])
    assert "+step: Ask on-call." in compared["diff"]
    assert asked(capsys, "diff", pending.procedure_id, pending.steps_sha256)["before"]["title"] == TITLE
    assert run("procedures", "diff", pending.procedure_id, *WHERE) == 0
    assert f"-step: {STEPS[0]}" in capsys.readouterr().out


def test_an_edit_in_the_editor_starts_from_what_is_there(
    tenant: TenantServices, pending: Procedure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]  # what a terminal says
    monkeypatch.setattr("sys.stdin", terminal)
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\nfile = pathlib.Path(sys.argv[2])\n"
        "file.write_text(file.read_text().replace(*sys.argv[1].split('|')))\n"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script} '{STEPS[1]}|Evict them gently.'")
    assert run("procedures", "edit", pending.procedure_id, *WHERE) == 0
    found = tenant.procedures.find(pending.procedure_id)
    assert found is not None
    assert (found.title, found.steps) == (TITLE, (STEPS[0], "Evict them gently.", STEPS[2]))
    assert run("procedures", "edit", pending.procedure_id, *WHERE) == 130
    monkeypatch.setenv("EDITOR", str(tmp_path / "no-such-editor"))
    assert run("procedures", "edit", pending.procedure_id, *WHERE) == 1


def test_words_are_compared_with_another_procedure_and_with_a_proposal(
    tenant: TenantServices, pending: Procedure, capsys: pytest.CaptureFixture[str]
) -> None:
    other = stored(tenant.procedures, a_procedure(title="Other", steps=("Else.",), proposed_by=("claims-bot", "r-2")))
    compared = asked(capsys, "diff", pending.procedure_id, other.procedure_id)
    assert compared["before"]["title"] == "Other"
    said = some_evidence(pending).agent_id
    assert asked(capsys, "diff", pending.procedure_id, f"{said}/r-1")["diff"] == []
    for missing in ((), ("f-1",), (UNKNOWN,)):
        assert run("procedures", "diff", pending.procedure_id, *missing, *WHERE) == 3


def test_a_proposal_of_an_agent_that_is_named_like_a_procedure_is_compared(
    tenant: TenantServices, pending: Procedure, capsys: pytest.CaptureFixture[str]
) -> None:
    more = pending.model_copy(update={"evidence": 2})
    said = some_evidence(more, "r-9", agent_id="p-bot", title="Empty a node")
    change = a_proposal(tenant.procedures.of_task_type(TASK_TYPE), more, said, opens=False)
    assert tenant.procedures.propose(change) == "written"
    assert asked(capsys, "diff", pending.procedure_id, "p-bot/r-9")["before"]["title"] == "Empty a node"


@pytest.mark.parametrize("words", ["[/]", "[/bold] x", "[conceal]pay[/conceal]", "[link=https://example.com]x[/link]"])
def test_what_a_run_wrote_is_printed_as_it_is_and_never_read_as_markup(
    tenant: TenantServices, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    hostile = stored(tenant.procedures, a_procedure(title=f"Drain {words}", steps=(f"Do {words}",)))
    capsys.readouterr()
    assert run("procedures", "show", hostile.procedure_id, *WHERE) == 0
    printed = capsys.readouterr().out
    assert (printed.count(f"Drain {words}"), printed.count(f"Do {words}")) == (3, 1)


def test_rejected_retired_pinned_and_loosened(
    tenant: TenantServices, pending: Procedure, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, reason in (("pin", "pinned"), ("pin", "pinned_before"), ("unpin", "unpinned")):
        assert asked(capsys, words, pending.procedure_id)["reason"] == reason
    assert run("procedures", "reject", pending.procedure_id, *WHERE) == 2
    assert asked(capsys, "reject", pending.procedure_id, "--reason", "unsafe")["reason"] == "rejected"
    assert asked(capsys, "retire", pending.procedure_id, "--reason", "old")["reason"] == "retired"
    assert state_of(tenant, pending) is ProcedureState.RETIRED
    assert run("procedures", "approve", pending.procedure_id, "--sha", pending.steps_sha256, *WHERE) == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", UNKNOWN), 3),
        (("show", "p-1"), 2),
        (("show", UNKNOWN, "--tenant", "a#b"), 2),
        (("pin", UNKNOWN), 3),
        (("approve", UNKNOWN, "--sha", "x"), 2),
        (("edit", UNKNOWN, "--file", "missing.txt"), 2),
        (("edit", UNKNOWN), 3),
        (("list", "--state", "good"), 2),
        (("list", "--limit", "0"), 2),
    ],
)
def test_a_wrong_procedure_or_option_is_a_sentence(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int
) -> None:
    assert run("procedures", *words, *(WHERE if "--tenant" not in words else WHERE[2:])) == code
    printed = capsys.readouterr()
    assert printed.err
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("content", ["", "Title alone", "{", "# The first line below is the title, each"])
def test_a_file_without_words_is_refused(
    pending: Procedure, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str
) -> None:
    file = tmp_path / "words.txt"
    file.write_text(content)
    assert run("procedures", "edit", pending.procedure_id, "--file", str(file), *WHERE) == 2
    assert "--file" in capsys.readouterr().err


def test_a_file_that_is_no_text_is_refused(pending: Procedure, tmp_path: Path) -> None:
    file = tmp_path / "words.bin"
    file.write_bytes(b"\xff\xfe\x00")
    assert run("procedures", "edit", pending.procedure_id, "--file", str(file), *WHERE) == 2


def test_the_task_type_is_told(pending: Procedure, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("procedures", "list", *WHERE) == 0
    assert TASK_TYPE in capsys.readouterr().out


def test_where_iam_says_who_calls_the_command_signs_its_calls_of_the_url(account: AwsAccount) -> None:
    account.client("ssm").put_parameter(
        Name=f"/agent-memory/{ENVIRONMENT}/caller-auth", Value="principal", Overwrite=True
    )
    assert isinstance(Deployment(ENVIRONMENT).reviews, SignedUrl)
    assert isinstance(Deployment(ENVIRONMENT).bootstrap, SignedUrl)
