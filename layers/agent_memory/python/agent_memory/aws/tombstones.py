"""Tombstones: cut-offs that every write of a run is held against, inside its own transaction."""

from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import attributes, item, names
from agent_memory.contract import LEDGER_PARTITION_KEY, LEDGER_SORT_KEY, SCHEMA_VERSION
from agent_memory.domain.keys import ledger_key


class Tombstones:
    """The tombstones of one tenant. They have no expiry: a table restored from a backup is held against them."""

    def __init__(self, client: Any, *, table: str, tenant_id: str) -> None:
        self._client = client
        self._table = table
        self._tenant_id = tenant_id

    def set(self, entry: str, *, erased_before: int) -> int:
        """Raise the cut-off of *entry* to *erased_before*; a later one stays. Returns the cut-off that holds."""
        key = item({LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, "tombstone"), LEDGER_SORT_KEY: entry})
        with translating("dynamodb:UpdateItem on the tombstones"):
            try:
                self._client.update_item(
                    TableName=self._table,
                    Key=key,
                    UpdateExpression="SET #erased_before = :before, #schema_version = :schema",
                    ConditionExpression="attribute_not_exists(#erased_before) OR #erased_before < :before",
                    ExpressionAttributeNames=names("erased_before", "schema_version"),
                    ExpressionAttributeValues=item({":before": erased_before, ":schema": SCHEMA_VERSION}),
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise
            answer = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        return int(attributes(answer["Item"])["erased_before"])
