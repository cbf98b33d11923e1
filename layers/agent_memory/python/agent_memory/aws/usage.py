"""What a memory context returned and what its run used: access and use counts on the items themselves.

Every count is in one transaction with the context's row, so it happens once; a deleted memory stays deleted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.aws.item_codec import Item, attributes, item, names
from agent_memory.aws.transactions import Transactions, tombstone_checks
from agent_memory.contract import (
    EPISODES_PARTITION_KEY,
    EPISODES_SORT_KEY,
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
    SCHEMA_VERSION,
)
from agent_memory.domain.errors import CrossTenantError, StoreBusyError
from agent_memory.domain.keys import SEPARATOR, agent_key, ledger_key
from agent_memory.domain.models import RetrievedMemory
from agent_memory.domain.ports import Written

# A transaction takes 100 actions; the rest is for the context's row and the tombstones.
MAX_ITEMS = 90
# Items deleted between the look and the write are left out and the write tried again.
ROUNDS = 4


class Usage:
    """Access and use of one tenant's memories."""

    def __init__(
        self, client: Any, transactions: Transactions, *, table: str, episodes_table: str, tenant_id: str
    ) -> None:
        self._client = client
        self._transactions = transactions
        self._table = table
        self._episodes_table = episodes_table
        self._tenant_id = tenant_id

    def record_retrieval(
        self, *, context_id: str, items: Sequence[RetrievedMemory], at: int, expires_at: int
    ) -> Written:
        """Keep the context's row and count one access for each memory in it that still exists."""
        kept = list({memory.memory_id: memory for memory in items}.values())[:MAX_ITEMS]
        row: Item = {
            "Put": {
                "TableName": self._table,
                "Item": self._key(context_id)
                | item(
                    {
                        "items": [memory.model_dump() for memory in kept],
                        "at": at,
                        "expires_at": expires_at,
                        "schema_version": SCHEMA_VERSION,
                    }
                ),
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": LEDGER_PARTITION_KEY},
            }
        }
        fixed = [row, *tombstone_checks(self._table, self._tenant_id, None, ended_at=at)]
        failed = self._counted(fixed, self._live(kept), _access(at))
        if failed[1]:
            return "erased"
        return "duplicate" if failed[0] else "stored"

    def record_use(self, *, context_id: str, run: tuple[str, str], used: Sequence[str]) -> int:
        """Count the use of those of *used* that the context returned, once per context."""
        context = self._context(context_id)
        if context is None or "used_by" in context:
            return 0
        returned = {str(held["memory_id"]): RetrievedMemory.model_validate(held) for held in context["items"]}
        chosen = [returned[memory_id] for memory_id in dict.fromkeys(used) if memory_id in returned]
        if not chosen:
            return 0
        values = {":used_by": "/".join(run), ":used": [memory.memory_id for memory in chosen]}
        mark: Item = {
            "Update": {
                "TableName": self._table,
                "Key": self._key(context_id),
                "UpdateExpression": "SET #used_by = :used_by, #used = :used",
                "ConditionExpression": "attribute_exists(#key) AND attribute_not_exists(#used_by)",
                "ExpressionAttributeNames": names("used_by", "used") | {"#key": LEDGER_PARTITION_KEY},
                "ExpressionAttributeValues": item(values),
            }
        }
        failed = self._counted([mark], self._live(chosen), lambda _: _USE)
        return 0 if failed[0] else len(chosen)

    def _counted(self, fixed: Sequence[Item], live: dict[tuple[str, str], Any], change: Any) -> list[bool]:
        """Write *fixed* and the change of every live item together. Returns which of *fixed* failed."""
        for _ in range(ROUNDS):
            keys = list(live)
            updates = [self._change(key, change(live[key])) for key in keys]
            failed = self._transactions.write([*fixed, *updates]) or [False] * (len(fixed) + len(updates))
            if any(failed[: len(fixed)]) or not any(failed):
                return failed[: len(fixed)]
            gone = [key for key, is_gone in zip(keys, failed[len(fixed) :], strict=True) if is_gone]
            live = {key: live[key] for key in keys if key not in gone}
        raise StoreBusyError("the memories of a context kept being deleted while they were counted")

    def _live(self, memories: Sequence[RetrievedMemory]) -> dict[tuple[str, str], int]:
        """The episodes among *memories* that exist, and when each was last read."""
        keys = {
            (self._partition(memory.agent_id), memory.run_id)
            for memory in memories
            if memory.tier == "episodic" and memory.memory_id == f"{memory.agent_id}/{memory.run_id}"
        }
        wanted = [item({EPISODES_PARTITION_KEY: agent, EPISODES_SORT_KEY: run}) for agent, run in sorted(keys)]
        projection = (EPISODES_PARTITION_KEY, EPISODES_SORT_KEY, "last_access_at")
        found = self._transactions.batch_get(self._episodes_table, wanted, projection=projection)
        return {
            (str(one[EPISODES_PARTITION_KEY]), str(one[EPISODES_SORT_KEY])): int(one.get("last_access_at", 0))
            for one in found
        }

    def _change(self, key: tuple[str, str], change: Mapping[str, Any]) -> Item:
        expression = {**change, "ExpressionAttributeNames": {**change["ExpressionAttributeNames"]}}
        expression["ExpressionAttributeNames"]["#key"] = EPISODES_PARTITION_KEY
        return {
            "Update": {
                "TableName": self._episodes_table,
                "Key": item({EPISODES_PARTITION_KEY: key[0], EPISODES_SORT_KEY: key[1]}),
                "ConditionExpression": "attribute_exists(#key)",
                **expression,
            }
        }

    def _context(self, context_id: str) -> dict[str, Any] | None:
        with translating("dynamodb:GetItem on the ledger"):
            answer = self._client.get_item(TableName=self._table, Key=self._key(context_id), ConsistentRead=True)
        return attributes(answer["Item"]) if answer.get("Item") else None

    def _key(self, context_id: str) -> Item:
        return item({LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, "context"), LEDGER_SORT_KEY: context_id})

    def _partition(self, agent_id: str) -> str:
        if SEPARATOR in agent_id:
            raise CrossTenantError("an agent id that holds the separator reached the episodes table")
        return agent_key(self._tenant_id, agent_id)


_USE: Mapping[str, Any] = {
    "UpdateExpression": "ADD #use_count :one",
    "ExpressionAttributeNames": names("use_count"),
    "ExpressionAttributeValues": item({":one": 1}),
}


def _access(at: int) -> Any:
    def change(last_access_at: int) -> Mapping[str, Any]:
        # Events come out of order; an older read must not lower the date, or the stored decay date would be too late.
        return {
            "UpdateExpression": "ADD #access_count :one SET #last_access_at = :at",
            "ExpressionAttributeNames": names("access_count", "last_access_at"),
            "ExpressionAttributeValues": item({":one": 1, ":at": max(at, last_access_at)}),
        }

    return change
