"""`agent-memory procedures`: what waits for a decision, and everything that is known of a procedure."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from agent_memory.cli import procedure_decisions as decisions
from agent_memory.cli.procedure_session import (
    ProcedureId,
    asked,
    by_whom,
    percent,
    procedure_of,
    show_steps,
)
from agent_memory.cli.screen import readable_times, when
from agent_memory.cli.session import Env, NotFoundError, OutputOption, Session, Tenant, session_of
from agent_memory.domain.procedures import QUEUED, ProcedureState
from agent_memory.domain.review_request import PROCEDURE_ID

app = typer.Typer(
    help="Step lists that runs proposed, and your word on them. Example: `agent-memory procedures list --tenant acme`.",
    no_args_is_help=True,
)
LISTS = ("steps", "history", "proposals", "wordings", "proposers", "proposed_by", "warnings", "approval")
WORDS = ("title", "steps", "steps_sha256")


@app.command("list")
def list_procedures(
    ctx: typer.Context,
    tenant: Tenant,
    state: Annotated[list[ProcedureState] | None, typer.Option(help="Only these states; may be repeated.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only what waits for a decision.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="At most this many.")] = 50,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """List procedures: first those that wait for a decision, the ones that most runs proposed on top.

    Example: `agent-memory procedures list --tenant acme --waiting`
    """
    session = session_of(ctx, env, output)
    states = [*(state or ()), *(sorted(QUEUED) if waiting else ())]
    request = {"action": "list", "tenant_id": tenant, "limit": limit, "states": [str(one) for one in states] or None}
    found = asked(session, request)
    held = _mappings(found.get("procedures"))
    session.screen.answer(held)
    rows = [
        (
            *(one.get(name) for name in ("procedure_id", "task_type")),
            f"{one.get('state')}{' (trial)' if one.get('trial') else ''}",
            one.get("evidence"),
            f"{one.get('succeeded')}/{one.get('applied')}",
            percent(one.get("success_rate")),
            one.get("approved_by"),
            one.get("title"),
        )
        for one in held
    ]
    columns = ("procedure", "task type", "state", "proposed by runs", "succeeded", "rate", "approved by", "title")
    session.screen.table(columns, rows)
    session.screen.notice(f"{len(held)} of {found.get('total')} procedures")
    if unreadable := found.get("unreadable"):
        session.screen.notice(f"{unreadable} more can't be read: another release wrote them")
    if first := next((one for one in held if one.get("state") in QUEUED), None):
        session.screen.notice(f"Next: agent-memory procedures show {first.get('procedure_id')} --tenant {tenant}")


@app.command()
def show(
    ctx: typer.Context, procedure_id: ProcedureId, tenant: Tenant, env: Env = None, output: OutputOption = None
) -> None:
    """Show a procedure whole: its steps, who decided what and when, which runs proposed it, its results.

    Example: `agent-memory procedures show p-0123456789abcdef0123456789abcdef --tenant acme`
    """
    session = session_of(ctx, env, output)
    found = procedure_of(session, tenant, procedure_id)
    session.screen.answer(found)
    plain = {name: held for name, held in found.items() if name not in LISTS}
    warnings = ", ".join(map(str, _list(found.get("warnings"))))
    session.screen.fields({**plain, **readable_times(plain), "warnings": warnings})
    show_steps(session.screen, found)
    _show_records(session, found)
    if found.get("state") in QUEUED:
        session.screen.notice(
            f"Approve these steps: agent-memory procedures approve {procedure_id} --tenant {tenant} "
            f"--sha {found.get('steps_sha256')}"
        )


@app.command()
def diff(
    ctx: typer.Context,
    procedure_id: ProcedureId,
    tenant: Tenant,
    other: Annotated[
        str | None, typer.Argument(help="Another procedure, the hash of earlier words, or AGENT/RUN of a proposal.")
    ] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Compare a procedure's words with those before its last edit, with another procedure's or with a proposal's.

    Example: `agent-memory procedures diff p-01... --tenant acme`, `procedures diff p-01... p-02... --tenant acme`
    """
    session = session_of(ctx, env, output)
    ours = procedure_of(session, tenant, procedure_id)
    theirs = _other_words(session, tenant, ours, other)
    name = other or f"before {when(theirs.get('at'))}"
    lines = list(difflib.unified_diff(_lines(theirs), _lines(ours), name, procedure_id, n=100, lineterm=""))
    before, after = ({one: words.get(one) for one in WORDS} for words in (theirs, ours))
    session.screen.answer(
        {"procedure_id": procedure_id, "other": name, "before": before, "after": after, "diff": lines}
    )
    session.screen.text("\n".join(lines) or "The words are the same.")


def _other_words(session: Session, tenant: str, ours: Mapping[str, Any], other: str | None) -> Mapping[str, Any]:
    wordings = _mappings(ours.get("wordings"))
    if other is None:
        if not wordings:
            raise NotFoundError("it was never edited: name another procedure, or AGENT/RUN of a proposal")
        return wordings[-1]
    if PROCEDURE_ID.fullmatch(other):
        return procedure_of(session, tenant, other)
    for wording in wordings:
        if wording.get("steps_sha256") == other:
            return wording
    for said in _mappings(ours.get("proposals")):
        if f"{said.get('agent_id')}/{said.get('run_id')}" == other:
            return said if said.get("steps") else {**ours, "title": said.get("title")}
    raise NotFoundError(f"{other} is neither a procedure nor one of its earlier words or proposals")


def _lines(words: Mapping[str, Any]) -> list[str]:
    return [f"title: {words.get('title')}", *(f"step: {step}" for step in _list(words.get("steps")))]


def _show_records(session: Session, found: Mapping[str, Any]) -> None:
    said = [
        (when(one.get("proposed_at")), f"{one.get('agent_id')}/{one.get('run_id')}", one.get("user_ref"), one["title"])
        for one in _mappings(found.get("proposals"))
    ]
    session.screen.table(("proposed", "run", "user", "title"), said, title="runs that proposed it")
    changes = [
        (
            when(one.get("at")),
            one.get("what"),
            f"{one.get('before') or ''} -> {one.get('after')}",
            by_whom(one),
            one.get("why"),
            f"{one.get('succeeded')}/{one.get('applied')}",
        )
        for one in _mappings(found.get("history"))
    ]
    session.screen.table(("when", "what", "state", "by", "why", "succeeded"), changes, title="its history")
    old = [(when(one.get("at")), one.get("steps_sha256"), one.get("title")) for one in _mappings(found.get("wordings"))]
    if old:
        session.screen.table(("until", "hash", "title"), old, title="its earlier words: procedures diff shows them")


def _mappings(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, Mapping)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


for decision in (
    decisions.approve,
    decisions.reject,
    decisions.edit,
    decisions.retire,
    decisions.pin,
    decisions.unpin,
):
    app.command()(decision)
