"""Ingestion of the local Knowledge Base: whole syncs of the data source, one at a time, and single documents."""

import logging
import secrets
import string
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from local.aws_wire import AwsError
from local.faults import Faults
from local.knowledge_source import DOCUMENT_MAX_BYTES, FORMATS, Document, DocumentError, DocumentGoneError, S3Source
from local.knowledge_store import DocumentState, KnowledgeStore, now

log = logging.getLogger("ingestion")
RUNNING: Final = ("STARTING", "IN_PROGRESS", "STOPPING")
BATCH: Final = 16
READERS: Final = 4
STARTING_SHARE: Final = 0.25
REASON_CHARACTERS: Final = 2048
STATISTICS: Final = (
    "numberOfDocumentsScanned",
    "numberOfMetadataDocumentsScanned",
    "numberOfNewDocumentsIndexed",
    "numberOfModifiedDocumentsIndexed",
    "numberOfMetadataDocumentsModified",
    "numberOfDocumentsDeleted",
    "numberOfDocumentsFailed",
    "numberOfDocumentsSkipped",
)
Embed = Callable[[str], list[float]]
Outcome = Document | DocumentError | DocumentGoneError


class Ingestion:
    """The jobs of one data source, and the documents handed in one by one."""

    def __init__(self, *, ids: dict[str, str], store: KnowledgeStore, source: S3Source, embed: Embed, faults: Faults):
        self._ids = ids
        self._store = store
        self._source = source
        self._embed = embed
        self._faults = faults
        self._starting = threading.Lock()
        # Held while documents are read and indexed: a deletion waits, so that no older reading comes after it.
        self._indexing = threading.Lock()
        self._stop = threading.Event()
        self._readers = ThreadPoolExecutor(READERS, "knowledge-source")
        self._direct = ThreadPoolExecutor(1, "knowledge-documents")
        self._fail_what_a_restart_interrupted()

    def start(self, *, token: str, description: str) -> dict[str, Any]:
        """Begin a job, or return the one that this token began."""
        with self._starting:
            known = self._store.job_of_token(token) if token else None
            if known is not None:
                return known
            for other in self._store.jobs():
                if other["status"] in RUNNING:
                    raise AwsError(
                        "ConflictException",
                        f"Ingestion job {other['ingestionJobId']} is still running on this data source.",
                    )
            job = self._new_job(description)
            self._store.keep_job(job, token=token)
            self._stop = threading.Event()
        threading.Thread(target=self._run, args=(dict(job), self._stop), name="ingestion", daemon=True).start()
        return job

    def stop(self, job: dict[str, Any]) -> dict[str, Any]:
        with self._starting:
            job = self._store.job(job["ingestionJobId"]) or job
            if job["status"] not in RUNNING:
                raise AwsError("ConflictException", f"Ingestion job {job['ingestionJobId']} is not running.")
            self._stop.set()
            return job | {"status": "STOPPING"}

    def ingest(self, documents: Iterable[tuple[str, bool]]) -> None:
        """Index single documents soon; each comes with whether its sidecar belongs to it."""
        for uri, sidecar in documents:
            self._store.mark([uri], "STARTING")
            self._direct.submit(self._ingest, uri, sidecar)

    def delete(self, uris: Iterable[str]) -> None:
        """Forget single documents soon."""
        for uri in uris:
            if self._store.document(uri) is not None:
                self._store.mark([uri], "DELETING")
                self._direct.submit(self._delete, uri)

    def _new_job(self, description: str) -> dict[str, Any]:
        job_id = "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(10))
        at = now()
        job: dict[str, Any] = {**self._ids, "ingestionJobId": job_id, "status": "STARTING"}
        job |= {"startedAt": at, "updatedAt": at}
        job |= {"statistics": dict.fromkeys(STATISTICS, 0), "failureReasons": []}
        return job | ({"description": description} if description else {})

    def _fail_what_a_restart_interrupted(self) -> None:
        for job in self._store.jobs():
            if job["status"] in RUNNING:
                self._settle(job, "FAILED", "The service was restarted while the job ran.")
        for document in self._store.documents():
            if document.status in ("STARTING", "IN_PROGRESS", "DELETING"):
                self._store.mark([document.uri], "FAILED", "The service was restarted.")

    def _run(self, job: dict[str, Any], stop: threading.Event) -> None:
        began = time.monotonic()
        seconds = self._faults.job_seconds
        try:
            stop.wait(seconds * STARTING_SHARE)
            job["status"] = "IN_PROGRESS"
            self._keep(job)
            self._sync(job, stop)
            stop.wait(max(0.0, began + seconds - time.monotonic()))
            self._settle(job, "STOPPED" if stop.is_set() else "COMPLETE")
        except Exception as error:
            log.error("ingestion job failed: %s", type(error).__name__)  # noqa: TRY400 - the text may hold content
            self._settle(job, "FAILED", f"The data source could not be read: {type(error).__name__}.")

    def _sync(self, job: dict[str, Any], stop: threading.Event) -> None:
        """Bring the index to what the prefix holds: new and changed documents in, those that are gone out."""
        known = {document.uri: document for document in self._store.documents()}
        listing = self._source.listing()
        counts = job["statistics"]
        counts["numberOfDocumentsScanned"] = len(listing.documents)
        counts["numberOfMetadataDocumentsScanned"] = len(listing.sidecars)
        wanted = []
        for uri, (etag, size) in listing.documents.items():
            refusal = self._refusal(uri, size)
            if refusal:
                self._count_refused(job, uri, *refusal)
            elif _changed(known.get(uri), etag, listing.sidecars.get(uri, "")):
                wanted.append(uri)
        self._store.mark(wanted, "PENDING")
        for batch in _batches(wanted):
            if stop.is_set():
                return
            self._index(batch, known, job)
            self._keep(job)
        if not stop.is_set():
            self._remove_gone(set(known) - set(listing.documents), job)

    def _refusal(self, uri: str, size: int) -> tuple[str, str] | None:
        """Status and reason of a document that is not even read."""
        if not uri.endswith(FORMATS):
            return "IGNORED", "The file format is not supported."
        if size > DOCUMENT_MAX_BYTES:
            return "FAILED", f"The document is larger than {DOCUMENT_MAX_BYTES} bytes."
        return None

    def _index(self, batch: list[str], known: dict[str, DocumentState], job: dict[str, Any]) -> None:
        with self._indexing:
            read: list[Document] = []
            for uri, outcome in zip(batch, self._readers.map(self._read, batch), strict=True):
                if isinstance(outcome, Document) and self._faults.fails(uri):
                    outcome = DocumentError("The embedding model was busy. Try again.")
                if isinstance(outcome, DocumentError):
                    self._count_refused(job, uri, "FAILED", str(outcome))
                elif isinstance(outcome, DocumentGoneError):
                    self._store.forget([uri])
                else:
                    read.append(outcome)
            self._store.index([(document, self._embed(document.text)) for document in read])
        for document in read:
            _count_indexed(job["statistics"], document, known.get(document.uri))

    def _read(self, uri: str) -> Outcome:
        try:
            return self._source.read(uri)
        except (DocumentError, DocumentGoneError) as error:
            return error

    def _count_refused(self, job: dict[str, Any], uri: str, status: str, reason: str) -> None:
        self._store.mark([uri], status, reason)
        counts = job["statistics"]
        counts["numberOfDocumentsFailed" if status == "FAILED" else "numberOfDocumentsSkipped"] += 1
        told = f"{reason} [Files: {uri}]"[:REASON_CHARACTERS]
        if len(job["failureReasons"]) < REASON_CHARACTERS:
            job["failureReasons"].append(told)

    def _remove_gone(self, uris: set[str], job: dict[str, Any]) -> None:
        with self._indexing:
            indexed = [uri for uri in uris if (state := self._store.document(uri)) and state.indexed]
            self._store.forget(uris)
        job["statistics"]["numberOfDocumentsDeleted"] += len(indexed)

    def _ingest(self, uri: str, sidecar: bool) -> None:
        try:
            with self._indexing:
                self._store.mark([uri], "IN_PROGRESS")
                document = self._source.read(uri, sidecar=sidecar)
                self._store.index([(document, self._embed(document.text))])
        except DocumentGoneError:
            self._store.mark([uri], "FAILED", "The object does not exist.")
        except DocumentError as error:
            self._store.mark([uri], "FAILED", str(error))
        except Exception as error:
            log.error("ingestion of a document failed: %s", type(error).__name__)  # noqa: TRY400 - may hold content
            self._store.mark([uri], "FAILED", f"The document could not be read: {type(error).__name__}.")

    def _delete(self, uri: str) -> None:
        with self._indexing:
            self._store.forget([uri])

    def _settle(self, job: dict[str, Any], status: str, reason: str = "") -> None:
        job["status"] = status
        if reason:
            job["failureReasons"].append(reason)
        self._keep(job)

    def _keep(self, job: dict[str, Any]) -> None:
        job["updatedAt"] = now()
        self._store.keep_job(job)


def _changed(known: DocumentState | None, etag: str, sidecar_etag: str) -> bool:
    """A document that failed is tried again by every job."""
    if known is None or known.status != "INDEXED":
        return True
    return (known.etag, known.sidecar_etag) != (etag, sidecar_etag)


def _count_indexed(counts: dict[str, int], document: Document, before: DocumentState | None) -> None:
    if before is None or not before.indexed:
        counts["numberOfNewDocumentsIndexed"] += 1
        return
    counts["numberOfModifiedDocumentsIndexed"] += before.etag != document.etag
    counts["numberOfMetadataDocumentsModified"] += before.sidecar_etag != document.sidecar_etag


def _batches(uris: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(uris), BATCH):
        yield uris[start : start + BATCH]
