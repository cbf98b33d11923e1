"""Bedrock Agent and Bedrock Agent Runtime for one Knowledge Base over the emulator's S3, spoken as botocore expects.

It behaves as a Knowledge Base on S3 Vectors without chunking: one document, one vector; semantic search only.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local import knowledge_requests as requests
from local.aws_wire import AwsError, json_object
from local.embedder import DIMENSIONS, MODEL_ID
from local.faults import Faults
from local.ingestion_jobs import Embed, Ingestion
from local.knowledge_source import S3Source
from local.knowledge_store import DocumentState, KnowledgeStore, Passage, now
from local.layout import ACCOUNT, DATA_SOURCE_ID, KNOWLEDGE_BASE_ID, KNOWLEDGE_BUCKET, KNOWLEDGE_PREFIX, REGION

Operation = Callable[[Request], Awaitable[Response]]
Run = Callable[..., Awaitable[Any]]
Answer = tuple[int, dict[str, Any]]
Work = Callable[[dict[str, str], dict[str, Any]], Answer]
CANDIDATES: Final = 10_000


@dataclass(frozen=True)
class Place:
    """Where the documents are and where the Knowledge Base keeps what it knows."""

    endpoint: str
    state: Path
    bucket: str
    prefix: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Place | None":
        """None where the server has no emulator: then there is no Knowledge Base."""
        endpoint = environment.get("AWS_ENDPOINT_URL", "")
        state = environment.get("AI_SERVER_KNOWLEDGE", "")
        if not endpoint or not state:
            return None
        return cls(
            endpoint=endpoint,
            state=Path(state),
            bucket=environment.get("AI_SERVER_KNOWLEDGE_BUCKET") or KNOWLEDGE_BUCKET,
            prefix=environment.get("AI_SERVER_KNOWLEDGE_PREFIX") or KNOWLEDGE_PREFIX,
        )


class KnowledgeBase:
    """The operations; each is one request."""

    def __init__(self, place: Place, *, embed: Embed, run: Run, faults: Faults) -> None:
        self._ids = {"knowledgeBaseId": KNOWLEDGE_BASE_ID, "dataSourceId": DATA_SOURCE_ID}
        self._source = S3Source(endpoint=place.endpoint, region=REGION, bucket=place.bucket, prefix=place.prefix)
        self._store = KnowledgeStore(place.state, data_source_id=DATA_SOURCE_ID)
        self._ingestion = Ingestion(ids=self._ids, store=self._store, source=self._source, embed=embed, faults=faults)
        self._embed = embed
        self._run = run
        self._since = now()

    def routes(self, service: Callable[[Operation], Operation]) -> list[Route]:
        """*service* turns errors into the services' own shape."""
        base = "/knowledgebases/{base}"
        source = f"{base}/datasources/{{source}}"
        job = f"{source}/ingestionjobs/{{job}}"
        table: list[tuple[str, str, Work]] = [
            ("POST", "/knowledgebases/{base:path}/retrieve", self.retrieve),
            ("PUT", f"{source}/ingestionjobs/", self.start_ingestion_job),
            ("POST", f"{source}/ingestionjobs/", self.list_ingestion_jobs),
            ("GET", job, self.get_ingestion_job),
            ("POST", f"{job}/stop", self.stop_ingestion_job),
            ("POST", f"{source}/documents/getDocuments", self.get_documents),
            ("POST", f"{source}/documents/deleteDocuments", self.delete_documents),
            ("POST", f"{source}/documents", self.list_documents),
            ("PUT", f"{source}/documents", self.ingest_documents),
            ("GET", source, self.get_data_source),
            ("GET", base, self.get_knowledge_base),
        ]
        return [Route(path, service(self._answering(answer)), methods=[method]) for method, path, answer in table]

    def _answering(self, operation: Work) -> Operation:
        """Names checked, the body read, the work done beside the event loop."""

        async def answer(request: Request) -> Response:
            names = dict(request.path_params)
            self._check_names(names)
            content = await request.body()
            asked = json_object(content) if content else {}
            status, body = await self._run(operation, names, asked)
            return JSONResponse(body, status_code=status)

        answer.__name__ = operation.__name__
        return answer

    def _check_names(self, names: dict[str, str]) -> None:
        if requests.knowledge_base_id(names["base"]) != KNOWLEDGE_BASE_ID:
            raise AwsError("ResourceNotFoundException", f"only the Knowledge Base {KNOWLEDGE_BASE_ID} exists here")
        if names.get("source", DATA_SOURCE_ID) != DATA_SOURCE_ID:
            raise AwsError("ResourceNotFoundException", f"only the data source {DATA_SOURCE_ID} exists here")

    def start_ingestion_job(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        told = requests.description(asked)
        return 202, {"ingestionJob": self._ingestion.start(token=requests.client_token(asked), description=told)}

    def get_ingestion_job(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        return 200, {"ingestionJob": self._job(names)}

    def stop_ingestion_job(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        return 202, {"ingestionJob": self._ingestion.stop(self._job(names))}

    def list_ingestion_jobs(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        jobs, further = requests.page_of(asked, requests.chosen_jobs(asked, self._store.jobs()))
        summaries = [{key: value for key, value in job.items() if key != "failureReasons"} for job in jobs]
        return 200, {"ingestionJobSummaries": summaries} | further

    def get_documents(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        uris = requests.identified(asked, self._source.key_of)
        return 200, {"documentDetails": [self._told(uri, self._store.document(uri)) for uri in uris]}

    def list_documents(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        states, further = requests.page_of(asked, self._store.documents())
        return 200, {"documentDetails": [self._told(state.uri, state) for state in states]} | further

    def ingest_documents(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        requests.client_token(asked)
        documents = requests.handed_in(asked, self._source.key_of)
        self._ingestion.ingest(documents)
        return 202, {"documentDetails": [self._told(uri, None, status="STARTING") for uri, _ in documents]}

    def delete_documents(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        requests.client_token(asked)
        uris = requests.identified(asked, self._source.key_of)
        known = [uri for uri in uris if self._store.document(uri)]
        self._ingestion.delete(known)
        return 202, {
            "documentDetails": [
                self._told(uri, None, status="DELETING" if uri in known else "NOT_FOUND") for uri in uris
            ]
        }

    def retrieve(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        query = requests.query_of(asked)
        # One more than the page tells whether there is another.
        at_most = min(query.start + query.size + 1, CANDIDATES)
        found = self._store.search(self._embed(query.text), query.where, at_most=at_most)
        page = found[query.start : query.start + query.size]
        further = {"nextToken": query.next_token()} if len(found) > query.start + query.size else {}
        return 200, {"retrievalResults": [_result(passage) for passage in page]} | further

    def get_knowledge_base(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        model = f"arn:aws:bedrock:{REGION}::foundation-model/{MODEL_ID}"
        vectors = {"embeddingModelArn": model, "embeddingModelConfiguration": {}}
        vectors["embeddingModelConfiguration"] = {"bedrockEmbeddingModelConfiguration": {"dimensions": DIMENSIONS}}
        about = {
            "knowledgeBaseId": KNOWLEDGE_BASE_ID,
            "name": "agent-memory-local",
            "knowledgeBaseArn": f"arn:aws:bedrock:{REGION}:{ACCOUNT}:knowledge-base/{KNOWLEDGE_BASE_ID}",
            "roleArn": f"arn:aws:iam::{ACCOUNT}:role/agent-memory-local-knowledge",
            "knowledgeBaseConfiguration": {"type": "VECTOR", "vectorKnowledgeBaseConfiguration": vectors},
            "status": "ACTIVE",
            "createdAt": self._since,
            "updatedAt": self._since,
        }
        return 200, {"knowledgeBase": about}

    def get_data_source(self, names: dict[str, str], asked: dict[str, Any]) -> Answer:
        bucket = {"bucketArn": f"arn:aws:s3:::{self._source.bucket}", "inclusionPrefixes": [self._source.prefix]}
        about = {
            **self._ids,
            "name": "facts",
            "status": "AVAILABLE",
            "dataDeletionPolicy": "RETAIN",
            "dataSourceConfiguration": {"type": "S3", "s3Configuration": bucket},
            "vectorIngestionConfiguration": {"chunkingConfiguration": {"chunkingStrategy": "NONE"}},
            "createdAt": self._since,
            "updatedAt": self._since,
        }
        return 200, {"dataSource": about}

    def _job(self, names: dict[str, str]) -> dict[str, Any]:
        job = self._store.job(names["job"])
        if job is None:
            raise AwsError("ResourceNotFoundException", "there is no ingestion job with this id")
        return job

    def _told(self, uri: str, state: DocumentState | None, *, status: str = "NOT_FOUND") -> dict[str, Any]:
        details = {**self._ids, "identifier": {"dataSourceType": "S3", "s3": {"uri": uri}}, "status": status}
        if state is None:
            return details | {"updatedAt": now()}
        details |= {"status": state.status, "updatedAt": state.updated_at}
        return details | ({"statusReason": state.reason} if state.reason else {})


def _result(passage: Passage) -> dict[str, Any]:
    return {
        "content": {"type": "TEXT", "text": passage.text},
        "location": {"type": "S3", "s3Location": {"uri": passage.uri}},
        "metadata": dict(passage.attributes),
        "score": passage.score,
    }
