"""Prefetched recalls in the ledger table, each for the minutes until its run starts."""

from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, names, pages
from agent_memory.contract import LEDGER_PARTITION_KEY, LEDGER_SORT_KEY
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.keys import ledger_key
from agent_memory.domain.prefetching import Prefetched

KIND = "prefetch"


class DynamoPrefetches:
    """The prefetched recalls of one tenant, on credentials that reach no other."""

    def __init__(self, client: Any, *, table: str, tenant_id: str) -> None:
        self._client = client
        self._table = table
        self._tenant_id = tenant_id

    def keep(self, prefetched: Prefetched) -> bool:
        """Write the row once. False when there is one, or when something was erased since it was asked for."""
        if prefetched.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a prefetched recall of another tenant reached the ledger of {self._tenant_id}")
        if self._erased_since(prefetched.kept_at):
            return False
        row = self._key(prefetched.context_id) | item(prefetched.model_dump(exclude={"tenant_id", "context_id"}))
        with translating("dynamodb:PutItem on the ledger"):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=row,
                    ConditionExpression="attribute_not_exists(#key)",
                    ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
                )
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    def get(self, context_id: str) -> Prefetched | None:
        """The row, read consistently; None when it is not there, unreadable, or something was erased since."""
        with translating("dynamodb:GetItem on the ledger"):
            answer = self._client.get_item(TableName=self._table, Key=self._key(context_id), ConsistentRead=True)
        if not answer.get("Item"):
            return None
        row = attributes(answer["Item"])
        known = {name: row[name] for name in Prefetched.model_fields if name in row}
        try:
            found = Prefetched.model_validate({**known, "tenant_id": self._tenant_id, "context_id": context_id})
        except ValidationError:
            return None
        return None if self._erased_since(found.kept_at) else found

    def _erased_since(self, kept_at: int) -> bool:
        """Whether a tombstone of the tenant is as new: any user's memories may be in a prefetched answer."""
        with translating("dynamodb:Query on the ledger"):
            found = pages(
                self._client,
                TableName=self._table,
                ConsistentRead=True,
                KeyConditionExpression="#key = :key",
                FilterExpression="#erased_before >= :kept_at",
                ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY, **names("erased_before")},
                ExpressionAttributeValues={
                    ":key": {"S": ledger_key(self._tenant_id, "tombstone")},
                    ":kept_at": {"N": str(kept_at)},
                },
            )
            return next(found, None) is not None

    def _key(self, context_id: str) -> Item:
        return item({LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, KIND), LEDGER_SORT_KEY: context_id})
