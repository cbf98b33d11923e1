"""due-index of the episodes and of the facts: keys only, across tenants. Only the plan of the night may read it."""

from collections.abc import Mapping
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.aws.item_codec import attributes, item, names
from agent_memory.contract import (
    DECAYS_AT,
    DUE_INDEX,
    DUE_SHARD,
    EPISODES_PARTITION_KEY,
    EPISODES_SORT_KEY,
    FACTS_PARTITION_KEY,
    FACTS_SORT_KEY,
)
from agent_memory.domain.errors import UnreadableItemError
from agent_memory.domain.keys import SEPARATOR
from agent_memory.domain.lifecycle_ports import DueKey, DuePage, DueSource

_KEYS: Mapping[DueSource, tuple[str, str]] = {
    "episodes": (EPISODES_PARTITION_KEY, EPISODES_SORT_KEY),
    "facts": (FACTS_PARTITION_KEY, FACTS_SORT_KEY),
}


class DynamoDueIndex:
    """Reads keys page by page, on a role of its own that may query nothing else."""

    def __init__(self, client: Any, *, episodes_table: str, facts_table: str) -> None:
        self._client = client
        self._tables: Mapping[DueSource, str] = {"episodes": episodes_table, "facts": facts_table}

    def page(
        self, source: DueSource, shard: str, *, upto: int, after: Mapping[str, object] | None, begin: int = 0
    ) -> DuePage:
        """One page of *shard* from *begin* up to *upto*, earliest first."""
        start = {} if after is None else {"ExclusiveStartKey": item(after)}
        with translating("dynamodb:Query on due-index"):
            answer = self._client.query(
                TableName=self._tables[source],
                IndexName=DUE_INDEX,
                KeyConditionExpression="#due_shard = :shard AND #decays_at BETWEEN :begin AND :upto",
                ExpressionAttributeNames=names(DUE_SHARD, DECAYS_AT),
                ExpressionAttributeValues=item({":shard": shard, ":begin": begin, ":upto": upto}),
                **start,
            )
        last = answer.get("LastEvaluatedKey")
        keys = tuple(_key(source, attributes(one)) for one in answer["Items"])
        return DuePage(keys=keys, after=None if last is None else attributes(last))


def _key(source: DueSource, row: Mapping[str, Any]) -> DueKey:
    partition, sort = (str(row.get(name, "")) for name in _KEYS[source])
    tenant_id, separator, place = partition.partition(SEPARATOR)
    if not (tenant_id and separator and place and sort):
        raise UnreadableItemError("due-index holds a key that no release writes")
    return DueKey(tenant_id, place, sort)
