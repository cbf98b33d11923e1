"""The Bedrock Knowledge Base: retrieval that filters by tenant and checks again, and its ingestion jobs.

IAM can't see a filter, so whoever may retrieve could read every tenant: all calls go through here.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.contract import KNOWLEDGE_PREFIX
from agent_memory.domain.errors import ModelBusyError
from agent_memory.domain.keys import document_key
from agent_memory.domain.knowledge import (
    FACT_ID,
    MAX_RESULTS,
    IngestionJob,
    JobStart,
    KnowledgeQuery,
    Passage,
    Passages,
)
from agent_memory.domain.models import FactScope

# The service takes 20,000 characters; its embedding model reads far fewer.
MAX_QUERY = 6_000
DOCUMENTS_PER_CALL = 10
# What the service adds to a score by rounding is no reason to drop it.
_ROUNDING = 1e-4
_BUSY = frozenset({"ConflictException"})
_THROTTLED = frozenset({"ThrottlingException", "ServiceQuotaExceededException", "TooManyRequestsException"})


class BedrockKnowledge:
    """One Knowledge Base and its data source. *agent*: bedrock-agent. *runtime*: bedrock-agent-runtime."""

    def __init__(self, *, agent: Any, runtime: Any, knowledge_base_id: str, data_source_id: str, bucket: str) -> None:
        self._agent = agent
        self._runtime = runtime
        self._knowledge_base_id = knowledge_base_id
        self._ids = {"knowledgeBaseId": knowledge_base_id, "dataSourceId": data_source_id}
        self._bucket = bucket

    def retrieve(self, query: KnowledgeQuery) -> Passages:
        """The nearest documents that *query* may see. Whatever else comes back is dropped and counted."""
        if not query.text.strip() or query.limit < 1:
            return Passages()
        search = {"numberOfResults": min(query.limit, MAX_RESULTS), "filter": retrieval_filter(query)}
        with translating("bedrock:Retrieve", busy=ModelBusyError):
            answer = self._runtime.retrieve(
                knowledgeBaseId=self._knowledge_base_id,
                retrievalQuery={"text": query.text[:MAX_QUERY]},
                retrievalConfiguration={"vectorSearchConfiguration": search},
            )
        results = answer.get("retrievalResults", [])
        read = [self._passage(result) for result in results]
        passages = [passage for passage in read if passage is not None]
        own = [passage for passage in passages if _may_see(query, passage)]
        foreign = sum(_is_foreign(query, result) for result in results)
        hidden = len(passages) - len(own)
        return Passages(
            found=tuple(sorted(own, key=lambda passage: -passage.score)[: query.limit]),
            foreign=max(foreign, hidden),
            unreadable=len(results) - len(passages),
        )

    def _passage(self, result: Mapping[str, Any]) -> Passage | None:
        held, score = result.get("metadata") or {}, _score(result.get("score"))
        text = (result.get("content") or {}).get("text")
        tenant_id, domain, fact_id = (str(held.get(name) or "") for name in ("tenant_id", "domain", "fact_id"))
        if not isinstance(text, str) or not text.strip() or score is None:
            return None
        if not FACT_ID.fullmatch(fact_id) or held.get("scope") not in tuple(FactScope):
            return None
        if _uri_of(result) != self._uri(document_key(KNOWLEDGE_PREFIX, tenant_id, domain, fact_id)):
            # A sidecar that claims to be somebody else's is not believed.
            return None
        return Passage(
            tenant_id=tenant_id,
            domain=domain,
            fact_id=fact_id,
            text=text,
            score=score,
            confidence=_score(held.get("confidence")) or 0.0,
            scope=FactScope(held["scope"]),
            user_ref=held.get("user_ref") or None,
        )

    def start_job(self, token: str) -> JobStart:
        """Start an ingestion job, once per *token*."""
        with translating("bedrock:StartIngestionJob"):
            try:
                answer = self._agent.start_ingestion_job(**self._ids, clientToken=token)
            except ClientError as error:
                if error_code(error) in _BUSY:
                    return JobStart(decision="busy")
                if error_code(error) in _THROTTLED:
                    return JobStart(decision="throttled")
                raise
        return JobStart(decision="started", job_id=answer["ingestionJob"]["ingestionJobId"])

    def job(self, job_id: str) -> IngestionJob:
        """A job as it stands."""
        with translating("bedrock:GetIngestionJob"):
            told = self._agent.get_ingestion_job(**self._ids, ingestionJobId=job_id)["ingestionJob"]
        statistics = {str(name): int(count) for name, count in (told.get("statistics") or {}).items()}
        return IngestionJob(job_id=job_id, status=str(told["status"]), statistics=statistics)

    def statuses(self, keys: Sequence[str]) -> Mapping[str, str]:
        """The status of the document under each of *keys*, ten to a call."""
        found = dict.fromkeys(keys, "NOT_FOUND")
        names = {self._uri(key): key for key in keys}
        wanted = list(names)
        for start in range(0, len(wanted), DOCUMENTS_PER_CALL):
            asked = [{"dataSourceType": "S3", "s3": {"uri": uri}} for uri in wanted[start : start + DOCUMENTS_PER_CALL]]
            with translating("bedrock:GetKnowledgeBaseDocuments"):
                answer = self._agent.get_knowledge_base_documents(**self._ids, documentIdentifiers=asked)
            for told in answer.get("documentDetails", []):
                key = names.get(((told.get("identifier") or {}).get("s3") or {}).get("uri", ""))
                if key is not None:
                    found[key] = str(told.get("status", "NOT_FOUND"))
        return found

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"


def retrieval_filter(query: KnowledgeQuery) -> dict[str, Any]:
    """The tenant, always; the domain when there is one; what is everybody's, and what is this user's."""
    members = [_equals("tenant_id", query.tenant_id)]
    if query.domain is not None:
        members.append(_equals("domain", query.domain))
    everybodys = _equals("scope", FactScope.DOMAIN.value)
    if query.user_ref is None:
        members.append(everybodys)
    else:
        members.append({"orAll": [everybodys, _equals("user_ref", query.user_ref)]})
    return {"andAll": members}


def _equals(key: str, value: str) -> dict[str, Any]:
    return {"equals": {"key": key, "value": value}}


def _score(value: object) -> float | None:
    """A number that may be a score, in [0, 1]; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return min(max(float(value), 0.0), 1.0) if -_ROUNDING <= value <= 1 + _ROUNDING else None


def _may_see(query: KnowledgeQuery, passage: Passage) -> bool:
    if passage.tenant_id != query.tenant_id or query.domain not in (None, passage.domain):
        return False
    if passage.scope is FactScope.DOMAIN:
        return passage.user_ref is None
    return passage.user_ref is not None and passage.user_ref == query.user_ref


def _is_foreign(query: KnowledgeQuery, result: Mapping[str, Any]) -> bool:
    """Whether a result, readable or not, says or shows that it is another tenant's."""
    held = result.get("metadata") or {}
    named = held.get("tenant_id", query.tenant_id) != query.tenant_id
    uri = _uri_of(result)
    return named or (bool(uri) and f"/{KNOWLEDGE_PREFIX}{query.tenant_id}/" not in uri)


def _uri_of(result: Mapping[str, Any]) -> str:
    return str(((result.get("location") or {}).get("s3Location") or {}).get("uri", ""))
