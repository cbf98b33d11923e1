"""Which principal speaks for which tenants: rows of the registry that operators keep and the functions' doors read."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import attributes, item, names, pages
from agent_memory.contract import (
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
    REGISTRY_CALLERS,
    REGISTRY_TENANT,
    SCHEMA_VERSION,
)
from agent_memory.domain.callers import Caller
from agent_memory.domain.keys import ledger_key

CALLERS = ledger_key(REGISTRY_TENANT, REGISTRY_CALLERS)
# What is taken back stays valid for this long at most; a caller that was just allowed is looked up at once.
CACHED_SECONDS = 60
MAX_CACHED = 256


class CallerRegistry:
    """Looks principals up, each at most once a minute."""

    def __init__(self, client: Any, *, table: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Caller]] = OrderedDict()

    def known(self, principal: str) -> Caller | None:
        """The row of *principal*; None without one."""
        held = self._known.get(principal)
        if held and held[0] > self._clock():
            return held[1]
        with translating("dynamodb:GetItem on the registry of callers"):
            answer = self._client.get_item(TableName=self._table, Key=_key(principal), ConsistentRead=True)
        self._known.pop(principal, None)
        if not answer.get("Item"):
            return None
        found = _caller(attributes(answer["Item"]))
        self._known[principal] = (self._clock() + CACHED_SECONDS, found)
        while len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        return found

    def allow(self, row: Caller, *, before: Caller | None, now: int) -> bool:
        """Write the row of a principal in place of *before*. False when it is not what it was: somebody else changed
        it."""
        held = {"tenants": row.tenants, "reviewer": row.reviewer, "noted_at": now, "schema_version": SCHEMA_VERSION}
        words: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(#key)"}
        words["ExpressionAttributeNames"] = {"#key": LEDGER_PARTITION_KEY}
        if before is not None:
            words = {
                "ConditionExpression": "#tenants = :tenants AND #reviewer = :reviewer",
                "ExpressionAttributeNames": names("tenants", "reviewer"),
                "ExpressionAttributeValues": item({":tenants": before.tenants, ":reviewer": before.reviewer}),
            }
        self._known.pop(row.principal, None)
        with translating("dynamodb:PutItem on the registry of callers"):
            try:
                self._client.put_item(TableName=self._table, Item=_key(row.principal) | item(held), **words)
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    def revoke(self, principal: str) -> bool:
        """Remove the row of *principal*. False when there is none."""
        with translating("dynamodb:DeleteItem on the registry of callers"):
            answer = self._client.delete_item(TableName=self._table, Key=_key(principal), ReturnValues="ALL_OLD")
        self._known.pop(principal, None)
        return bool(answer.get("Attributes"))

    def all(self) -> list[Caller]:
        """Every row, every page."""
        with translating("dynamodb:Query on the registry of callers"):
            rows = pages(
                self._client,
                TableName=self._table,
                KeyConditionExpression="#key = :key",
                ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
                ExpressionAttributeValues={":key": {"S": CALLERS}},
                ConsistentRead=True,
            )
            return [_caller(attributes(row)) for row in rows]


def _key(principal: str) -> dict[str, Any]:
    return {LEDGER_PARTITION_KEY: {"S": CALLERS}, LEDGER_SORT_KEY: {"S": principal}}


def _caller(row: dict[str, Any]) -> Caller:
    return Caller(
        principal=str(row[LEDGER_SORT_KEY]),
        tenants=tuple(one for one in row.get("tenants", ()) if isinstance(one, str)),
        reviewer=row.get("reviewer") is True,
    )
