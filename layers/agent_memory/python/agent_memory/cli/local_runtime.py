"""`agent-memory local`: hands over to the laptop runtime of the project."""

import os
import subprocess
import sys
from typing import Annotated

import typer

from agent_memory.cli.session import required_project

app = typer.Typer(
    help="The laptop runtime: the whole application without an AWS account. Example: `agent-memory local up`.",
    no_args_is_help=True,
)
Rest = Annotated[list[str] | None, typer.Argument(help="Passed on to the runtime.", show_default=False)]
PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True}


def _run(command: str, rest: list[str] | None) -> None:
    project = required_project()
    own = project / ".venv" / "bin" / "python"
    python = str(own) if own.is_file() else sys.executable
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_ENDPOINT_URL")}
    done = subprocess.run(  # noqa: S603 - the project's own module, the user's own words
        [python, "-m", "local", command, *(rest or [])], cwd=project, env=environment, check=False
    )
    raise typer.Exit(done.returncode)


@app.command(context_settings=PASS_ON)
def up(rest: Rest = None) -> None:
    """Start the emulator and the AI server and deploy the application to them. Safe to repeat."""
    _run("up", rest)


@app.command(context_settings=PASS_ON)
def down(rest: Rest = None) -> None:
    """Stop them. What was stored stays."""
    _run("down", rest)


@app.command(context_settings=PASS_ON)
def status(rest: Rest = None) -> None:
    """Say what runs, where, and what it holds."""
    _run("status", rest)


@app.command(context_settings=PASS_ON)
def reset(rest: Rest = None) -> None:
    """Forget everything that was stored on this laptop."""
    _run("reset", rest)


@app.command(context_settings=PASS_ON)
def logs(rest: Rest = None) -> None:
    """Show what the emulator, the functions and the AI server wrote."""
    _run("logs", rest)
