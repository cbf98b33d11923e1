"""Takes the key facts of an accepted merge through the confirmation gate, in the name of the runs that observed them.

A merge is no run and observes nothing: it only finds what runs wrote down without claiming it as a fact. So each key
fact counts for a run only where a finding of that very run says it, once, as the gate counts every run once. What the
finding itself came from (a user, a tool, a document) was not kept; it counts like a document that nobody knows, of
which all together are one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_memory.domain.errors import AgentMemoryError, ModelAnswerError, RefusedInputError, RetryableError
from agent_memory.domain.fact_confirming import ConfirmDoors, ConfirmRules, confirm_for
from agent_memory.domain.fact_guards_text import Relation
from agent_memory.domain.groundedness import about_the_same
from agent_memory.domain.models import (
    Artifacts,
    CandidateFact,
    Claim,
    Distillation,
    DistilledBy,
    Episode,
    EpisodeKind,
    FactScope,
    Outcome,
    SourceKind,
    Vector,
)
from agent_memory.domain.ports import Embedder
from agent_memory.domain.same_fact import same_fact, thresholds_of


def observe(
    summary: Episode,
    sources: Iterable[Episode],
    doors: ConfirmDoors,
    rules: ConfirmRules,
    *,
    min_run_confidence: float,
    now: int,
) -> Mapping[str, int]:
    """Confirm what *summary* says for every one of *sources* that found it. Returns the decisions, counted.

    Raises what is worth another try; another try changes nothing of what is decided."""
    counts: Counter[str] = Counter()
    vectors = _Vectors(doors.embedder)
    for source in sources:
        if not _teaches(source, min_run_confidence):
            continue
        facts = tuple(_found_by(source, summary, vectors))
        if not facts:
            continue
        try:
            decided = confirm_for(
                entry_of(summary, source), _claim(source), _record(source, facts), doors, rules, now=now
            )
        except RetryableError:
            raise
        except AgentMemoryError:
            # One domain that can't be read costs its facts; the merge stands without them.
            counts["facts_failed"] += len(facts)
            continue
        counts.update(f"facts_{one.decision}" for one in decided)
    return counts


def entry_of(summary: Episode, source: Episode) -> str:
    """Under which the decisions on what *summary* says for *source* are kept. Of this writing of it: one that was
    taken back and is written anew speaks again."""
    return f"{summary.run_id}.{summary.created_at}/{source.run_id}"


def _teaches(source: Episode, least: float) -> bool:
    """As at the end of a run: only confident COMPLETED runs that a model or the agent itself described."""
    told = source.kind is EpisodeKind.RUN and source.distilled_by is not DistilledBy.EXTRACTIVE
    return told and source.outcome is Outcome.COMPLETED and source.confidence >= least


def _found_by(source: Episode, summary: Episode, vectors: "_Vectors") -> Iterator[CandidateFact]:
    for content in summary.key_findings:
        evidence = next((one for one in _findings(source) if vectors.same(one, content)), None)
        if evidence is not None:
            yield CandidateFact(
                content=content,
                confidence=min(summary.confidence, source.confidence),
                evidence=evidence,
                # Nobody said whether it is about the user; then it is shown to nobody else.
                scope=FactScope.USER if source.user_ref else FactScope.DOMAIN,
                source=SourceKind.DOCUMENT,
            )


def _findings(source: Episode) -> Sequence[str]:
    return (*source.key_findings, source.task_summary)


def _claim(source: Episode) -> Claim:
    return Claim(
        tenant_id=source.tenant_id,
        agent_id=source.agent_id,
        run_id=source.run_id,
        ended_at=source.ended_at,
        domain=source.domain,
        user_ref=source.user_ref,
        outcome=source.outcome,
        content_sha256="",
    )


def _record(source: Episode, facts: tuple[CandidateFact, ...]) -> Distillation:
    artifacts = Artifacts(
        task_summary=source.task_summary, outcome=source.outcome, confidence=source.confidence, facts=facts
    )
    return Distillation(
        task=source.task, asked=source.task, artifacts=artifacts, distilled_by=source.distilled_by, scrubbed=True
    )


class _Vectors:
    """Whether two sentences state the same; each is embedded once, and only where its words are near."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vector | None] = {}

    def same(self, one: str, other: str) -> bool:
        if not about_the_same(one, other):
            return False
        first, second = self._vector(one), self._vector(other)
        if first is None or second is None:
            return False
        thresholds = thresholds_of(self._embedder.model)
        return same_fact(one, other, cosine=float(first @ second), thresholds=thresholds).relation is Relation.SAME

    def _vector(self, text: str) -> Vector | None:
        if text not in self._known:
            try:
                self._known[text] = self._embedder.embed(text)
            except (ModelAnswerError, RefusedInputError):
                self._known[text] = None
        return self._known[text]
