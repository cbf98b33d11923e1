"""`agent-memory erase`: a person or a tenant is forgotten, with a receipt that can be proved."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, Tenant, session_of
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import tenant_identifier

app = typer.Typer(
    help="Forget a person or a tenant, and prove it. "
    "Example: `agent-memory erase user alice@example.com --tenant acme --confirm`.",
    no_args_is_help=True,
)
Confirm = Annotated[bool, typer.Option("--confirm", help="Yes: nothing of this can be brought back.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the receipt.")]
Seconds = Annotated[int, typer.Option("--timeout", min=1, help="Seconds to wait in all.")]
ReceiptFile = Annotated[
    Path, typer.Argument(metavar="RECEIPT", help="A receipt as `erase user --output json` gave it.")
]
POLL_SECONDS = 2.0
RUNNING = {"RUNNING", "PENDING_REDRIVE"}
UNSURE = (
    "Add --confirm. {whose} episodes, facts, procedures, transcripts, archives and records in AgentCore go for good; "
    "no undo."
)


@app.command()
def user(
    ctx: typer.Context,
    user_id: Annotated[str, typer.Argument(metavar="USER_ID", help="As agents name the person in their events.")],
    tenant: Tenant,
    confirm: Confirm = False,
    wait: Wait = True,
    timeout: Seconds = 3600,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Forget what was learnt from and about one person, up to now. Doing it twice does it once; who comes back later
    is remembered again.

    Example: `agent-memory erase user alice@example.com --tenant acme --confirm --output json > receipt.json`
    """
    _erase(session_of(ctx, env, output), tenant, {"user_id": user_id}, confirm=confirm, wait=wait, timeout=timeout)


@app.command("tenant")
def whole_tenant(
    ctx: typer.Context,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Tenant id.")],
    confirm: Confirm = False,
    wait: Wait = True,
    timeout: Seconds = 3600,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Forget a whole tenant: every row, object, document and version of it.

    Example: `agent-memory erase tenant acme --confirm`
    """
    session = session_of(ctx, env, output)
    _erase(session, tenant, {"whole_tenant": True}, confirm=confirm, wait=wait, timeout=timeout)
    session.screen.notice(f"Principals that may speak for {tenant} still may: agent-memory callers list, then revoke")


@app.command()
def status(
    ctx: typer.Context,
    tenant: Tenant,
    erasure: Annotated[str | None, typer.Argument(help="An erasure's id.", show_default="all of the tenant")] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """List the erasures of a tenant, or show one with its receipt.

    Example: `agent-memory erase status --tenant acme`
    """
    session = session_of(ctx, env, output)
    asked = {"action": "status", "tenant_id": tenant_identifier(tenant, "--tenant"), "erasure_id": erasure}
    with session.screen.working("reading the erasures"):
        answer = session.deployment.erasures.ask(asked)
    if erasure is None:
        session.screen.answer(answer)
        rows = [(one, "under way, or partly failed") for one in answer["under_way"]]
        rows += [(one, "has a receipt") for one in answer["ended"] if one not in answer["under_way"]]
        session.screen.table(("erasure", "state"), rows)
        return
    if answer["state"] == "UNKNOWN" and answer["receipt"] is None:
        raise NotFoundError(f"no erasure {erasure} of {tenant}: agent-memory erase status lists all")
    if answer["receipt"] is None:
        session.screen.answer(answer)
        session.screen.text(f"{erasure} is {answer['state']} and has no receipt yet")
        return
    _show(session, answer["receipt"])


@app.command()
def retry(
    ctx: typer.Context,
    receipt: ReceiptFile,
    wait: Wait = True,
    timeout: Seconds = 3600,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Sweep the stores again that a receipt with partial_failure names, and only those.

    Example: `agent-memory erase retry receipt.json`
    """
    session, document = session_of(ctx, env, output), _document(receipt)
    tenant = _tenant_of(document)
    with session.screen.working("asking for another try"):
        asked = session.deployment.erasures.ask({"action": "retry", "tenant_id": tenant, "receipt": document})
    if asked["execution"] is None:
        session.screen.answer(asked)
        session.screen.text("Nothing was left undone: there is nothing to try again")
        return
    _followed(session, tenant, asked, wait=wait, timeout=timeout)


@app.command()
def verify(ctx: typer.Context, receipt: ReceiptFile, env: Env = None, output: OutputOption = None) -> None:
    """Check that a receipt is as it was signed, and look into every store again.

    Example: `agent-memory erase verify receipt.json`
    """
    session, document = session_of(ctx, env, output), _document(receipt)
    tenant, desk = _tenant_of(document), session.deployment.erasures
    asked = {"action": "verify", "tenant_id": tenant, "receipt": document}
    with session.screen.working("looking into every store"):
        signed = desk.ask(asked)
        left = {store: desk.ask({**asked, "store": store})["left"] for store in signed["stores"]}
    clean = all(number == 0 for number in left.values())
    session.screen.answer({**signed, "signature": "valid", "left": left, "clean": clean})
    rows = [(store, "can't be told" if number is None else number) for store, number in left.items()]
    session.screen.table(("store", "left"), rows, title="The signature is valid")
    if not clean:
        raise FailedError("something is there again or still: agent-memory erase retry, or erase once more")


def _erase(session: Session, tenant: str, subject: dict[str, Any], *, confirm: bool, wait: bool, timeout: int) -> None:
    tenant_id = tenant_identifier(tenant, "tenant")
    if not confirm:
        whose = "All the tenant's" if "whole_tenant" in subject else "The person's"
        raise RefusedInputError("--confirm", f"is missing. {UNSURE.format(whose=whose)}")
    with session.screen.working("asking for the erasure"):
        asked = session.deployment.erasures.ask({"action": "request", "tenant_id": tenant_id, **subject})
    _followed(session, tenant_id, asked, wait=wait, timeout=timeout)


def _followed(session: Session, tenant: str, asked: dict[str, Any], *, wait: bool, timeout: int) -> None:
    erasure, execution = asked["erasure_id"], asked["execution"]
    session.screen.notice(f"erasure {erasure} of {tenant}; nothing older than now can be stored any more")
    if not wait:
        session.screen.answer(asked)
        session.screen.text(f"agent-memory erase status {erasure} --tenant {tenant} shows its receipt")
        return
    deadline = session.deployment.now() + timeout
    question = {"action": "status", "tenant_id": tenant, "erasure_id": erasure, "execution": execution}
    with session.screen.working("erasing, store by store, twice"):
        answer = session.deployment.erasures.ask(question)
        while answer["state"] in RUNNING and session.deployment.now() < deadline:
            session.deployment.pause(POLL_SECONDS)
            answer = session.deployment.erasures.ask(question)
    if answer["receipt"] is None:
        raise FailedError(f"{erasure} is {answer['state']} and has no receipt: agent-memory erase status {erasure}")
    _show(session, answer["receipt"])


def _show(session: Session, document: dict[str, Any]) -> None:
    receipt = document["receipt"]
    session.screen.answer(document)
    rows = [
        (one["store"], one["removed"], one["changed"], len(one["failed"]), one["left"], one["error"] or "")
        for one in receipt["stores"]
    ]
    title = f"{receipt['erasure_id']} {receipt['decision']}"
    session.screen.table(("store", "removed", "changed", "failed", "left", "error"), rows, title=title)
    copies = [(one["what"], one["until"] or "as the account keeps them") for one in receipt["copies"]]
    session.screen.table(("copies that no erasure reaches", "exist at most until"), copies)
    if receipt["decision"] != "erased":
        raise FailedError("something is left: agent-memory erase retry RECEIPT")


def _document(file: Path) -> dict[str, Any]:
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise RefusedInputError("receipt", f"must be a file that can be read, and {file} is none") from None
    except ValueError:
        held = None
    if not isinstance(held, dict):
        raise RefusedInputError("receipt", f"must be the JSON that erase --output json prints, and {file} holds none")
    return held


def _tenant_of(document: dict[str, Any]) -> str:
    held = document.get("receipt")
    named = held.get("tenant_id") if isinstance(held, dict) else None
    return tenant_identifier(named, "receipt.tenant_id")
