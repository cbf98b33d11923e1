"""A crowd of finished runs: sent twice in random order with malformed and very large ones between, then counted."""

import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_memory.contract import CLIENT_SOURCE_PREFIX, RUN_ENDED
from agent_memory.domain.acceptance import Doors
from agent_memory.domain.keys import execution_name
from agent_memory.domain.models import RunState
from agent_memory.domain.redriving import redrive
from benchmarks.stack import BenchStack, say

AGENT = "airline"
LARGE_RUNS, LARGE_CHARACTERS = 3, 900_000
ENTRIES_PER_CALL, SENDERS = 10, 4
MAX_REDRIVES = 4


@dataclass
class Crowd:
    """What is sent for one fresh tenant. *events*: details in the order of sending, each distinct run twice."""

    tenant_id: str
    runs: frozenset[str]
    malformed: int
    events: list[dict[str, Any]] = field(repr=False)


def crowd_of(data: Path) -> Crowd:
    """The public airline runs (tau-bench, MIT), three runs of 900 KB and five events without valid ids."""
    tenant_id = f"crowd-{uuid.uuid4().hex[:10]}"
    found = json.loads((data / "tau_bench_airline" / "gpt-4o-airline.json").read_text())
    runs = [_detail(tenant_id, f"air-{r['task_id']}-{r['trial']}", r["traj"], r["reward"]) for r in found]
    large = [_detail(tenant_id, f"large-{i}", _large_messages(i), 1.0) for i in range(LARGE_RUNS)]
    malformed = _malformed(tenant_id)
    events = [*runs, *runs, *large, *malformed]
    random.shuffle(events)
    return Crowd(tenant_id, frozenset(d["run_id"] for d in (*runs, *large)), len(malformed), events)


def _detail(tenant_id: str, run_id: str, messages: list[Any], reward: float) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "tenant_id": tenant_id,
        "agent_id": AGENT,
        "run_id": run_id,
        "user_id": f"user of {run_id}",
        "outcome": "COMPLETED" if reward else "FAILED",
        "transcript": {"messages": messages},
    }


def _large_messages(number: int) -> list[dict[str, str]]:
    lines = " ".join(f"log line {i} of export {number}: nothing to report." for i in range(18_000))
    return [
        {"role": "user", "content": f"Read the nightly export number {number} and say whether anything is wrong."},
        {"role": "tool", "content": lines[: LARGE_CHARACTERS - 2_000]},
        {"role": "assistant", "content": f"Export {number} holds nothing that needs attention."},
    ]


def _malformed(tenant_id: str) -> list[dict[str, Any]]:
    whole = _detail(tenant_id, "bad", [{"role": "user", "content": "never stored"}], 1.0)
    changes: list[dict[str, Any]] = [
        {"run_id": ""},
        {"run_id": None},
        {"agent_id": 42},
        {"tenant_id": f"{tenant_id}#x"},
        {"agent_id": "two words"},
    ]
    return [{**whole, **change} for change in changes]


class Count:
    """A crowd on a stack: sending, waiting, counting."""

    def __init__(self, stack: BenchStack, crowd: Crowd) -> None:
        self.stack = stack
        self.crowd = crowd
        own = stack.services
        self._tenant = own.tenant(crowd.tenant_id)
        self._intake = stack.parameter("intake-queue")
        self._dead_letters = stack.parameter("intake-dead-letters")
        self._sqs, self._events = stack.client("sqs"), stack.client("events")
        self._refused_before = self._waiting(own.settings.refused_queue)
        self.redriven = 0

    def send(self) -> float:
        """Put every event, in several threads; return the seconds it took."""
        started = time.monotonic()
        with ThreadPoolExecutor(SENDERS) as senders:
            list(senders.map(self._put, _batches(self.crowd.events)))
        return time.monotonic() - started

    def _put(self, details: list[dict[str, Any]]) -> None:
        bus = self.stack.services.settings.bus
        entries = [
            {
                "EventBusName": bus,
                "Source": CLIENT_SOURCE_PREFIX + self.crowd.tenant_id,
                "DetailType": RUN_ENDED,
                "Detail": json.dumps(detail),
            }
            for detail in details
        ]
        for _ in range(5):
            answer = self._events.put_events(Entries=entries)
            entries = [e for e, a in zip(entries, answer["Entries"], strict=True) if not a.get("EventId")]
            if not entries:
                return
            time.sleep(0.2)
        raise RuntimeError(f"the bus did not take {len(entries)} events")

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is queued or at work. False when *seconds* did not suffice."""
        until = time.monotonic() + seconds
        quiet = 0
        while time.monotonic() < until:
            queued = self._waiting(self._intake)
            states = self.states()
            at_work = states[RunState.ACCEPTED]
            say(f"queued {queued}, at work {at_work}, settled {sum(states.values()) - at_work}")
            quiet = quiet + 1 if not queued and not at_work else 0
            if quiet == 2:
                return True
            time.sleep(2)
        return False

    def _waiting(self, queue: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        return sum(int(found.get(name, 0)) for name in names)

    def states(self) -> Counter[RunState]:
        """How many of the distinct runs are in which state."""
        rows = (self._tenant.ledger.run(AGENT, run_id) for run_id in self.crowd.runs)
        return Counter(row.state for row in rows if row is not None)

    def redrive(self, seconds: float) -> None:
        """Bring dead letters back to the queue and parked runs back to work until none is left."""
        own = self.stack.services
        doors = Doors(self._tenant.ledger, self._tenant.claims, own.machine, own.user_refs)
        for _ in range(MAX_REDRIVES):
            letters, parked = self._returned_letters(), self._tenant.ledger.parked()
            if not letters and not parked:
                return
            say(f"redriving {len(parked)} parked runs and {letters} dead letters")
            for run in parked:
                redrive(run.agent_id, run.run_id, doors, own.retention_rules, now=own.now())
            self.redriven += len(parked) + letters
            self.wait(seconds)

    def _returned_letters(self) -> int:
        """Send the dead letters of this crowd's tenant to the intake queue again."""
        returned = 0
        while True:
            answer = self._sqs.receive_message(
                QueueUrl=self._dead_letters, MaxNumberOfMessages=10, VisibilityTimeout=60
            )
            messages = answer.get("Messages", [])
            if not messages:
                return returned
            for message in messages:
                if self.crowd.tenant_id in message["Body"]:
                    self._sqs.send_message(QueueUrl=self._intake, MessageBody=message["Body"])
                    self._sqs.delete_message(QueueUrl=self._dead_letters, ReceiptHandle=message["ReceiptHandle"])
                    returned += 1

    def counted(self) -> dict[str, object]:
        """The figures that both benches print."""
        views = self._tenant.episodes.views(AGENT, now=self.stack.services.now())
        stored = Counter(view.run_id for view in views)
        parked = {run.run_id for run in self._tenant.ledger.parked()}
        refused = self._waiting(self.stack.services.settings.refused_queue) - self._refused_before
        return {
            "sent": len(self.crowd.events),
            "distinct_runs": len(self.crowd.runs),
            "episodes": len(views),
            "lost": len(self.crowd.runs - set(stored) - parked),
            "duplicated": sum(stored.values()) - len(set(stored) & self.crowd.runs) + self._extra_executions(),
            "rejected": refused,
            "parked": len(parked),
            "states": {state.value: count for state, count in self.states().items()},
        }

    def _extra_executions(self) -> int:
        """Executions of this tenant's runs beyond one for each attempt that the ledger knows."""
        attempts = {
            run_id: row.attempt for run_id in self.crowd.runs if (row := self._tenant.ledger.run(AGENT, run_id))
        }
        expected = {
            execution_name(self.crowd.tenant_id, AGENT, run_id, attempt)
            for run_id, last in attempts.items()
            for attempt in range(1, last + 1)
        }
        states = self.stack.client("stepfunctions")
        machine = self.stack.services.settings.consolidation_machine
        pages = states.get_paginator("list_executions").paginate(stateMachineArn=machine)
        found = Counter(execution["name"] for page in pages for execution in page["executions"])
        return sum(found[name] - 1 for name in expected if found[name] > 1)


def _batches(events: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """At most ten events and 700,000 characters a call: a call may hold a megabyte."""
    batch: list[dict[str, Any]] = []
    size = 0
    for event in events:
        length = len(json.dumps(event))
        if batch and (len(batch) == ENTRIES_PER_CALL or size + length > 700_000):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += length
    if batch:
        yield batch
