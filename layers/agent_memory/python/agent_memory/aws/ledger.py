"""The ledger table: the proof of every run, what was parked, what was returned and used."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, names, pages
from agent_memory.aws.transactions import Transactions, tombstone_checks
from agent_memory.aws.usage import Usage
from agent_memory.contract import LEDGER_PARTITION_KEY, LEDGER_SORT_KEY
from agent_memory.domain.errors import AgentMemoryError, CrossTenantError
from agent_memory.domain.keys import SEPARATOR, ledger_key, run_entry
from agent_memory.domain.models import LedgerRun, Model, ParkedRun, RetrievedMemory, RunState
from agent_memory.domain.ports import Written

M = TypeVar("M", bound=Model)


class DynamoLedger:
    """The ledger rows of one tenant, on credentials that reach no other."""

    def __init__(
        self,
        client: Any,
        *,
        table: str,
        episodes_table: str,
        procedures_table: str,
        tenant_id: str,
        transactions: Callable[[Any], Transactions] = Transactions,
    ) -> None:
        self._client = client
        self._table = table
        self._tenant_id = tenant_id
        self._transactions = transactions(client)
        self._usage = Usage(
            client,
            self._transactions,
            table=table,
            episodes_table=episodes_table,
            procedures_table=procedures_table,
            tenant_id=tenant_id,
        )

    def accept(self, run: LedgerRun) -> Written:
        """Write the row of a new run; `duplicate` when a row of that run exists."""
        put = self._put("run", run, "attribute_not_exists(#key)", {"#key": LEDGER_PARTITION_KEY}, {})
        return self._written([put, *self._checks(run.user_ref, run.ended_at)])

    def run(self, agent_id: str, run_id: str) -> LedgerRun | None:
        """The row of a run, read consistently."""
        row = self._get("run", agent_id, run_id)
        return None if row is None else _read(LedgerRun, row)

    def move(self, agent_id: str, run_id: str, *, state: RunState, attempt: int, reason: str | None = None) -> bool:
        """Set the state of the run's *attempt*. False when another attempt holds the row, or it is gone."""
        values = item({":state": state, ":reason": reason, ":attempt": attempt})
        return self._update(
            agent_id,
            run_id,
            UpdateExpression="SET #state = :state" + (", #reason = :reason" if reason else " REMOVE #reason"),
            ConditionExpression="#attempt = :attempt",
            ExpressionAttributeNames=names("state", "reason", "attempt"),
            ExpressionAttributeValues=values,
        )

    def next_attempt(
        self, agent_id: str, run_id: str, *, seen: int, content: Mapping[str, object] | None = None
    ) -> int | None:
        """Raise the attempt from *seen* by one and set the state to accepted; None when somebody else did.

        *content*: what the row of a run that was parked unread did not know yet (hash, user, end).
        """
        known = {name: value for name, value in (content or {}).items() if value is not None}
        updates = ["#attempt = :next", "#state = :accepted", *(f"#{name} = :{name}" for name in known)]
        moved = self._update(
            agent_id,
            run_id,
            UpdateExpression=f"SET {', '.join(updates)} REMOVE #reason",
            ConditionExpression="#attempt = :seen",
            ExpressionAttributeNames=names("state", "reason", "attempt", *known),
            ExpressionAttributeValues=item(
                {":next": seen + 1, ":seen": seen, ":accepted": RunState.ACCEPTED}
                | {f":{name}": value for name, value in known.items()}
            ),
        )
        return seen + 1 if moved else None

    def at_work(self) -> list[LedgerRun]:
        """All runs of the tenant that are accepted and neither stored nor parked, every page."""
        query = self._query("run")
        query["FilterExpression"] = "#state = :accepted"
        query["ExpressionAttributeNames"] |= names("state")
        query["ExpressionAttributeValues"] |= item({":accepted": RunState.ACCEPTED})
        with translating("dynamodb:Query on the ledger"):
            return [_read(LedgerRun, attributes(row)) for row in pages(self._client, **query)]

    def park(self, parked: ParkedRun) -> Written:
        """Keep a parked run; a later attempt replaces an earlier one."""
        condition = "attribute_not_exists(#key) OR #attempt < :attempt"
        placeholders = {"#key": LEDGER_PARTITION_KEY, **names("attempt")}
        put = self._put("parked", parked, condition, placeholders, item({":attempt": parked.attempt}))
        return self._written([put, *self._checks(parked.user_ref, parked.ended_at)])

    def parked(self) -> list[ParkedRun]:
        """All parked runs of the tenant, newest first, every page."""
        with translating("dynamodb:Query on the ledger"):
            stored = list(pages(self._client, **self._query("parked")))
        found = [_read(ParkedRun, attributes(row)) for row in stored]
        return sorted(found, key=lambda run: (-run.parked_at, run.agent_id, run.run_id))

    def parked_run(self, agent_id: str, run_id: str) -> ParkedRun | None:
        """The parked row of one run."""
        row = self._get("parked", agent_id, run_id)
        return None if row is None else _read(ParkedRun, row)

    def unpark(self, agent_id: str, run_id: str, *, attempt: int) -> bool:
        """Forget that the run was parked by *attempt* or an earlier one. False when it was not."""
        with translating("dynamodb:DeleteItem on the ledger"):
            return self._if_it_holds(
                self._client.delete_item,
                Key=self._key("parked", agent_id, run_id),
                ConditionExpression="#attempt <= :attempt",
                ExpressionAttributeNames=names("attempt"),
                ExpressionAttributeValues=item({":attempt": attempt}),
            )

    def record_retrieval(
        self, *, context_id: str, items: Sequence[RetrievedMemory], at: int, expires_at: int
    ) -> Written:
        """Keep what a bootstrap returned and count one access per memory, once per context, in one transaction."""
        return self._usage.record_retrieval(context_id=context_id, items=items, at=at, expires_at=expires_at)

    def context(self, context_id: str) -> tuple[RetrievedMemory, ...] | None:
        """What a context returned, read consistently; None when no such context is known, or is no longer."""
        return self._usage.context(context_id)

    def record_use(self, *, context_id: str, run: tuple[str, str], used: Sequence[str]) -> int:
        """Count which returned items the run used, once per context. Returns how many counted now."""
        return self._usage.record_use(context_id=context_id, run=run, used=used)

    def _key(self, kind: str, agent_id: str, run_id: str) -> Item:
        if SEPARATOR in agent_id or SEPARATOR in run_id:
            raise CrossTenantError("an id that holds the separator reached the ledger")
        return item(
            {LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, kind), LEDGER_SORT_KEY: run_entry(agent_id, run_id)}
        )

    def _query(self, kind: str) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "KeyConditionExpression": "#key = :key",
            "ExpressionAttributeNames": {"#key": LEDGER_PARTITION_KEY},
            "ExpressionAttributeValues": {":key": {"S": ledger_key(self._tenant_id, kind)}},
        }

    def _get(self, kind: str, agent_id: str, run_id: str) -> dict[str, Any] | None:
        with translating("dynamodb:GetItem on the ledger"):
            answer = self._client.get_item(
                TableName=self._table, Key=self._key(kind, agent_id, run_id), ConsistentRead=True
            )
        return attributes(answer["Item"]) if answer.get("Item") else None

    def _put(
        self, kind: str, row: LedgerRun | ParkedRun, condition: str, placeholders: Mapping[str, str], values: Item
    ) -> Item:
        if row.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a ledger row of another tenant reached the ledger of {self._tenant_id}")
        put: Item = {
            "TableName": self._table,
            "Item": self._key(kind, row.agent_id, row.run_id) | item(row.model_dump()),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": dict(placeholders),
        }
        if values:
            put["ExpressionAttributeValues"] = values
        return {"Put": put}

    def _checks(self, user_ref: str | None, ended_at: int) -> list[Item]:
        return tombstone_checks(self._table, self._tenant_id, user_ref, ended_at=ended_at)

    def _written(self, actions: Sequence[Item]) -> Written:
        failed = self._transactions.write(actions)
        if any(failed[1:]):
            return "erased"
        return "duplicate" if any(failed) else "stored"

    def _update(self, agent_id: str, run_id: str, **expression: Any) -> bool:
        with translating("dynamodb:UpdateItem on the ledger"):
            return self._if_it_holds(self._client.update_item, Key=self._key("run", agent_id, run_id), **expression)

    def _if_it_holds(self, write: Callable[..., object], **request: Any) -> bool:
        try:
            write(TableName=self._table, **request)
        except ClientError as error:
            if error_code(error) == "ConditionalCheckFailedException":
                return False
            raise
        return True


def _read(model: type[M], row: Mapping[str, Any]) -> M:
    try:
        return model.model_validate({name: row[name] for name in model.model_fields if name in row})
    except ValidationError:
        raise AgentMemoryError(f"ledger row {row.get(LEDGER_SORT_KEY)} can't be read") from None
