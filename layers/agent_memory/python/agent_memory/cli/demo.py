"""`agent-memory demo`: two runs of a sample agent end, a third one starts and remembers the right one."""

import json
import shutil
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import typer

from agent_memory.cli.emit import GOOD, Arrival, awaited
from agent_memory.cli.episodes import shown
from agent_memory.cli.session import Env, FailedError, OutputOption, Session, session_of
from agent_memory.client import AgentMemory, Recall
from agent_memory.domain.models import Episode

TENANT = "demo"
PATIENCE_SECONDS = 90
SHOWN_FIELDS = ("task", "digest", "outcome", "tools_used", "time_taken_steps", "distilled_by")


def sample(name: str) -> dict[str, Any]:
    """One of the sample runs that ship with the command."""
    text = files("agent_memory.cli").joinpath("samples", f"{name}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def demo(ctx: typer.Context, env: Env = None, output: OutputOption = None) -> None:
    """Two runs of a sample agent end; a third starts with a task like the first and remembers it.

    Everything goes through the real pipeline. Each demo is an agent of its own (demo-<time>), so it can be repeated
    at will; what it stores expires like any episode. Exit code 1 when the wrong run is recalled or personal data is
    found in what was kept.

    Example: `agent-memory demo`
    """
    started = time.monotonic()
    session = session_of(ctx, env, output)
    agent = f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    memory = AgentMemory(TENANT, agent, strict=True, deployment=session.deployment)
    runs, third = [sample("first-run"), sample("second-run")], sample("third-task")

    _end_runs(session, memory, runs)
    episodes = _stored(session, agent, runs)
    found = _start_third(session, memory, third)
    faults = _faults(found, episodes, third, agent)

    seconds = time.monotonic() - started
    report = {
        "agent_id": agent,
        "recall": found.model_dump(mode="json"),
        "faults": faults,
        "seconds": round(seconds, 1),
    }
    session.screen.answer({**report, "episodes": [shown(episode) for episode in episodes]})
    if faults:
        raise FailedError("the demo went wrong: " + "; ".join(faults))
    session.screen.headline("The third run knows what the first one learnt, and nothing of the second.")
    session.screen.text(
        f'Took {seconds:.1f} s. Next: {_command()} recall "Water the office plants" --tenant {TENANT} --agent {agent} '
        '(nothing relevant is a good answer), then plug in your own agent: README, "Plug an agent in".'
    )


def _command() -> str:
    """The command as it can be typed: `make demo` installs it beside the project's Python, not on the PATH."""
    return "agent-memory" if shutil.which("agent-memory") else ".venv/bin/agent-memory"


def _end_runs(session: Session, memory: AgentMemory, runs: list[dict[str, Any]]) -> None:
    screen = session.screen
    screen.headline(f"1. Two runs of agent {memory.agent_id} end ({session.env})")
    arrivals = []
    for index, run in enumerate(runs):
        done = memory.end_run(
            run["run_id"],
            messages=run["messages"],
            outcome=run["outcome"],
            task=run["task"],
            task_type=run["task_type"],
            domain=run["domain"],
            user_id=run["user_id"],
            ended_at=datetime.now(UTC) - timedelta(minutes=10 - index),
        )
        screen.text(f'   {run["run_id"]}: "{run["task"]}" ({len(run["messages"])} messages, {run["outcome"]})')
        arrivals.append(
            Arrival(tenant_id=TENANT, agent_id=memory.agent_id, run_id=run["run_id"], event_id=done.event_id)
        )
    screen.headline("2. Each is distilled, scrubbed of personal data and stored")
    settled = awaited(session, arrivals, timeout=PATIENCE_SECONDS)
    bad = [
        f"{a.run_id} is {a.state} ({a.reason or 'no reason yet'})" for a in settled if a.state not in GOOD - {"sent"}
    ]
    if bad:
        raise FailedError("; ".join(bad) + ". `agent-memory doctor` and `agent-memory local logs` say more")


def _stored(session: Session, agent: str, runs: list[dict[str, Any]]) -> list[Episode]:
    episodes = session.tenant(TENANT).episodes.get_many([(agent, run["run_id"]) for run in runs])
    if len(episodes) != len(runs):
        raise FailedError(f"{len(runs)} runs were stored, but {len(episodes)} episodes can be read")
    for episode in episodes:
        session.screen.text(f"   what is kept of {episode.run_id}:")
        session.screen.fields({f"     {name}": getattr(episode, name) for name in SHOWN_FIELDS})
    return episodes


def _start_third(session: Session, memory: AgentMemory, third: Mapping[str, Any]) -> Recall:
    screen = session.screen
    screen.headline("3. A third run starts")
    screen.text(f'   "{third["task"]}"')
    found = memory.recall(third["task"], task_type=third["task_type"], domain=third["domain"])
    if found.degraded:
        # The first call of a fresh deployment may be slower than its budget: a cold start, not a lack of memory.
        screen.notice(f"first answer was degraded ({', '.join(map(str, found.degraded))}); asking once more")
        found = memory.recall(third["task"], task_type=third["task_type"], domain=third["domain"])
    screen.headline("4. What memory adds to its system prompt")
    screen.text(found.context or "   (nothing)")
    return found


def _faults(found: Recall, episodes: list[Episode], third: Mapping[str, Any], agent: str) -> list[str]:
    expected = f"{agent}/{third['expect']}"
    ids = [item.id for item in found.items]
    faults = [f"the run that was needed, {expected}, was not recalled"] if expected not in ids else []
    faults += [f"{wrong} has nothing to do with the task, but was recalled" for wrong in ids if wrong != expected]
    kept = found.context + "".join(
        episode.model_dump_json(exclude={"task_vector", "digest_vector"}) for episode in episodes
    )
    leaked = sum(1 for text in third["personal_data"] if text in kept)
    return faults + ([f"{leaked} pieces of personal data of the sample runs were stored"] if leaked else [])
