"""`agent-memory ingestion`: how believed facts get into the Knowledge Base."""

from typing import Annotated

import typer

from agent_memory.cli.screen import readable_times, when
from agent_memory.cli.session import Env, FailedError, OutputOption, Session, session_of
from agent_memory.domain.models import Model

app = typer.Typer(
    help="How believed facts get into the Knowledge Base. Example: `agent-memory ingestion run --wait`.",
    no_args_is_help=True,
)
POLL_SECONDS = 1.0
RUNNING, SUCCEEDED = "RUNNING", "SUCCEEDED"


class Waiting(Model):
    """What the Knowledge Base has yet to follow in one domain. *oldest_seconds*: of the facts to add."""

    tenant_id: str
    domain: str
    to_add: int
    to_remove: int
    oldest_seconds: int


@app.command()
def status(ctx: typer.Context, env: Env = None, output: OutputOption = None) -> None:
    """Show what waits to be searchable, how long it has waited, and how the last ingestions went.

    Example: `agent-memory ingestion status --output json`
    """
    session = session_of(ctx, env, output)
    with session.screen.working("reading what waits"):
        services = session.deployment.services
        waiting, report = _waiting(session), services.ingestion_desk.report()
        executions = services.ingestion_machine.recent()
    session.screen.answer(
        {"waiting": [one.model_dump() for one in waiting], "last_report": report, "executions": executions}
    )
    _show_waiting(session, waiting)
    if report:
        session.screen.headline("last report")
        session.screen.fields({**report, "at": when(report.get("at")), **readable_times(report)})
    rows = [(one["name"], one["status"], when(one["started_at"]), when(one["stopped_at"])) for one in executions]
    session.screen.table(("execution", "status", "started", "stopped"), rows, title="executions, newest first")


@app.command()
def run(
    ctx: typer.Context,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is over.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds to wait in all.")] = 600,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Ingest what waits now, instead of at the next turn of the schedule. Two at once do the work of one.

    Example: `agent-memory ingestion run --wait`
    """
    session = session_of(ctx, env, output)
    machine = session.deployment.services.ingestion_machine
    execution = machine.start()
    ended = _awaited(session, execution, timeout) if wait else RUNNING
    waiting = _waiting(session) if wait else []
    session.screen.answer({"execution": execution, "status": ended, "waiting": [one.model_dump() for one in waiting]})
    session.screen.text(f"ingestion {execution}: {ended.lower()}")
    if not wait:
        session.screen.notice("How it goes: agent-memory ingestion status")
        return
    _show_waiting(session, waiting)
    if ended != SUCCEEDED:
        still = ended == RUNNING
        raise FailedError(f"still at work after {timeout} s" if still else "the ingestion stopped; see its execution")
    if waiting:
        left = sum(one.to_add + one.to_remove for one in waiting)
        raise FailedError(f"{left} still wait: another ingestion is at work, or documents failed; see ingestion status")


def _waiting(session: Session) -> list[Waiting]:
    now, found = session.deployment.now(), []
    for tenant_id, domain in sorted(session.deployment.services.dirty.all()):
        pending = session.tenant(tenant_id).facts.pending(domain)
        to_add = [one.fact for one in pending if one.waits]
        oldest = max((now - (fact.promoted_at or now) for fact in to_add), default=0)
        if pending:
            found.append(
                Waiting(
                    tenant_id=tenant_id,
                    domain=domain,
                    to_add=len(to_add),
                    to_remove=len(pending) - len(to_add),
                    oldest_seconds=oldest,
                )
            )
    return found


def _show_waiting(session: Session, waiting: list[Waiting]) -> None:
    rows = [(w.tenant_id, w.domain, w.to_add, w.to_remove, f"{w.oldest_seconds} s") for w in waiting]
    if rows:
        session.screen.table(("tenant", "domain", "to add", "to remove", "oldest"), rows, title="what waits")
    else:
        session.screen.text("Nothing waits: the Knowledge Base has every believed fact.")


def _awaited(session: Session, execution: str, timeout: float) -> str:
    ends_at = session.deployment.now() + timeout
    with session.screen.working("waiting for the ingestion"):
        while True:
            ended = session.deployment.services.ingestion_machine.status(execution)
            if ended != RUNNING or session.deployment.now() >= ends_at:
                return ended
            session.deployment.pause(POLL_SECONDS)
