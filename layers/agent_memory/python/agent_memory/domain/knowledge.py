"""What passes between the rules and the Knowledge Base: documents, questions, passages, jobs."""

import re
from collections.abc import Mapping
from typing import Literal

from agent_memory.contract import KNOWLEDGE_PREFIX
from agent_memory.domain.facts import Fact
from agent_memory.domain.keys import document_key
from agent_memory.domain.models import FactScope, Model

FACT_ID = re.compile(r"f-[0-9a-f]{32}")
MAX_RESULTS = 100


class FactDocument(Model):
    """One fact as the Knowledge Base reads it: *text* is the bare sentence, *attributes* what it can be filtered by."""

    tenant_id: str
    domain: str
    fact_id: str
    text: str
    attributes: Mapping[str, str | float]

    @property
    def key(self) -> str:
        return document_key(KNOWLEDGE_PREFIX, self.tenant_id, self.domain, self.fact_id)


def document_of(fact: Fact) -> FactDocument:
    """The document of *fact*. Only ids and small values become attributes: filterable metadata is 2,048 bytes."""
    return FactDocument(
        tenant_id=fact.tenant_id,
        domain=fact.domain,
        fact_id=fact.fact_id,
        text=fact.content,
        attributes={
            "tenant_id": fact.tenant_id,
            "domain": fact.domain,
            "fact_id": fact.fact_id,
            "confidence": round(float(fact.confidence), 4),
            "user_ref": fact.user_ref or "",
            "scope": fact.scope.value,
        },
    )


def fact_document_key(fact: Fact) -> str:
    """The S3 key of the document of *fact*."""
    return document_key(KNOWLEDGE_PREFIX, fact.tenant_id, fact.domain, fact.fact_id)


class KnowledgeQuery(Model):
    """A question to the Knowledge Base. *domain* None: every domain of the tenant. *user_ref* None: no user's facts."""

    tenant_id: str
    text: str
    domain: str | None = None
    user_ref: str | None = None
    limit: int = 5


class Passage(Model):
    """One document that was found. *score*: cosine similarity in [0, 1] as the service gives it."""

    tenant_id: str
    domain: str
    fact_id: str
    text: str
    score: float
    confidence: float = 0.0
    scope: FactScope = FactScope.DOMAIN
    user_ref: str | None = None


class Passages(Model):
    """The answer. *foreign*: results of another tenant, domain or user that were dropped: a defect or an attack.
    *unreadable*: results without the attributes that every document of ours has, or with an impossible score."""

    found: tuple[Passage, ...] = ()
    foreign: int = 0
    unreadable: int = 0


class JobStart(Model):
    """`busy`: another job is running. `throttled`: too many calls. Both pass."""

    decision: Literal["started", "busy", "throttled"]
    job_id: str | None = None


class IngestionJob(Model):
    """A job as the service tells it. *failed*: documents that it could not index."""

    job_id: str
    status: str
    statistics: Mapping[str, int] = {}

    @property
    def over(self) -> bool:
        return self.status in ("COMPLETE", "FAILED", "STOPPED")

    @property
    def failed(self) -> int:
        return self.statistics.get("numberOfDocumentsFailed", 0)
