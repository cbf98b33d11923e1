"""make bench NAME=ingestion: 500 facts are promoted within a minute while another job runs; five documents fail at first.

At most three jobs may be started, and afterwards every fact is found once and only once.
"""

import argparse
import json
import sys
import time
import urllib.request
import uuid
from pathlib import Path

import numpy as np
from agent_memory.domain.fact_writes import FactWrite, NewObservation
from agent_memory.domain.facts import Fact, FactChange, FactState, Observation
from agent_memory.domain.keys import fact_id
from agent_memory.domain.knowledge import KnowledgeQuery
from agent_memory.domain.models import SourceKind
from agent_memory.domain.promotion import publish
from benchmarks.stack import BenchStack, figures, say, the_stack

from local.layout import DEFAULT_STATE

FACTS, DOMAINS, PER_WRITE = 500, 5, 40
FAILING, JOB_SECONDS, OTHER_JOB_SECONDS = 5, 5, 60
WAIT_SECONDS = 900.0
AGENT = "librarian"
THINGS = ("anvil", "barrel", "candle", "drill", "engine", "filter", "gasket", "hammer", "icebox", "jigsaw")
PLACES = ("attic", "barn", "cellar", "depot", "east wing", "foundry", "garage", "harbour", "island", "jetty")


def fault(stack: BenchStack, **wanted: object) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own server on the loopback address
        f"{stack.local.ai.url}/control/faults",
        data=json.dumps(wanted).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - the same
        answer.read()


def some_facts(tenant_id: str, domain: str, numbers: range, *, now: int) -> list[Fact]:
    promoted = FactChange(at=now, state=FactState.PROMOTED, reason="confirmed")
    return [
        Fact(
            tenant_id=tenant_id,
            domain=domain,
            fact_id=fact_id(tenant_id, domain, AGENT, "r-0", number),
            content=f"The {THINGS[number % 10]} of model {number} is kept in the {PLACES[number // 10 % 10]}.",
            state=FactState.PROMOTED,
            confidence=0.9,
            history=(promoted,),
            created_at=now,
            last_confirmed_at=now,
            promoted_at=now,
        )
        for number in numbers
    ]


def promote(stack: BenchStack, tenant_id: str) -> list[Fact]:
    """Write believed facts and their documents as fact_confirmation does."""
    own, tenant = stack.services, stack.services.tenant(tenant_id)
    made: list[Fact] = []
    each = FACTS // DOMAINS
    for number in range(DOMAINS):
        domain = f"hall-{number}"
        own.dirty.note(tenant_id, domain, now=own.now())
        for start in range(0, each, PER_WRITE):
            numbers = range(number * each + start, number * each + min(start + PER_WRITE, each))
            facts = some_facts(tenant_id, domain, numbers, now=own.now())
            said = tuple(NewObservation(fact.fact_id, observed(fact)) for fact in facts)
            change = FactWrite(seen=tenant.facts.domain(domain), facts=tuple(facts), observations=said)
            if tenant.facts.write(change) != "written":
                raise RuntimeError("the facts were not written")
            for fact in facts:
                publish(fact, tenant.facts, tenant.documents)
            made += facts
    return made


def observed(fact: Fact) -> Observation:
    return Observation(
        agent_id=AGENT,
        run_id="r-0",
        source=SourceKind.USER,
        content=fact.content,
        confidence=0.9,
        vector=np.eye(8, dtype=np.float32)[0],
        embedding_model="bench",
        observed_at=fact.created_at,
    )


def run_machine(stack: BenchStack) -> str:
    """Run the ingestion machine to its end; return how it ended."""
    states, machine = stack.client("stepfunctions"), stack.services.settings.ingestion_machine
    name = states.start_execution(stateMachineArn=machine, name=f"bench-{uuid.uuid4().hex}")["executionArn"]
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        status = str(states.describe_execution(executionArn=name)["status"])
        if status != "RUNNING":
            return status
        time.sleep(2)
    return "RUNNING"


def wait_until_read(stack: BenchStack, job_id: str) -> None:
    """Wait until a job has listed the bucket: what comes afterwards is not its own."""
    while stack.services.knowledge.job(job_id).status == "STARTING":
        time.sleep(0.5)
    time.sleep(2)


def jobs(stack: BenchStack) -> int:
    s = stack.services.settings
    pages = stack.client("bedrock-agent").get_paginator("list_ingestion_jobs")
    found = pages.paginate(knowledgeBaseId=s.knowledge_base_id, dataSourceId=s.data_source_id)
    return sum(len(page["ingestionJobSummaries"]) for page in found)


def asked(stack: BenchStack, facts: list[Fact]) -> tuple[int, int]:
    """How many facts the Knowledge Base finds by their own sentence, and how many are to be had twice."""
    own = stack.services
    searchable = doubled = 0
    waiting = {
        one.fact.fact_id
        for domain in {fact.domain for fact in facts}
        for one in own.tenant(facts[0].tenant_id).facts.pending(domain)
    }
    for fact in facts:
        query = KnowledgeQuery(tenant_id=fact.tenant_id, domain=fact.domain, text=fact.content, limit=10)
        found = [passage.fact_id for passage in own.knowledge.retrieve(query).found].count(fact.fact_id)
        searchable += found > 0
        doubled += found > 1 or (found > 0 and fact.fact_id in waiting)
    return searchable, doubled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="not needed: the facts are made up")
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE)
    arguments = parser.parse_args()
    with the_stack(arguments.state) as stack:
        tenant_id = f"ingestion-{uuid.uuid4().hex[:10]}"
        started = time.monotonic()
        fault(stack, job_seconds=OTHER_JOB_SECONDS)
        other = stack.services.knowledge.start_job(uuid.uuid4().hex * 2)
        fault(stack, job_seconds=JOB_SECONDS)
        wait_until_read(stack, other.job_id or "")
        before = jobs(stack)
        facts = promote(stack, tenant_id)
        seconds_promoting = round(time.monotonic() - started, 1)
        say(f"promoted {len(facts)} facts in {seconds_promoting} s beside a job that was {other.decision}")
        # The next documents that a job reads fail, each once.
        fault(stack, fail_documents=FAILING)
        ended = run_machine(stack)
        started_jobs = jobs(stack) - before
        searchable, doubled = asked(stack, facts)
        report = stack.services.ingestion_desk.report() or {}
        figures(
            facts=len(facts),
            searchable=searchable,
            lost=len(facts) - searchable,
            doubled=doubled,
            jobs=started_jobs,
            failed_at_first=FAILING,
            rounds=report.get("round"),
            machine=ended,
            seconds_promoting=seconds_promoting,
            seconds=round(time.monotonic() - started, 1),
        )
    sys.exit(0 if searchable == len(facts) and not doubled and started_jobs <= 3 else 1)


if __name__ == "__main__":
    main()
