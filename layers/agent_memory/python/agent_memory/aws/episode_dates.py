"""What the night asks of the episodes table beside the items themselves: dates to move, and how many there are."""

from collections.abc import Collection
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import item, names
from agent_memory.contract import (
    AGENT_TIME_INDEX,
    CREATED_AT,
    DECAYS_AT,
    DUE_SHARD,
    EPISODES_PARTITION_KEY,
    EPISODES_SORT_KEY,
    EPISODES_TTL,
)
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.keys import SEPARATOR, agent_key, due_shard


class DynamoEpisodeDates:
    """The dates of one tenant's episodes, on credentials that reach no other."""

    def __init__(self, client: Any, *, table: str, tenant_id: str, due_shards: int) -> None:
        self._client = client
        self._table = table
        self._tenant_id = tenant_id
        self._due_shards = due_shards

    def move(self, agent_id: str, run_id: str, *, seen: int | None, decays_at: int | None, expires_at: int) -> bool:
        """Set the date at which the night looks at an episode, and its expiry. False when it is gone, was pinned, or
        its date is no longer the one that was *seen*: somebody knows better."""
        partition = self._partition(agent_id)
        shard = None if decays_at is None else due_shard(partition, run_id, self._due_shards)
        kept = item({DECAYS_AT: decays_at, DUE_SHARD: shard, EPISODES_TTL: expires_at})
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in kept)
        if decays_at is None:
            update += f" REMOVE #{DECAYS_AT}, #{DUE_SHARD}"
        unchanged = f"attribute_not_exists(#{DECAYS_AT})" if seen is None else f"#{DECAYS_AT} = :seen"
        values = {f":{name}": held for name, held in kept.items()} | item({":unpinned": False, ":seen": seen})
        with translating("dynamodb:UpdateItem on the episodes table"):
            try:
                self._client.update_item(
                    TableName=self._table,
                    Key=item({EPISODES_PARTITION_KEY: partition, EPISODES_SORT_KEY: run_id}),
                    UpdateExpression=update,
                    ConditionExpression=f"attribute_exists(#key) AND #pinned = :unpinned AND {unchanged}",
                    ExpressionAttributeNames=names("pinned", DECAYS_AT, DUE_SHARD, EPISODES_TTL)
                    | {"#key": EPISODES_PARTITION_KEY},
                    ExpressionAttributeValues=values,
                )
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    def stay_apart(self, agent_id: str, run_ids: Collection[str]) -> None:
        """Nothing: an agent is looked at again when it stored something, and not before."""

    def forget_date(self, agent_id: str, run_id: str) -> bool:
        """Take a pinned episode out of what is due. False when it is gone or not pinned."""
        with translating("dynamodb:UpdateItem on the episodes table"):
            try:
                self._client.update_item(
                    TableName=self._table,
                    Key=item({EPISODES_PARTITION_KEY: self._partition(agent_id), EPISODES_SORT_KEY: run_id}),
                    UpdateExpression=f"REMOVE #{DECAYS_AT}, #{DUE_SHARD}",
                    ConditionExpression="attribute_exists(#key) AND #pinned = :pinned",
                    ExpressionAttributeNames=names("pinned", DECAYS_AT, DUE_SHARD) | {"#key": EPISODES_PARTITION_KEY},
                    ExpressionAttributeValues=item({":pinned": True}),
                )
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    def live(self, agent_id: str, *, now: int) -> int:
        """How many episodes of an agent have not expired; every page."""
        return self._count(
            agent_id,
            KeyConditionExpression="#key = :key",
            FilterExpression=f"attribute_not_exists(#{EPISODES_TTL}) OR #{EPISODES_TTL} > :now",
            ExpressionAttributeNames=names(EPISODES_TTL),
            ExpressionAttributeValues=item({":now": now}),
        )

    def stored_since(self, agent_id: str, since: int) -> int:
        """How many episodes of an agent were stored after *since*; every page."""
        return self._count(
            agent_id,
            KeyConditionExpression=f"#key = :key AND #{CREATED_AT} > :since",
            ExpressionAttributeNames=names(CREATED_AT),
            ExpressionAttributeValues=item({":since": since}),
        )

    def _count(self, agent_id: str, **query: Any) -> int:
        query["ExpressionAttributeNames"] |= {"#key": EPISODES_PARTITION_KEY}
        query["ExpressionAttributeValues"] |= item({":key": self._partition(agent_id)})
        with translating("dynamodb:Query on agent-time-index"):
            pages = self._client.get_paginator("query").paginate(
                TableName=self._table, IndexName=AGENT_TIME_INDEX, Select="COUNT", **query
            )
            return sum(int(page["Count"]) for page in pages)

    def _partition(self, agent_id: str) -> str:
        if SEPARATOR in agent_id:
            raise CrossTenantError("an agent id that holds the separator reached the episodes table")
        return agent_key(self._tenant_id, agent_id)
