"""What nights tell each other, under the reserved tenant `registry`: the lock, the last completed one, approvals."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, names, pages
from agent_memory.contract import (
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
    REGISTRY_LIFECYCLE,
    REGISTRY_TENANT,
    SCHEMA_VERSION,
)
from agent_memory.domain.errors import UnreadableItemError
from agent_memory.domain.keys import SEPARATOR, ledger_key
from agent_memory.domain.lifecycle_ports import Approval, LastNight, Seat
from agent_memory.domain.models import Model

M = TypeVar("M", bound=Model)
LOCK, LAST = "lock", "last"
APPROVED, COUNTED = f"approved{SEPARATOR}", f"night{SEPARATOR}"
# Long after nobody can start that night again.
COUNT_DAYS_SECONDS = 30 * 86_400
# lifecycleLimitHours is a day at most; another limit may have been deployed since, and clocks differ a little.
LONGEST_LIMIT_SECONDS = 26 * 3_600


class DynamoNightDesk:
    """Rows that are nobody's data, on the function's own role."""

    def __init__(self, client: Any, *, table: str, kind: str = REGISTRY_LIFECYCLE) -> None:
        self._client = client
        self._table = table
        self._nights = ledger_key(REGISTRY_TENANT, kind)

    def take(self, owner: str, *, night: str, now: int, until: int) -> Seat | None:
        """Take the lock; the same owner gets the same seat again."""
        held = self._row(LOCK)
        if held and held.get("owner") == owner:
            return Seat(int(held["attempt"]), int(held["began_at"]))
        attempt = self._count(night, owner, now)
        row = {"owner": owner, "until": until, "attempt": attempt, "began_at": now, "schema_version": SCHEMA_VERSION}
        taken = self._if_it_holds(
            self._client.put_item,
            Item=self._entry(LOCK) | item(row),
            # One that runs out later than any that is taken now was taken by a clock that was ahead.
            ConditionExpression="attribute_not_exists(#owner) OR #until < :now OR #until > :latest",
            ExpressionAttributeNames=names("owner", "until"),
            ExpressionAttributeValues=item({":now": now, ":latest": until + LONGEST_LIMIT_SECONDS}),
        )
        return Seat(attempt, now) if taken else None

    def _count(self, night: str, owner: str, now: int) -> int:
        """Which run of *night* the owner's is; asking again does not count again."""
        counted = self._if_it_holds(
            self._client.update_item,
            Key=self._entry(COUNTED + night),
            UpdateExpression="SET #owner = :owner, #expires_at = :expires ADD #runs :one",
            ConditionExpression="attribute_not_exists(#owner) OR #owner <> :owner",
            ExpressionAttributeNames=names("owner", "runs", "expires_at"),
            ExpressionAttributeValues=item({":owner": owner, ":one": 1, ":expires": now + COUNT_DAYS_SECONDS}),
        )
        row = self._row(COUNTED + night)
        if row is None:
            raise UnreadableItemError(f"the count of {night} is gone" + ("" if counted else " again"))
        return int(row["runs"])

    def release(self, owner: str) -> bool:
        """Give the lock back. False when it is another's by now."""
        return self._if_it_holds(
            self._client.delete_item,
            Key=self._entry(LOCK),
            ConditionExpression="#owner = :owner",
            ExpressionAttributeNames=names("owner"),
            ExpressionAttributeValues=item({":owner": owner}),
        )

    def at_work(self, *, now: int) -> str | None:
        """Who holds the lock; None when nobody does, or only what a dead night left."""
        held = self._row(LOCK)
        return str(held["owner"]) if held and int(held.get("until", 0)) >= now else None

    def last(self) -> LastNight | None:
        """The last completed night; None before the first."""
        row = self._row(LAST)
        return None if row is None else _read(LastNight, row)

    def complete(self, last: LastNight) -> None:
        """Keep *last*, unless a later night is kept; no two that overlap are a day apart, so one that is later by more
        was kept by a clock that was ahead."""
        self._if_it_holds(
            self._client.put_item,
            Item=self._entry(LAST) | item({**last.model_dump(), "schema_version": SCHEMA_VERSION}),
            ConditionExpression="attribute_not_exists(#now) OR #now <= :now OR #now > :latest",
            ExpressionAttributeNames=names("now"),
            ExpressionAttributeValues=item({":now": last.now, ":latest": last.now + LONGEST_LIMIT_SECONDS}),
        )

    def approve(self, approval: Approval) -> None:
        """Keep a person's word on a plan; the last one counts."""
        row = {**approval.model_dump(), "schema_version": SCHEMA_VERSION}
        with translating("dynamodb:PutItem on the nights"):
            self._client.put_item(TableName=self._table, Item=self._entry(APPROVED + approval.run_id) | item(row))

    def approvals(self, *, now: int) -> Sequence[Approval]:
        """Those that have not expired; TTL deletes late."""
        with translating("dynamodb:Query on the nights"):
            rows = list(
                pages(
                    self._client,
                    TableName=self._table,
                    KeyConditionExpression="#key = :key AND begins_with(#entry, :approved)",
                    ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY, "#entry": LEDGER_SORT_KEY},
                    ExpressionAttributeValues=item({":key": self._nights, ":approved": APPROVED}),
                    ConsistentRead=True,
                )
            )
        found = (_read(Approval, attributes(row)) for row in rows)
        return [one for one in found if one.expires_at > now]

    def _entry(self, entry: str) -> Item:
        return item({LEDGER_PARTITION_KEY: self._nights, LEDGER_SORT_KEY: entry})

    def _row(self, entry: str) -> dict[str, Any] | None:
        with translating("dynamodb:GetItem on the nights"):
            answer = self._client.get_item(TableName=self._table, Key=self._entry(entry), ConsistentRead=True)
        return attributes(answer["Item"]) if answer.get("Item") else None

    def _if_it_holds(self, write: Callable[..., object], **request: Any) -> bool:
        with translating("dynamodb on the nights"):
            try:
                write(TableName=self._table, **request)
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True


def _read(model: type[M], row: dict[str, Any]) -> M:
    try:
        return model.model_validate({name: row[name] for name in model.model_fields if name in row})
    except ValidationError:
        raise UnreadableItemError(f"the row {row.get(LEDGER_SORT_KEY)} of the nights can't be read") from None
