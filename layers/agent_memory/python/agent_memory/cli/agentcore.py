"""`agent-memory agentcore`: the night over AgentCore Memory, and records moved between it and our tiers."""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from agent_memory.cli import lifecycle
from agent_memory.cli.agentcore_reads import report_reads
from agent_memory.cli.emit import deliver
from agent_memory.cli.holds import hold, holds, release
from agent_memory.cli.restoring import restore
from agent_memory.cli.screen import when
from agent_memory.cli.session import Agent, Env, FailedError, OutputOption, Tenant, session_of
from agent_memory.domain.agentcore import AgentCoreMemory, is_prefix, named
from agent_memory.domain.agentcore_index import RecordIndex
from agent_memory.domain.agentcore_ports import Asked, Records
from agent_memory.domain.agentcore_records import NewRecord, Record, exported
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import identifier, tenant_identifier
from agent_memory.domain.recalled import iso

app = typer.Typer(
    help="The night over AgentCore Memory. plan, run, report, approve, runs, restore, hold, release and holds are "
    "those of `agent-memory lifecycle`, over the memories that the deployment names (agentcoreMemories). A tenant is "
    "an entry of it, an agent a namespace, as `agent-memory agentcore status` lists them.",
    no_args_is_help=True,
)


def _help(command: Callable[..., None]) -> str:
    """The help of a command of the night in the words of this group."""
    text = (inspect.getdoc(command) or "").replace("lifecycle status", "agentcore runs")
    return (
        text.replace("lifecycle ", "agentcore ")
        .replace("support-desk/run-7", "PLACE/RECORD")
        .replace("claims-bot", "PLACE")
    )


for command in (lifecycle.plan, lifecycle.run, lifecycle.report, lifecycle.approve, restore, hold, release, holds):
    app.command(help=_help(command))(command)
app.command("runs", help=_help(lifecycle.status))(lifecycle.status)
app.command()(report_reads)
Memory = Annotated[str, typer.Option("--memory", "-m", help="An entry, as `agentcore status` lists it.")]
BATCH = 100


@app.callback()
def over_agentcore(ctx: typer.Context) -> None:
    """Point every command of this group at AgentCore."""
    root = ctx.find_root()
    root.obj = {**(root.obj or {}), "backend": "agentcore"}


@app.command()
def status(ctx: typer.Context, env: Env = None, output: OutputOption = None) -> None:
    """Show each memory as the last refresh saw it: records, namespaces, what is due, when it was listed.

    Example: `agent-memory agentcore status --output json`
    """
    session = session_of(ctx, env, output)
    own, now = session.deployment.agentcore, session.deployment.now()
    with session.screen.working("reading the indexes"):
        ledger = own.accesses.ledger()
        seen = [(memory, own.book(memory).index()) for memory in own.memories]
    rows = [
        {
            "tenant_id": memory.name,
            "memory_id": memory.memory_id,
            "records": len(index.entries),
            "namespaces": {place: index.live(place) for place in sorted(index.namespaces)},
            "due": len(index.due(now)),
            "undated": index.undated,
            "read": len(read_of(ledger.accesses, memory, index)),
            "used": len(read_of(ledger.used, memory, index)),
            "listed_at": index.listed_at or None,
            "all_listed_at": index.full_at or None,
        }
        for memory, index in seen
    ]
    session.screen.answer({"memories": rows, "accesses_read_until": ledger.read_until or None})
    shown = [
        (memory.name, len(index.entries), len(index.namespaces), len(index.due(now)), when(index.listed_at or None))
        for memory, index in seen
    ]
    session.screen.table(("entry", "records", "namespaces", "due", "listed"), shown)
    session.screen.notice("Namespaces by their ids: --output json. Runs of the night: agent-memory agentcore runs")


def read_of(counted: Mapping[str, Mapping[str, object]], memory: AgentCoreMemory, index: RecordIndex) -> frozenset[str]:
    """The ids of an entry's records that somebody read, or used."""
    return index.record_ids() & counted.get(memory.memory_id, {}).keys()


@app.command("import")
def import_(
    ctx: typer.Context,
    memory: Memory,
    tenant: Tenant,
    agent: Agent,
    prefix: Annotated[str, typer.Option("--namespace", help="Only below this one.", show_default="all")] = "",
    user: Annotated[str | None, typer.Option("--user", help="Whose these are: shown to nobody else.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until each is stored or parked.")] = True,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds to wait in all.")] = 600,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Bring records of a memory into our tiers, as finished runs whose id is the record's: scrubbed, distilled and
    stored like any other. A second import changes nothing. The records stay where they are. What is a person's is
    imported namespace by namespace with --user: without it every run of the agent may be shown it.

    Example: `agent-memory agentcore import -m harbour-Abc1234567 -t acme -a support-desk --namespace /actors/support/`
    """
    session = session_of(ctx, env, output)
    entry = named(session.deployment.agentcore.memories, memory)
    tenant_id, agent_id = tenant_identifier(tenant, "--tenant"), identifier(agent, "--agent")
    records = _records(session.deployment.agentcore.records(entry), entry, prefix)
    details = [_as_run(one, entry, tenant_id, agent_id, user) for one in records if one.created_at is not None]
    arrivals = deliver(session, details, wait=wait, timeout=timeout)
    session.screen.answer([arrival.model_dump(mode="json") for arrival in arrivals])
    counts: dict[str, int] = {}
    for arrival in arrivals:
        counts[arrival.state] = counts.get(arrival.state, 0) + 1
    session.screen.text(", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "nothing there")
    if len(details) < len(records):
        session.screen.notice(f"{len(records) - len(details)} records have no date and were left out")


@app.command()
def export(
    ctx: typer.Context,
    memory: Memory,
    tenant: Tenant,
    agent: Agent,
    namespace: Annotated[str, typer.Option("--namespace", help="Where the records go; it ends in /.")],
    strategy: Annotated[str, typer.Option("--strategy", help="The strategy they are to belong to.")] = "",
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Write an agent's episodes into a memory, with tenant, agent, run and date of each as metadata. What was exported
    before is not written again. The episodes stay where they are. Nothing of a user's own is exported.

    Example: `agent-memory agentcore export -m harbour-Abc1234567 -t acme -a support-desk --namespace /agents/support/`
    """
    session = session_of(ctx, env, output)
    own = session.deployment.agentcore
    entry = named(own.memories, memory)
    if not is_prefix(namespace) or not entry.holds(namespace):
        raise RefusedInputError("--namespace", f"must end in / and lie in {', '.join(entry.namespaces)}")
    store, agent_id = session.tenant(tenant_identifier(tenant, "--tenant")).episodes, identifier(agent, "--agent")
    views = store.views(agent_id, now=session.deployment.now())
    episodes = [one for one in store.get_many([(agent_id, view.run_id) for view in views]) if one.user_ref is None]
    records = own.records(entry)
    there = {_exported_as(one) for one in records.listed(Asked(namespace))}
    new = [exported(one, namespace, strategy, _request_id(f"{tenant}/{agent_id}/{one.run_id}")) for one in episodes]
    left = [one for one in new if one.request_id not in there]
    made = sum(len(records.create(batch)) for batch in _batches(left))
    users = len(views) - len(episodes)
    session.screen.answer({"exported": made, "known": len(new) - len(left), "of_users": users})
    session.screen.text(f"{made} exported, {len(new) - len(left)} were there already, {users} of users left out")
    if made < len(left):
        raise FailedError(f"{len(left) - made} records could not be created: run it again, what is there is left out")


def _records(records: Records, entry: AgentCoreMemory, prefix: str) -> list[Record]:
    if prefix and (not is_prefix(prefix) or not entry.holds(prefix)):
        raise RefusedInputError("--namespace", f"must end in / and lie in {', '.join(entry.namespaces)}")
    wanted = [prefix] if prefix else list(entry.namespaces)
    return [one for space in wanted for one in records.listed(Asked(space))]


def _as_run(
    record: Record, entry: AgentCoreMemory, tenant_id: str, agent_id: str, user: str | None
) -> dict[str, object]:
    source = f"Imported from AgentCore memory {entry.memory_id}, strategy {record.strategy_id or 'none'}."
    said = [{"role": "user", "content": record.text}, {"role": "assistant", "content": source}]
    return {
        "schema_version": 1,
        "tenant_id": tenant_id,
        "agent_id": agent_id,
        "run_id": record.record_id,
        **({"user_id": user} if user else {}),
        "ended_at": iso(record.created_at or 0),
        "transcript": {"messages": said},
    }


def _request_id(named_by: str) -> str:
    return "x-" + hashlib.sha256(named_by.encode()).hexdigest()[:40]


def _exported_as(record: Record) -> str:
    held = (record.metadata.get(f"agent-memory:{key}", {}) for key in ("tenant", "agent", "run"))
    return _request_id("/".join(str(one.get("stringValue", "")) for one in held))


def _batches(records: list[NewRecord]) -> list[list[NewRecord]]:
    return [records[start : start + BATCH] for start in range(0, len(records), BATCH)]
