"""`agent-memory local`: hands over to the laptop runtime of the project."""

import os
import subprocess
import sys
from typing import Annotated

import typer

from agent_memory.cli.screen import Output, Screen
from agent_memory.cli.session import OutputOption, required_project

app = typer.Typer(
    help="The laptop runtime: the whole application without an AWS account. Example: `agent-memory local up`.",
    no_args_is_help=True,
)
Rest = Annotated[list[str] | None, typer.Argument(help="Passed on to the runtime.", show_default=False)]
PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True}


def _run(ctx: typer.Context, command: str, rest: list[str] | None, output: Output | None) -> None:
    project = required_project()
    own = project / ".venv" / "bin" / "python"
    python = str(own) if own.is_file() else sys.executable
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_ENDPOINT_URL")}
    wanted = output or (ctx.find_root().obj or {}).get("output")
    done = subprocess.run(  # noqa: S603 - the project's own module, the user's own words
        [python, "-m", "local", command, *(rest or []), *ctx.args],
        cwd=project,
        env=environment,
        check=False,
        stdout=subprocess.PIPE if wanted is Output.JSON else None,
        text=True,
    )
    lines = (done.stdout or "").splitlines()
    Screen(wanted or Output.TABLE).answer({"command": command, "exit_code": done.returncode, "lines": lines})
    raise typer.Exit(done.returncode)


@app.command(context_settings=PASS_ON)
def up(ctx: typer.Context, rest: Rest = None, output: OutputOption = None) -> None:
    """Start the emulator and the AI server and deploy the application to them. Safe to repeat."""
    _run(ctx, "up", rest, output)


@app.command(context_settings=PASS_ON)
def down(ctx: typer.Context, rest: Rest = None, output: OutputOption = None) -> None:
    """Stop them. What was stored stays."""
    _run(ctx, "down", rest, output)


@app.command(context_settings=PASS_ON)
def status(ctx: typer.Context, rest: Rest = None, output: OutputOption = None) -> None:
    """Say what runs, and where."""
    _run(ctx, "status", rest, output)


@app.command(context_settings=PASS_ON)
def reset(ctx: typer.Context, rest: Rest = None, output: OutputOption = None) -> None:
    """Stop them and forget everything that was stored on this laptop."""
    _run(ctx, "reset", rest, output)


@app.command(context_settings=PASS_ON)
def logs(ctx: typer.Context, rest: Rest = None, output: OutputOption = None) -> None:
    """Show what the functions logged; --follow goes on as they log, --function NAME and --since 15m choose.

    Each line is for people: when, level, function, message, ids. --raw shows lines as they were written, metrics too.

    Example: `agent-memory local logs --follow --function bootstrap --since 15m`
    """
    _run(ctx, "logs", rest, output)
