"""Whether a text says only what its sources say, by rules: numbers, dates, names, negations, opposites, words.

It refuses rather once too often: what is refused costs nothing but a merge.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from agent_memory.domain import lexical
from agent_memory.domain.fact_guards_dates import date_findings, dates
from agent_memory.domain.fact_guards_lexicon import FUNCTION, SYNONYMS
from agent_memory.domain.fact_guards_names import missing_names, name_findings, role_findings
from agent_memory.domain.fact_guards_numbers import number_findings, quantities
from agent_memory.domain.fact_guards_text import Finding, Relation, stem
from agent_memory.domain.fact_guards_words import (
    modality_findings,
    polarity_findings,
    quantifier_findings,
    reading,
    tense_findings,
)

# Of the words of a statement, how many have to stand in the sources.
LEAST_KNOWN = 0.5
# Of the words of a source, or of the text when that is the shorter, how many both have to share.
LEAST_COVERED = 0.2
# Two statements are about the same when they share this much of the shorter, and two words if they have more than two.
ABOUT_THE_SAME = 0.5
# How alike (Dice) two statements have to be before a guard may say that one denies the other: what is only related
# differs in more than the guard looks at. A negation reaches further than it seems, and places change with the wording.
OTHERWISE, DENIED, SWAPPED = 0.5, 0.7, 0.8
# When no more words than this differ, a negation can only be about what both say.
FEW_WORDS = 2
_SENTENCES = re.compile("(?<=[.!?])\\s+|(?<=[\u3002\uff01\uff1f])|\n+|;\\s")
_CLAUSES = re.compile(r",?\s+(?:but|while|whereas|however|although)\s+|,\s+(?:and\s+)?|\s+and\s+", re.I)
_GUARDS = (number_findings, date_findings, quantifier_findings, modality_findings, tense_findings)


class Statement(NamedTuple):
    """One clause or sentence and its words."""

    text: str
    terms: frozenset[str]


def ungrounded(said: Sequence[str], sources: Sequence[Sequence[str]]) -> str | None:
    """Why *said* does not follow from *sources* (the texts of each), as a reason code; None when nothing objects."""
    statements = [one for text in said for one in _statements(text)]
    known = [one for texts in sources for text in texts for one in _statements(text)]
    if not statements:
        return "empty"
    everything = "\n".join(text for texts in sources for text in texts)
    reasons = (_unknown(one, everything, known) or _unsupported(one, known) for one in statements)
    reason = next((one for one in reasons if one), None)
    if reason:
        return reason
    # The other way round: what a source says must not have been turned into its opposite either.
    if any(_opposed(one, statements) for one in known):
        return "contradicts_sources"
    taken_up = _terms(" ".join(said))
    return None if all(_covered(texts, taken_up) for texts in sources) else "source_left_out"


def about_the_same(one: str, other: str) -> bool:
    """Whether two sentences share enough words for it to be worth a closer look."""
    return _near(Statement(one, _terms(one)), Statement(other, _terms(other)))


def _unknown(one: Statement, everything: str, known: Sequence[Statement]) -> str | None:
    """What *one* names that no source does."""
    amounts = [amount for source in known for amount in quantities(source.text)]
    if any(not said.optional and not any(said.agrees(amount) for amount in amounts) for said in quantities(one.text)):
        return "number_not_in_sources"
    days, weekdays, _ = dates(one.text)
    their_days, their_weekdays, _ = dates(everything)
    if not weekdays <= their_weekdays or any(not any(day.agrees(other) for other in their_days) for day in days):
        return "date_not_in_sources"
    if missing_names(one.text, everything):
        return "name_not_in_sources"
    if one.terms and len(one.terms & _terms(everything)) < LEAST_KNOWN * len(one.terms):
        return "ungrounded"
    return None


def _unsupported(one: Statement, known: Sequence[Statement]) -> str | None:
    """What *one* says of the same things as the sources and otherwise than they."""
    if _opposed(one, known):
        return "contradicts_sources"
    denies = reading(one.text, "").negations
    if denies and not any(_near(one, other) and _denies_too(one, other) for other in known):
        return "negation_not_in_sources"
    return None


def _denies_too(one: Statement, other: Statement) -> bool:
    """Whether *other* has a negation as well, or says the same by an opposite word ("not open", "closed")."""
    if _contradicts(one, other):
        return False
    same = any(finding.relation is Relation.SAME for finding in polarity_findings(one.text, other.text))
    return same or reading(other.text, one.text).negations > 0


def _opposed(one: Statement, others: Iterable[Statement]) -> bool:
    """Whether what contradicts *one* is closer to it than what does not."""
    against = agreeing = 0.0
    for other in others:
        if _near(one, other):
            if _contradicts(one, other):
                against = max(against, _alike(one, other))
            else:
                agreeing = max(agreeing, _alike(one, other))
    return against > agreeing


def _near(one: Statement, other: Statement) -> bool:
    shared = len(one.terms & other.terms)
    shorter = min(len(one.terms), len(other.terms))
    return shared >= min(2, shorter - 1) and shared >= max(1, ABOUT_THE_SAME * shorter)


def _alike(one: Statement, other: Statement) -> float:
    return 2 * len(one.terms & other.terms) / (len(one.terms) + len(other.terms))


@lru_cache(maxsize=8192)
def _contradicts(one: Statement, other: Statement) -> bool:
    """Whether both can't be true of the same thing; names that differ make it another thing."""
    a, b, likeness = one.text, other.text, _alike(one, other)
    if likeness < OTHERWISE or any(finding.reason == "name_mismatch" for finding in name_findings(a, b)):
        return False
    # Whoever sums up names the days of several sources.
    together = {"weekday_mismatch"} if dates(a)[1] & dates(b)[1] else set()
    findings = [finding for guard in _GUARDS for finding in guard(a, b)]
    if any(_objects(finding) for finding in findings if finding.reason not in together):
        return True
    polarity = {finding.reason for finding in polarity_findings(a, b)}
    if polarity & {"antonym", "negation_moved"}:
        return True
    close = likeness >= DENIED or len(one.terms ^ other.terms) <= FEW_WORDS
    if close and "negated_antonym" not in polarity and _denied(a, b):
        return True
    return likeness >= SWAPPED and bool(role_findings(a, b))


def _objects(finding: Finding) -> bool:
    """A contradiction, or another claim: of all instead of some, of what must be instead of what should."""
    other_claim = finding.reason in ("quantifier_mismatch", "modality_mismatch") and not finding.close
    return finding.relation is Relation.CONTRADICTS or other_claim


def _denied(a: str, b: str) -> bool:
    """Whether one affirms a word that the other negates."""
    first, second = reading(a, b), reading(b, a)
    return bool(first.negated & (second.stems - second.negated) or second.negated & (first.stems - first.negated))


def _covered(texts: Sequence[str], taken_up: frozenset[str]) -> bool:
    terms = _terms(" ".join(texts))
    return len(terms & taken_up) >= LEAST_COVERED * min(len(terms), len(taken_up))


def _statements(text: str) -> list[Statement]:
    """The sentences of *text* and, of those that have several, their clauses."""
    found = []
    for sentence in _SENTENCES.split(text):
        whole = Statement(sentence.strip(), _terms(sentence))
        clauses = [Statement(clause.strip(), _terms(clause)) for clause in _CLAUSES.split(sentence)]
        # A clause of one or two words has lost its subject; it is judged with the sentence.
        parts = [clause for clause in clauses if len(clause.terms) > 2]
        found += [whole] if len(parts) < 2 else parts
    return [one for one in found if one.terms]


@lru_cache(maxsize=4096)
def _terms(text: str) -> frozenset[str]:
    stems = (stem(token) for token in lexical.tokens(text) if token not in FUNCTION)
    return frozenset(SYNONYMS.get(one, one) for one in stems)
