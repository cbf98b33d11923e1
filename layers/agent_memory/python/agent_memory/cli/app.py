"""The command tree, and the one place where errors become exit codes."""

import sys
from typing import Annotated

import typer

from agent_memory import __version__
from agent_memory.cli import (
    agentcore,
    callers,
    dead_letters,
    demo,
    doctor,
    emit,
    episodes,
    erase,
    facts,
    ingestion,
    lifecycle,
    local_runtime,
    mcp,
    parked,
    procedures,
    quarantine,
    recall,
    regress,
    spool,
)
from agent_memory.cli.screen import Output, printable
from agent_memory.cli.session import (
    LOCAL,
    Env,
    FailedError,
    NotFoundError,
    OutputOption,
    default_environment,
    local_variables,
    project_folder,
)
from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    ConfigurationError,
    RefusedInputError,
    RetryableError,
)

FAILED, REFUSED, NOT_FOUND, UNREACHABLE = 1, 2, 3, 4

HELP = """Long-term memory for LLM agents: run it on a laptop, look into it, hand runs over.

Start here:

    agent-memory local up
    agent-memory demo
    agent-memory emit run.json --wait
    agent-memory recall "Release a parcel from customs" --tenant acme --agent support-desk

Exit codes: 0 done; 1 it failed or the result is bad; 2 wrong usage or refused input; 3 not found;
4 the deployment can't be reached (not started, not deployed, no credentials, no permission).

Answers go to stdout, notices to stderr; `--output json` works before and after every subcommand.
"""

app = typer.Typer(
    name="agent-memory",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.add_typer(local_runtime.app, name="local")
app.add_typer(episodes.app, name="episodes")
app.add_typer(facts.app, name="facts")
app.add_typer(procedures.app, name="procedures")
app.add_typer(ingestion.app, name="ingestion")
app.add_typer(parked.app, name="parked")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(callers.app, name="callers")
app.add_typer(lifecycle.app, name="lifecycle")
app.add_typer(erase.app, name="erase")
app.add_typer(agentcore.app, name="agentcore")
app.add_typer(regress.app, name="regress")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(spool.app, name="spool")
app.command()(doctor.doctor)
app.command()(emit.emit)
app.command()(recall.recall)
app.command()(recall.prefetch)
app.command()(demo.demo)
app.command()(mcp.mcp)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"agent-memory {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    env: Env = None,
    output: OutputOption = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that hold for every subcommand."""
    ctx.obj = {"env": env, "output": output}


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        code = app(args=arguments, standalone_mode=False, prog_name="agent-memory")
    except typer.TyperException as error:
        if error.format_message():
            _say(f"{error.format_message()}\nTry `agent-memory --help`.")
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        _say("stopped")
        return 130
    except AgentMemoryError as error:
        _say(f"{error}{_hint(error)}")
        return _exit_code(error)
    return code if isinstance(code, int) else 0


def _exit_code(error: AgentMemoryError) -> int:
    codes = (
        (NotFoundError, NOT_FOUND),
        (FailedError, FAILED),
        (RefusedInputError, REFUSED),
        ((RetryableError, AccessRefusedError, ConfigurationError), UNREACHABLE),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), FAILED)


def _hint(error: AgentMemoryError) -> str:
    if isinstance(error, RetryableError) and default_environment() == LOCAL:
        return "\nIs the laptop runtime up? `agent-memory local status`, `agent-memory local up`, `agent-memory doctor`"
    if isinstance(error, AccessRefusedError | ConfigurationError) and _could_be_local():
        return "\nFor the deployment on this laptop: `agent-memory local up` first."
    if isinstance(error, AccessRefusedError):
        return '\nCheck AWS_PROFILE and the policy of its role; README, "Who may do what", lists the actions.'
    return ""


def _could_be_local() -> bool:
    project = project_folder()
    return project is not None and not local_variables(project)


def _say(text: str) -> None:
    sys.stderr.write(f"agent-memory: {printable(text)}\n")


__all__ = ["Output", "app", "run"]
