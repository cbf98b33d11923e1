"""Episodic memory as an article describes it: one vector per run, the newest hundred, a fixed floor."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import boto3
from boto3.dynamodb.conditions import Key
from langchain_aws import BedrockEmbeddings

MODEL = "amazon.titan-embed-text-v2:0"
NEWEST = 100
FLOOR = 0.75
TOP = 3


class EpisodicMemoryStore:
    """One table, one embeddings client."""

    def __init__(self, table: Any = None, embeddings: Any = None) -> None:
        self._table = table or boto3.resource("dynamodb").Table("agent-episodic-memory")
        self._embeddings = embeddings or BedrockEmbeddings(model_id=MODEL, model_kwargs={"dimensions": 1024})

    def store(self, agent_id: str, run_id: str, artifacts: dict[str, Any], created_at: int) -> None:
        """Keep one run: its artifacts and one embedding of what it did and found."""
        text = artifacts["task_summary"] + " " + " ".join(artifacts["key_findings"])
        vector = [Decimal(str(component)) for component in self._embeddings.embed_query(text)]
        self._table.put_item(
            Item={"agent_id": agent_id, "run_id": run_id, "created_at": created_at, "embedding": vector, **artifacts}
        )

    def retrieve(self, agent_id: str, task: str) -> list[tuple[float, dict[str, Any]]]:
        """The most similar of the newest hundred runs, with their similarities."""
        vector = self._embeddings.embed_query(task)
        page = self._table.query(
            IndexName="agent-time-index",
            KeyConditionExpression=Key("agent_id").eq(agent_id),
            ScanIndexForward=False,
            Limit=NEWEST,
        )
        scored = [(_cosine(vector, item["embedding"]), item) for item in page["Items"]]
        alike = [pair for pair in scored if pair[0] >= FLOOR]
        return sorted(alike, key=lambda pair: (pair[0], pair[1]["outcome"] == "COMPLETED"), reverse=True)[:TOP]


def _cosine(one: Sequence[float], other: Sequence[Any]) -> float:
    numbers = [float(component) for component in other]
    product = sum(a * b for a, b in zip(one, numbers, strict=True))
    lengths = sum(a * a for a in one) ** 0.5 * sum(b * b for b in numbers) ** 0.5
    return float(product / lengths) if lengths else 0.0
