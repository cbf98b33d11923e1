"""What the Knowledge Base keeps: vectors in ChromaDB, the status of documents and the history of jobs in SQLite."""

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import chromadb
from chromadb.config import Settings

from local.knowledge_filters import ATTRIBUTE, Where
from local.knowledge_source import RESERVED, Document

COLLECTION: Final = "knowledge"
# The index is approximate. At 10,000 documents the first five were always right; the default missed 2 of the first 100.
SEARCH_WIDTH: Final = 300
SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS documents (
    uri TEXT PRIMARY KEY, etag TEXT, sidecar_etag TEXT, indexed INTEGER, status TEXT, reason TEXT, updated_at TEXT
);
CREATE TABLE IF NOT EXISTS jobs (job_id TEXT PRIMARY KEY, number INTEGER, body TEXT);
CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY, job_id TEXT);
"""
COLUMNS: Final = "uri, etag, sidecar_etag, indexed, status, reason, updated_at"


@dataclass(frozen=True)
class DocumentState:
    """A document as the service knows it; *indexed* says whether a version of it can be found."""

    uri: str
    etag: str
    sidecar_etag: str
    indexed: bool
    status: str
    reason: str
    updated_at: str


@dataclass(frozen=True)
class Passage:
    """A document that a query found; score is the cosine similarity."""

    uri: str
    text: str
    score: float
    attributes: Mapping[str, Any]


class KnowledgeStore:
    """Safe to share between threads."""

    def __init__(self, folder: Path, *, data_source_id: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._data_source_id = data_source_id
        # The embeddings are ours: without a function of its own ChromaDB never fetches a model.
        client = chromadb.PersistentClient(path=str(folder / "chroma"), settings=Settings(anonymized_telemetry=False))
        self._vectors = client.get_or_create_collection(
            COLLECTION, embedding_function=None, configuration={"hnsw": {"space": "cosine", "ef_search": SEARCH_WIDTH}}
        )
        self._lock = threading.RLock()
        self._ledger = sqlite3.connect(folder / "ledger.sqlite", check_same_thread=False)
        self._ledger.executescript(SCHEMA)

    def document(self, uri: str) -> DocumentState | None:
        rows = self._rows(f"SELECT {COLUMNS} FROM documents WHERE uri = ?", uri)  # noqa: S608 - our own constant
        return next((_state(row) for row in rows), None)

    def documents(self) -> list[DocumentState]:
        return [_state(row) for row in self._rows(f"SELECT {COLUMNS} FROM documents ORDER BY uri")]  # noqa: S608 - our own

    def mark(self, uris: Iterable[str], status: str, reason: str = "") -> None:
        """Note the status of documents; which versions are indexed stays as it is."""
        at = now()
        self._write(
            "INSERT INTO documents VALUES (?, '', '', 0, ?, ?, ?) ON CONFLICT (uri) DO UPDATE "
            "SET status = excluded.status, reason = excluded.reason, updated_at = excluded.updated_at",
            [(uri, status, reason, at) for uri in uris],
        )

    def index(self, documents: Sequence[tuple[Document, list[float]]]) -> None:
        """Make *documents* findable. Vectors first: a crash between the two makes the next job index them again."""
        if not documents:
            return
        self._vectors.upsert(
            ids=[document.uri for document, _ in documents],
            embeddings=[vector for _, vector in documents],
            documents=[document.text for document, _ in documents],
            metadatas=[self._kept_beside(document) for document, _ in documents],
        )
        at = now()
        rows = [(d.uri, d.etag, d.sidecar_etag, 1, "INDEXED", "", at) for d, _ in documents]
        self._write("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, uris: Iterable[str]) -> None:
        gone = list(uris)
        if gone:
            self._vectors.delete(ids=gone)
            self._write("DELETE FROM documents WHERE uri = ?", [(uri,) for uri in gone])

    def search(self, vector: list[float], where: Where | None, *, at_most: int) -> list[Passage]:
        found = self._vectors.query(
            query_embeddings=[vector], n_results=at_most, where=where, include=["documents", "metadatas", "distances"]
        )
        columns = (found[name] or [[]] for name in ("ids", "documents", "metadatas", "distances"))
        rows = zip(*(column[0] for column in columns), strict=True)
        passages = [
            Passage(uri=uri, text=text, score=1.0 - float(distance), attributes=_attributes(beside))
            for uri, text, beside, distance in rows
        ]
        # The same answer for the same question, or pages of it would overlap.
        return sorted(passages, key=lambda passage: (-passage.score, passage.uri))

    def keep_job(self, job: Mapping[str, Any], *, token: str = "") -> None:
        job_id = job["ingestionJobId"]
        with self._lock, self._ledger:
            self._ledger.execute(
                "INSERT INTO jobs VALUES (?, (SELECT COALESCE(MAX(number), 0) + 1 FROM jobs), ?) "
                "ON CONFLICT (job_id) DO UPDATE SET body = excluded.body",
                (job_id, json.dumps(job)),
            )
            if token:
                self._ledger.execute("INSERT OR IGNORE INTO tokens VALUES (?, ?)", (token, job_id))

    def job(self, job_id: str) -> dict[str, Any] | None:
        rows = self._rows("SELECT body FROM jobs WHERE job_id = ?", job_id)
        return next((json.loads(body) for (body,) in rows), None)

    def job_of_token(self, token: str) -> dict[str, Any] | None:
        rows = self._rows("SELECT body FROM jobs JOIN tokens USING (job_id) WHERE token = ?", token)
        return next((json.loads(body) for (body,) in rows), None)

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, the oldest first."""
        return [json.loads(body) for (body,) in self._rows("SELECT body FROM jobs ORDER BY number")]

    def _kept_beside(self, document: Document) -> dict[str, Any]:
        own = {f"{RESERVED}source-uri": document.uri, f"{RESERVED}data-source-id": self._data_source_id}
        return {ATTRIBUTE + key: value for key, value in {**document.attributes, **own}.items()}

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._ledger.execute(query, values).fetchall()

    def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with self._lock, self._ledger:
            self._ledger.executemany(statement, rows)


def now() -> str:
    return datetime.now(UTC).isoformat()


def _state(row: tuple[Any, ...]) -> DocumentState:
    uri, etag, sidecar_etag, indexed, *told = row
    return DocumentState(uri, etag, sidecar_etag, bool(indexed), *told)


def _attributes(beside: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key.removeprefix(ATTRIBUTE): value for key, value in (beside or {}).items()}
