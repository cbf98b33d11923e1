"""The laptop's Knowledge Base over an emulator of its own, as boto3 clients see it."""

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.local_stack import ai_client, an_ai_server, an_emulator, clients_of

from local.deploy import client
from local.layout import DATA_SOURCE_ID, KNOWLEDGE_BASE_ID, KNOWLEDGE_BUCKET, KNOWLEDGE_PREFIX
from local.processes import Server

IDS = {"knowledgeBaseId": KNOWLEDGE_BASE_ID, "dataSourceId": DATA_SOURCE_ID}
PATIENCE_SECONDS = 120.0


class KnowledgeBaseUnderTest:
    """Documents go into the bucket, everything else over the two services."""

    def __init__(self, s3: Any, server: Server) -> None:
        self.s3 = s3
        self.server = server
        self.agent = ai_client("bedrock-agent", server)
        self.runtime = ai_client("bedrock-agent-runtime", server)

    def uri(self, name: str) -> str:
        return f"s3://{KNOWLEDGE_BUCKET}/{KNOWLEDGE_PREFIX}{name}"

    def put(self, name: str, text: str | bytes, attributes: Any = None, *, sidecar: bytes | None = None) -> str:
        """Sidecar first, as the application does."""
        if attributes is not None:
            sidecar = json.dumps({"metadataAttributes": attributes}).encode()
        if sidecar is not None:
            self._put(f"{name}.metadata.json", sidecar)
        self._put(name, text.encode() if isinstance(text, str) else text)
        return self.uri(name)

    def remove(self, name: str) -> None:
        for key in (name, f"{name}.metadata.json"):
            self.s3.delete_object(Bucket=KNOWLEDGE_BUCKET, Key=KNOWLEDGE_PREFIX + key)

    def empty(self) -> None:
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=KNOWLEDGE_BUCKET):
            for entry in page.get("Contents", []):
                self.s3.delete_object(Bucket=KNOWLEDGE_BUCKET, Key=entry["Key"])

    def start(self, **options: Any) -> Any:
        return self.agent.start_ingestion_job(**IDS, **options)["ingestionJob"]

    def job(self, job_id: str) -> Any:
        return self.agent.get_ingestion_job(**IDS, ingestionJobId=job_id)["ingestionJob"]

    def finished(self, job_id: str) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (job := self.job(job_id))["status"] in ("STARTING", "IN_PROGRESS", "STOPPING"):
            assert time.monotonic() < deadline, job
            time.sleep(0.05)
        return job

    def sync(self) -> Any:
        return self.finished(self.start()["ingestionJobId"])

    def counts(self) -> dict[str, int]:
        """What one more job did, without what it left alone."""
        statistics = self.sync()["statistics"]
        return {name: count for name, count in statistics.items() if count and "Scanned" not in name}

    def status(self, *names: str) -> list[str]:
        return [details["status"] for details in self.details(*names)]

    def details(self, *names: str) -> Any:
        identifiers = [named(self.uri(name)) for name in names]
        return self.agent.get_knowledge_base_documents(**IDS, documentIdentifiers=identifiers)["documentDetails"]

    def settled(self, name: str) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (details := self.details(name)[0])["status"] in ("STARTING", "IN_PROGRESS", "PENDING", "DELETING"):
            assert time.monotonic() < deadline, details
            time.sleep(0.05)
        return details

    def retrieve(self, text: str, *, token: str | None = None, **search: Any) -> Any:
        options = {"nextToken": token} if token else {}
        return self.runtime.retrieve(
            knowledgeBaseId=KNOWLEDGE_BASE_ID,
            retrievalQuery={"text": text},
            retrievalConfiguration={"vectorSearchConfiguration": search},
            **options,
        )

    def found(self, text: str, **search: Any) -> list[str]:
        return [result["content"]["text"] for result in self.retrieve(text, **search)["retrievalResults"]]

    def fault(self, **wanted: Any) -> Any:
        body = json.dumps(wanted).encode()
        with urllib.request.urlopen(f"{self.server.url}/control/faults", data=body) as answer:  # noqa: S310 - loopback
            return json.loads(answer.read())

    def _put(self, name: str, content: bytes) -> None:
        self.s3.put_object(Bucket=KNOWLEDGE_BUCKET, Key=KNOWLEDGE_PREFIX + name, Body=content)


def named(uri: str) -> dict[str, Any]:
    return {"dataSourceType": "S3", "s3": {"uri": uri}}


def equals(key: str, value: Any) -> dict[str, Any]:
    return {"equals": {"key": key, "value": value}}


@contextmanager
def a_knowledge_base(state: Path) -> Iterator[KnowledgeBaseUnderTest]:
    """Jobs take no longer than their work, unless a test asks."""
    with an_emulator(state / "emulator") as emulator:
        s3 = client("s3", clients_of(emulator))
        s3.create_bucket(Bucket=KNOWLEDGE_BUCKET)
        with an_ai_server(state / "ai", emulator=emulator.server.url) as server:
            base = KnowledgeBaseUnderTest(s3, server)
            base.fault(job_seconds=0)
            yield base
