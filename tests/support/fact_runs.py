"""Runs that claim facts, confirmed through the very handler; and a Knowledge Base that holds what its jobs read."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from agent_memory.contract import KNOWLEDGE_PREFIX
from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.facts import Fact
from agent_memory.domain.knowledge import IngestionJob, JobStart, KnowledgeQuery, Passage, Passages
from agent_memory.domain.models import CandidateFact, RunTicket, SourceKind, Vector
from agent_memory.wiring_tenant import TenantServices
from aws_lambda_powertools.utilities.typing import LambdaContext
from support.aws import AwsAccount
from support.builders import TENANT, a_claim, a_distillation, a_ledger_run, a_ticket, some_artifacts

from lambdas.fact_confirmation.handler import handler as fact_confirmation
from lambdas.ingestion.handler import handler as ingestion

DOMAIN = "depots"


class SubjectEmbedder:
    """Texts that name the same subject are as close as can be. *failing*: texts with one of these words raise."""

    model, dimensions = "local.all-minilm-l6-v2", 64

    def __init__(self, *subjects: str, failing: Mapping[str, AgentMemoryError] | None = None) -> None:
        self.subjects = subjects
        self.failing = dict(failing or {})
        self.texts: list[str] = []

    def embed(self, text: str) -> Vector:
        self.texts.append(text)
        for word, error in self.failing.items():
            if word in text:
                raise error
        subject = next((subject for subject in self.subjects if subject.casefold() in text.casefold()), text)
        seed = int.from_bytes(hashlib.sha256(subject.casefold().encode()).digest()[:4], "big")
        vector = np.random.default_rng(seed).normal(size=self.dimensions).astype(np.float32)
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def a_candidate_fact(content: str = "Depot K closes at 16:00.", **changes: object) -> CandidateFact:
    values: dict[str, object] = {"content": content, "confidence": 0.9, "evidence": content, "source": SourceKind.USER}
    return CandidateFact.model_validate(values | changes)


def a_run_with_facts(
    tenant: TenantServices, run_id: str, facts: Iterable[CandidateFact | str], *, attempt: int = 1, **claim: object
) -> RunTicket:
    """A run that was accepted, distilled and scrubbed, as its ticket."""
    held = a_claim(**{"run_id": run_id, "domain": DOMAIN, **claim})
    tenant.ledger.accept(a_ledger_run(run_id=run_id, user_ref=held.user_ref, ended_at=held.ended_at))
    key = tenant.claims.put_claim(held)
    candidates = tuple(a_candidate_fact(fact) if isinstance(fact, str) else fact for fact in facts)
    distillation = a_distillation(artifacts=some_artifacts(facts=candidates))
    pointer = tenant.claims.put_distillation(key, attempt, distillation)
    indexes = tuple(range(len(candidates)))
    return a_ticket(
        run_id=run_id, claim_key=key, scrubbed_key=pointer, attempt=attempt, fact_indexes=indexes, decision="stored"
    )


def confirm_one(ticket: RunTicket, index: int = 0) -> dict[str, Any]:
    event = json.loads(json.dumps({**ticket.model_dump(), "fact_index": index}))
    answer: dict[str, Any] = fact_confirmation(event, LambdaContext())
    json.dumps(answer)
    return answer


def confirm_run(ticket: RunTicket) -> list[str]:
    """The decision on each fact of the run, as the machine's Map gets them."""
    return [confirm_one(ticket, index)["decision"] for index in ticket.fact_indexes]


def said_by(tenant: TenantServices, content: str, *runs: str, **claim: object) -> list[str]:
    """The decisions when each of *runs* says *content*."""
    return [confirm_run(a_run_with_facts(tenant, run, [content], **claim))[0] for run in runs]


def facts_of(tenant: TenantServices, domain: str = DOMAIN) -> list[Fact]:
    return sorted(tenant.facts.domain(domain).facts, key=lambda fact: fact.content)


@dataclass
class StandInKnowledge:
    """The Knowledge Base's behaviour over the account's bucket: one job at a time, documents read when a job ends.

    *failing*: documents (by a word of their text) that the next so many jobs can't index.
    """

    account: AwsAccount
    indexed: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    failing: dict[str, int] = field(default_factory=dict)
    busy: int = 0
    throttled: int = 0
    jobs: list[str] = field(default_factory=list)
    checks_left: int = 0
    during: list[Any] = field(default_factory=list)

    def start_job(self, token: str) -> JobStart:
        assert 33 <= len(token) <= 256
        if self.throttled:
            self.throttled -= 1
            return JobStart(decision="throttled")
        if self.busy:
            self.busy -= 1
            return JobStart(decision="busy")
        if token not in self.jobs:
            self.jobs.append(token)
            self._documents = self.account.knowledge()
        return JobStart(decision="started", job_id=token[:10])

    def job(self, job_id: str) -> IngestionJob:
        if self.checks_left:
            self.checks_left -= 1
            return IngestionJob(job_id=job_id, status="IN_PROGRESS")
        failed = self._sync()
        return IngestionJob(job_id=job_id, status="COMPLETE", statistics={"numberOfDocumentsFailed": failed})

    def _sync(self) -> int:
        documents = {key: body for key, body in self._documents.items() if key.endswith(".txt")}
        failing = {word for word, jobs in self.failing.items() if jobs}
        self.failed = {key for key, body in documents.items() if any(word in body.decode() for word in failing)}
        self.failing = {word: max(jobs - 1, 0) for word, jobs in self.failing.items()}
        for key, body in documents.items():
            sidecar = json.loads(self._documents[f"{key}.metadata.json"])["metadataAttributes"]
            if key not in self.failed:
                self.indexed[key] = (body.decode(), sidecar)
        for key in set(self.indexed) - set(documents):
            del self.indexed[key]
        for action in self.during:
            action()
        self.during = []
        return len(self.failed)

    def statuses(self, keys: Sequence[str]) -> Mapping[str, str]:
        return {
            key: "INDEXED" if key in self.indexed else "FAILED" if key in self.failed else "NOT_FOUND" for key in keys
        }

    def retrieve(self, query: KnowledgeQuery) -> Passages:
        held = [
            Passage(
                tenant_id=said["tenant_id"],
                domain=said["domain"],
                fact_id=said["fact_id"],
                text=text,
                score=1.0,
                user_ref=said["user_ref"] or None,
                scope=said["scope"],
            )
            for text, said in self.indexed.values()
            if said["tenant_id"] == query.tenant_id and query.domain in (None, said["domain"])
        ]
        return Passages(found=tuple(held))


def ingest(owner: str = "execution-1") -> list[str]:
    """Run the ingestion machine without its waits. Returns the words that its Choices read."""
    work: dict[str, Any] = {"owner": owner}
    words: list[str] = []
    action = "collect"
    following = {
        "start": "start",
        "started": "check",
        "busy": "start",
        "throttled": "start",
        "running": "check",
        "complete": "settle",
        "partial": "settle",
        "failed": "settle",
        "gave_up": "settle",
        "again": "collect",
    }
    while action:
        work = json.loads(json.dumps(ingestion({"action": action, "work": work}, LambdaContext())))
        words.append(work["decision"])
        action = following.get(work["decision"], "")
    return words


def document_names(account: AwsAccount, tenant_id: str = TENANT, domain: str = DOMAIN) -> list[str]:
    prefix = f"{KNOWLEDGE_PREFIX}{tenant_id}/{domain}/"
    return sorted(key.removeprefix(prefix) for key in account.knowledge() if key.startswith(prefix))
