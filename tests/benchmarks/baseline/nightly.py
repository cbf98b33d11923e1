"""The plan of a night as the published sample makes it: list everything, score everything, take what is below."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

THRESHOLD, PRUNE_DAYS, DAY = 0.3, 45, 86_400
W_RECENCY, W_ACCESS, W_FREQUENCY, BASELINE = 0.4, 0.35, 0.25, 50
RATE = -math.log(THRESHOLD) / PRUNE_DAYS
BATCH = 10


def pages(scan: Callable[..., Mapping[str, Any]], table: str) -> Iterator[list[dict[str, Any]]]:
    """Every item of the table, page by page."""
    start: dict[str, Any] = {}
    while True:
        page = scan(TableName=table, **start)
        yield list(page["Items"])
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def score(item: Mapping[str, Any], now: int) -> float:
    """The relevance of one item."""
    ended = int(item["ended_at"]["N"])
    read = int(item.get("last_access_at", item["ended_at"])["N"])
    reads = int(item["access_count"]["N"])
    recency, access = (math.exp(-RATE * (now - at) / DAY) for at in (ended, read))
    return W_RECENCY * recency + W_ACCESS * access + W_FREQUENCY * min(reads / BASELINE, 1.0)


def below(items: list[dict[str, Any]], now: int) -> list[tuple[str, str]]:
    """The keys of those below the threshold."""
    return [(item["agent_id"]["S"], item["run_id"]["S"]) for item in items if score(item, now) < THRESHOLD]


def batches(keys: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """What is handed to the model together."""
    return [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]
