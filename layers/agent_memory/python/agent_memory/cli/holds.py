"""`agent-memory lifecycle hold`, `release` and `holds`: whose memories no night may touch."""

from typing import Annotated

import typer

from agent_memory.cli.session import Env, NotFoundError, OutputOption, session_of
from agent_memory.domain.agentcore import named
from agent_memory.domain.examining import EVERY_AGENT
from agent_memory.domain.keys import identifier, tenant_identifier

Tenant = Annotated[str, typer.Option("--tenant", "-t", envvar="AGENT_MEMORY_TENANT", help="The tenant.")]
Agent = Annotated[str, typer.Option("--agent", help="One agent. Without it: every agent of the tenant.")]


def hold(
    ctx: typer.Context, tenant: Tenant, agent: Agent = EVERY_AGENT, env: Env = None, output: OutputOption = None
) -> None:
    """Keep every night off the memories of an agent, or of a whole tenant, until `lifecycle release`. DynamoDB's TTL
    knows no holds: what expires is archived, and what must outlive its expiry is pinned (`episodes pin`). A tenant's
    hold is one for its own tiers and its entry of agentcoreMemories, whichever group says it.

    Example: `agent-memory lifecycle hold --tenant acme --agent claims-bot`
    """
    session = session_of(ctx, env, output)
    tenant_id, agent_id = tenant_identifier(tenant, "--tenant"), _agent(agent)
    if session.over_agentcore:
        # Of a name that is no entry's, a hold would keep no night off anything.
        named(session.deployment.agentcore.memories, tenant_id)
    session.deployment.services.tenant(tenant_id).agent_notes.hold(agent_id, now=session.deployment.now())
    session.screen.answer({"tenant_id": tenant_id, "agent_id": agent_id, "held": True})
    session.screen.text(f"no night touches the memories of {_named(agent_id)} of {tenant_id}")


def release(
    ctx: typer.Context, tenant: Tenant, agent: Agent = EVERY_AGENT, env: Env = None, output: OutputOption = None
) -> None:
    """Let nights touch these memories again, those of its own tiers and those in AgentCore alike. What became due
    meanwhile goes the next night.

    Example: `agent-memory lifecycle release --tenant acme --agent claims-bot`
    """
    session = session_of(ctx, env, output)
    tenant_id, agent_id = tenant_identifier(tenant, "--tenant"), _agent(agent)
    if not session.deployment.services.tenant(tenant_id).agent_notes.unhold(agent_id):
        raise NotFoundError(f"{_named(agent_id)} of {tenant_id} is not held: {session.night('holds')} shows what is")
    session.screen.answer({"tenant_id": tenant_id, "agent_id": agent_id, "held": False})
    session.screen.text(f"nights touch the memories of {_named(agent_id)} of {tenant_id} again")


def holds(ctx: typer.Context, tenant: Tenant, env: Env = None, output: OutputOption = None) -> None:
    """Show whose memories no night touches.

    Example: `agent-memory lifecycle holds --tenant acme --output json`
    """
    session = session_of(ctx, env, output)
    tenant_id = tenant_identifier(tenant, "--tenant")
    held = sorted(session.deployment.services.tenant(tenant_id).agent_notes.holds())
    session.screen.answer([{"tenant_id": tenant_id, "agent_id": agent_id} for agent_id in held])
    session.screen.table(("tenant", "held"), [(tenant_id, _named(agent_id)) for agent_id in held])


def _agent(agent: str) -> str:
    return agent if agent == EVERY_AGENT else identifier(agent, "--agent")


def _named(agent_id: str) -> str:
    return "every agent" if agent_id == EVERY_AGENT else agent_id
