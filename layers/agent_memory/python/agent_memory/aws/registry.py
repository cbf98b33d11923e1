"""What work across tenants reads, under the reserved tenant `registry`: tenants, dirty domains, the ingestion lock."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, names, pages
from agent_memory.contract import (
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
    REGISTRY_DIRTY,
    REGISTRY_INGESTION,
    REGISTRY_TENANT,
    REGISTRY_TENANTS,
    SCHEMA_VERSION,
)
from agent_memory.domain.keys import SEPARATOR, domain_key, ledger_key

TENANTS = ledger_key(REGISTRY_TENANT, REGISTRY_TENANTS)
DIRTY = ledger_key(REGISTRY_TENANT, REGISTRY_DIRTY)
INGESTION = ledger_key(REGISTRY_TENANT, REGISTRY_INGESTION)
LOCK, REPORT = "lock", "report"


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

    def all(self) -> list[str]:
        """Every tenant there is, in order, every page."""
        with translating("dynamodb:Query on the tenant registry"):
            rows = pages(
                self._client,
                TableName=self._table,
                KeyConditionExpression="#key = :key",
                ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
                ExpressionAttributeValues={":key": {"S": TENANTS}},
            )
            return [str(attributes(row)[LEDGER_SORT_KEY]) for row in rows]


class DirtyRegistry:
    """Domains that the Knowledge Base has yet to follow."""

    def __init__(self, client: Any, *, table: str) -> None:
        self._client = client
        self._table = table

    def note(self, tenant_id: str, domain: str, *, now: int) -> None:
        """Mark a domain, before anything in it changes that the Knowledge Base has to follow."""
        with translating("dynamodb:PutItem on the registry of dirty domains"):
            row = _dirty(tenant_id, domain) | item({"noted_at": now, "schema_version": SCHEMA_VERSION})
            self._client.put_item(TableName=self._table, Item=row)

    def all(self) -> Mapping[tuple[str, str], int]:
        """Every marked (tenant_id, domain), every page, with the time of its last mark."""
        with translating("dynamodb:Query on the registry of dirty domains"):
            rows = [
                attributes(row)
                for row in pages(
                    self._client,
                    TableName=self._table,
                    KeyConditionExpression="#key = :key",
                    ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
                    ExpressionAttributeValues={":key": {"S": DIRTY}},
                    ConsistentRead=True,
                )
            ]
        found = {}
        for row in rows:
            tenant_id, _, domain = str(row[LEDGER_SORT_KEY]).partition(SEPARATOR)
            found[tenant_id, domain] = int(row.get("noted_at", 0))
        return found

    def clear(self, tenant_id: str, domain: str, *, seen: int) -> None:
        """Forget a mark, unless it was set again after *seen*."""
        with translating("dynamodb:DeleteItem on the registry of dirty domains"):
            try:
                self._client.delete_item(
                    TableName=self._table,
                    Key=_dirty(tenant_id, domain),
                    ConditionExpression="#noted_at = :seen",
                    ExpressionAttributeNames=names("noted_at"),
                    ExpressionAttributeValues=item({":seen": seen}),
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise


class IngestionDesk:
    """Lets one execution of the ingestion machine work at a time, and keeps what the last one reported."""

    def __init__(self, client: Any, *, table: str) -> None:
        self._client = client
        self._table = table

    def take(self, owner: str, *, now: int, until: int) -> bool:
        """Take or renew the lock. False while another owner's has not run out."""
        return self._lock(
            self._client.update_item,
            UpdateExpression="SET #owner = :owner, #until = :until",
            ConditionExpression="attribute_not_exists(#owner) OR #owner = :owner OR #until < :now",
            ExpressionAttributeNames=names("owner", "until"),
            ExpressionAttributeValues=item({":owner": owner, ":until": until, ":now": now}),
        )

    def release(self, owner: str) -> bool:
        """Give the lock back. False when it is another's by now."""
        return self._lock(
            self._client.delete_item,
            ConditionExpression="#owner = :owner",
            ExpressionAttributeNames=names("owner"),
            ExpressionAttributeValues=item({":owner": owner}),
        )

    def keep(self, report: Mapping[str, object]) -> None:
        """Keep *report* as the last one."""
        row = _ingestion(REPORT) | item({**report, "schema_version": SCHEMA_VERSION})
        with translating("dynamodb:PutItem on the ingestion report"):
            self._client.put_item(TableName=self._table, Item=row)

    def report(self) -> dict[str, Any] | None:
        """The last report; None before the first."""
        with translating("dynamodb:GetItem on the ingestion report"):
            answer = self._client.get_item(TableName=self._table, Key=_ingestion(REPORT), ConsistentRead=True)
        hidden = {LEDGER_PARTITION_KEY, LEDGER_SORT_KEY, "schema_version"}
        row = attributes(answer["Item"]) if answer.get("Item") else None
        return None if row is None else {name: held for name, held in row.items() if name not in hidden}

    def _lock(self, write: Callable[..., object], **request: Any) -> bool:
        with translating("dynamodb on the ingestion lock"):
            try:
                write(TableName=self._table, Key=_ingestion(LOCK), **request)
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True


def _ingestion(entry: str) -> Item:
    return item({LEDGER_PARTITION_KEY: INGESTION, LEDGER_SORT_KEY: entry})


def _dirty(tenant_id: str, domain: str) -> Item:
    return item({LEDGER_PARTITION_KEY: DIRTY, LEDGER_SORT_KEY: domain_key(tenant_id, domain)})
