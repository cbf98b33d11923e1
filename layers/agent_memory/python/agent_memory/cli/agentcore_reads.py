"""`agent-memory agentcore report-reads`: which records of AgentCore somebody was shown, as a person says."""

import sys
from typing import Annotated

import typer

from agent_memory.cli.session import Agent, Env, OutputOption, Tenant, session_of
from agent_memory.client import AgentMemory
from agent_memory.domain.errors import RefusedInputError

STDIN = "-"
# What one report may hold, ten times over: the rule itself is the client's.
MAX_LINES = 1_000


def report_reads(
    ctx: typer.Context,
    memory: Annotated[str, typer.Argument(help="Id of the memory, NAME-XXXXXXXXXX.")],
    records: Annotated[
        list[str], typer.Argument(help="Ids of the records that were returned; - reads them from stdin.")
    ],
    tenant: Tenant,
    agent: Agent,
    used: Annotated[list[str] | None, typer.Option("--used", help="One of RECORDS that helped; repeat it.")] = None,
    context_id: Annotated[
        str | None,
        typer.Option(help="What they were read for, such as a run.", show_default="a new one, which is printed"),
    ] = None,
    read_at: Annotated[
        str | None, typer.Option(help="When, as ISO 8601 with a zone; within the last 7 days.", show_default="now")
    ] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Say which RECORDS of MEMORY a search returned to an agent. CloudTrail sees single records that are read by id
    (GetMemoryRecord), never what a search returned: a memory that is only searched looks unread to the night, and
    fades, unless somebody says so here, or its agents do (`memory.report_reads` of the client).

    The tenant must be that of MEMORY's entry in agentcoreMemories, and may report its own records only; others count
    nothing. Each record counts once for each context, so saying it again does no harm. The next night counts it: see
    `agent-memory agentcore status --output json`, `read`.

    Examples: `agent-memory agentcore report-reads harbour-Abc1234567 mem-0b6f... mem-7c19... -t acme -a desk`,
    `aws bedrock-agentcore retrieve-memory-records ... --query 'memoryRecordSummaries[].memoryRecordId' --output text |
    agent-memory agentcore report-reads harbour-Abc1234567 - -t acme -a desk --context-id run-17`
    """
    session, ids = session_of(ctx, env, output), _from_stdin() if records == [STDIN] else records
    client = AgentMemory(tenant, agent, strict=True, deployment=session.deployment)
    with session.screen.working("reporting reads"):
        done = client.report_reads(memory, ids, used=used or (), context_id=context_id, read_at=read_at)
    many = len(set(ids))
    session.screen.answer({**done.model_dump(mode="json", exclude={"reason"}), "records": many})
    session.screen.text(f"{many} records reported, context {done.context_id}")
    session.screen.notice("The next night counts them: agent-memory agentcore status --output json")


def _from_stdin() -> list[str]:
    words = [word for line in sys.stdin for word in line.split()][: MAX_LINES + 1]
    if not words:
        raise RefusedInputError("records", "must be ids of records, one a line, on stdin")
    return words
