"""Transactions and batches that DynamoDB took in part or not at all, tried again with jitter."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, names
from agent_memory.contract import LEDGER_PARTITION_KEY, LEDGER_SORT_KEY
from agent_memory.domain.errors import AgentMemoryError, StoreBusyError
from agent_memory.domain.keys import ledger_key

CONDITION_FAILED = "ConditionalCheckFailed"
WHOLE_TENANT = "*"
MAX_BATCH_GET = 100
# Transactions of one tenant all check the same tombstone and can collide there, so patience is worth having.
ATTEMPTS = 9
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 1.0
_TRY_AGAIN = frozenset(
    {
        "TransactionConflict",
        "ThrottlingError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "InternalServerError",
    }
)


class Transactions:
    """Writes that happen together or not at all. *pause* and *chance* (in [0, 1)) are the back-off's."""

    def __init__(
        self,
        client: Any,
        *,
        pause: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._pause = pause
        self._chance = chance

    def _rest(self, attempt: int) -> None:
        self._pause(self._chance() * min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**attempt))

    def write(self, actions: Sequence[Item]) -> list[bool]:
        """Do all *actions* or none. Returns which conditions failed, in order; none did when the write happened.

        Raises StoreBusyError when others hold the items for too long.
        """
        for attempt in range(ATTEMPTS):
            reasons = self._try(actions)
            failed = [reason == CONDITION_FAILED for reason in reasons]
            if any(failed) or not reasons:
                return failed
            self._rest(attempt)
        raise StoreBusyError("dynamodb:TransactWriteItems kept colliding with other writes")

    def _try(self, actions: Sequence[Item]) -> list[str]:
        with translating("dynamodb:TransactWriteItems"):
            try:
                self._client.transact_write_items(TransactItems=list(actions))
            except ClientError as error:
                if error_code(error) in ("TransactionConflictException", "TransactionInProgressException"):
                    return ["TransactionConflict"]
                if error_code(error) != "TransactionCanceledException":
                    raise
                reasons = [str(r.get("Code") or "None") for r in error.response.get("CancellationReasons", [])]
            else:
                return []
        known = {*_TRY_AGAIN, CONDITION_FAILED, "None"}
        unknown = sorted(set(reasons) - known)
        if unknown or not reasons:
            raise AgentMemoryError(f"dynamodb:TransactWriteItems was cancelled ({', '.join(unknown) or 'no reason'})")
        return reasons

    def batch_get(self, table: str, keys: Sequence[Item], *, projection: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The items of *keys* that exist, in no order. A 200 may leave keys unread: they are asked again."""
        found: list[dict[str, Any]] = []
        for start in range(0, len(keys), MAX_BATCH_GET):
            pending: dict[str, Any] = {
                table: {"Keys": list(keys[start : start + MAX_BATCH_GET]), "ConsistentRead": True}
            }
            if projection:
                pending[table] |= {
                    "ProjectionExpression": ", ".join(names(*projection)),
                    "ExpressionAttributeNames": names(*projection),
                }
            found += self._get_all(table, pending)
        return found

    def _get_all(self, table: str, pending: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for attempt in range(ATTEMPTS):
            with translating("dynamodb:BatchGetItem"):
                answer = self._client.batch_get_item(RequestItems=pending)
            found += [attributes(stored) for stored in answer.get("Responses", {}).get(table, [])]
            pending = answer.get("UnprocessedKeys") or {}
            if not pending:
                return found
            self._rest(attempt)
        left = len(pending.get(table, {}).get("Keys", ()))
        raise StoreBusyError(f"dynamodb:BatchGetItem left {left} keys unread")


def tombstone_checks(table: str, tenant_id: str, user_ref: str | None, *, ended_at: int) -> list[Item]:
    """Conditions for every write of something of a run: nobody erased its user or its tenant after it ended."""
    entries = [WHOLE_TENANT] if user_ref is None else [user_ref, WHOLE_TENANT]
    return [_not_erased(table, tenant_id, entry, ended_at) for entry in entries]


def _not_erased(table: str, tenant_id: str, entry: str, ended_at: int) -> Item:
    key: Mapping[str, Any] = {
        LEDGER_PARTITION_KEY: {"S": ledger_key(tenant_id, "tombstone")},
        LEDGER_SORT_KEY: {"S": entry},
    }
    return {
        "ConditionCheck": {
            "TableName": table,
            "Key": key,
            "ConditionExpression": "attribute_not_exists(#erased_before) OR #erased_before < :ended_at",
            "ExpressionAttributeNames": names("erased_before"),
            "ExpressionAttributeValues": {":ended_at": {"N": str(ended_at)}},
        }
    }
