"""`agent-memory episodes`: what an agent remembers."""

from typing import Annotated

import typer

from agent_memory.cli.screen import readable_times, when
from agent_memory.cli.session import Agent, Env, NotFoundError, OutputOption, Tenant, session_of
from agent_memory.domain.decay import decays_at
from agent_memory.domain.examining import began_at
from agent_memory.domain.models import Episode, EpisodeKind
from agent_memory.domain.retention import DAY_SECONDS, HOUR_SECONDS
from agent_memory.wiring import Services

app = typer.Typer(
    help="What an agent remembers. Example: `agent-memory episodes list --tenant acme --agent support-desk`.",
    no_args_is_help=True,
)
Run = Annotated[str, typer.Argument(help="Run id.")]
VECTORS = {"task_vector", "digest_vector"}


@app.command("list")
def list_episodes(
    ctx: typer.Context,
    tenant: Tenant,
    agent: Agent,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, newest first.")] = 50,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """List the live episodes of one agent, newest first.

    Example: `agent-memory episodes list --tenant acme --agent support-desk --output json`
    """
    session = session_of(ctx, env, output)
    with session.screen.working("reading episodes"):
        views = session.tenant(tenant).episodes.views(agent, now=session.deployment.now())
    newest = sorted(views, key=lambda view: (view.ended_at, view.run_id), reverse=True)[:limit]
    session.screen.answer([view.model_dump(mode="json", exclude=VECTORS) for view in newest])
    rows = [(v.run_id, when(v.ended_at), v.outcome, v.task, when(v.expires_at)) for v in newest]
    session.screen.table(("run", "ended", "outcome", "task", "expires"), rows)
    session.screen.notice(f"{len(newest)} of {len(views)} live episodes")


@app.command()
def show(
    ctx: typer.Context, run_id: Run, tenant: Tenant, agent: Agent, env: Env = None, output: OutputOption = None
) -> None:
    """Show everything that one episode holds, vectors apart.

    Example: `agent-memory episodes show run-1 --tenant acme --agent support-desk`
    """
    session = session_of(ctx, env, output)
    record = shown(_found(session.tenant(tenant).episodes.get(agent, run_id), run_id))
    session.screen.answer(record)
    session.screen.fields({**record, **readable_times(record)})


@app.command()
def pin(
    ctx: typer.Context,
    run_id: Run,
    tenant: Tenant,
    agent: Agent,
    unpin: Annotated[bool, typer.Option("--unpin", help="Let it expire and decay again.")] = False,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Keep an episode for good: it neither expires nor decays. --unpin takes that back.

    Example: `agent-memory episodes pin run-1 --tenant acme --agent support-desk`
    """
    session = session_of(ctx, env, output)
    episodes = session.tenant(tenant).episodes
    episode = _found(episodes.get(agent, run_id), run_id)
    services, now = session.deployment.services, session.deployment.now()
    expiry, due = _deadlines(services, episode, now) if unpin else (None, None)
    if not episodes.pin(agent, run_id, pinned=not unpin, expires_at=expiry, decays_at=due):
        raise NotFoundError(f"{run_id} was removed meanwhile")
    session.screen.answer({"run_id": run_id, "pinned": not unpin, "expires_at": expiry, "decays_at": due})
    session.screen.text(f"{run_id} expires {when(expiry)}" if unpin else f"{run_id} is pinned: it stays until unpinned")


def shown(episode: Episode) -> dict[str, object]:
    """An episode as people read it: no vectors."""
    return episode.model_dump(mode="json", exclude=VECTORS)


def _found(episode: Episode | None, run_id: str) -> Episode:
    if episode is None:
        raise NotFoundError(f"no episode of run {run_id}: not stored yet, parked, expired, or of another agent")
    return episode


def _deadlines(services: Services, episode: Episode, now: int) -> tuple[int, int]:
    """When an episode that is no longer pinned expires and is due; never before the night could archive it."""
    retention = services.retention_rules
    days = retention.summary_ttl_days if episode.kind is EpisodeKind.SUMMARY else retention.memory_ttl_days
    window = retention.archive_before_expiry_hours * HOUR_SECONDS + DAY_SECONDS
    expiry = max(began_at(episode) + days * DAY_SECONDS, now + window)
    due = decays_at(
        ended_at=began_at(episode),
        outcome=episode.outcome,
        expires_at=expiry,
        access_count=episode.access_count,
        last_access_at=episode.last_access_at,
        kept_until=episode.kept_until,
        decay=services.decay_rules,
        retention=retention,
        now=now,
    )
    return expiry, due
