"""What a memory context returned and what its run used: access and use counts on the items themselves.

Every count is in one transaction with the context's row, so it happens once; a deleted memory stays deleted.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agent_memory.aws.failures import translating
from agent_memory.aws.item_codec import Item, attributes, item, names
from agent_memory.aws.transactions import Transactions, tombstone_checks
from agent_memory.contract import (
    EPISODES_PARTITION_KEY,
    EPISODES_SORT_KEY,
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
    PROCEDURES_PARTITION_KEY,
    PROCEDURES_SORT_KEY,
    SCHEMA_VERSION,
)
from agent_memory.domain.errors import CrossTenantError, StoreBusyError
from agent_memory.domain.keys import SEPARATOR, agent_key, ledger_key, task_key
from agent_memory.domain.models import RetrievedMemory
from agent_memory.domain.ports import Written

EPISODIC, PROCEDURAL = "episodic", "procedural"
KEYS = {
    EPISODIC: (EPISODES_PARTITION_KEY, EPISODES_SORT_KEY),
    PROCEDURAL: (PROCEDURES_PARTITION_KEY, PROCEDURES_SORT_KEY),
}
# A transaction takes 100 actions; the rest is for the context's row and the tombstones.
MAX_ITEMS = 90
# Items deleted between the look and the write are left out and the write tried again.
ROUNDS = 4


class Counted(NamedTuple):
    """A memory that is counted, and what its count may depend on. *seen_at*: when it was last read, or offered."""

    tier: str
    partition: str
    sort: str
    steps_sha256: str = ""
    seen_at: int = 0


Change = Callable[[Counted], Mapping[str, Any] | None]


class Usage:
    """Access and use of one tenant's memories."""

    def __init__(
        self,
        client: Any,
        transactions: Transactions,
        *,
        table: str,
        episodes_table: str,
        procedures_table: str,
        tenant_id: str,
    ) -> None:
        self._client = client
        self._transactions = transactions
        self._table = table
        self._tables = {EPISODIC: episodes_table, PROCEDURAL: procedures_table}
        self._tenant_id = tenant_id

    def record_retrieval(
        self, *, context_id: str, items: Sequence[RetrievedMemory], at: int, expires_at: int
    ) -> Written:
        """Keep the context's row and count one access for each episode in it that still exists, and one offer for each
        procedure that still has the steps that were shown."""
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
        failed = self._counted([mark], self._live(chosen), _use)
        return 0 if failed[0] else len(chosen)

    def context(self, context_id: str) -> tuple[RetrievedMemory, ...] | None:
        """What a context returned; None when no such context is known, or is no longer."""
        row = self._context(context_id)
        return None if row is None else tuple(RetrievedMemory.model_validate(held) for held in row["items"])

    def _counted(self, fixed: Sequence[Item], live: Sequence[Counted], change: Change) -> list[bool]:
        """Write *fixed* and the change of every live item together. Returns which of *fixed* failed."""
        for _ in range(ROUNDS):
            found = [(one, self._change(one, changed)) for one in live if (changed := change(one)) is not None]
            updates = [update for _, update in found]
            failed = self._transactions.write([*fixed, *updates]) or [False] * (len(fixed) + len(updates))
            if any(failed[: len(fixed)]) or not any(failed):
                return failed[: len(fixed)]
            live = [one for (one, _), is_gone in zip(found, failed[len(fixed) :], strict=True) if not is_gone]
        raise StoreBusyError("the memories of a context kept being deleted while they were counted")

    def _live(self, memories: Sequence[RetrievedMemory]) -> list[Counted]:
        """The episodes and procedures among *memories* that exist."""
        wanted = {key: memory for memory in memories if (key := self._key_of(memory)) is not None}
        found = []
        for tier, seen_at in ((EPISODIC, "last_access_at"), (PROCEDURAL, "last_offered_at")):
            names_of_key = KEYS[tier]
            keys = sorted(key for key in wanted if key[0] == tier)
            asked = [item(dict(zip(names_of_key, key[1:], strict=True))) for key in keys]
            rows = self._transactions.batch_get(self._tables[tier], asked, projection=(*names_of_key, seen_at))
            for row in rows:
                key = (tier, str(row[names_of_key[0]]), str(row[names_of_key[1]]))
                found.append(Counted(*key, wanted[key].steps_sha256, int(row.get(seen_at, 0))))
        return found

    def _key_of(self, memory: RetrievedMemory) -> tuple[str, str, str] | None:
        if memory.tier == EPISODIC and memory.memory_id == f"{memory.agent_id}/{memory.run_id}":
            return EPISODIC, self._partition(memory.agent_id), memory.run_id
        if memory.tier == PROCEDURAL and SEPARATOR not in memory.task_type + memory.memory_id:
            return PROCEDURAL, task_key(self._tenant_id, memory.task_type), memory.memory_id
        return None

    def _change(self, one: Counted, change: Mapping[str, Any]) -> Item:
        partition, sort = KEYS[one.tier]
        expression = {"ConditionExpression": "attribute_exists(#key)", **change}
        expression["ExpressionAttributeNames"] = {**change["ExpressionAttributeNames"], "#key": partition}
        key = item({partition: one.partition, sort: one.sort})
        return {"Update": {"TableName": self._tables[one.tier], "Key": key, **expression}}

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


def _use(one: Counted) -> Mapping[str, Any] | None:
    if one.tier != EPISODIC:
        return None  # whether a procedure was followed is told with its result
    return {
        "UpdateExpression": "ADD #use_count :one",
        "ExpressionAttributeNames": names("use_count"),
        "ExpressionAttributeValues": item({":one": 1}),
    }


def _access(at: int) -> Change:
    def change(one: Counted) -> Mapping[str, Any]:
        # Events come out of order; an older read must not lower the date, or the stored decay date would be too late.
        seen_at = max(at, one.seen_at)
        if one.tier == PROCEDURAL:
            return {
                "UpdateExpression": "ADD #offered :one, #revision :one SET #last_offered_at = :at",
                "ConditionExpression": "attribute_exists(#key) AND #steps_sha256 = :sha",
                "ExpressionAttributeNames": names("offered", "revision", "last_offered_at", "steps_sha256"),
                "ExpressionAttributeValues": item({":one": 1, ":at": seen_at, ":sha": one.steps_sha256}),
            }
        return {
            "UpdateExpression": "ADD #access_count :one SET #last_access_at = :at",
            "ExpressionAttributeNames": names("access_count", "last_access_at"),
            "ExpressionAttributeValues": item({":one": 1, ":at": seen_at}),
        }

    return change
