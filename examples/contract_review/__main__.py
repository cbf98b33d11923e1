"""Run one finds its way through a contract; run two begins with what run one learnt. Both are printed side by side."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from agent_memory.cli.screen import Output, Screen
from agent_memory.cli.session import Session
from agent_memory.client import AgentMemory, Recall

from examples.contract_review.agent import TASK, Review, review
from examples.contract_review.contracts import names
from examples.contract_review.models import SCRIPTED, chat_model

PATIENCE_SECONDS = 90


def main(
    first: Annotated[str, typer.Option(help="The contract of run one.")] = "harbour-crane",
    second: Annotated[str, typer.Option(help="The contract of run two.")] = "reefer-units",
    model: Annotated[
        str, typer.Option(envvar="EXAMPLE_MODEL", help="scripted, openai:NAME, bedrock_converse:ID, ...")
    ] = SCRIPTED,
    base_url: Annotated[
        str | None, typer.Option(envvar="EXAMPLE_BASE_URL", help="A server that speaks OpenAI's protocol.")
    ] = None,
    tenant: str = "demo",
    env: Annotated[str | None, typer.Option(help="The deployment: local, dev, staging, prod.")] = None,
    output: Output = Output.TABLE,
) -> None:
    """Review two contracts, one after the other, with an agent that remembers."""
    if unknown := {first, second} - set(names()):
        raise typer.BadParameter(f"there is no contract {sorted(unknown)[0]}: choose from {', '.join(names())}")
    session, screen = Session(env, output), Screen(output)
    agent = f"contract-review-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    memory = AgentMemory(tenant, agent, deployment=session.deployment)
    chat = chat_model(model, base_url=base_url)

    screen.headline(f"Run one: {first}, by agent {agent}, which knows nothing")
    one = review(first, chat, memory)
    screen.text(one.answer)
    with screen.working("the run becomes memory"):
        found = _known(memory, TASK.format(contract=second))
    screen.headline(f"Run two: {second}, which begins with this")
    screen.text(found.context)
    two = review(second, chat, memory)
    screen.text(two.answer)

    screen.headline("Side by side")
    screen.table(("", f"run one ({first})", f"run two ({second})"), _rows(one, two))
    screen.answer({"agent_id": agent, "context": found.context, "runs": [one.model_dump(), two.model_dump()]})


def _known(memory: AgentMemory, task: str) -> Recall:
    """What memory says of a task, as soon as it says something."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = memory.recall(task, task_type="contract-review", domain="contracts")
        if found.items or time.monotonic() > ends_at:
            return found
        time.sleep(1)


def _rows(one: Review, two: Review) -> list[tuple[str, int, int]]:
    counted = ("model_calls", "tool_calls", "input_tokens", "output_tokens")
    return [(name.replace("_", " "), getattr(one, name), getattr(two, name)) for name in counted]


if __name__ == "__main__":
    typer.run(main)
