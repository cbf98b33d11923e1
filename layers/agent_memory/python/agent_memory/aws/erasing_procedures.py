"""The procedures of a tenant without the runs of one person that proposed them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agent_memory.aws.erasing_rows import Partitions, run_test
from agent_memory.aws.item_codec import Item, attributes
from agent_memory.aws.procedure_items import HEAD, ProcedureItems, is_procedure, read_evidence, read_wording
from agent_memory.aws.transactions import Transactions
from agent_memory.contract import PROCEDURES_PARTITION_KEY, PROCEDURES_SORT_KEY
from agent_memory.domain.erasing_procedures import ReducedProcedure, reduced
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces, belongs
from agent_memory.domain.errors import StoreBusyError
from agent_memory.domain.keys import SEPARATOR, task_key, wording_entry
from agent_memory.domain.procedures import Procedure, ProposalEvidence

ROWS_AT_ONCE = 90
ROUNDS = 8
WORDS = wording_entry("", "").split(SEPARATOR)[0]


class ProcedureStore:
    """*task_types*: those in which the tenant has procedures, by the index of states, whatever state they are in."""

    def __init__(
        self,
        client: Any,
        rows: Partitions,
        *,
        table: str,
        tenant_id: str,
        task_types: Callable[[], Sequence[str]],
        now: Callable[[], int],
    ) -> None:
        self._rows = rows
        self._table = table
        self._items = ProcedureItems(tenant_id=tenant_id)
        self._task_types = task_types
        self._now = now
        self._transactions = Transactions(client)

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally, known = Tally("procedures"), self._known(traces)
        for task_type in known.partitions_of("procedures"):
            if erasure.whole:
                for row in list(self._rows.rows(task_key(erasure.tenant_id, task_type))):
                    self._rows.delete(row)
                    tally.remove(f"{task_type}/{row[PROCEDURES_SORT_KEY]['S']}")
                continue
            for _ in range(ROUNDS):
                changes = list(self._changes(task_type, erasure, traces))
                if not changes:
                    break
                for procedure, rows, change in changes:
                    known = known.with_runs(erasure.run_hash(one.agent_id, one.run_id) for one in change.gone)
                    self._write(procedure, rows, change, tally)
            else:
                raise StoreBusyError("the procedures of a task type kept changing while a person was erased")
        return tally.swept(), known

    def left(self, erasure: Erasure, traces: Traces) -> int:
        known = self._known(traces)
        if erasure.whole:
            keys = [task_key(erasure.tenant_id, one) for one in known.partitions_of("procedures")]
            return sum(1 for key in keys for _ in self._rows.rows(key))
        return sum(1 for one in known.partitions_of("procedures") for _ in self._changes(one, erasure, traces))

    def _known(self, traces: Traces) -> Traces:
        return traces.with_partitions("procedures", self._task_types())

    def _changes(
        self, task_type: str, erasure: Erasure, traces: Traces
    ) -> Iterator[tuple[Procedure, list[Item], ReducedProcedure]]:
        rows = list(self._rows.rows(task_key(erasure.tenant_id, task_type)))
        for row in rows:
            plain = attributes(row)
            if not is_procedure(plain):
                continue
            procedure = self._items.required(plain)
            own = [one for one in rows if _of(one, procedure.procedure_id)]
            said = sorted(
                (read_evidence(attributes(one)) for one in own if not _is_wording(one)),
                key=lambda one: (one.proposed_at, one.agent_id, one.run_id),
            )
            former = [read_wording(attributes(one)) for one in own if _is_wording(one)]
            theirs, their_run = self._is_theirs(erasure, traces), run_test(erasure, traces)
            change = reduced(procedure, said, former, theirs, their_run, now=self._now())
            if change is not None:
                yield procedure, own, change

    def _is_theirs(self, erasure: Erasure, traces: Traces) -> Callable[[ProposalEvidence], bool]:
        return lambda one: belongs(one.model_dump(exclude={"steps", "title"}), erasure, traces)

    def _write(self, procedure: Procedure, rows: list[Item], change: ReducedProcedure, tally: Tally) -> None:
        """The procedure first, as long as it is what was read; then the rows of what is gone."""
        key = self._items.key(procedure.task_type, procedure.procedure_id)
        main: Item = {
            "ConditionExpression": "#revision = :seen",
            "ExpressionAttributeNames": {"#revision": "revision"},
            "ExpressionAttributeValues": {":seen": {"N": str(procedure.revision)}},
        }
        if change.procedure is None:
            action: Item = {"Delete": {"TableName": self._table, "Key": key, **main}}
        else:
            action = {"Put": {"TableName": self._table, "Item": self._items.row(change.procedure), **main}}
        gone = [row for row in rows if change.procedure is None or _goes(row, change)]
        for start in range(0, max(1, len(gone)), ROWS_AT_ONCE):
            deletes = [self._delete(row) for row in gone[start : start + ROWS_AT_ONCE]]
            if start:
                self._transactions.write(deletes)
            elif any(self._transactions.write([action, *deletes])):
                return
        place = f"{procedure.task_type}/{procedure.procedure_id}"
        tally.remove(*(row[PROCEDURES_SORT_KEY]["S"] for row in gone))
        if change.procedure is None:
            tally.remove(place)
        else:
            tally.change(place)

    def _delete(self, row: Item) -> Item:
        key = {name: row[name] for name in (PROCEDURES_PARTITION_KEY, PROCEDURES_SORT_KEY)}
        return {"Delete": {"TableName": self._table, "Key": key}}


def _of(row: Item, procedure_id: str) -> bool:
    first, *rest = row[PROCEDURES_SORT_KEY]["S"].split(SEPARATOR)
    return bool(rest) and first != HEAD and procedure_id in (first, rest[0] if first == WORDS else first)


def _is_wording(row: Item) -> bool:
    return bool(row[PROCEDURES_SORT_KEY]["S"].split(SEPARATOR)[0] == WORDS)


def _goes(row: Item, change: ReducedProcedure) -> bool:
    plain = attributes(row)
    if _is_wording(row):
        return plain.get("steps_sha256") in change.wordings
    return (plain.get("agent_id"), plain.get("run_id")) in {(one.agent_id, one.run_id) for one in change.gone}
