"""The quality gate over AgentCore: a tenant's regression cases, asked of the service's own search."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from agent_memory.domain.agentcore_ports import RecordBook, Records
from agent_memory.domain.errors import ModelAnswerError
from agent_memory.domain.models import Vector
from agent_memory.domain.ports import ChatModel, Embedder
from agent_memory.domain.quality import PLACES, CaseScore, fingerprint
from agent_memory.domain.quality_judge import judged_score
from agent_memory.domain.recalled import RecalledItem
from agent_memory.domain.regressions import RegressionCase, Scorer
from agent_memory.domain.retrieval_scoring import retrieval_score
from agent_memory.domain.vectors import unit

TIER = "agentcore"
MOST = 10


class SearchDoors(NamedTuple):
    """What an asking touches. *judge* None: the deployment names no model for it."""

    records: Records
    book: RecordBook
    embedder: Callable[[], Embedder]
    judge: ChatModel | None = None


class AgentCoreAsking:
    """One asking of the cases of one entry of agentcoreMemories. A case's agent is a namespace, by its place."""

    def __init__(self, doors: SearchDoors) -> None:
        self._doors = doors
        self._namespaces = doors.book.index().namespaces
        self._vectors: dict[str, Vector] = {}

    def scores(self, cases: Iterable[RegressionCase]) -> tuple[CaseScore, ...]:
        """Ask each case. Raises a RetryableError when the service could not be asked."""
        return tuple(self._scored(case) for case in cases)

    def _scored(self, case: RegressionCase) -> CaseScore:
        asked = CaseScore(case_id=case.case_id, fingerprint=fingerprint(case), minimum=case.minimum, score=None)
        namespace = self._namespaces.get(case.agent_id)
        if namespace is None:
            return asked.model_copy(update={"reason": "no_such_namespace"})
        if case.scorer is Scorer.JUDGE and self._doors.judge is None:
            return asked.model_copy(update={"reason": "no_judge_model"})
        found = self._doors.records.search(namespace, case.question, most=MOST)
        items = [
            RecalledItem(id=one.record_id, tier=TIER, text=one.text, score=0.0, provenance={})
            for one in found
            # What a service finds by a prefix may be a neighbour's.
            if one.namespace.rstrip("/") == namespace.rstrip("/")
        ]
        try:
            if case.scorer is Scorer.JUDGE and self._doors.judge is not None:
                score = judged_score(self._doors.judge, case.question, case.criteria, items)
            else:
                score = retrieval_score(case.criteria, items, self._likeness)
        except ModelAnswerError as error:
            return asked.model_copy(update={"reason": error.reason})
        return asked.model_copy(update={"score": round(score, PLACES)})

    def _likeness(self, one: str, other: str) -> float:
        first, second = (self._vector(text) for text in (one, other))
        return float(first @ second)

    def _vector(self, text: str) -> Vector:
        if text not in self._vectors:
            self._vectors[text] = unit(self._doors.embedder().embed(text))
        return self._vectors[text]
