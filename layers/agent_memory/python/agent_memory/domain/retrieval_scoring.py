"""How well what is recalled says what a regression case wants said, without a chat model.

Each criterion is held against passages of as many sentences as it has itself, and the best one counts: all of it when
the criterion stands there word for word, else half for the share of its words and half for the cosine of both. A
passage that lacks one of its numbers or ids counts half, one that contradicts it not at all. What stands further down
in its tier counts less, as in rank-biased precision (Moffat and Zobel 2008, persistence 0.9). The score of a case is
the mean over its criteria.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from agent_memory.domain.fact_guards_text import Relation, folded
from agent_memory.domain.lexical import is_id, tokens
from agent_memory.domain.recalled import RecalledItem
from agent_memory.domain.same_fact import guard_findings

PERSISTENCE: Final = 0.9
WITHOUT_ITS_NUMBERS: Final = 0.5
# Passages per criterion that are compared by meaning, those with most words in common: each costs an embedding.
COMPARED: Final = 4
_SENTENCES: Final = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+")
_LABEL: Final = re.compile(r"^(?:task|approach|found|worked|outcome): ")

Likeness = Callable[[str, str], float]
"""Cosine in [-1, 1] of two texts by meaning. Raises ModelBusyError."""


class _Passage(NamedTuple):
    text: str
    words: frozenset[str]
    discount: float


def retrieval_score(criteria: Sequence[str], items: Sequence[RecalledItem], likeness: Likeness) -> float:
    """The score in [0, 1] of what was recalled; *items* in the order in which they were returned."""
    if not items or not criteria:
        return 0.0
    return sum(_best(criterion, items, likeness) for criterion in criteria) / len(criteria)


def _best(criterion: str, items: Sequence[RecalledItem], likeness: Likeness) -> float:
    wanted = frozenset(tokens(criterion))
    passages = list(_passages(items, len(_SENTENCES.split(criterion))))
    likely = sorted(passages, key=lambda one: (-_covered(wanted, one) * one.discount, one.text))[:COMPARED]
    return max((_matched(criterion, wanted, one, likeness) * one.discount for one in likely), default=0.0)


def _passages(items: Sequence[RecalledItem], size: int) -> Iterator[_Passage]:
    places = Counter[str]()
    for item in items:
        discount = PERSISTENCE ** places[item.tier]
        places[item.tier] += 1
        for line in item.text.split("\n"):
            sentences = _SENTENCES.split(_LABEL.sub("", line))
            for start in range(max(len(sentences) - size, 0) + 1):
                text = " ".join(sentences[start : start + size])
                yield _Passage(text, frozenset(tokens(text)), discount)


def _covered(wanted: frozenset[str], passage: _Passage) -> float:
    return len(wanted & passage.words) / max(len(wanted), 1)


def _matched(criterion: str, wanted: frozenset[str], passage: _Passage, likeness: Likeness) -> float:
    if any(found.relation is Relation.CONTRADICTS for found in guard_findings(criterion, passage.text)):
        return 0.0
    if re.search(rf"(?<!\w){re.escape(folded(criterion))}(?!\w)", folded(passage.text)):
        return 1.0
    alike = min(max(likeness(criterion, passage.text), 0.0), 1.0) if passage.text.strip() else 0.0
    match = (_covered(wanted, passage) + alike) / 2
    named = {word for word in wanted if word.isdigit() or is_id(word)}
    return match if named <= passage.words else match * WITHOUT_ITS_NUMBERS
