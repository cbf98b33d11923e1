"""`agent-memory spool`: finished runs that wait on this machine because they could not be handed over."""

from pathlib import Path
from typing import Annotated

import typer

from agent_memory.cli.screen import when
from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, session_of
from agent_memory.client import hand_over
from agent_memory.domain.errors import RefusedInputError
from agent_memory.spool import Spool, SpooledRun, default_folder

app = typer.Typer(
    help="Runs that wait on this machine's disk. Example: `agent-memory spool send --env prod`.", no_args_is_help=True
)
TenantFilter = Annotated[
    str | None, typer.Option("--tenant", "-t", envvar="AGENT_MEMORY_TENANT", help="Only this tenant's runs.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", envvar="AGENT_MEMORY_SPOOL", help="The spool's folder.", show_default="the client's own default"
    ),
]


@app.command("list")
def list_runs(
    ctx: typer.Context, tenant: TenantFilter = None, folder: Folder = None, env: Env = None, output: OutputOption = None
) -> None:
    """List the runs that wait, and those that were set aside because memory will never take them as they are.

    Example: `agent-memory spool list --env prod`
    """
    session = session_of(ctx, env, output)
    spool = _spool(session, folder)
    if not spool.folder.is_dir() and (others := spool.others()):
        session.screen.notice(f"nothing ever waited for {session.env!r} there; runs waited for {', '.join(others)}")
    runs = [run for name in _tenants(spool, tenant) for run in spool.runs(name)]
    session.screen.answer([run.model_dump(mode="json") for run in runs])
    rows = [
        (r.tenant_id, r.agent_id, r.run_id, when(r.kept_at), r.size, _state(r), r.reason or r.last_failure)
        for r in runs
    ]
    session.screen.table(("tenant", "agent", "run", "kept", "bytes", "state", "reason"), rows)
    aside = sum(run.reason is not None for run in runs)
    session.screen.notice(
        f"{len(runs) - aside} waiting in {spool.folder}"
        + (
            f", {aside} set aside: `agent-memory spool send --again` tries them, `spool drop` gives them up"
            if aside
            else ""
        )
    )


@app.command()
def send(
    ctx: typer.Context,
    tenant: TenantFilter = None,
    again: Annotated[bool, typer.Option("--again", help="Also those that were set aside.")] = False,
    folder: Folder = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Hand over the runs that wait. Exit code 1 when some still wait or were set aside. Doing it twice does it once.

    Example: `agent-memory spool send --tenant acme --env prod`
    """
    session = session_of(ctx, env, output)
    spool = _spool(session, folder)
    reports = {}
    for name in _tenants(spool, tenant):
        with session.screen.working(f"sending the runs of {name}"):
            reports[name] = spool.send(name, lambda detail: hand_over(session.deployment, detail), again=again)
    session.screen.answer([{"tenant_id": name, **report.model_dump()} for name, report in reports.items()])
    columns = ("tenant", "sent", "set aside", "expired", "waiting", "reason")
    session.screen.table(columns, [(name, *report.model_dump().values()) for name, report in reports.items()])
    left = sum(report.waiting + report.set_aside for report in reports.values())
    if left:
        raise FailedError(f"{left} run(s) were not sent: `agent-memory spool list` shows each with its reason")


@app.command()
def drop(
    ctx: typer.Context,
    tenant: Annotated[str, typer.Option("--tenant", "-t", envvar="AGENT_MEMORY_TENANT", help="Tenant id.")],
    run_id: Annotated[str | None, typer.Argument(help="Run id; or --set-aside or --all.", show_default=False)] = None,
    set_aside: Annotated[bool, typer.Option("--set-aside", help="Every run that was set aside.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every run of the tenant.")] = False,
    folder: Folder = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Give runs up for good: they will never be memory.

    Examples: `agent-memory spool drop run-1 --tenant acme`, `agent-memory spool drop --set-aside --tenant acme`
    """
    if sum((run_id is not None, set_aside, every)) != 1:
        raise RefusedInputError("RUN_ID", "or --set-aside or --all is needed, and one of them only")
    session = session_of(ctx, env, output)
    spool = _spool(session, folder)
    chosen = [
        run
        for run in spool.runs(tenant)
        if every or (set_aside and run.reason is not None) or (run_id is not None and run.run_id == run_id)
    ]
    if run_id is not None and not chosen:
        raise NotFoundError(f"no run {run_id} of tenant {tenant} waits in {spool.folder}")
    dropped = [run for run in chosen if spool.drop(run)]
    session.screen.answer([run.model_dump(mode="json") for run in dropped])
    session.screen.table(("agent", "run", "kept"), [(run.agent_id, run.run_id, when(run.kept_at)) for run in dropped])
    session.screen.notice(f"{len(dropped)} dropped")


def _spool(session: Session, folder: Path | None) -> Spool:
    return Spool(folder or default_folder(), session.env)


def _tenants(spool: Spool, tenant: str | None) -> list[str]:
    return [tenant] if tenant else spool.tenants()


def _state(run: SpooledRun) -> str:
    if run.reason is not None:
        return "set aside"
    return f"waiting, tried {run.tries} times" if run.tries else "waiting"
