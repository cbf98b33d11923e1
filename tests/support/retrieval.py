"""The Knowledge Base's Retrieve as the service documents it, under the real adapter."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_memory.aws.knowledge import BedrockKnowledge
from support.aws import AwsAccount


@dataclass
class RetrievalService:
    """Answers from what the bucket held at the last sync. *scores*: by a word of the text, 0.9 for the rest.

    *intruders*: results that it adds whatever was asked for. *failure*: what it raises instead of an answer.
    """

    account: AwsAccount
    indexed: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    scores: dict[str, object] = field(default_factory=dict)
    intruders: list[dict[str, Any]] = field(default_factory=list)
    failure: Exception | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)

    def sync(self) -> None:
        held = self.account.knowledge()
        self.indexed = {
            key: (body.decode(), json.loads(held.get(f"{key}.metadata.json", b"{}")).get("metadataAttributes", {}))
            for key, body in held.items()
            if key.endswith(".txt")
        }

    def retrieve(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        if self.failure is not None:
            raise self.failure
        search = request["retrievalConfiguration"]["vectorSearchConfiguration"]
        found = [
            self.result(key, text, attributes)
            for key, (text, attributes) in self.indexed.items()
            if matches(search["filter"], attributes)
        ]
        return {"retrievalResults": [*found, *self.intruders]}

    def result(self, key: str, text: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        score = next((score for word, score in self.scores.items() if word in text), 0.9)
        uri = f"s3://{self.account.settings.knowledge_bucket}/{key}"
        return {
            "content": {"type": "TEXT", "text": text},
            "location": {"type": "S3", "s3Location": {"uri": uri}},
            "metadata": dict(attributes),
            "score": score,
        }


def matches(asked: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    """Whether a document's attributes meet a filter."""
    ((operator, held),) = asked.items()
    if operator in ("andAll", "orAll"):
        assert len(held) >= 2
        met = [matches(member, attributes) for member in held]
        return all(met) if operator == "andAll" else any(met)
    assert operator == "equals"
    return held["key"] in attributes and attributes[held["key"]] == held["value"]


def a_knowledge_base(account: AwsAccount) -> RetrievalService:
    """Put the service behind the account's Knowledge Base adapter."""
    service, s = RetrievalService(account), account.settings
    vars(account.services)["knowledge"] = BedrockKnowledge(
        agent=None,
        runtime=service,
        knowledge_base_id=s.knowledge_base_id,
        data_source_id=s.data_source_id,
        bucket=s.knowledge_bucket,
    )
    return service
