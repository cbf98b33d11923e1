"""The Knowledge Base without documents that went: an ingestion job of our own, and then it is asked."""

import hashlib
from collections.abc import Callable

from agent_memory.contract import KNOWLEDGE_PREFIX
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces
from agent_memory.domain.keys import document_key
from agent_memory.domain.knowledge import MAX_RESULTS, KnowledgeQuery
from agent_memory.domain.knowledge_ports import Knowledge

GONE = "NOT_FOUND"
CHECK_SECONDS = 10
BUSY_SECONDS = 20
QUESTION = "What is known about this user?"


class KnowledgeStore:
    """*published*: whether a fact has a document again."""

    def __init__(self, knowledge: Knowledge, published: Callable[[str, str], bool], *, now: Callable[[], int]) -> None:
        self._knowledge = knowledge
        self._published = published
        self._now = now

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally = Tally("knowledge-base")
        if traces.job_id is None:
            if not self.left(erasure, traces):
                return tally.swept(), traces
            token = hashlib.sha256(f"{erasure.erasure_id}:{self._now()}".encode()).hexdigest()
            started = self._knowledge.start_job(token)
            if started.decision != "started":
                return tally.swept(wait=BUSY_SECONDS), traces
            return tally.swept(wait=CHECK_SECONDS), traces.model_copy(update={"job_id": started.job_id})
        if not self._knowledge.job(traces.job_id).over:
            return tally.swept(wait=CHECK_SECONDS), traces
        over = traces.model_copy(update={"job_id": None})
        if self.left(erasure, traces):
            # Another job had begun before the documents went, or the index lags behind.
            return tally.swept(wait=CHECK_SECONDS), over
        tally.remove(*(f"{domain}/{fact_id}" for domain, fact_id in traces.facts))
        return tally.swept(), over

    def left(self, erasure: Erasure, traces: Traces) -> int:
        """What it still knows of the documents that went, and what it still answers about the person."""
        gone = [place for place in sorted(traces.facts) if not self._published(*place)]
        keys = [document_key(KNOWLEDGE_PREFIX, erasure.tenant_id, *place) for place in gone]
        known = sum(status != GONE for status in self._knowledge.statuses(keys).values())
        asked = KnowledgeQuery(tenant_id=erasure.tenant_id, text=QUESTION, user_ref=erasure.user_ref, limit=MAX_RESULTS)
        found = self._knowledge.retrieve(asked).found
        if erasure.whole:
            return known + len(found)
        places = {(one.domain, one.fact_id) for one in found if one.user_ref == erasure.user_ref}
        # A fact that went may have been about everybody.
        places |= {(one.domain, one.fact_id) for one in found if (one.domain, one.fact_id) in set(gone)}
        return known + sum(not self._published(*place) for place in places)
