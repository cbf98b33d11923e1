"""How many facts of one tenant there are, and would go: read without a word of what they say."""

from collections.abc import Sequence
from typing import Any

from agent_memory.aws.facts import DynamoFacts
from agent_memory.aws.failures import translating
from agent_memory.aws.item_codec import item, names
from agent_memory.contract import FACTS_PARTITION_KEY
from agent_memory.domain.facts import WITHDRAWN, expiry_of

DATES = ("state", "pinned", "last_confirmed_at", "valid_until", "kept_until")


class DynamoFactCounts(DynamoFacts):
    """The facts of one tenant, as the plan of the night counts them."""

    def leaving(self, places: Sequence[tuple[str, str]], *, now: int) -> int:
        """How many facts of *places* are not withdrawn yet and would be; by today's settings."""
        keys = [self._items.key(*place) for place in dict.fromkeys(places)]
        rows = self._transactions.batch_get(self._table, keys, projection=DATES)
        return sum(self._expires(row, now) for row in rows)

    def live(self) -> int:
        """How many facts of the tenant are not withdrawn; every page of every domain."""
        return sum(self._count(domain) for domain in self.domains())

    def _expires(self, row: dict[str, Any], now: int) -> bool:
        if row.get("state") in WITHDRAWN or row.get("pinned"):
            return False
        dates = int(row["last_confirmed_at"]), row.get("valid_until"), row.get("kept_until")
        return expiry_of(*dates, self._items.ttl_days) <= now

    def _count(self, domain: str) -> int:
        states = {f":out{number}": state for number, state in enumerate(sorted(WITHDRAWN))}
        with translating("dynamodb:Query on the facts table"):
            pages = self._client.get_paginator("query").paginate(
                TableName=self._table,
                Select="COUNT",
                KeyConditionExpression="#key = :key",
                # Observations and heads have no history.
                FilterExpression=f"attribute_exists(#history) AND NOT #state IN ({', '.join(states)})",
                ExpressionAttributeNames=names("history", "state") | {"#key": FACTS_PARTITION_KEY},
                ExpressionAttributeValues=item({":key": self._items.partition(domain), **states}),
            )
            return sum(int(page["Count"]) for page in pages)
