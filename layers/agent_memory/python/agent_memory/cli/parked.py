"""`agent-memory parked`: runs that could not be processed, kept with their input and reason."""

from typing import Annotated

import typer

from agent_memory.cli.screen import when
from agent_memory.cli.session import Env, NotFoundError, OutputOption, Session, Tenant, session_of
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.models import ParkedRun

app = typer.Typer(
    help="Runs that could not be processed. Example: `agent-memory parked redrive --all --tenant acme`.",
    no_args_is_help=True,
)
AgentFilter = Annotated[str | None, typer.Option("--agent", "-a", help="Only runs of this agent.")]


@app.command("list")
def list_parked(
    ctx: typer.Context, tenant: Tenant, agent: AgentFilter = None, env: Env = None, output: OutputOption = None
) -> None:
    """List parked runs of a tenant, newest first.

    Example: `agent-memory parked list --tenant acme`
    """
    session = session_of(ctx, env, output)
    runs = _parked(session, tenant, agent)
    session.screen.answer([run.model_dump(mode="json", exclude={"user_ref"}) for run in runs])
    rows = [(r.agent_id, r.run_id, r.step, r.reason, r.attempt, when(r.parked_at), when(r.expires_at)) for r in runs]
    session.screen.table(("agent", "run", "step", "reason", "attempt", "parked", "kept until"), rows)
    session.screen.notice(f"{len(runs)} parked")


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
    session.screen.fields({**record, "parked_at": when(run.parked_at), "expires_at": when(run.expires_at)})
    session.screen.notice(f"When the cause is mended: agent-memory parked redrive {run_id} --tenant {tenant}")


def _parked(session: Session, tenant: str, agent: str | None) -> list[ParkedRun]:
    with session.screen.working("reading parked runs"):
        return [run for run in session.tenant(tenant).ledger.parked() if agent in (None, run.agent_id)]


def _one(runs: list[ParkedRun], run_id: str) -> ParkedRun:
    found = [run for run in runs if run.run_id == run_id]
    if not found:
        raise NotFoundError(f"run {run_id} is not parked")
    if len(found) > 1:
        raise RefusedInputError("--agent", f"is needed: {len(found)} agents have a parked run {run_id}")
    return found[0]
