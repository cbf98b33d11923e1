"""What does the plan of a night read, when the store grows and what is due does not?

`python -m benchmarks.lifecycle` fills a table of the deployed shape in the running stack with 1,000, 10,000 and 100,000
memories, 200 of which are due, and counts the calls of the plan's query over due-index. Read units are worked out from
what was returned: 0.5 for every 4,096 bytes begun of a page, sizes as DynamoDB counts them (the emulator's own figures are
wrong). Beside it stands a plan by full scan, as the published sample does it.
"""

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agent_memory.aws.due_index import DynamoDueIndex
from agent_memory.aws.episodes import DynamoEpisodes
from agent_memory.contract import DECAYS_AT, DUE_SHARD, EPISODES_PARTITION_KEY, EPISODES_SORT_KEY
from agent_memory.domain.decay import DecayRules, below_threshold_at
from agent_memory.domain.keys import due_shard
from agent_memory.domain.lifecycle import LifecycleRun, LookSlice, NightTicket
from agent_memory.domain.models import DistilledBy, Episode, Model, Outcome
from agent_memory.domain.planning import PlanDoors, plan, prefixes
from agent_memory.domain.retention import DAY_SECONDS
from agent_memory.domain.vectors import unit
from benchmarks.baseline import nightly
from benchmarks.stack import BenchStack, figures, say, the_stack

NOW = 1_800_000_000
SIZES = (1_000, 10_000, 100_000)
DUE, SHARDS, AGENTS = 200, 4, 250
BATCH, UNIT_BYTES, UNIT = 25, 4_096, 0.5
DIMENSIONS = 512


def size_of(value: Mapping[str, Any]) -> int:
    """Bytes of one attribute value as DynamoDB counts them."""
    ((kind, held),) = value.items()
    if kind in ("S", "B"):
        return len(held.encode() if isinstance(held, str) else held)
    if kind == "N":
        return len(held.lstrip("-").replace(".", "")) // 2 + 2
    if kind == "L":
        return 3 + sum(1 + size_of(one) for one in held)
    if kind == "M":
        return 3 + sum(len(name.encode()) + 1 + size_of(one) for name, one in held.items())
    return 1


def bytes_of(items: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(name.encode()) + size_of(value) for item in items for name, value in item.items())


def units_of(items: Sequence[Mapping[str, Any]]) -> float:
    """Read units of one eventually consistent page: an empty one costs a half as well."""
    return max(-(-bytes_of(items) // UNIT_BYTES), 1) * UNIT


class CountingClient:
    """Passes queries on and notes what each page would have cost."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls = 0
        self.units = 0.0

    def query(self, **request: Any) -> Any:
        answer = self._client.query(**request)
        self.calls += 1
        self.units += units_of(answer["Items"])
        return answer


class Slices:
    """Keeps what the plan writes."""

    bucket = "bench"

    def __init__(self) -> None:
        self.found: dict[str, Model] = {}

    def put_many(self, contents: Any) -> None:
        self.found |= dict(contents)

    def all(self) -> Mapping[tuple[str, str], int]:
        return {}


def a_memory(dates: random.Random) -> Episode:
    """A memory of the size that the limits of tasks and digests allow for."""
    vectors = [unit([dates.gauss(0, 1) for _ in range(DIMENSIONS)]) for _ in range(2)]
    return Episode(
        tenant_id="bench",
        agent_id="agent-0",
        run_id="run-0",
        task="Move the booking of the customer to the next free day and tell the depot about it. " * 6,
        digest="The customer asked for a later delivery; the depot had room on Friday and no fee was due. " * 11,
        task_vector=vectors[0],
        digest_vector=vectors[1],
        embedding_model="amazon.titan-embed-text-v2:0",
        outcome=Outcome.COMPLETED,
        task_summary="Moved a booking to the next free day." * 3,
        key_findings=("A booking can be moved without a fee until the evening before.",) * 4,
        approach_used="Looked the booking up, asked the depot for room, moved it, confirmed it." * 2,
        distilled_by=DistilledBy.MODEL,
        created_at=NOW,
        ended_at=NOW,
        expires_at=NOW + 90 * DAY_SECONDS,
        decays_at=NOW + DAY_SECONDS,
    )


def memories(pattern: Mapping[str, Any], first: int, last: int, dates: random.Random) -> Iterator[dict[str, Any]]:
    """Items *first* to *last*: the first 200 ended 40 days ago, the others within the last 30 days."""
    for number in range(first, last):
        agent, run = f"tenant-{number % 50}#agent-{number % AGENTS}", f"run-{number:06d}"
        ended = NOW - (40 * DAY_SECONDS if number < DUE else dates.randrange(30 * DAY_SECONDS))
        due = below_threshold_at(ended, 0, None, DecayRules(), now=ended)
        assert due
        yield {
            **pattern,
            EPISODES_PARTITION_KEY: {"S": agent},
            EPISODES_SORT_KEY: {"S": run},
            "created_at": {"N": str(ended)},
            "ended_at": {"N": str(ended)},
            "expires_at": {"N": str(ended + 90 * DAY_SECONDS)},
            DECAYS_AT: {"N": str(due)},
            DUE_SHARD: {"S": due_shard(agent, run, SHARDS)},
        }


def fill(dynamodb: Any, table: str, items: Iterator[dict[str, Any]]) -> None:
    """Write *items* in batches; what a batch left is written again."""

    def write(batch: list[dict[str, Any]]) -> None:
        left = {table: [{"PutRequest": {"Item": item}} for item in batch]}
        while left:
            left = dynamodb.batch_write_item(RequestItems=left).get("UnprocessedItems") or {}

    def batches() -> Iterator[list[dict[str, Any]]]:
        held: list[dict[str, Any]] = []
        for item in items:
            held.append(item)
            if len(held) == BATCH:
                yield held
                held = []
        if held:
            yield held

    with ThreadPoolExecutor(2) as pool:
        for done, _ in enumerate(pool.map(write, batches()), 1):
            if done % 400 == 0:
                say(f"{done * BATCH} written")


def table_like_the_deployed(stack: BenchStack, dynamodb: Any) -> str:
    """An empty table with the keys and indexes of the deployed episodes table."""
    found = dynamodb.describe_table(TableName=stack.services.settings.episodes_table)["Table"]
    indexes = [
        {name: index[name] for name in ("IndexName", "KeySchema", "Projection")}
        for index in found["GlobalSecondaryIndexes"]
    ]
    name = f"bench-lifecycle-{uuid.uuid4().hex[:8]}"
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=found["AttributeDefinitions"],
        KeySchema=found["KeySchema"],
        GlobalSecondaryIndexes=indexes,
    )
    return name


def pattern_of(dynamodb: Any, table: str, dates: random.Random) -> dict[str, Any]:
    """The item that our own store writes of a memory; taken out of the table again."""

    class Recording:
        def transact_write_items(self, *, TransactItems: list[Any]) -> None:  # noqa: N803 - the SDK's name
            self.item = TransactItems[0]["Put"]["Item"]

    client = Recording()
    store = DynamoEpisodes(client, table=table, ledger_table="none", tenant_id="bench", due_shards=SHARDS)
    store.put(a_memory(dates))
    return dict(client.item)


def planned(dynamodb: Any, table: str) -> tuple[set[tuple[str, str]], CountingClient]:
    """What the plan finds due in *table*, and what its queries cost."""
    counting, slices = CountingClient(dynamodb), Slices()
    run = LifecycleRun(night="n-2027-01-15", attempt=1, owner="bench", now=NOW, settings_hash="bench")
    ticket = NightTicket(run=run, bucket="bench", **prefixes(run.run_id))
    # Facts have a table of their own; here the same one is asked, whose keys are other ones: only episodes are counted.
    doors: Any = PlanDoors(DynamoDueIndex(counting, episodes_table=table, facts_table=table), slices, slices)
    doors = doors._replace(due=EpisodesOnly(doors.due))
    while ticket.decision != "planned":
        ticket = plan(ticket, doors, None, shards=SHARDS)
    looks = [one for one in slices.found.values() if isinstance(one, LookSlice)]
    found = {
        (f"{look.tenant_id}#{agent.agent_id}", run) for look in looks for agent in look.agents for run in agent.run_ids
    }
    return found, counting


class EpisodesOnly:
    """The index without facts, of which this bench has none."""

    def __init__(self, index: DynamoDueIndex) -> None:
        self._index = index

    def page(self, source: Any, shard: str, **words: Any) -> Any:
        from agent_memory.domain.lifecycle_ports import DuePage

        return self._index.page(source, shard, **words) if source == "episodes" else DuePage((), None)


def scanned(dynamodb: Any, table: str) -> tuple[set[tuple[str, str]], float, int]:
    """What a full scan finds below the threshold, its read units and its calls."""
    found: list[tuple[str, str]] = []
    units, calls = 0.0, 0
    for page in nightly.pages(dynamodb.scan, table):
        units += units_of(page)
        calls += 1
        found += nightly.below(page, NOW)
    return {key for batch in nightly.batches(found) for key in batch}, units, calls


def main() -> None:
    dates = random.Random(11)
    units: list[float] = []
    with the_stack() as stack:
        dynamodb = stack.client("dynamodb")
        table = table_like_the_deployed(stack, dynamodb)
        try:
            pattern, filled = pattern_of(dynamodb, table, dates), 0
            for size in SIZES:
                fill(dynamodb, table, memories(pattern, filled, size, dates))
                filled = size
                due, counting = planned(dynamodb, table)
                units.append(counting.units)
                say(f"{size} memories: {len(due)} due, {counting.calls} calls, {counting.units} read units")
            all_due, scan_units, scan_calls = scanned(dynamodb, table)
        finally:
            dynamodb.delete_table(TableName=table)
    if all_due != due:
        raise RuntimeError(f"the scan found {len(all_due)} due, the plan {len(due)}")
    say(f"full scan of {SIZES[-1]}: {len(all_due)} due, {scan_calls} calls, {scan_units} read units")
    # The examination reads what is due as a whole and consistently, which costs twice as much.
    with_items = units[-1] + len(due) * -(-bytes_of([pattern]) // UNIT_BYTES) * 2 * UNIT
    figures(
        due_found=len(due),
        plan_growth=round(max(units) / min(units), 3),
        scan_ratio=round(scan_units / units[-1], 1),
        scan_ratio_with_items=round(scan_units / with_items, 1),
        plan_units=units,
        scan_units=scan_units,
        item_bytes=bytes_of([pattern]),
    )


if __name__ == "__main__":
    main()
