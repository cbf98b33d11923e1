"""`agent-memory lifecycle`: what the night would do, does and did."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import typer

from agent_memory.cli.holds import hold, holds, release
from agent_memory.cli.regress import SAID
from agent_memory.cli.restoring import restore
from agent_memory.cli.screen import when
from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, session_of
from agent_memory.domain import night
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import plan_key, room_prefix, tenant_identifier
from agent_memory.domain.lifecycle import ROOMS, Plan, PlanItem, PlanSlice, latest_first
from agent_memory.domain.night_report import NightReport, lines, report_key

app = typer.Typer(
    help="What the night would do, does and did to memories. Example: `agent-memory lifecycle plan`.",
    no_args_is_help=True,
)
for command in (restore, hold, release, holds):
    app.command()(command)
RunId = Annotated[str | None, typer.Argument(help="A run, as `lifecycle status` lists it.", show_default="the latest")]
Seconds = Annotated[int, typer.Option("--timeout", min=1, help="Seconds to wait in all.")]
POLL_SECONDS = 1.0
RUNNING = "RUNNING"
GOOD = {"completed", "planned"}
LISTED = 7
SHOWN = 50
ENDED = {
    "held": "a tenant was held back: {report} says why, {approve} agrees",
    "failed": "a step left something undone; it is due again the next night, and {report} names it",
    "rolled_back": "the quality gate took back what it did in a tenant: {report}",
}


@app.command()
def status(ctx: typer.Context, env: Env = None, output: OutputOption = None) -> None:
    """Show the last completed night, the latest runs and how they ended, and what a person approved.

    Example: `agent-memory lifecycle status --output json`
    """
    session = session_of(ctx, env, output)
    with session.screen.working("reading the nights"):
        services, desk = session.deployment.services, session.deployment.night.desk
        last, approvals = desk.last(), desk.approvals(now=session.deployment.now())
        names = services.night_files.runs()[:LISTED]
        found = services.night_files.get_many([report_key(name) for name in names], NightReport)
        executions = services.lifecycle_machine.recent()
    ended = {report.run.run_id: report for report in found}
    runs = [_run_row(name, ended.get(name)) for name in names]
    session.screen.answer(
        {
            "last_completed": {"run_id": last.run_id, "now": last.now} if last else None,
            "runs": runs,
            "approvals": [approval.model_dump(mode="json") for approval in approvals],
            "executions": executions,
        }
    )
    session.screen.text(f"last completed: {last.run_id}, begun {when(last.now)}" if last else "no night completed yet")
    session.screen.table(("run", "ended", "quality", "begun"), [tuple(row.values()) for row in runs], title="runs")
    rows = [(one["name"], one["status"], when(one["started_at"]), when(one["stopped_at"])) for one in executions]
    session.screen.table(("execution", "status", "started", "stopped"), rows, title="executions, newest first")
    for one in approvals:
        session.screen.notice(f"{one.by} approved {one.run_id} until {when(one.expires_at)}")


@app.command()
def plan(
    ctx: typer.Context,
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The plan of a run that was.", show_default="a dry run now")
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Memory by memory for this tenant.")] = None,
    contents: Annotated[bool, typer.Option("--contents", help="With --tenant: the task of each as well.")] = False,
    timeout: Seconds = 3600,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Show who would be merged, pruned and flagged, why, and with which score. Nothing is written.

    Examples: `agent-memory lifecycle plan`, `agent-memory lifecycle plan n-2026-12-01 --tenant acme --contents`
    """
    if contents and tenant is None:
        raise RefusedInputError("--contents", "needs --tenant: contents are read on that tenant's credentials only")
    session = session_of(ctx, env, output)
    chosen = run_id or _finished(session, {"dry_run": True}, timeout)
    show_plan(session, chosen, tenant, contents=contents)


@app.command()
def run(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan, print the plan, change nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it ends, and say how.")] = True,
    timeout: Seconds = 3600,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Begin a night now instead of waiting for it. Two at once: the second finds the first at work and ends.

    Example: `agent-memory lifecycle run --dry-run`
    """
    session = session_of(ctx, env, output)
    if not wait:
        execution = session.deployment.services.lifecycle_machine.start({"dry_run": dry_run})
        session.screen.answer({"execution": execution, "status": RUNNING})
        session.screen.text(f"{execution} is started")
        session.screen.notice(f"How it goes: {session.night('status')}")
        return
    finished = _finished(session, {"dry_run": dry_run}, timeout)
    if dry_run:
        show_plan(session, finished, None, contents=False)
    else:
        show_report(session, finished)


@app.command()
def report(ctx: typer.Context, run_id: RunId = None, env: Env = None, output: OutputOption = None) -> None:
    """Show what a run did: counts, what was held back, the quality gate case by case. Exit code 1 unless it completed.

    Example: `agent-memory lifecycle report n-2026-12-01 --output json`
    """
    session = session_of(ctx, env, output)
    show_report(session, run_id)


@app.command()
def approve(
    ctx: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The run whose plan was held back.")],
    by: Annotated[str, typer.Option("--by", help="Who approves; kept with the approval.")],
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Agree to what the plan of a run holds back; the next run within a week does it. Look at the plan first.

    Example: `agent-memory lifecycle approve n-2026-12-01 --by ops-lead`
    """
    session = session_of(ctx, env, output)
    doors = session.deployment.night.doors
    approval = night.approve(_known(run_id), doors, by=_named(by), now=session.deployment.now())
    session.screen.answer(approval.model_dump(mode="json"))
    what = ", ".join(f"{number} memories of {tenant}" for tenant, number in sorted(approval.removed.items()))
    session.screen.text(f"approved until {when(approval.expires_at)}: {what or 'the changed decay settings'}")
    session.screen.notice(f"The next night does it; now: {session.night('run')}")


def show_report(session: Session, run_id: str | None) -> None:
    """Print the report of a run; raises FailedError unless it ended well."""
    files = session.deployment.services.night_files
    names = [_known(run_id)] if run_id else files.runs()[:LISTED]
    found = next((one for name in names if (one := files.get(report_key(name), NightReport))), None)
    if found is None:
        gave_up = f"a run that gave up has none; see {session.night('status')}"
        raise NotFoundError(f"no report of {run_id or 'any run'}: {gave_up}")
    session.screen.answer(found.model_dump(mode="json"))
    for line in lines(found):
        session.screen.text(line)
    if found.ended not in GOOD:
        named = {name: session.night(name) for name in ("report", "approve")}
        raise FailedError(f"{found.run.run_id} ended {found.ended}: {ENDED.get(found.ended, '').format(**named)}")
    for verdict, said in SAID.items():
        if found.quality == verdict.value.lower() and verdict.value != "PASS":
            session.screen.notice(f"Quality gate {said}")


def show_plan(session: Session, run_id: str, tenant: str | None, *, contents: bool) -> None:
    """Print the plan of a run: tenant by tenant, or memory by memory for one."""
    files = session.deployment.services.night_files
    found = files.get(plan_key(_known(run_id)), Plan)
    if found is None:
        raise NotFoundError(f"no plan of {run_id}: {session.night('status')} lists the runs")
    if tenant:
        _show_items(session, run_id, tenant_identifier(tenant, "--tenant"), contents=contents)
        return
    session.screen.answer(found.model_dump(mode="json"))
    names = sorted({name for one in found.tenants for name in one.counts})
    rows = [(t.tenant_id, *(t.counts.get(n, 0) for n in names), t.removed, t.total, t.held) for t in found.tenants]
    columns = ("tenant", *names, "would go", "of", "held back")
    session.screen.table(columns, rows, title=f"plan of {run_id}, begun {when(found.run.now)}")
    notice = f"Memory by memory: {session.night('plan')} RUN --tenant TENANT"
    session.screen.notice(f"{found.facts_due} facts are due. {notice}")


def _show_items(session: Session, run_id: str, tenant: str, *, contents: bool) -> None:
    files = session.deployment.services.night_files
    slices = files.get_many(files.keys(f"{room_prefix(run_id, 'plan')}{tenant}/"), PlanSlice)
    items = [one for part in slices for one in (*part.items, *(i for group in part.groups for i in group.items))]
    items.sort(key=lambda one: (one.action, one.group or "", one.score, one.memory_id))
    said = _tasks(session, tenant, items) if contents else {}
    answer = [{**one.model_dump(mode="json"), **_said(said, one)} for one in items]
    session.screen.answer(answer)
    columns = ("memory", "planned", "why", "score", "group", *(["task"] if contents else []))
    rows = [
        (o.memory_id, o.action, o.reason, f"{o.score:.3f}", o.group, *([said.get(o.memory_id)] if contents else []))
        for o in items
    ]
    session.screen.table(columns, rows, title=f"plan of {run_id} for {tenant}")
    counts = Counter(one.action.value for one in items)
    session.screen.notice(", ".join(f"{number} {action}" for action, number in sorted(counts.items())) or "nothing due")


def _tasks(session: Session, tenant: str, items: list[PlanItem]) -> dict[str, str]:
    store = session.deployment.night.prune_doors(tenant).episodes
    episodes = store.get_many([(one.agent_id, one.run_id) for one in items])
    return {f"{one.agent_id}/{one.run_id}": one.task for one in episodes}


def _said(said: Mapping[str, str], item: PlanItem) -> dict[str, str]:
    return {"task": said[item.memory_id]} if item.memory_id in said else {}


def _finished(session: Session, asked: Mapping[str, object], timeout: float) -> str:
    """Start a run, wait for its end, and return its id."""
    services = session.deployment.services
    before = frozenset(services.night_files.runs())
    execution = services.lifecycle_machine.start(asked)
    ends_at, ended, seen = session.deployment.now() + timeout, RUNNING, ""
    with session.screen.working(f"waiting for {execution}"):
        while ended == RUNNING:
            ended = services.lifecycle_machine.status(execution)
            if ended == RUNNING and session.deployment.now() >= ends_at:
                raise FailedError(f"still at work after {timeout:g} s: {session.night('status')}")
            progress = _progress(session, before)
            if progress != seen:
                session.screen.notice(progress)
            seen = progress
            if ended == RUNNING:
                session.deployment.pause(POLL_SECONDS)
    for name in (one for one in services.night_files.runs() if one not in before):
        found = services.night_files.get(plan_key(name), Plan)
        if found and found.run.owner == execution:
            return name
    if ended == "SUCCEEDED":
        raise FailedError(f"another run is at work; this one ended at once: {session.night('status')}")
    raise FailedError(f"{execution} gave up before it had a plan: see its execution, or agent-memory doctor")


def _progress(session: Session, before: frozenset[str]) -> str:
    """How many slices of each room of the new run have a result."""
    files = session.deployment.services.night_files
    name = next((one for one in files.runs() if one not in before), None)
    if name is None:
        return "beginning"
    counts = {
        room: (len(files.keys(room_prefix(name, f"done/{room}"))), len(files.keys(room_prefix(name, room))))
        for room in ROOMS
    }
    steps = ", ".join(f"{room} {done}/{slices}" for room, (done, slices) in counts.items() if slices)
    return f"{name}: {steps or 'planning'}"


def _run_row(name: str, found: NightReport | None) -> dict[str, object]:
    if found is None:
        return {"run_id": name, "ended": "no report: at work, or it gave up", "quality": None, "begun": None}
    quality = None if found.run.dry_run else found.quality
    return {"run_id": name, "ended": found.ended, "quality": quality, "begun": when(found.run.now)}


def _known(run_id: str) -> str:
    if not latest_first([run_id]):
        raise RefusedInputError("RUN", "must be n-YYYY-MM-DD, or n-YYYY-MM-DD.N, as lifecycle status lists it")
    return run_id


def _named(by: str) -> str:
    text = " ".join(by.split())
    if not 1 <= len(text) <= SHOWN:
        raise RefusedInputError("--by", f"must be a name of 1 to {SHOWN} characters")
    return text
