"""The list of tenants that the nightly work reads, under the reserved tenant `registry`."""

from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.contract import LEDGER_PARTITION_KEY, LEDGER_SORT_KEY, REGISTRY_TENANT, SCHEMA_VERSION
from agent_memory.domain.keys import ledger_key

TENANTS = ledger_key(REGISTRY_TENANT, "tenants")


class TenantRegistry:
    """Notes which tenants exist, once per tenant and process."""

    def __init__(self, client: Any, *, table: str) -> None:
        self._client = client
        self._table = table
        self._noted: set[str] = set()

    def note(self, tenant_id: str, *, now: int) -> None:
        """Make sure that the row of *tenant_id* is there."""
        if tenant_id in self._noted:
            return
        with translating("dynamodb:PutItem on the tenant registry"):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        LEDGER_PARTITION_KEY: {"S": TENANTS},
                        LEDGER_SORT_KEY: {"S": tenant_id},
                        "first_seen_at": {"N": str(now)},
                        "schema_version": {"N": str(SCHEMA_VERSION)},
                    },
                    ConditionExpression="attribute_not_exists(#key)",
                    ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise
        self._noted.add(tenant_id)
