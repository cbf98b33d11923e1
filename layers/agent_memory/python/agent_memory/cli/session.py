"""Which deployment a command speaks to, and how its answer is printed."""

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_memory.cli.screen import Output, Screen
from agent_memory.domain.errors import AgentMemoryError, ConfigurationError
from agent_memory.domain.keys import identifier

if TYPE_CHECKING:
    from agent_memory.deployment import Deployment
    from agent_memory.wiring_tenant import TenantServices

LOCAL = "local"
# A profile or a session token of a real account must not travel to the laptop's emulator.
FOREIGN = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION")


class NotFoundError(AgentMemoryError):
    """What was asked for is not there."""


class FailedError(AgentMemoryError):
    """The command did its work and the result is bad."""


Env = Annotated[
    str | None,
    typer.Option(
        "--env",
        "-e",
        envvar="AGENT_MEMORY_ENV",
        help="The deployment: local, dev, staging, prod.",
        show_default="local if it was started, else dev",
    ),
]
OutputOption = Annotated[
    Output | None, typer.Option("--output", "-o", help="How the answer is printed.", show_default="table")
]
Tenant = Annotated[str, typer.Option("--tenant", "-t", envvar="AGENT_MEMORY_TENANT", help="Tenant id.")]
Agent = Annotated[str, typer.Option("--agent", "-a", envvar="AGENT_MEMORY_AGENT", help="Agent id.")]


class Session:
    """One invocation of the command."""

    def __init__(self, env: str | None, output: Output | None, *, backend: str = "memory") -> None:
        self.env = identifier(env or default_environment(), "--env")
        self._backend = backend
        self.screen = Screen(output or Output.TABLE)

    @cached_property
    def deployment(self) -> "Deployment":
        """The deployment; opened when it is first needed, so that doctor can speak before it is there."""
        from agent_memory.deployment import Deployment

        if self.env == LOCAL:
            use_local()
        return Deployment(self.env, timeout_seconds=30.0, backend=self._backend)

    def night(self, command: str) -> str:
        """How a command of `agent-memory lifecycle` is called in the group that was asked."""
        if not self.over_agentcore:
            return f"agent-memory lifecycle {command}"
        return f"agent-memory agentcore {'runs' if command == 'status' else command}"

    @property
    def over_agentcore(self) -> bool:
        """Whether a command of the group `agentcore` was asked."""
        return self._backend == "agentcore"

    def tenant(self, tenant_id: str) -> "TenantServices":
        """The operator's view of one tenant."""
        return self.deployment.services.tenant(tenant_id)


def session_of(ctx: typer.Context, env: str | None, output: Output | None) -> Session:
    """Options after the subcommand win over those before it."""
    before: dict[str, object] = ctx.find_root().obj or {}
    chosen_env = env if env is not None else before.get("env")
    chosen_output = output if output is not None else before.get("output")
    backend = str(before.get("backend", "memory"))
    shown = Output(str(chosen_output)) if chosen_output else None
    return Session(str(chosen_env) if chosen_env else None, shown, backend=backend)


def project_folder() -> Path | None:
    """The project: AGENT_MEMORY_HOME, or the nearest folder upward that holds the laptop runtime."""
    home = os.environ.get("AGENT_MEMORY_HOME")
    places = [Path(home)] if home else [Path.cwd(), *Path.cwd().parents]
    return next((place for place in places if (place / "local" / "__main__.py").is_file()), None)


def required_project() -> Path:
    """The project folder, or a sentence that says how to get there."""
    project = project_folder()
    if project is None:
        raise ConfigurationError(
            "the laptop runtime belongs to the agent-memory project and this is not a folder of it: "
            "go there, or set AGENT_MEMORY_HOME to it"
        )
    return project


def local_variables(project: Path) -> dict[str, str]:
    """What the laptop runtime wrote for its clients; empty when it was never started."""
    file = project / ".local" / "env"
    if not file.is_file():
        return {}
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    pairs = [line.removeprefix("export ").split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip().strip("\"'") for name, value in pairs}


def default_environment() -> str:
    """local when the laptop runtime was started in this project, else dev."""
    project = project_folder()
    started = [project / ".local" / name for name in ("env", "ports.json")] if project else []
    return LOCAL if any(file.is_file() for file in started) else "dev"


def known_environments(asked: str) -> list[str]:
    """The deployments that a command could speak to instead of *asked*: those in this account and region, as far as
    they may be listed, and the laptop's where it was started."""
    from agent_memory.deployment import Deployment

    found: list[str] = []
    with suppress(AgentMemoryError):
        found = Deployment(asked, timeout_seconds=5.0).directory.environments()
    return found if LOCAL in found or default_environment() != LOCAL else [*found, LOCAL]


def use_local() -> None:
    """Point this process at the laptop runtime, before any client is made."""
    variables = local_variables(required_project())
    if not variables:
        raise ConfigurationError(
            "the laptop runtime is not running here: run `agent-memory local up` (or `make local-up`)"
        )
    for name in FOREIGN:
        os.environ.pop(name, None)
    os.environ.update(variables)
