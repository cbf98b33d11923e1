"""The quality gate of a night: a tenant's regression cases are asked before it and after it.

Asking goes the way a recall goes, through the tenant's doors, but counts as no access and tells nobody. A night is
blamed for what it changed: a case that passed before and fails now, or one that failed already and got clearly worse.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from agent_memory.domain.deadlines import Budget
from agent_memory.domain.errors import ModelAnswerError, StoreBusyError
from agent_memory.domain.knowledge_ports import Knowledge
from agent_memory.domain.models import Model, Vector
from agent_memory.domain.ports import ChatModel, Embedder, Episodes, Facts
from agent_memory.domain.procedure_ports import Procedures
from agent_memory.domain.quality_judge import judged_score
from agent_memory.domain.recall import Recall, RecallDoors, Recalled
from agent_memory.domain.recall_request import MAX_BUDGET_MS, RecallRules, recall_request
from agent_memory.domain.regressions import RegressionCase, Scorer
from agent_memory.domain.retrieval_scoring import retrieval_score
from agent_memory.domain.semantic_recall import FactDoors
from agent_memory.domain.vectors import unit

# A case that failed before is the night's fault when it lost more than this: below lies what embeddings round.
WORSE: Final = 0.05
PLACES: Final = 4
# A name in the place of a context's id: nothing is recorded under it.
NO_CONTEXT: Final = "c-regression"


class Verdict(StrEnum):
    """Of a case, and of a gate: the worst of its cases, in this order.

    FAIL: the night made it fail, and is taken back. NOT_RUN: nothing was asked, which is never a pass. FAILED_BEFORE:
    below its minimum already when the night began, which is said and takes nothing back.
    """

    FAIL = "FAIL"
    NOT_RUN = "NOT_RUN"
    FAILED_BEFORE = "FAILED_BEFORE"
    PASS = "PASS"  # noqa: S105 - a verdict


class CaseScore(Model):
    """One asking of one case. *score* in [0, 1]; None with a *reason* code when it could not be scored.

    *fingerprint*: of the case as it was asked, so that a case that was edited meanwhile is not compared.
    """

    case_id: str
    fingerprint: str
    minimum: float
    score: float | None
    reason: str | None = None

    @property
    def verdict(self) -> Verdict:
        """What this asking says by itself, without one before it."""
        if self.score is None:
            return Verdict.NOT_RUN
        return Verdict.PASS if self.score >= self.minimum else Verdict.FAIL


class CaseResult(Model):
    """A case before and after a night. *delta*: after minus baseline."""

    case_id: str
    baseline: float | None
    after: float | None
    delta: float | None
    minimum: float
    verdict: Verdict
    reason: str | None = None


class TenantQuality(Model):
    """The gate of one tenant's night. *asked_at*: epoch seconds of the later asking."""

    tenant_id: str
    night: str
    verdict: Verdict
    results: tuple[CaseResult, ...] = ()
    asked_at: int = 0

    @property
    def delta(self) -> float | None:
        """Mean change of the scores; None when nothing was compared."""
        deltas = [result.delta for result in self.results if result.delta is not None]
        return round(sum(deltas) / len(deltas), PLACES) if deltas else None


class QualityDoors(NamedTuple):
    """What an asking touches, all of one tenant. *judge* None: the deployment names no model for it."""

    episodes: Callable[[], Episodes]
    facts: Callable[[], Facts]
    knowledge: Callable[[], Knowledge]
    procedures: Callable[[], Procedures]
    embedder: Callable[[], Embedder]
    judge: ChatModel | None = None
    saw: Callable[[Recalled], None] = lambda _: None


class _KnownUser:
    """A case keeps the pseudonym itself: there is no user to name."""

    def user_ref(self, tenant_id: str, user_id: str) -> str:
        return user_id


class Asking:
    """One asking of a tenant's cases. Texts that several cases need are embedded once."""

    def __init__(
        self,
        tenant_id: str,
        doors: QualityDoors,
        rules: RecallRules,
        *,
        now: int,
        clock: Callable[[], float],
    ) -> None:
        self._tenant_id = tenant_id
        self._doors = doors
        self._rules = rules
        self._now = now
        self._clock = clock
        self._vectors: dict[str, Vector] = {}

    def scores(self, cases: Iterable[RegressionCase]) -> tuple[CaseScore, ...]:
        """Ask each case. Raises a RetryableError when memory or a model could not be read whole: half an answer would
        blame the night for a throttled tier."""
        return tuple(self._scored(case) for case in cases)

    def _scored(self, case: RegressionCase) -> CaseScore:
        asked = CaseScore(case_id=case.case_id, fingerprint=fingerprint(case), minimum=case.minimum, score=None)
        if case.scorer is Scorer.JUDGE and self._doors.judge is None:
            return asked.model_copy(update={"reason": "no_judge_model"})
        found = self._recalled(case)
        try:
            if case.scorer is Scorer.JUDGE and self._doors.judge is not None:
                score = judged_score(self._doors.judge, case.question, case.criteria, found.items)
            else:
                score = retrieval_score(case.criteria, found.items, self._likeness)
        except ModelAnswerError as error:
            # One answer that is none costs this case its score, not the others theirs.
            return asked.model_copy(update={"reason": error.reason})
        return asked.model_copy(update={"score": round(score, PLACES)})

    def _recalled(self, case: RegressionCase) -> Recalled:
        question = {
            "tenant_id": self._tenant_id,
            "agent_id": case.agent_id,
            "task": case.question,
            "domain": case.domain,
            "user_id": case.user_ref,
            "budget_ms": MAX_BUDGET_MS,
        }
        request = recall_request(question, self._rules)
        facts = FactDoors(self._doors.facts, self._doors.knowledge, _KnownUser)
        doors = RecallDoors(self._doors.episodes, self._doors.embedder, _untold, facts, self._doors.procedures)
        budget = Budget(request.budget_ms, self._clock)
        found = Recall(request, doors, budget, now=self._now, rules=self._rules).answer(NO_CONTEXT)
        self._doors.saw(found)
        unread = [str(one["tier"]) for one in found.degraded if one.get("reason") != "not_deployed"]
        if unread:
            raise StoreBusyError(f"a regression case could not read {', '.join(sorted(set(unread)))}")
        return found

    def _likeness(self, one: str, other: str) -> float:
        first, second = (self._vector(text) for text in (one, other))
        return float(first @ second)

    def _vector(self, text: str) -> Vector:
        if text not in self._vectors:
            self._vectors[text] = unit(self._doors.embedder().embed(text))
        return self._vectors[text]


def fingerprint(case: RegressionCase) -> str:
    """A hash of all that a score depends on."""
    held = case.model_dump_json(exclude={"added_at", "schema_version"})
    return hashlib.sha256(held.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def compared(before: Sequence[CaseScore], after: Sequence[CaseScore]) -> tuple[CaseResult, ...]:
    """What the night did to each case that was asked after it."""
    known = {score.case_id: score for score in before}
    return tuple(_result(known.get(score.case_id), score) for score in after)


def _result(before: CaseScore | None, after: CaseScore) -> CaseResult:
    result = CaseResult(
        case_id=after.case_id,
        baseline=before.score if before else None,
        after=after.score,
        delta=None,
        minimum=after.minimum,
        verdict=Verdict.NOT_RUN,
    )
    if before is None or before.fingerprint != after.fingerprint:
        return result.model_copy(update={"baseline": None, "reason": "added_meanwhile" if not before else "edited"})
    if before.score is None or after.score is None:
        return result.model_copy(update={"reason": after.reason or before.reason})
    delta = round(after.score - before.score, PLACES)
    return result.model_copy(update={"delta": delta, "verdict": _verdict(before.score, after.score, after.minimum)})


def _verdict(before: float, after: float, minimum: float) -> Verdict:
    if after >= minimum:
        return Verdict.PASS
    if before >= minimum or after < before - WORSE:
        return Verdict.FAIL
    return Verdict.FAILED_BEFORE


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of several; of none NOT_RUN: nobody asked is not a pass."""
    found = set(verdicts)
    return next((verdict for verdict in Verdict if verdict in found), Verdict.NOT_RUN)


def gate(
    tenant_id: str, night: str, before: Sequence[CaseScore], after: Sequence[CaseScore], *, now: int
) -> TenantQuality:
    """The gate of one tenant's night."""
    results = compared(before, after)
    verdict = worst(result.verdict for result in results)
    return TenantQuality(tenant_id=tenant_id, night=night, verdict=verdict, results=results, asked_at=now)


def _untold(detail_type: str, detail: Mapping[str, object]) -> None:
    """An asking is no access: Memory Retrieved is not published."""
