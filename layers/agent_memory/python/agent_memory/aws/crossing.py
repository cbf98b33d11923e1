"""Tries to read one tenant's keys on another tenant's credentials, past every check of our own: IAM has to refuse."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import REFUSED, error_code, translating
from agent_memory.domain.keys import agent_key


class StorageCrossing:
    """*client*: (tenant id, service) to a client on that tenant's credentials. *tables*: name to partition key.
    *buckets*: name to the text before the tenant's id in a key."""

    def __init__(
        self, client: Callable[[str, str], Any], *, tables: Mapping[str, str], buckets: Mapping[str, str]
    ) -> None:
        self._client = client
        self._tables = tables
        self._buckets = buckets

    def crossed(self, tenant_id: str, other: str) -> Sequence[str]:
        """The stores that answered *tenant_id* about *other*, even if with nothing."""
        return [store for store, read in self._reads(tenant_id, other) if _answered(read)]

    def _reads(self, tenant_id: str, other: str) -> Iterator[tuple[str, Callable[[], object]]]:
        table, objects = self._client(tenant_id, "dynamodb"), self._client(tenant_id, "s3")
        for name, partition in self._tables.items():
            query = {
                "TableName": name,
                "KeyConditionExpression": "#key = :key",
                "ExpressionAttributeNames": {"#key": partition},
                "ExpressionAttributeValues": {":key": {"S": agent_key(other, "canary")}},
                "Limit": 1,
            }
            yield name, partial(table.query, **query)
            yield f"{name}:scan", partial(table.scan, TableName=name, Limit=1)
        for name, before in self._buckets.items():
            yield name, partial(objects.list_objects_v2, Bucket=name, Prefix=f"{before}{other}/")


def _answered(read: Callable[[], object]) -> bool:
    with translating("a read of the canary"):
        try:
            read()
        except ClientError as error:
            if error_code(error) in REFUSED:
                return False
            raise
    return True
