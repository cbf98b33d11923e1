"""The article's read path as its function loads it: three stores, each with its own embeddings client."""

from typing import Any

import boto3
import numpy as np  # noqa: F401 - the article's function loads it
from benchmarks.baseline.episodic_memory import MODEL, EpisodicMemoryStore
from langchain_aws import BedrockEmbeddings


class SemanticMemoryStore:
    """Facts in a knowledge base."""

    def __init__(self) -> None:
        self._client = boto3.client("bedrock-agent-runtime")
        self._embeddings = BedrockEmbeddings(model_id=MODEL)

    def retrieve(self, knowledge_base_id: str, task: str, domain: str) -> list[dict[str, Any]]:
        """The five nearest facts of the domain that score 0.6 or more."""
        search = {"numberOfResults": 5, "filter": {"equals": {"key": "domain", "value": domain}}}
        answer = self._client.retrieve(
            knowledgeBaseId=knowledge_base_id,
            retrievalQuery={"text": task},
            retrievalConfiguration={"vectorSearchConfiguration": search},
        )
        return [result for result in answer["retrievalResults"] if result["score"] >= 0.6]


class ProceduralMemoryStore:
    """Step lists in a table."""

    def __init__(self) -> None:
        self._table = boto3.resource("dynamodb").Table("agent-procedural-memory")
        self._embeddings = BedrockEmbeddings(model_id=MODEL)

    def retrieve(self, task_type: str) -> list[dict[str, Any]]:
        """The validated procedures of a task type that were used three times or more."""
        page = self._table.query(KeyConditionExpression=boto3.dynamodb.conditions.Key("task_type").eq(task_type))
        return [item for item in page["Items"] if item["status"] == "VALIDATED" and item["uses"] >= 3]


class MemoryBootstrap:
    """All three, built when the function is loaded."""

    def __init__(self) -> None:
        self.episodic = EpisodicMemoryStore()
        self.semantic = SemanticMemoryStore()
        self.procedural = ProceduralMemoryStore()
