"""`agent-memory recall`: what an agent would be told about a task."""

from typing import Annotated

import typer

from agent_memory.cli.screen import Screen
from agent_memory.cli.session import Agent, Env, FailedError, OutputOption, Tenant, session_of
from agent_memory.client import AgentMemory, Recall


def recall(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="The task, as the run would be asked it.")],
    tenant: Tenant,
    agent: Agent,
    task_type: Annotated[str | None, typer.Option(help="The kind of task, when the agent knows it.")] = None,
    domain: Annotated[str | None, typer.Option(help="The domain of knowledge; without it, all.")] = None,
    user: Annotated[str | None, typer.Option(help="The user's id: facts about that user as well.")] = None,
    max_facts: Annotated[int | None, typer.Option(min=0, help="At most this many facts.")] = None,
    max_episodes: Annotated[int | None, typer.Option(min=0, help="At most this many episodes.")] = None,
    max_context_tokens: Annotated[int | None, typer.Option(min=0, help="Token budget of the context.")] = None,
    budget_ms: Annotated[int | None, typer.Option(min=1, help="Time budget of the whole call.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also the best candidates, their scores and the floors they are held to.")
    ] = False,
    context_id: Annotated[str | None, typer.Option(help="Pick up what `agent-memory prefetch` kept.")] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Ask memory about TASK, as a run would when it starts.

    Example: `agent-memory recall "Release a parcel from customs" --tenant acme --agent support-desk --explain`
    """
    session = session_of(ctx, env, output)
    memory = AgentMemory(tenant, agent, strict=True, deployment=session.deployment)
    with session.screen.working("asking memory"):
        found = memory.recall(
            task,
            task_type=task_type,
            domain=domain,
            user_id=user,
            max_facts=max_facts,
            max_episodes=max_episodes,
            max_context_tokens=max_context_tokens,
            budget_ms=budget_ms,
            explain=explain,
            context_id=context_id,
        )
    _answer(session.screen, found)


def _answer(screen: Screen, found: Recall) -> None:
    screen.answer(found.model_dump(mode="json"))
    show(screen, found)
    if found.degraded and not found.items:
        raise FailedError(f"memory could not be read: {', '.join(map(str, found.degraded))}")


def prefetch(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="The task of the run that is queued.")],
    tenant: Tenant,
    agent: Agent,
    task_type: Annotated[str | None, typer.Option(help="The kind of task, when the agent knows it.")] = None,
    domain: Annotated[str | None, typer.Option(help="The domain of knowledge; without it, all.")] = None,
    user: Annotated[str | None, typer.Option(help="The user's id: facts about that user as well.")] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Recall for a run that is queued, and print the id by which the run picks it up.

    Example: `agent-memory recall TASK --context-id $(agent-memory prefetch TASK -t acme -a desk) -t acme -a desk`
    """
    session = session_of(ctx, env, output)
    memory = AgentMemory(tenant, agent, strict=True, deployment=session.deployment)
    with session.screen.working("asking memory"):
        context_id = memory.prefetch(task, task_type=task_type, domain=domain, user_id=user)
    session.screen.answer({"context_id": context_id})
    session.screen.text(context_id or "")
    if context_id is None:
        raise FailedError("memory could not be read whole, so nothing was kept: the run asks when it starts")


def show(screen: Screen, found: Recall) -> None:
    """Print a recall for people: the context as the run gets it, then where it came from."""
    if found.context:
        screen.text(found.context)
    if found.items:
        rows = [(item.id, item.tier, f"{item.score:.3f}") for item in found.items]
        screen.table(("memory", "tier", "score"), rows, title="returned")
    if found.explanation:
        columns = tuple(dict.fromkeys(name for row in found.explanation for name in row))
        cells = [[_cell(row.get(name)) for name in columns] for row in found.explanation]
        screen.table(columns, cells, title="candidates, best first")
    if found.nothing_relevant:
        screen.notice(
            "Nothing relevant: no memory of this agent is close enough to the task. "
            "--explain shows the nearest and the floor they missed; the setting episodeFloor moves it."
        )
    elif found.degraded:
        screen.notice(f"Not everything could be read: {', '.join(map(str, found.degraded))}")
    if elsewhere := [note["elsewhere"] for note in found.notes if "elsewhere" in note]:
        screen.notice(f"The domain that was named holds no facts; {elsewhere[0]} of other domains fit the task.")
    if any(note.get("note") == "prefetch_missing" for note in found.notes):
        screen.notice("Nothing was kept under that id for this question (any more), so memory was asked anew.")
    if found.dropped:
        screen.notice(f"Left out for want of room in the token budget: {found.dropped} memories that fit the task.")


def _cell(value: object) -> object:
    return f"{value:.3f}" if isinstance(value, float) else value
