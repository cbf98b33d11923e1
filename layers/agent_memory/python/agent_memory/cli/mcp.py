"""`agent-memory mcp`: memory as an MCP server, for agents of any make."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_memory.cli.session import Agent, Env, Tenant, session_of
from agent_memory.client import AgentMemory
from agent_memory.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from agent_memory.mcp import MemoryServer

LARGEST_PORT = 65_535


def mcp(
    ctx: typer.Context,
    tenant: Tenant,
    agent: Agent,
    user: Annotated[
        str | None, typer.Option(envvar="AGENT_MEMORY_USER", help="The user's id, when all runs are one user's.")
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP at /mcp instead of stdin and stdout.")] = False,
    host: Annotated[str, typer.Option(help="With --http: an address of this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=LARGEST_PORT, help="With --http.")] = 8765,
    spool: Annotated[
        Path | None, typer.Option(help="A folder for runs that can't be handed over now; without it they are lost.")
    ] = None,
    env: Env = None,
) -> None:
    """Serve recall, remember, rate_procedure and end_run to an MCP host. Tenant, agent and user are fixed here.

    Example, as hosts are configured: `{"command": "agent-memory", "args": ["mcp", "-t", "acme", "-a", "desk"]}`
    """
    session = session_of(ctx, env, None)
    memory = AgentMemory(tenant, agent, deployment=session.deployment, spool=spool)
    served = _server(memory, user)
    if http:
        from agent_memory.mcp import loopback, serve_http

        loopback(host)
        session.screen.notice(f"memory of {tenant}/{agent} ({session.env}) at http://{host}:{port}/mcp")
        serve_http(served, host=host, port=port)
        return
    from agent_memory.mcp import serve_stdio

    session.screen.notice(f"memory of {tenant}/{agent} ({session.env}) on stdin and stdout")
    serve_stdio(served)


def _server(memory: AgentMemory, user: str | None) -> "MemoryServer":
    try:
        from agent_memory.mcp import MemoryServer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mcp":
            raise
        raise ConfigurationError("the MCP server needs one more package: pip install 'agent-memory[mcp]'") from None
    return MemoryServer(memory, user_id=user)
