"""Which agents there are, which stored something lately, and which no night may touch."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, names, pages
from agent_memory.contract import (
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
    REGISTRY_STORED,
    REGISTRY_TENANT,
    SCHEMA_VERSION,
)
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.keys import SEPARATOR, agent_key, ledger_key

STORED = ledger_key(REGISTRY_TENANT, REGISTRY_STORED)


class StoredRegistry:
    """Agents that stored something since a night looked at them: rows of the registry, on the function's own role."""

    def __init__(self, client: Any, *, table: str) -> None:
        self._client = client
        self._table = table

    def note(self, tenant_id: str, agent_id: str, *, now: int) -> None:
        """Note that an agent stored something."""
        row = _stored(tenant_id, agent_id) | item({"stored_at": now, "schema_version": SCHEMA_VERSION})
        with translating("dynamodb:PutItem on the registry of storing agents"):
            self._client.put_item(TableName=self._table, Item=row)

    def all(self) -> Mapping[tuple[str, str], int]:
        """Every noted (tenant_id, agent_id) with the time of its last note; every page."""
        found = {}
        with translating("dynamodb:Query on the registry of storing agents"):
            for row in map(attributes, _rows(self._client, self._table, STORED)):
                tenant_id, _, agent_id = str(row[LEDGER_SORT_KEY]).partition(SEPARATOR)
                found[tenant_id, agent_id] = int(row.get("stored_at", 0))
        return found

    def clear(self, tenant_id: str, agent_id: str, *, upto: int) -> None:
        """Forget an agent, unless it was noted again after *upto*."""
        with translating("dynamodb:DeleteItem on the registry of storing agents"):
            try:
                self._client.delete_item(
                    TableName=self._table,
                    Key=_stored(tenant_id, agent_id),
                    ConditionExpression="#stored_at <= :upto",
                    ExpressionAttributeNames=names("stored_at"),
                    ExpressionAttributeValues=item({":upto": upto}),
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise


class DynamoAgentNotes:
    """The agents of one tenant and their holds, on credentials that reach no other."""

    def __init__(self, client: Any, *, table: str, tenant_id: str) -> None:
        self._client = client
        self._table = table
        self._tenant_id = tenant_id

    def note_agent(self, agent_id: str, *, now: int) -> None:
        """Note that there is such an agent."""
        self._put("agents", agent_id, now)

    def agents(self) -> Sequence[str]:
        """Every agent that ever stored an episode."""
        return self._entries("agents")

    def holds(self) -> Collection[str]:
        """Agents whose memories no night may touch; `*` for all of them."""
        return frozenset(self._entries("hold"))

    def hold(self, agent_id: str, *, now: int) -> None:
        """Keep every night off the memories of an agent."""
        self._put("hold", agent_id, now)

    def unhold(self, agent_id: str) -> bool:
        """Let nights touch them again. False when none held them."""
        with translating("dynamodb:DeleteItem on the ledger"):
            answer = self._client.delete_item(
                TableName=self._table, Key=self._key("hold", agent_id), ReturnValues="ALL_OLD"
            )
        return bool(answer.get("Attributes"))

    def _put(self, kind: str, agent_id: str, now: int) -> None:
        row = self._key(kind, agent_id) | item({"noted_at": now, "schema_version": SCHEMA_VERSION})
        with translating("dynamodb:PutItem on the ledger"):
            self._client.put_item(TableName=self._table, Item=row)

    def _entries(self, kind: str) -> list[str]:
        with translating("dynamodb:Query on the ledger"):
            rows = list(_rows(self._client, self._table, ledger_key(self._tenant_id, kind)))
        return [str(attributes(row)[LEDGER_SORT_KEY]) for row in rows]

    def _key(self, kind: str, agent_id: str) -> Item:
        if SEPARATOR in agent_id:
            raise CrossTenantError("an agent id that holds the separator reached the ledger")
        return item({LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, kind), LEDGER_SORT_KEY: agent_id})


def _rows(client: Any, table: str, key: str) -> Sequence[Item]:
    query = pages(
        client,
        TableName=table,
        KeyConditionExpression="#key = :key",
        ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
        ExpressionAttributeValues={":key": {"S": key}},
        ConsistentRead=True,
    )
    return list(query)


def _stored(tenant_id: str, agent_id: str) -> Item:
    return item({LEDGER_PARTITION_KEY: STORED, LEDGER_SORT_KEY: agent_key(tenant_id, agent_id)})
