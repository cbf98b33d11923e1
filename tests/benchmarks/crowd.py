"""make bench NAME=crowd: fifty runs at once observe ten facts in five wordings each, a fifth of them delivered twice.

Ten facts must come of it, each with its true number of runs.
"""

import argparse
import json
import random
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agent_memory.contract import CLIENT_SOURCE_PREFIX, RUN_ENDED
from agent_memory.domain.models import RunState
from benchmarks.fact_wordings import FACTS
from benchmarks.stack import BenchStack, figures, say, the_stack

from local.layout import DEFAULT_STATE

AGENT, DOMAIN = "yard", "yard"
RUNS, TWICE = 50, 10
WAIT_SECONDS = 900.0
SENDERS = 8


def says(run: int, fact: int) -> bool:
    """Whether *run* speaks of *fact*: each fact has a number of runs of its own."""
    return (run + fact) % (fact + 5) != 0


def detail_of(tenant_id: str, run: int) -> dict[str, Any]:
    """A run whose agent made the artifacts itself, from what its user said."""
    said = [FACTS[fact][(run + fact) % len(FACTS[fact])] for fact in range(len(FACTS)) if says(run, fact)]
    messages = [{"role": "user", "content": one} for one in said]
    return {
        "schema_version": 1,
        "tenant_id": tenant_id,
        "agent_id": AGENT,
        "run_id": f"r-{run}",
        "domain": DOMAIN,
        "task": "Take note of how the yard works.",
        "outcome": "COMPLETED",
        "transcript": {"messages": [*messages, {"role": "assistant", "content": "Noted."}]},
        "artifacts": {
            "task_summary": "Took note of how the yard works.",
            "outcome": "COMPLETED",
            "confidence": 0.9,
            "facts": [{"content": one, "confidence": 0.9, "evidence": one, "scope": "domain"} for one in said],
        },
    }


def send(stack: BenchStack, tenant_id: str) -> None:
    """Put every run, a fifth of them twice, in random order and from several threads."""
    details = [detail_of(tenant_id, run) for run in (*range(RUNS), *range(TWICE))]
    random.shuffle(details)
    events, bus = stack.client("events"), stack.services.settings.bus

    def put(detail: dict[str, Any]) -> None:
        entry = {
            "EventBusName": bus,
            "Source": CLIENT_SOURCE_PREFIX + tenant_id,
            "DetailType": RUN_ENDED,
            "Detail": json.dumps(detail),
        }
        for _ in range(5):
            if not events.put_events(Entries=[entry])["FailedEntryCount"]:
                return
            time.sleep(0.2)
        raise RuntimeError("the bus did not take an event")

    with ThreadPoolExecutor(SENDERS) as senders:
        list(senders.map(put, details))


def wait(stack: BenchStack, tenant_id: str) -> bool:
    """Wait until every run is settled and no execution is at work. False when that takes too long."""
    tenant, until = stack.services.tenant(tenant_id), time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        rows = [tenant.ledger.run(AGENT, f"r-{run}") for run in range(RUNS)]
        open_runs = sum(row is None or row.state is RunState.ACCEPTED for row in rows)
        at_work = sum(1 for _ in executions(stack, "RUNNING"))
        say(f"{open_runs} runs not settled, {at_work} executions at work")
        if not open_runs and not at_work:
            return True
        time.sleep(2)
    return False


def executions(stack: BenchStack, status: str) -> Iterator[dict[str, Any]]:
    pages = stack.client("stepfunctions").get_paginator("list_executions")
    machine = stack.services.settings.consolidation_machine
    for page in pages.paginate(stateMachineArn=machine, statusFilter=status):
        yield from page["executions"]


def counted(stack: BenchStack, tenant_id: str) -> dict[str, object]:
    """How many facts there are, and how many of the ten do not have exactly the runs that spoke of them."""
    tenant = stack.services.tenant(tenant_id)
    facts = tenant.facts.domain(DOMAIN).facts
    wrong = 0
    for number, wordings in enumerate(FACTS):
        expected = {(AGENT, f"r-{run}") for run in range(RUNS) if says(run, number)}
        found = [fact for fact in facts if fact.content in wordings]
        wrong += len(found) != 1 or found[0].runs != expected
    states = sorted({fact.state.value for fact in facts})
    return {"facts": len(facts), "wrong_counts": wrong, "states": states, "parked": len(tenant.ledger.parked())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="not needed: the wordings are in the repository")
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE)
    arguments = parser.parse_args()
    with the_stack(arguments.state) as stack:
        tenant_id = f"crowd-{uuid.uuid4().hex[:10]}"
        started = time.monotonic()
        send(stack, tenant_id)
        drained = wait(stack, tenant_id)
        seconds = round(time.monotonic() - started, 1)
        found = counted(stack, tenant_id)
        figures(runs=RUNS, **found, seconds=seconds, drained=drained)
    sys.exit(0 if drained and found["facts"] == len(FACTS) and not found["wrong_counts"] else 1)


if __name__ == "__main__":
    main()
