"""The procedures table: procedures, the runs that proposed each, and one head per task type that orders proposals.

Results are counted by ADD; every other write replaces what was read, and fails over a newer revision.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.aws.item_codec import Item, attributes, item, names, pages
from agent_memory.aws.procedure_items import HEAD, ProcedureItems, is_procedure, read_evidence, read_wording
from agent_memory.aws.procedure_runs import RunRows
from agent_memory.aws.transactions import Transactions, tombstone_checks
from agent_memory.contract import (
    PROCEDURE_INDEX,
    PROCEDURE_KEY,
    PROCEDURES_PARTITION_KEY,
    PROCEDURES_SORT_KEY,
    REVIEW_INDEX,
    REVIEW_KEY,
    SCHEMA_VERSION,
)
from agent_memory.domain.keys import (
    SEPARATOR,
    procedure_key,
    review_key,
    wording_entry,
)
from agent_memory.domain.ports import Read
from agent_memory.domain.procedure_ports import (
    ProposalWrite,
    ProposalWritten,
    ResultWritten,
    RunResult,
    TaskProcedures,
)
from agent_memory.domain.procedures import (
    OFFERED,
    Procedure,
    ProcedureState,
    ProcedureView,
    ProposalEvidence,
    Wording,
)


class DynamoProcedures:
    """The procedures of one tenant, on credentials that reach no other."""

    def __init__(
        self,
        client: Any,
        *,
        table: str,
        ledger_table: str,
        tenant_id: str,
        transactions: Callable[[Any], Transactions] = Transactions,
    ) -> None:
        self._client = client
        self._table = table
        self._ledger_table = ledger_table
        self._tenant_id = tenant_id
        self._items = ProcedureItems(tenant_id=tenant_id)
        self._rows_of_runs = RunRows(self._items, table=table, ledger_table=ledger_table, tenant_id=tenant_id)
        self._transactions = transactions(client)

    def of_task_type(self, task_type: str) -> TaskProcedures:
        """Every procedure of a task type, read consistently."""
        # The head comes first: whatever is written after it was read makes the write that follows fail.
        head = self._row(task_type, HEAD)
        found = self._items.read_all(map(attributes, self._rows(task_type)))
        version = int(head.get("version", 0)) if head else 0
        return TaskProcedures(task_type=task_type, version=version, procedures=tuple(found))

    def propose(self, change: ProposalWrite) -> ProposalWritten:
        """Write the procedure, the run that proposes it and the head, or nothing."""
        evidence, procedure = change.evidence, change.procedure
        checks = self._checks(evidence.user_ref, change.ended_at)
        said = self._items.evidence(procedure, evidence)
        actions = [
            *checks,
            self._head(change.seen),
            self._put(self._items.row(procedure), known=None if change.opens else procedure.revision),
            self._put(said, known=None),
            self._rows_of_runs.proposal(change),
        ]
        failed = self._transactions.write(actions)
        if any(failed[: len(checks)]):
            return "erased"
        if any(failed[-1:]):
            return "duplicate"
        return "conflict" if any(failed) else "written"

    def proposal_of(self, agent_id: str, run_id: str) -> Procedure | None:
        """The procedure that a run proposed, as it is now."""
        with translating("dynamodb:GetItem on the ledger"):
            answer = self._client.get_item(
                TableName=self._ledger_table, Key=self._rows_of_runs.proposal_key(agent_id, run_id), ConsistentRead=True
            )
        if not answer.get("Item"):
            return None
        held = attributes(answer["Item"])
        return self.get(str(held["task_type"]), str(held["procedure_id"]))

    def get(self, task_type: str, procedure_id: str) -> Procedure | None:
        """One procedure, read consistently."""
        if not procedure_id or procedure_id == HEAD or SEPARATOR in procedure_id:
            return None
        row = self._row(task_type, procedure_id)
        return None if row is None else self._items.required(row)

    def find(self, procedure_id: str) -> Procedure | None:
        """One procedure by its id alone."""
        if SEPARATOR in procedure_id:
            return None
        keys = self._keys(PROCEDURE_INDEX, PROCEDURE_KEY, procedure_key(self._tenant_id, procedure_id))
        return next(iter(self._fetched(keys)), None)

    def proposed_by(self, procedure: Procedure) -> list[ProposalEvidence]:
        """The runs that proposed it, oldest first."""
        rows = self._rows(procedure.task_type, starts_with=procedure.procedure_id + SEPARATOR)
        found = [read_evidence(attributes(row)) for row in rows]
        return sorted(found, key=lambda one: (one.proposed_at, one.agent_id, one.run_id))

    def in_state(self, state: ProcedureState) -> Read[Procedure]:
        """Every procedure of the tenant in *state*, longest unused first."""
        found = self._fetched(self._keys(REVIEW_INDEX, REVIEW_KEY, review_key(self._tenant_id, state)))
        held = sorted(
            (procedure for procedure in found if procedure.state is state),
            key=lambda procedure: (procedure.last_used_at, procedure.procedure_id),
        )
        return Read(held, unreadable=found.unreadable)

    def offered(self, task_type: str | None = None) -> Read[Procedure]:
        """Every approved or established procedure of the tenant, or of one task type."""
        # By the index: the partition of a task type holds every run that ever proposed something as well.
        keys = [
            key
            for state in sorted(OFFERED)
            for key in self._keys(REVIEW_INDEX, REVIEW_KEY, review_key(self._tenant_id, state))
        ]
        if task_type is not None:
            wanted = self._items.partition(task_type)
            keys = [key for key in keys if key[PROCEDURES_PARTITION_KEY]["S"] == wanted]
        found = self._fetched(keys)
        return Read([one for one in found if one.state in OFFERED], unreadable=found.unreadable)

    def views(self) -> Read[ProcedureView]:
        """What is offered to the tenant, from the index alone."""
        found = [
            self._items.view(attributes(row), state)
            for state in sorted(OFFERED)
            for row in self._indexed(REVIEW_INDEX, REVIEW_KEY, review_key(self._tenant_id, state))
        ]
        # On its way from one state to the next a procedure may stand in both.
        return Read({(view.task_type, view.procedure_id): view for view in found}.values())

    def get_many(self, keys: Sequence[tuple[str, str]]) -> Read[Procedure]:
        """The procedures of these keys, read consistently."""
        return self._fetched([self._items.key(*key) for key in keys])

    def save(self, procedure: Procedure, *, former: Wording | None = None) -> bool:
        """Write a transition of what was read, with the words that it replaces; False over a newer revision."""
        actions = [self._put(self._items.row(procedure), known=procedure.revision)]
        if former is not None:
            # Words that come back and are replaced once more have one row, of the last time.
            actions.append({"Put": {"TableName": self._table, "Item": self._items.wording(procedure, former)}})
        return not any(self._transactions.write(actions))

    def wordings(self, procedure: Procedure) -> list[Wording]:
        """The words that it had before, oldest first."""
        rows = self._rows(procedure.task_type, starts_with=wording_entry(procedure.procedure_id, ""))
        return sorted((read_wording(attributes(row)) for row in rows), key=lambda one: one.at)

    def record(self, result: RunResult) -> ResultWritten:
        """Count a run once, in one transaction with the row that says so."""
        checks = self._checks(result.user_ref, result.ended_at)
        fixed = [self._rows_of_runs.result(result), *checks]
        failed = self._transactions.write([*fixed, *self._rows_of_runs.counts(result)])
        if any(failed[1 : len(fixed)]):
            return "erased"
        if any(failed[:1]):
            return "duplicate"
        return "moved" if any(failed) else "recorded"

    def _keys(self, index: str, attribute: str, value: str) -> list[Item]:
        rows = self._indexed(index, attribute, value)
        return [{name: row[name] for name in (PROCEDURES_PARTITION_KEY, PROCEDURES_SORT_KEY)} for row in rows]

    def _indexed(self, index: str, attribute: str, value: str) -> list[Item]:
        with translating(f"dynamodb:Query on {index}"):
            return list(
                pages(
                    self._client,
                    TableName=self._table,
                    IndexName=index,
                    KeyConditionExpression="#key = :key",
                    ExpressionAttributeNames={"#key": attribute},
                    ExpressionAttributeValues={":key": {"S": value}},
                )
            )

    def _fetched(self, keys: Iterable[Item]) -> Read[Procedure]:
        # An index may show a key twice, on its way from one state to the next.
        wanted = {(k[PROCEDURES_PARTITION_KEY]["S"], k[PROCEDURES_SORT_KEY]["S"]): k for k in keys}
        rows = self._transactions.batch_get(self._table, list(wanted.values()))
        found = [self._items.read(row) for row in rows if is_procedure(row)]
        held = [procedure for procedure in found if procedure is not None]
        return Read(held, unreadable=len(found) - len(held))

    def _rows(self, task_type: str, *, starts_with: str = "") -> Iterable[Item]:
        condition, values = "#key = :key", {":key": {"S": self._items.partition(task_type)}}
        held = {"#key": PROCEDURES_PARTITION_KEY}
        if starts_with:
            condition += " AND begins_with(#sort, :start)"
            held["#sort"] = PROCEDURES_SORT_KEY
            values[":start"] = {"S": starts_with}
        with translating("dynamodb:Query on the procedures table"):
            return list(
                pages(
                    self._client,
                    TableName=self._table,
                    KeyConditionExpression=condition,
                    ExpressionAttributeNames=held,
                    ExpressionAttributeValues=values,
                    ConsistentRead=True,
                )
            )

    def _row(self, task_type: str, entry: str) -> dict[str, Any] | None:
        with translating("dynamodb:GetItem on the procedures table"):
            answer = self._client.get_item(
                TableName=self._table, Key=self._items.key(task_type, entry), ConsistentRead=True
            )
        return attributes(answer["Item"]) if answer.get("Item") else None

    def _checks(self, user_ref: str | None, ended_at: int) -> list[Item]:
        return tombstone_checks(self._ledger_table, self._tenant_id, user_ref, ended_at=ended_at)

    def _head(self, seen: TaskProcedures) -> Item:
        return {
            "Update": {
                "TableName": self._table,
                "Key": self._items.key(seen.task_type, HEAD),
                "UpdateExpression": "SET #version = :next, #schema_version = :schema",
                "ConditionExpression": "#version = :seen" if seen.version else "attribute_not_exists(#version)",
                "ExpressionAttributeNames": names("version", "schema_version"),
                "ExpressionAttributeValues": item(
                    {":next": seen.version + 1, ":schema": SCHEMA_VERSION}
                    | ({":seen": seen.version} if seen.version else {})
                ),
            }
        }

    def _put(self, row: Item, *, known: int | None) -> Item:
        """A put over the revision that was read, or of what was not there."""
        put: Item = {"TableName": self._table, "Item": row}
        if known is None:
            put |= {
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": PROCEDURES_PARTITION_KEY},
            }
        else:
            put |= {
                "ConditionExpression": "#revision = :known",
                "ExpressionAttributeNames": names("revision"),
                "ExpressionAttributeValues": item({":known": known}),
            }
        return {"Put": put}
