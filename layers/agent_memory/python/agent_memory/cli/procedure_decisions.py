"""What a person does to procedures from the command: approve, reject, edit, retire, pin."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_memory.cli.editor import edited
from agent_memory.cli.procedure_session import ProcedureId, decided, procedure_of, show_steps
from agent_memory.cli.session import Env, OutputOption, Session, Tenant, session_of
from agent_memory.domain.errors import RefusedInputError

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in its history.")]
MaybeReason = Annotated[str | None, typer.Option("--reason", help="Why; kept in its history.")]
Sha = Annotated[
    str | None, typer.Option("--sha", help="Hash of the words that you read, as `procedures show` prints it.")
]
FORM = """# The first line below is the title, each further line is one step, in order. Blank lines don't count.
# An edited procedure waits for approval again; its results start anew, the old ones stay in its history.
"""


def approve(
    ctx: typer.Context,
    procedure_id: ProcedureId,
    tenant: Tenant,
    sha: Sha = None,
    reason: MaybeReason = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Let agents be told these steps. The approval holds for the words that you read and for no others.

    Without --sha you are shown the steps and asked.

    Example: `agent-memory procedures approve p-01... --sha 9f2c... --tenant acme`
    """
    session = session_of(ctx, env, output)
    read = sha or _read_and_agreed(session, tenant, procedure_id)
    decided(session, _request("approve", tenant, procedure_id, reason, steps_sha256=read))


def reject(
    ctx: typer.Context,
    procedure_id: ProcedureId,
    tenant: Tenant,
    reason: Reason,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Never tell it to agents. Runs that propose the same again are counted there and open nothing new.

    Example: `agent-memory procedures reject p-01... --reason "skips the audit" --tenant acme`
    """
    decided(session_of(ctx, env, output), _request("reject", tenant, procedure_id, reason))


def edit(
    ctx: typer.Context,
    procedure_id: ProcedureId,
    tenant: Tenant,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            exists=True,
            dir_okay=False,
            help='Title and steps, a line each, or JSON {"title", "steps"}.',
        ),
    ] = None,
    sha: Sha = None,
    reason: MaybeReason = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Give it other words, from a file or in $EDITOR. It then waits for approval under its new hash.

    Example: `agent-memory procedures edit p-01... --file better.txt --reason "step 2 was missing" --tenant acme`
    """
    session = session_of(ctx, env, output)
    known = procedure_of(session, tenant, procedure_id)
    if file is not None:
        words = _words(_text_of(file))
    elif not sys.stdin.isatty():
        raise RefusedInputError("--file", "is required where there is no terminal to open an editor in")
    else:
        words = _in_the_editor(known)
    read = sha or known["steps_sha256"]
    decided(session, _request("edit", tenant, procedure_id, reason, steps_sha256=read, **words))


def retire(
    ctx: typer.Context,
    procedure_id: ProcedureId,
    tenant: Tenant,
    reason: Reason,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Take it out of use for good; its record stays.

    Example: `agent-memory procedures retire p-01... --reason "the tool is gone" --tenant acme`
    """
    decided(session_of(ctx, env, output), _request("retire", tenant, procedure_id, reason))


def pin(
    ctx: typer.Context,
    procedure_id: ProcedureId,
    tenant: Tenant,
    reason: MaybeReason = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Spare it from the review that comes when nobody used it for long.

    Example: `agent-memory procedures pin p-01... --tenant acme`
    """
    decided(session_of(ctx, env, output), _request("pin", tenant, procedure_id, reason))


def unpin(
    ctx: typer.Context,
    procedure_id: ProcedureId,
    tenant: Tenant,
    reason: MaybeReason = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Have it reviewed again when nobody used it for long.

    Example: `agent-memory procedures unpin p-01... --tenant acme`
    """
    decided(session_of(ctx, env, output), _request("unpin", tenant, procedure_id, reason))


def _request(action: str, tenant: str, procedure_id: str, reason: str | None, **more: object) -> dict[str, object]:
    return {"action": action, "tenant_id": tenant, "procedure_id": procedure_id, "reason": reason, **more}


def _read_and_agreed(session: Session, tenant: str, procedure_id: str) -> str:
    """The hash of the steps that a person at the terminal was shown and said yes to."""
    if not sys.stdin.isatty() or session.screen.is_json:
        raise RefusedInputError("--sha", "is required: the hash of the steps you read, as procedures show prints it")
    known = procedure_of(session, tenant, procedure_id)
    show_steps(session.screen, known)
    typer.confirm("Tell agents these steps?", abort=True, err=True)
    return str(known["steps_sha256"])


def _in_the_editor(known: dict[str, Any]) -> dict[str, object]:
    form = FORM + "\n".join([str(known["title"]), *map(str, known["steps"])]) + "\n"
    written = edited(form)
    if written is None:
        raise typer.Abort
    return _words(written)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise RefusedInputError("--file", "must be a text file in UTF-8") from None


def _words(text: str) -> dict[str, object]:
    """Title and steps of a form or of JSON."""
    if text.lstrip().startswith("{"):
        return _words_of_json(text)
    ours = FORM.splitlines()
    title, *steps = [line for held in text.splitlines() if (line := held.strip()) and line not in ours] or [""]
    if not steps:
        raise RefusedInputError("--file", "must hold a title and at least one step, a line each")
    return {"title": title, "steps": steps}


def _words_of_json(text: str) -> dict[str, object]:
    try:
        held = json.loads(text)
    except ValueError:
        raise RefusedInputError(
            "--file", 'must be JSON {"title", "steps"}, or lines: the title, then the steps'
        ) from None
    return {name: held[name] for name in ("title", "steps") if name in held}
