"""Rows that an erasure takes out of the tables: whole partitions of one tenant are read, consistently, page by page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, pages
from agent_memory.contract import (
    EPISODES_PARTITION_KEY,
    EPISODES_SORT_KEY,
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
)
from agent_memory.domain.erasing_files import mentions, pruned
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces, belongs
from agent_memory.domain.keys import SEPARATOR, agent_key, ledger_key

Row = Mapping[str, Any]


class Partitions:
    """The rows of one tenant's partitions of a table."""

    def __init__(self, client: Any, *, table: str, partition_key: str, sort_key: str) -> None:
        self._client = client
        self._table = table
        self._keys = (partition_key, sort_key)

    def rows(self, partition: str) -> Iterator[Item]:
        """Every raw row."""
        with translating(f"dynamodb:Query on {self._table}"):
            yield from pages(
                self._client,
                TableName=self._table,
                KeyConditionExpression="#key = :key",
                ExpressionAttributeNames={"#key": self._keys[0]},
                ExpressionAttributeValues={":key": {"S": partition}},
                ConsistentRead=True,
            )

    def delete(self, row: Row) -> None:
        """Delete a row. One that is gone is deleted."""
        with translating(f"dynamodb:DeleteItem on {self._table}"):
            self._client.delete_item(TableName=self._table, Key={name: row[name] for name in self._keys})

    def replace(self, seen: Item, new: Item) -> bool:
        """Write *new* over a row that is still as it was *seen*."""
        names = {f"#n{i}": name for i, name in enumerate(sorted(seen))}
        values = {f":v{i}": seen[name] for i, name in enumerate(sorted(seen))}
        with translating(f"dynamodb:PutItem on {self._table}"):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=new,
                    ConditionExpression=" AND ".join(f"#n{i} = :v{i}" for i in range(len(names))),
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=values,
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise
                return False
        return True


def with_ids(row: Row) -> dict[str, Any]:
    """A ledger row as plain values, with the run that its key names when the row itself names none."""
    plain = attributes(row)
    agent, separator, run = str(plain.get(LEDGER_SORT_KEY, "")).partition(SEPARATOR)
    if separator and "run_id" not in plain:
        plain |= {"agent_id": agent, "run_id": run}
    return plain


def ledger(client: Any, table: str) -> Partitions:
    return Partitions(client, table=table, partition_key=LEDGER_PARTITION_KEY, sort_key=LEDGER_SORT_KEY)


class LedgerStore:
    """The ledger's rows of one kind. *of_everybody*: what was kept before the cut-off may hold anybody's."""

    def __init__(self, rows: Partitions, *, kind: str, store: str, of_everybody: bool = False) -> None:
        self._rows = rows
        self._kind = kind
        self._store = f"ledger-{store}"
        self._of_everybody = of_everybody

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        """What a row tells of its run is kept: held texts and parked objects are found by it alone."""
        tally, runs = Tally(self._store), set()
        for row in self.theirs(erasure, traces):
            plain = with_ids(row)
            if plain.get("run_id") and not (erasure.whole or self._of_everybody):
                runs.add(erasure.run_hash(str(plain.get("agent_id")), str(plain["run_id"])))
            self._rows.delete(row)
            tally.remove(row[LEDGER_SORT_KEY]["S"])
        return tally.swept(), traces.with_runs(runs)

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self.theirs(erasure, traces))

    def theirs(self, erasure: Erasure, traces: Traces) -> Iterator[Item]:
        """The rows that go."""
        for row in self._rows.rows(ledger_key(erasure.tenant_id, self._kind)):
            plain = with_ids(row)
            if erasure.whole or belongs(plain, erasure, traces) or self._may_hold(plain, erasure):
                yield row

    def _may_hold(self, row: Row, erasure: Erasure) -> bool:
        return self._of_everybody and int(row.get("kept_at", 0)) <= erasure.erased_before


class ContextStore:
    """What recalls returned: rows of everybody, each without the memories that were the person's."""

    def __init__(self, rows: Partitions) -> None:
        self._rows = rows

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally = Tally("ledger-context")
        for row, new in self._touched(erasure, traces):
            entry = row[LEDGER_SORT_KEY]["S"]
            if new is None:
                self._rows.delete(row)
                tally.remove(entry)
            elif self._rows.replace(row, new):
                tally.change(entry)
            else:
                tally.fail(entry)
        return tally.swept(), traces

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self._touched(erasure, traces))

    def _touched(self, erasure: Erasure, traces: Traces) -> Iterator[tuple[Item, Item | None]]:
        gone = frozenset(fact_id for _, fact_id in traces.facts)
        for row in self._rows.rows(ledger_key(erasure.tenant_id, "context")):
            plain = attributes(row)
            if erasure.whole or plain.get("user_ref") == erasure.user_ref:
                yield row, None
                continue
            held = {name: plain[name] for name in ("items", "used", "used_by") if name in plain}
            # A memory is named as recall names it.
            entries = [{**one} for one in held.get("items", ())]
            theirs = run_test(erasure, traces)
            names = gone | {str(one["memory_id"]) for one in entries if theirs(one["agent_id"], one["run_id"])}
            if not mentions(held, theirs, names):
                continue
            others = [one for one in entries if one["memory_id"] not in names]
            kept: dict[str, object] = {
                name: pruned(one, theirs, names) for name, one in {**held, "items": others}.items()
            }
            if mentions([held.get("used_by")], theirs, names) or not kept["items"]:
                yield row, None
            else:
                yield row, {name: one for name, one in row.items() if name not in held} | item(kept)


def run_test(erasure: Erasure, traces: Traces) -> Callable[[str, str], bool]:
    """Whether a run is one of the subject's."""
    return lambda agent_id, run_id: erasure.run_hash(agent_id, run_id) in traces.runs


class EpisodeStore:
    """Episodes and summaries. A summary is always of one person's episodes, so it goes with them."""

    def __init__(self, episodes: Partitions, rows: Partitions) -> None:
        self._episodes = episodes
        self._rows = rows

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally = Tally("episodes")
        known = self._known(erasure, traces)
        for row in self._theirs(erasure, known):
            plain = attributes(row)
            agent = str(plain[EPISODES_PARTITION_KEY]).split(SEPARATOR, 1)[1]
            runs = (str(plain[EPISODES_SORT_KEY]), *plain.get("sources", ()))
            if not erasure.whole:
                known = known.with_runs(erasure.run_hash(agent, run) for run in runs)
            self._episodes.delete(row)
            tally.remove(f"{agent}/{runs[0]}")
        return tally.swept(), known

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self._theirs(erasure, self._known(erasure, traces)))

    def _known(self, erasure: Erasure, traces: Traces) -> Traces:
        """With the runs of the ledger, which outlive their episodes, and the agents there are."""
        agents = {row[LEDGER_SORT_KEY]["S"] for row in self._rows.rows(ledger_key(erasure.tenant_id, "agents"))}
        runs = set()
        for row in self._rows.rows(ledger_key(erasure.tenant_id, "run")):
            plain = with_ids(row)
            agents.add(str(plain["agent_id"]))
            if not erasure.whole and belongs(plain, erasure, traces):
                runs.add(erasure.run_hash(plain["agent_id"], plain["run_id"]))
        known = traces.with_runs(runs)
        # An agent of a person's runs only is found by its rows; of a tenant, all agents are remembered.
        return known.with_partitions("episodes", agents)

    def _theirs(self, erasure: Erasure, traces: Traces) -> Iterator[Item]:
        for agent in traces.partitions_of("episodes"):
            for row in self._episodes.rows(agent_key(erasure.tenant_id, agent)):
                plain = attributes(row) | {"agent_id": agent}
                if erasure.whole or belongs(plain, erasure, traces):
                    yield row


class RegistryStore:
    """What the registry notes of a whole tenant, on the function's own role."""

    def __init__(self, rows: Partitions, kinds: Sequence[str]) -> None:
        self._rows = rows
        self._kinds = kinds

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally = Tally("registry")
        for row in self._theirs(erasure):
            self._rows.delete(row)
            tally.remove(row[LEDGER_SORT_KEY]["S"])
        return tally.swept(), traces

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self._theirs(erasure))

    def _theirs(self, erasure: Erasure) -> Iterator[Item]:
        if not erasure.whole:
            return
        for kind in self._kinds:
            for row in self._rows.rows(ledger_key("registry", kind)):
                if row[LEDGER_SORT_KEY]["S"].split(SEPARATOR)[0] == erasure.tenant_id:
                    yield row
