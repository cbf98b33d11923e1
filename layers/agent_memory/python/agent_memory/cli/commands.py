"""Which module holds which command, and what the help says of each: a command loads its own module and no other."""

from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command or a group of them. *module*: of this package. *summary*: its line in the help."""

    module: str
    summary: str


COMMANDS: Final = {
    "local": Command(
        "local_runtime",
        "The laptop runtime: the whole application without an AWS account. Example: `agent-memory local up`.",
    ),
    "episodes": Command(
        "episodes",
        "What an agent remembers. Example: `agent-memory episodes list --tenant acme --agent support-desk`.",
    ),
    "facts": Command(
        "facts",
        "What runs established, and why it is believed. Example: `agent-memory facts list --tenant acme`.",
    ),
    "procedures": Command(
        "procedures",
        "Step lists that runs proposed, and your word on them. Example: `agent-memory procedures list --tenant acme`.",
    ),
    "ingestion": Command(
        "ingestion",
        "How believed facts get into the Knowledge Base. Example: `agent-memory ingestion run --wait`.",
    ),
    "parked": Command(
        "parked",
        "Runs that could not be processed. Example: `agent-memory parked redrive --all --tenant acme`.",
    ),
    "quarantine": Command(
        "quarantine",
        "Texts that give orders to agents, held back for a person. Example: `agent-memory quarantine list -t acme`.",
    ),
    "callers": Command(
        "callers",
        "Which principals speak for which tenants, and who reviews. Example: `agent-memory callers list`.",
    ),
    "lifecycle": Command(
        "lifecycle",
        "What the night would do, does and did to memories. Example: `agent-memory lifecycle plan`.",
    ),
    "erase": Command(
        "erase",
        "Forget a person or a tenant, and prove it. Example: `agent-memory erase user alice@example.com "
        "--tenant acme --confirm`.",
    ),
    "agentcore": Command(
        "agentcore",
        "The night over AgentCore Memory. plan, run, report, approve, runs, restore, hold, release and holds "
        "are those of `agent-memory lifecycle`, over the memories that the deployment names "
        "(agentcoreMemories). A tenant is an entry of it, an agent a namespace, as `agent-memory agentcore "
        "status` lists them.",
    ),
    "regress": Command(
        "regress",
        "Questions that memory must still answer after a night. Example: `agent-memory regress run --tenant acme`.",
    ),
    "dead-letters": Command(
        "dead_letters",
        "Messages that no function could take. Example: `agent-memory dead-letters redrive`.",
    ),
    "spool": Command(
        "spool",
        "Runs that wait on this machine's disk. Example: `agent-memory spool send --env prod`.",
    ),
    "doctor": Command(
        "doctor",
        "Check this machine and the deployment, up to a round trip, and say what to do about each fault.",
    ),
    "emit": Command(
        "emit",
        "Hand over the finished runs in FILE; the format is in docs/events.",
    ),
    "recall": Command(
        "recall",
        "Ask memory about TASK, as a run would when it starts.",
    ),
    "prefetch": Command(
        "recall",
        "Recall for a run that is queued, and print the id by which the run picks it up.",
    ),
    "demo": Command(
        "demo",
        "Two runs of a sample agent end; a third starts with a task like the first and remembers it.",
    ),
    "mcp": Command(
        "mcp",
        "Serve recall, remember, rate_procedure and end_run to an MCP host. Tenant, agent and user are fixed here.",
    ),
}
