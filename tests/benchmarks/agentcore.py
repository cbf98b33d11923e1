"""How many API calls does a night over AgentCore make, when the memory grows and what is due does not?

`python -m benchmarks.agentcore` makes memories of 1,000 and 10,000 records on the running stack's emulator, in ten
namespaces, and walks the steps of two nights with the product's own services over each: the first one lists everything,
the second is an ordinary one, on which 200 records are due and 50 are new. Every call to AWS is counted, to whichever
service; embeddings, which go to a model, are counted apart.
"""

import json
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from agent_memory.contract import COMPONENT
from agent_memory.domain import night, planning, weighing
from agent_memory.domain.agentcore_night import refresh
from agent_memory.domain.examination import examine, look_of
from agent_memory.domain.lifecycle import NightTicket, SliceTicket
from agent_memory.domain.pruning import part_of, prune
from agent_memory.domain.retention import DAY_SECONDS
from agent_memory.wiring import Services
from agent_memory.wiring_agentcore import AgentCoreServices
from benchmarks.stack import BenchStack, figures, say, the_stack

SIZES, DUE, NEW, SPACES, BATCH = (1_000, 10_000), 200, 50, 10, 100
FIRST, LATER = 1_800_000_000, 1_800_000_000 + 6 * DAY_SECONDS
MODELS = frozenset({"bedrock-runtime"})


class Calls:
    """Counts what botocore sends, by service and operation."""

    def __init__(self, services: Services) -> None:
        self.made: Counter[str] = Counter()
        for service in ("s3", "dynamodb", "bedrock-agentcore", "bedrock-runtime"):
            client = services.sessions.own_client(service)
            client.meta.events.register("before-send", self._count(service))

    def _count(self, service: str) -> Any:
        def counted(**_: Any) -> None:
            self.made[service] += 1

        return counted

    def taken(self) -> int:
        """The calls since the last time, models aside."""
        found = sum(number for service, number in self.made.items() if service not in MODELS)
        self.made.clear()
        return found


def put(stack: BenchStack, memory_id: str, ages: list[float], *, named: str, now: int) -> None:
    """Records of these ages in days, all of which say something else."""
    client = stack.client("bedrock-agentcore")
    for start in range(0, len(ages), BATCH):
        records = [
            {
                "requestIdentifier": f"{named}-{number}",
                "namespaces": [f"/actors/{number % SPACES}/"],
                "content": {
                    "text": f"{named} {number}: berth {number * 7} holds {number * 13} crates of {uuid.uuid4()}."
                },
                "timestamp": datetime.fromtimestamp(now - ages[number] * DAY_SECONDS, UTC),
                "memoryStrategyId": "semantic-1",
            }
            for number in range(start, min(start + BATCH, len(ages)))
        ]
        client.batch_create_memory_records(memoryId=memory_id, records=records)


def services_over(stack: BenchStack, memory_id: str, bucket: str) -> AgentCoreServices:
    entry = {"memory_id": memory_id, "namespaces": ["/actors/"], "strategies": {"semantic-1": "semantic"}}
    told = {"night_backend": "agentcore", "agentcore_memories": json.dumps([entry]), "agentcore_bucket": bucket}
    told |= {
        "archive_bucket": bucket,
        "trail_bucket": bucket,
        "max_removed_share": "0.5",
        "max_episodes_per_agent": "10000",
    }
    settings = stack.services.settings.model_validate({**stack.services.settings.model_dump(), **told})
    return AgentCoreServices(Services(settings))


def a_night(own: AgentCoreServices, owner: str, now: int) -> tuple[int, int]:
    """Walk the steps as the machine does; return how many records were due and how many were removed."""
    own.own.now = lambda: now  # type: ignore[method-assign]  # the clock moves
    ticket = night.begin(owner, {}, own.doors, settings=own.settings_hash, limit_hours=1, now=now)
    assert ticket
    ticket, counts = refresh(ticket, own.memories, own.refresh_doors, own.refresh_rules)
    ticket = planning.plan(ticket, own.plan_doors, own.desk.last(), shards=1)
    files = own.own.night_files
    for key in files.keys(ticket.look_prefix):
        child = SliceTicket(run=ticket.run, key=key)
        look = look_of(child, files)
        examine(child, look, own.examine_doors(look.tenant_id), own.rules(ticket.run))
    ticket = weighing.weigh(ticket, own.weigh_doors, own.blast_rules, ())
    removed = 0
    for prefix in (ticket.expire_prefix, ticket.prune_prefix):
        removed += sum(_pruned(own, ticket, key) for key in files.keys(prefix))
    ended = night.end(ticket, own.doors)
    say(f"{ticket.run.run_id}: {ended.decision}, {counts}, {removed} removed")
    return counts["due"], removed


def _pruned(own: AgentCoreServices, ticket: NightTicket, key: str) -> int:
    child = SliceTicket(run=ticket.run, key=key)
    room, part = part_of(child, own.own.night_files)
    done = prune(room, ticket.run, part, own.prune_doors(part.tenant_id), own.rules(ticket.run))
    return done.counts.get("removed", 0)


def measure(stack: BenchStack, size: int) -> dict[str, int]:
    name = f"bench{uuid.uuid4().hex[:12]}"
    control = stack.client("bedrock-agentcore-control")
    memory_id = control.create_memory(name=name, eventExpiryDuration=30)["memory"]["id"]
    bucket = f"{COMPONENT}-{name}"
    stack.client("s3").create_bucket(Bucket=bucket)
    put(stack, memory_id, [29.0] * DUE + [1.0] * (size - DUE), named="old", now=FIRST)
    own = services_over(stack, memory_id, bucket)
    own.desk.release("nobody")
    calls = Calls(own.own)
    a_night(own, f"first-{name}", FIRST)
    first = calls.taken()
    put(stack, memory_id, [0.1] * NEW, named="new", now=LATER)
    due, removed = a_night(own, f"later-{name}", LATER)
    assert removed == due, f"{removed} of {due} were removed"
    return {"first": first, "later": calls.taken(), "due": due}


def main() -> None:
    with the_stack() as stack:
        found = {}
        for size in SIZES:
            _forget_nights(stack)
            found[size] = measure(stack, size)
            say(f"{size}: {found[size]}")
    small, large = (found[size] for size in SIZES)
    figures(
        due_found=large["due"],
        calls_1000=small["later"],
        calls_10000=large["later"],
        full_scan_calls_1000=small["first"],
        full_scan_calls_10000=large["first"],
    )


def _forget_nights(stack: BenchStack) -> None:
    """Each size is a deployment of its own: none knows the nights of another."""
    client, table = stack.client("dynamodb"), stack.services.settings.ledger_table
    key = {"ledger_key": {"S": "registry#agentcore"}}
    for entry in ("lock", "last"):
        client.delete_item(TableName=table, Key={**key, "entry_id": {"S": entry}})


if __name__ == "__main__":
    main()
