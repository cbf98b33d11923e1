"""Whether two sentences state the same fact: similar by embedding, and no guard objects.

Cosine alone confirms contradictions ("closes at 16:00", "closes at 17:00"), so it only opens the question.
"""

from collections.abc import Mapping
from types import MappingProxyType

from agent_memory.domain.fact_guards_dates import date_findings
from agent_memory.domain.fact_guards_lexicon import SYNONYMS
from agent_memory.domain.fact_guards_names import name_findings, role_findings
from agent_memory.domain.fact_guards_numbers import number_findings
from agent_memory.domain.fact_guards_replaced import content, in_other_words, replaced_unknown
from agent_memory.domain.fact_guards_text import Finding, Relation, folded
from agent_memory.domain.fact_guards_words import (
    modality_findings,
    polarity_findings,
    quantifier_findings,
    tense_findings,
)
from agent_memory.domain.models import Model

__all__ = ["THRESHOLDS", "Relation", "Thresholds", "Verdict", "guard_findings", "same_fact", "thresholds_of"]


# A judge may be asked about pairs that miss what is needed by this much.
CLOSE_MARGIN = 0.1


class Thresholds(Model):
    """Cosines of one embedding model. *related*: enough to speak of the same subject.

    Enough to merge: *reordered* when both say it with the same words, *added* when one only has words more,
    *replaced* when each has words of its own, which is how one thing is put in place of another; *substituted* when
    that is one word in an otherwise equal fact, and nothing is known by which the two words would mean the same.
    *close*: a merge below is a close call.
    """

    related: float
    reordered: float
    added: float
    replaced: float
    substituted: float
    close: float


class Verdict(Model):
    """*reason*: a code. *close_call*: a judge model may be asked to decide otherwise."""

    relation: Relation
    reason: str
    close_call: bool = False


# MiniLM: measured by benchmarks.confirm. Titan v2: a start until that bench has run with it.
THRESHOLDS: Mapping[str, Thresholds] = MappingProxyType(
    {
        "local.all-minilm-l6-v2": Thresholds(
            related=0.5, reordered=0.6, added=0.7, replaced=0.76, substituted=0.86, close=0.85
        ),
        "amazon.titan-embed-text-v2:0": Thresholds(
            related=0.5, reordered=0.65, added=0.75, replaced=0.82, substituted=0.93, close=0.88
        ),
    }
)
_CAUTIOUS = Thresholds(related=0.6, reordered=0.8, added=0.85, replaced=0.92, substituted=0.97, close=0.97)


def thresholds_of(embedding_model: str) -> Thresholds:
    """The thresholds of *embedding_model*; a model nobody measured merges only what is nearly the same text."""
    return THRESHOLDS.get(embedding_model, _CAUTIOUS)


def same_fact(a: str, b: str, *, cosine: float, thresholds: Thresholds) -> Verdict:
    """How fact *b* stands to fact *a*. Symmetric in both."""
    if folded(a) == folded(b):
        return Verdict(relation=Relation.SAME, reason="same_text")
    if cosine < thresholds.related:
        return Verdict(relation=Relation.DIFFERENT, reason="unrelated")
    needed = _needed(a, b, thresholds)
    findings = guard_findings(a, b)
    objections = [finding for finding in findings if finding.relation is not Relation.SAME]
    if objections:
        return _objected(objections, similar=cosine >= needed)
    if cosine < needed:
        return Verdict(relation=Relation.DIFFERENT, reason="not_similar", close_call=cosine >= needed - CLOSE_MARGIN)
    if cosine < thresholds.substituted and not findings and replaced_unknown(a, b):
        return Verdict(relation=Relation.DIFFERENT, reason="word_replaced", close_call=True)
    unsure = cosine < thresholds.close and needed != thresholds.reordered
    close = bool(findings) or unsure or in_other_words(a, b)
    return Verdict(relation=Relation.SAME, reason=findings[0].reason if findings else "similar", close_call=close)


def _needed(a: str, b: str, thresholds: Thresholds) -> float:
    first, second = _content(a), _content(b)
    if first == second:
        return thresholds.reordered
    return thresholds.added if first <= second or second <= first else thresholds.replaced


def _content(text: str) -> frozenset[str]:
    return frozenset(SYNONYMS.get(token.stem, token.stem) for token in content(text))


def guard_findings(a: str, b: str) -> list[Finding]:
    """Everything the guards say of the pair."""
    return [
        finding
        for guard in (
            number_findings,
            date_findings,
            name_findings,
            polarity_findings,
            tense_findings,
            quantifier_findings,
            modality_findings,
            role_findings,
        )
        for finding in guard(a, b)
    ]


def _objected(objections: list[Finding], *, similar: bool) -> Verdict:
    # Another subject or another scope: then an opposite word does not contradict anything.
    different = [finding for finding in objections if finding.relation is Relation.DIFFERENT]
    if different:
        close = similar and all(finding.close for finding in objections)
        return Verdict(relation=Relation.DIFFERENT, reason=different[0].reason, close_call=close)
    if not similar:
        return Verdict(relation=Relation.DIFFERENT, reason=objections[0].reason, close_call=True)
    return Verdict(relation=Relation.CONTRADICTS, reason=objections[0].reason)
