"""`agent-memory regress`: questions that memory must still answer, for the night's quality gate and for pipelines."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from agent_memory.cli.screen import when
from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, Tenant, session_of
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.json_text import read_json
from agent_memory.domain.keys import identifier
from agent_memory.domain.quality import CaseScore, TenantQuality, Verdict, worst
from agent_memory.domain.regressions import Scorer

app = typer.Typer(
    help="Questions that memory must still answer after a night. Example: `agent-memory regress run --tenant acme`.",
    no_args_is_help=True,
)
CaseId = Annotated[str, typer.Argument(help="Case id.")]
NO_CASES = "NOT RUN: this tenant has no regression cases; agent-memory regress add makes one"
SAID = {
    Verdict.PASS: "PASS: every case reaches its minimum",
    Verdict.FAIL: "FAIL: the night made a case fail, so what it did in this tenant is taken back",
    Verdict.FAILED_BEFORE: "FAILED BEFORE: a case was below its minimum when the night began; nothing was taken back",
    Verdict.NOT_RUN: "NOT RUN: a case could not be compared, or there was none",
}


@app.command()
def add(
    ctx: typer.Context,
    tenant: Tenant,
    case_id: Annotated[str | None, typer.Argument(help="Case id; one that exists is replaced.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="The agent whose memory is asked.")] = None,
    question: Annotated[str | None, typer.Option(help="The task, as a run would bring it.")] = None,
    criterion: Annotated[
        list[str] | None, typer.Option(help="A sentence that what is recalled must say; may be repeated.")
    ] = None,
    minimum: Annotated[float, typer.Option(help="The least score, above 0 to 1, that passes.")] = 0.7,
    domain: Annotated[str | None, typer.Option(help="Facts of this domain only.")] = None,
    user: Annotated[str | None, typer.Option(help="Asked as this user; kept as a pseudonym.")] = None,
    scorer: Annotated[Scorer, typer.Option(help="By words and meaning, or by a chat model.")] = Scorer.RETRIEVAL,
    file: Annotated[Path | None, typer.Option("--from", help="Cases as JSONL, instead of the options.")] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Keep a case: what is asked, what must be said, and how well. Personal data in it is replaced.

    Examples: `agent-memory regress add cn23 --tenant acme --agent support-desk --question "Send a parcel abroad"
    --criterion "Parcels need form CN23." --minimum 0.7`, `agent-memory regress add --from cases.jsonl --tenant acme`
    """
    if (file is None) == (case_id is None):
        raise RefusedInputError("CASE_ID", "or --from is needed, and not both")
    said = {"case_id": case_id, "agent_id": agent, "question": question, "criteria": criterion or []}
    asked = {"minimum": minimum, "domain": domain, "user_id": user, "scorer": scorer.value}
    cases: list[Mapping[str, object]] = [{**said, **asked}] if file is None else _read(file)
    session = session_of(ctx, env, output)
    kept = [session.deployment.regression_function.add(tenant, case) for case in cases]
    session.screen.answer(kept)
    for one in kept:
        session.screen.text(f"{one['case']['case_id']} is {'replaced' if one['replaced'] else 'kept'}")
        if one["scrubbed"]:
            session.screen.notice(f"Personal data in {one['case']['case_id']} was replaced before it was stored.")
    session.screen.notice(f"What they score now: agent-memory regress run --tenant {tenant}")


@app.command("list")
def list_cases(ctx: typer.Context, tenant: Tenant, env: Env = None, output: OutputOption = None) -> None:
    """List a tenant's cases.

    Example: `agent-memory regress list --tenant acme`
    """
    session = session_of(ctx, env, output)
    cases = session.tenant(tenant).regressions.cases()
    session.screen.answer([case.model_dump(mode="json", exclude={"user_ref"}) for case in cases])
    rows = [(c.case_id, c.agent_id, c.question, "\n".join(c.criteria), c.minimum, c.scorer) for c in cases]
    session.screen.table(("case", "agent", "question", "must say", "minimum", "scorer"), rows)
    session.screen.notice(f"{len(cases)} case(s)" if cases else NO_CASES)


@app.command()
def remove(ctx: typer.Context, case_id: CaseId, tenant: Tenant, env: Env = None, output: OutputOption = None) -> None:
    """Forget a case.

    Example: `agent-memory regress remove cn23 --tenant acme`
    """
    session = session_of(ctx, env, output)
    if not session.tenant(tenant).regressions.remove(identifier(case_id, "CASE_ID")):
        raise NotFoundError(f"{case_id} is no case of {tenant}: agent-memory regress list --tenant {tenant}")
    session.screen.answer({"case_id": case_id, "removed": True})
    session.screen.text(f"{case_id} is removed")


@app.command()
def run(
    ctx: typer.Context,
    tenant: Tenant,
    case_id: Annotated[str | None, typer.Argument(help="Only this case.", show_default="every case")] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Ask the cases now and hold each score against its minimum; asking counts as no access. For pipelines: exit code
    0 PASS, 1 FAIL or NOT RUN, 3 no such case, 4 a model or a store could not be reached.

    Example: `agent-memory regress run --tenant acme --output json`
    """
    session = session_of(ctx, env, output)
    cases = [c for c in session.tenant(tenant).regressions.cases() if case_id in (None, c.case_id)]
    if case_id and not cases:
        raise NotFoundError(f"{case_id} is no case of {tenant}: agent-memory regress list --tenant {tenant}")
    asked = [_asked(session, tenant, case.case_id) for case in cases]
    gate = worst(score.verdict for score in asked)
    rows = [{**score.model_dump(exclude={"fingerprint"}), "verdict": score.verdict.value} for score in asked]
    session.screen.answer({"gate": gate.value, "cases": rows})
    cells = [(row["case_id"], _number(row["score"]), row["minimum"], row["verdict"], row["reason"]) for row in rows]
    session.screen.table(("case", "score", "minimum", "verdict", "reason"), cells)
    if not asked:
        raise FailedError(NO_CASES)
    if gate is not Verdict.PASS:
        bad = [score.case_id for score in asked if score.verdict is not Verdict.PASS]
        raise FailedError(f"{gate.value}: {', '.join(bad)}; agent-memory recall --explain shows what is found")
    session.screen.text(f"PASS: {len(asked)} case(s)")


@app.command()
def report(
    ctx: typer.Context,
    tenant: Tenant,
    night: Annotated[str | None, typer.Argument(help="A night.", show_default="the latest one")] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Show what the gate of a night said: each case before and after, and whether it reached its minimum.

    Example: `agent-memory regress report n-2026-12-01 --tenant acme`
    """
    session = session_of(ctx, env, output)
    quality = _quality(session, tenant, night)
    session.screen.answer({**quality.model_dump(mode="json"), "delta": quality.delta})
    show(session, quality)
    if quality.verdict is not Verdict.PASS:
        raise FailedError(SAID[quality.verdict])
    session.screen.text(SAID[quality.verdict])


def show(session: Session, quality: TenantQuality) -> None:
    """Print a gate for people."""
    rows = [
        (r.case_id, _number(r.baseline), _number(r.after), _number(r.delta), r.minimum, r.verdict, r.reason)
        for r in quality.results
    ]
    title = f"quality gate of {quality.tenant_id} in {quality.night}, asked {when(quality.asked_at)}"
    session.screen.table(("case", "baseline", "after", "delta", "minimum", "verdict", "reason"), rows, title=title)


def _quality(session: Session, tenant: str, night: str | None) -> TenantQuality:
    store = session.tenant(tenant).regressions
    chosen = night or next(iter(store.nights()), None)
    found = store.result(chosen) if chosen else None
    if found is None:
        raise NotFoundError(f"no gate of {chosen or 'any night'} is kept for {tenant}: a night asks only where it acts")
    return found


def _asked(session: Session, tenant: str, case_id: str) -> CaseScore:
    with session.screen.working(f"asking {case_id}"):
        answer = session.deployment.regression_function.ask(tenant, case_id)
    return CaseScore.model_validate({name: answer.get(name) for name in CaseScore.model_fields})


def _read(file: Path) -> list[Mapping[str, object]]:
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        found = [read_json(line) for line in lines]
    except (OSError, UnicodeDecodeError):
        raise RefusedInputError("--from", f"must be a file that can be read: {file} can't") from None
    except (ValueError, RecursionError):
        raise RefusedInputError("--from", "must hold one JSON object a line") from None
    cases = [one for one in found if isinstance(one, Mapping)]
    if not found or len(cases) < len(found):
        raise RefusedInputError("--from", "must hold one JSON object a line, and one at least")
    return cases


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else "-"
