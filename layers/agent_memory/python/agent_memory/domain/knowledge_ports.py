"""What the rules need of the Knowledge Base: its documents, which domains it has yet to follow, searches and syncs."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agent_memory.domain.knowledge import FactDocument, IngestionJob, JobStart, KnowledgeQuery, Passages


class FactDocuments(Protocol):
    """The documents of ONE tenant's facts in the knowledge bucket."""

    def put(self, document: FactDocument) -> None:
        """Write the sidecar, then the document: a sync must never see a document without its scope."""

    def delete(self, domain: str, fact_id: str) -> None:
        """Delete the document, then its sidecar. What is not there is deleted."""


class DirtyDomains(Protocol):
    """Which domains the Knowledge Base has yet to follow, across tenants."""

    def note(self, tenant_id: str, domain: str, *, now: int) -> None: ...

    def all(self) -> Mapping[tuple[str, str], int]:
        """Every noted (tenant_id, domain), with the time of its last note."""

    def clear(self, tenant_id: str, domain: str, *, seen: int) -> None:
        """Forget a domain, unless it was noted again after *seen*."""


class Knowledge(Protocol):
    """The Knowledge Base over the documents of all tenants."""

    def retrieve(self, query: KnowledgeQuery) -> Passages:
        """The nearest documents of the query's tenant. Another tenant's are dropped and counted, never returned."""

    def start_job(self, token: str) -> JobStart:
        """Start an ingestion job; the same *token* (36 to 256 letters, digits, hyphens) starts one job."""

    def job(self, job_id: str) -> IngestionJob: ...

    def statuses(self, keys: Sequence[str]) -> Mapping[str, str]:
        """The service's status of each document, `NOT_FOUND` for one that it does not know."""


class IngestionDesk(Protocol):
    """Lets one execution of the ingestion machine work at a time, and keeps the last report."""

    def take(self, owner: str, *, now: int, until: int) -> bool:
        """Take or renew the lock. False while another owner's has not run out."""

    def release(self, owner: str) -> bool: ...

    def keep(self, report: Mapping[str, object]) -> None: ...

    def report(self) -> dict[str, object] | None: ...
