"""`agent-memory parked`: runs that could not be processed, kept with their input and reason."""

from typing import Annotated

import typer

from agent_memory.cli.emit import Arrival, awaited
from agent_memory.cli.screen import readable_times, when
from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, Tenant, session_of
from agent_memory.domain.acceptance import Doors
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.models import ParkedRun
from agent_memory.domain.redriving import STUCK, Redrive, stuck
from agent_memory.domain.redriving import redrive as put_back

app = typer.Typer(
    help="Runs that could not be processed. Example: `agent-memory parked redrive --all --tenant acme`.",
    no_args_is_help=True,
)
AT_WORK = {"started", "already_running"}
GOOD = {*AT_WORK, "stored"}
AgentFilter = Annotated[str | None, typer.Option("--agent", "-a", help="Only runs of this agent.")]


@app.command("list")
def list_parked(
    ctx: typer.Context, tenant: Tenant, agent: AgentFilter = None, env: Env = None, output: OutputOption = None
) -> None:
    """List parked runs of a tenant, newest first, and with them runs that are stuck: at work for nobody.

    Example: `agent-memory parked list --tenant acme`
    """
    session = session_of(ctx, env, output)
    runs = _parked(session, tenant, agent)
    session.screen.answer([run.model_dump(mode="json", exclude={"user_ref"}) for run in runs])
    rows = [(r.agent_id, r.run_id, r.step, r.reason, r.attempt, when(r.parked_at), when(r.expires_at)) for r in runs]
    session.screen.table(("agent", "run", "step", "reason", "attempt", "parked", "kept until"), rows)
    held = sum(run.reason == STUCK for run in runs)
    session.screen.notice(f"{len(runs) - held} parked, {held} stuck")


@app.command()
def show(
    ctx: typer.Context,
    run_id: str,
    tenant: Tenant,
    agent: AgentFilter = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Show one parked run: where it failed, why, and what to do.

    Example: `agent-memory parked show run-1 --tenant acme`
    """
    session = session_of(ctx, env, output)
    run = _one(_parked(session, tenant, agent), run_id)
    record = run.model_dump(mode="json", exclude={"user_ref"})
    session.screen.answer(record)
    session.screen.fields({**record, **readable_times(record)})
    session.screen.notice(f"When the cause is mended: agent-memory parked redrive {run_id} --tenant {tenant}")


def _parked(session: Session, tenant: str, agent: str | None) -> list[ParkedRun]:
    with session.screen.working("reading parked runs"):
        parked = session.tenant(tenant).ledger.parked()
        held = stuck(_doors(session, tenant), session.deployment.services.retention_rules, now=session.deployment.now())
    # A redriven run that got stuck again still has the row of its first parking.
    rows = {_key(run): run for run in (*parked, *held)}
    return [run for run in rows.values() if agent in (None, run.agent_id)]


def _doors(session: Session, tenant_id: str) -> Doors:
    services, tenant = session.deployment.services, session.tenant(tenant_id)
    return Doors(ledger=tenant.ledger, claims=tenant.claims, machine=services.machine, user_refs=services.user_refs)


def _one(runs: list[ParkedRun], run_id: str) -> ParkedRun:
    found = [run for run in runs if run.run_id == run_id]
    if not found:
        raise NotFoundError(f"run {run_id} is not parked")
    if len(found) > 1:
        raise RefusedInputError("--agent", f"is needed: {len(found)} agents have a parked run {run_id}")
    return found[0]


@app.command()
def redrive(
    ctx: typer.Context,
    tenant: Tenant,
    run_id: Annotated[str | None, typer.Argument(help="Run id; or --all.", show_default=False)] = None,
    agent: AgentFilter = None,
    every: Annotated[bool, typer.Option("--all", help="Every parked run of the tenant (or of --agent).")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until each is stored or parked again.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds to wait in all.")] = 300,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Put parked runs back to work, when the cause is mended. Doing it twice does it once.

    Examples: `agent-memory parked redrive run-1 --tenant acme`, `agent-memory parked redrive --all -t acme --wait`
    """
    if every == (run_id is not None):
        raise RefusedInputError("RUN_ID", "or --all is needed, and not both")
    session = session_of(ctx, env, output)
    found = _parked(session, tenant, agent)
    runs = found if every else [_one(found, str(run_id))]
    with session.screen.working(f"redriving {len(runs)} run(s)"):
        results = [(run, _redriven(session, run)) for run in runs]
    settled = _awaited(session, results, timeout) if wait else {}
    rows = [(*_key(run), settled.get(_key(run), result.decision), result.reason) for run, result in results]
    session.screen.answer([dict(zip(("agent_id", "run_id", "decision", "reason"), row, strict=True)) for row in rows])
    session.screen.table(("agent", "run", "decision", "reason"), rows)
    bad = [row for row in rows if row[2] not in GOOD]
    if bad:
        raise FailedError(
            f"{len(bad)} of {len(rows)} are not stored (see their states; `agent-memory doctor` shows what is down)"
        )


def _redriven(session: Session, run: ParkedRun) -> Redrive:
    doors, rules = _doors(session, run.tenant_id), session.deployment.services.retention_rules
    return put_back(run.agent_id, run.run_id, doors, rules, now=session.deployment.now())


def _awaited(session: Session, results: list[tuple[ParkedRun, Redrive]], timeout: float) -> dict[tuple[str, str], str]:
    started = [
        Arrival(tenant_id=run.tenant_id, agent_id=run.agent_id, run_id=run.run_id)
        for run, result in results
        if result.decision in AT_WORK
    ]
    return {(a.agent_id, a.run_id): a.state for a in awaited(session, started, timeout=timeout)}


def _key(run: ParkedRun) -> tuple[str, str]:
    return run.agent_id, run.run_id
