"""The command tree, and the one place where errors become exit codes."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import Annotated

import typer

from agent_memory import __version__
from agent_memory.cli.commands import COMMANDS
from agent_memory.cli.screen import Output, printable
from agent_memory.cli.session import (
    LOCAL,
    Env,
    FailedError,
    NotFoundError,
    OutputOption,
    default_environment,
    known_environments,
    local_variables,
    project_folder,
)
from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    ConfigurationError,
    RefusedInputError,
    RetryableError,
    UnknownDeploymentError,
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

# Options before the command that take a value.
VALUED = ("--env", "-e", "--output", "-o")


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"agent-memory {__version__}\n")
        raise typer.Exit


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


def tree(words: Sequence[str]) -> typer.Typer:
    """The command tree for *words*. Only the command that they name is loaded; of the others the help's lines stand
    there, because each brings its tier's rules along."""
    app = typer.Typer(
        name="agent-memory",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(root)
    wanted = _command_in(words)
    for name, command in COMMANDS.items():
        if name != wanted:
            app.command(name, help=command.summary)(_not_loaded)
            continue
        module = import_module(f"agent_memory.cli.{command.module}")
        group = getattr(module, "app", None)
        app.command(name)(getattr(module, name)) if group is None else app.add_typer(group, name=name)
    return app


def _command_in(words: Sequence[str]) -> str | None:
    left = iter(words)
    for word in left:
        if word in VALUED:
            next(left, None)
        elif not word.startswith("-"):
            return word
    return None


def _not_loaded() -> None:
    raise AssertionError("the command that is run is the one that was loaded")


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        code = tree(words)(args=words, standalone_mode=False, prog_name="agent-memory")
    except typer.TyperException as error:
        if error.format_message():
            _say(f"{error.format_message()}\nTry `{_command_of(error)} --help`.")
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        _say("stopped")
        return 130
    except AgentMemoryError as error:
        _say(f"{error}{_hint(error, _env_in(words))}")
        return _exit_code(error)
    return code if isinstance(code, int) else 0


def _command_of(error: typer.TyperException) -> str:
    """The command whose help says what *error* broke."""
    context = getattr(error, "ctx", None)
    return "agent-memory" if context is None else str(context.command_path)


def _exit_code(error: AgentMemoryError) -> int:
    codes = (
        (NotFoundError, NOT_FOUND),
        (FailedError, FAILED),
        (RefusedInputError, REFUSED),
        ((RetryableError, AccessRefusedError, ConfigurationError), UNREACHABLE),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), FAILED)


def _env_in(words: Sequence[str]) -> str:
    """The deployment that a command line names, or that it means without."""
    given = [after for word, after in pairwise(words) if word in ("--env", "-e")]
    given += [word.removeprefix("--env=") for word in words if word.startswith("--env=")]
    return given[-1] if given else os.environ.get("AGENT_MEMORY_ENV") or default_environment()


def _hint(error: AgentMemoryError, env: str) -> str:
    if isinstance(error, UnknownDeploymentError):
        known = known_environments(error.environment)
        there = f"There is {', '.join(known)}: name one with --env or AGENT_MEMORY_ENV." if known else ""
        return "\n" + (there or "None can be seen from here; for the laptop's: `agent-memory local up` first.")
    if isinstance(error, AccessRefusedError | ConfigurationError) and env != LOCAL == default_environment():
        return f"\n{env!r} was asked for; on this laptop there is `local`: --env local."
    if isinstance(error, RetryableError) and default_environment() == LOCAL:
        return "\nIs the laptop runtime up? `agent-memory local status`, `agent-memory local up`, `agent-memory doctor`"
    if isinstance(error, AccessRefusedError | ConfigurationError) and env != LOCAL and _could_be_local():
        return "\nFor the deployment on this laptop: `agent-memory local up` first."
    if isinstance(error, AccessRefusedError):
        return '\nCheck AWS_PROFILE and the policy of its role; README, "Who may do what", lists the actions.'
    return ""


def _could_be_local() -> bool:
    project = project_folder()
    return project is not None and not local_variables(project)


def _say(text: str) -> None:
    sys.stderr.write(f"agent-memory: {printable(text)}\n")


__all__ = ["Output", "run", "tree"]
