"""`agent-memory dead-letters`: messages that a function could not take however often it tried."""

from enum import StrEnum
from typing import Annotated

import typer

from agent_memory.cli.session import Env, OutputOption, session_of

app = typer.Typer(
    help="Messages that no function could take. Example: `agent-memory dead-letters redrive`.", no_args_is_help=True
)


class Queue(StrEnum):
    """Whose dead letters."""

    INTAKE = "intake"
    RETRIEVALS = "retrievals"
    AGENTCORE_READS = "agentcore-reads"


QueueOption = Annotated[
    Queue,
    typer.Option(
        "--queue",
        "-q",
        help="Runs that ended (intake), what recalls returned (retrievals), or reports of reads from AgentCore "
        "(agentcore-reads, where agentcoreMemories names a memory).",
    ),
]


@app.command("list")
def list_letters(
    ctx: typer.Context, queue: QueueOption = Queue.INTAKE, env: Env = None, output: OutputOption = None
) -> None:
    """List dead letters by their ids; what is in them is not shown.

    Example: `agent-memory dead-letters list`
    """
    session = session_of(ctx, env, output)
    with session.screen.working("reading dead letters"):
        letters = session.deployment.dead_letters(queue).waiting()
    session.screen.answer([letter.model_dump() for letter in letters])
    rows = [
        (one.message_id, one.tenant_id, one.agent_id, one.run_id or one.context_id, one.memory_id) for one in letters
    ]
    session.screen.table(("message", "tenant", "agent", "run or context", "AgentCore memory"), rows)
    session.screen.notice(f"{len(letters)} dead letter(s) of {queue}")


@app.command()
def redrive(
    ctx: typer.Context, queue: QueueOption = Queue.INTAKE, env: Env = None, output: OutputOption = None
) -> None:
    """Put all dead letters back into their queue, when the cause is mended. Doing it twice does it once.

    Example: `agent-memory dead-letters redrive --queue retrievals`
    """
    session = session_of(ctx, env, output)
    with session.screen.working("sending dead letters back"):
        sent = session.deployment.dead_letters(queue).send_home()
    session.screen.answer({"queue": queue.value, "redriven": sent})
    session.screen.text(f"{sent} message(s) went back to {queue}")
