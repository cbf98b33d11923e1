"""Guards for small words: negation, antonyms, quantifiers, modality."""

import re
from typing import NamedTuple

from agent_memory.domain import fact_guards_lexicon as lexicon
from agent_memory.domain.fact_guards_antonyms import OPPOSITE_BEGINNINGS, groups_of
from agent_memory.domain.fact_guards_text import Finding, Relation, Token, normalise, tokens
from agent_memory.domain.fact_guards_wordnet import opposite

# A negation that belongs to a bound, or that negates nothing; it leaves before negations are counted.
_NOT_A_NEGATION = re.compile(
    r"\b(?:(?:no|not|never)(?: \w+){0,2} (?:more|less|fewer|later|earlier|longer|higher|lower) than|not exceed(?:ing)?|never exceeds?|not only|no doubt|whether or not|"
    r"nothing but|no\. ?(?=\d)|not until|(?:not|never) (?:go(?:es)? )?(?:above|over|beyond|below|under)(?= \W*\d))\b",
    re.I,
)
_A_FEW = re.compile(r"\ba (?:few|number of|couple of|handful of)\b", re.I)
_OPTIONAL = re.compile(
    r"\b(?:(?:(?:do|does|did|is|are) )?not (?:have to\b|(?:need|required|necessary|mandatory|obliged|compulsory|obligatory|needed)(?: to\b)?)|need not|no need|not a must)(?! (?:any|no)\b)",
    re.I,
)
_FORMERLY = re.compile(r"\b(?:used to|formerly|previously|in the past)\b", re.I)
_NO_LONGER = re.compile(r"\b(?:no longer|not [\w ]{0,30}(?:any more|anymore|any longer))\b", re.I)
_FAILS = re.compile(
    r"\bfail(?:s|ed|ing)? to\b|\brefus(?:e|es|ed) to\b|\bunable to\b|\bexcept(?:ing)?\b|\bother than\b|\binstead of\b|\brather than\b|\bfree of\b",
    re.I,
)
_OPEN_UNTIL = re.compile(r"\bopen(?:s|ed)?(?: \w+){0,2} (?:until|till|til)\b", re.I)
_VALID_UNTIL = re.compile(r"\b(?:is |are )?valid (?:until|till|through)\b", re.I)
_ALLOWED_NOTHING = re.compile(r"\bnot (?:be )?(?:allowed|permitted|able)\b", re.I)


class Reading(NamedTuple):
    """The small words of one fact. *negated*: stems that a negator or a prefix turns round, within reach."""

    words: tuple[Token, ...]
    stems: frozenset[str]
    negations: int
    negated: frozenset[str]
    text: str


def reading(text: str, other: str) -> Reading:
    """Read *text*; *other* tells whether "unpaid" is a negated "paid" here."""
    text = _OPEN_UNTIL.sub(
        "closes at", _VALID_UNTIL.sub("expires on", _NO_LONGER.sub("not", _FAILS.sub("not", normalise(text))))
    )
    counted = tokens(_OPTIONAL.sub(" optional ", _NOT_A_NEGATION.sub(" ", text)))
    theirs = frozenset(token.stem for token in tokens(other))
    stems: set[str] = set()
    negated: set[str] = set()
    negations = 0
    reach = 0
    for token in counted:
        if token.word in lexicon.NEGATORS:
            # "not without" is no negation at all.
            negations += -1 if reach == REACH and token.word == "without" else 1
            reach = REACH
            continue
        if token.stem in lexicon.DENYING and token.stem[2:] not in theirs:
            negations += -1 if reach > 0 else 1
        base = _unprefixed(token, theirs)
        if base:
            negations += -1 if reach > 0 else 1
            stems.add(base)
            negated.add(base)
        elif token.word not in lexicon.FUNCTION or token.word in _KEPT:
            stems.add(token.stem)
            if reach > 0:
                negated.add(token.stem)
        reach -= 1
    return Reading(counted, frozenset(stems), max(negations, 0), frozenset(negated), text)


REACH = 3
# Function words that are poles of an antonym.
_KEPT = frozenset("before after above below over under with into onto off on up down".split())


def _unprefixed(token: Token, theirs: frozenset[str]) -> str | None:
    """The base of a negated word ("unpaid", "shirtless") when the other fact uses that base."""
    if token.stem in theirs or token.word in lexicon.NOT_NEGATED:
        return None
    if token.word.endswith("less") and token.word[:-4] in theirs:
        return token.word[:-4]
    for prefix in lexicon.NEGATIVE_PREFIXES:
        base = token.stem[len(prefix) :]
        if token.stem.startswith(prefix) and len(base) >= 3 and (base in theirs or token.word[len(prefix) :] in theirs):
            return base
    irregular = _IRREGULAR_BASES.get(token.stem)
    return irregular if irregular in theirs else None


_IRREGULAR_BASES = {
    "unpaid": "pay",
    "unsent": "send",
    "unsold": "sell",
    "undon": "do",
    "unknown": "know",
    "unknow": "know",
}


def polarity_findings(a: str, b: str) -> list[Finding]:
    """Negation and antonyms together: "not open" and "closed" agree, "not open" and "open" do not."""
    first, second = reading(a, b), reading(b, a)
    turned = bool(first.negations) != bool(second.negations)
    findings = []
    for pair, complementary in _opposites(first.stems, second.stems):
        # One of the two poles is negated, the other is not: both say the same, if nothing lies between.
        if complementary and turned and ((pair[0] & first.negated) or (pair[1] & second.negated)):
            turned = False
            findings.append(Finding(Relation.SAME, "negated_antonym", close=True))
        else:
            findings.append(Finding(Relation.CONTRADICTS, "antonym"))
    if _opposite_words(first.stems, second.stems):
        findings.append(Finding(Relation.CONTRADICTS, "antonym"))
    if turned:
        findings.append(Finding(Relation.CONTRADICTS, "negation_mismatch"))
    elif first.negations and second.negations and _negations_swapped(first, second):
        findings.append(Finding(Relation.CONTRADICTS, "negation_moved"))
    return findings


def _opposites(a: frozenset[str], b: frozenset[str]) -> list[tuple[tuple[frozenset[str], frozenset[str]], bool]]:
    """The opposed words of *a* and *b*, and whether nothing lies between: our own groups first, then the dictionary."""
    groups = ((_opposed(group.poles, a, b), group.complementary) for group in groups_of(a - b))
    found = [(pair, complementary) for pair, complementary in groups if pair]
    if not found:
        pairs = ((x, y) for x in sorted(a - b) for y in sorted(b - a) if opposite(x, y))
        found = [((frozenset({x}), frozenset({y})), False) for x, y in pairs]
    return found


def _opposite_words(a: frozenset[str], b: frozenset[str]) -> bool:
    pairs = ((x, y) for x in a - b for y in b - a if x[-3:] == y[-3:] and min(len(x), len(y)) > 4)
    return any(_turned_round(x, y) or _turned_round(y, x) for x, y in pairs)


def _turned_round(x: str, y: str) -> bool:
    return any(x.startswith(first) and y == second + x[len(first) :] for first, second in OPPOSITE_BEGINNINGS)


def _opposed(
    poles: tuple[frozenset[str], ...], a: frozenset[str], b: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]] | None:
    mine = [pole for pole in poles if pole & a]
    theirs = [pole for pole in poles if pole & b]
    if len(mine) == 1 and len(theirs) == 1 and mine[0] is not theirs[0] and not (mine[0] & b or theirs[0] & a):
        return mine[0] & a, theirs[0] & b
    return None


def _negations_swapped(a: Reading, b: Reading) -> bool:
    """ "Use X, not Y" and "use Y, not X": what one denies the other affirms, both ways."""
    if a.negated & b.negated:
        return False
    denied_only_here = (a.negated - b.negated) & b.stems
    denied_only_there = (b.negated - a.negated) & a.stems
    return bool(denied_only_here and denied_only_there)


def quantifier_findings(a: str, b: str) -> list[Finding]:
    """All against some, only against nothing said, sometimes against plainly."""
    first, second = _words(a), _words(b)
    findings = []
    for kind in (lexicon.ONLY, lexicon.SOMETIMES):
        if bool(kind & first) != bool(kind & second):
            findings.append(Finding(Relation.DIFFERENT, "quantifier_mismatch", close=True))
    for one, other in ((first, second), (second, first)):
        partial = (lexicon.SOME | lexicon.MOST | lexicon.SOMETIMES) & other
        if lexicon.ALL & one and partial and not lexicon.ALL & other:
            findings.append(Finding(Relation.DIFFERENT, "quantifier_mismatch"))
        if lexicon.MOST & one and lexicon.SOME & other and not lexicon.MOST & other:
            findings.append(Finding(Relation.DIFFERENT, "quantifier_mismatch"))
    return findings


def _words(text: str) -> frozenset[str]:
    return frozenset(token.word for token in tokens(_A_FEW.sub("some", _NOT_A_NEGATION.sub(" ", normalise(text)))))


def modality_findings(a: str, b: str) -> list[Finding]:
    """Must, should, may, need not: as strong in one fact as in the other."""
    first, second = _strength(a), _strength(b)
    if first == second:
        return []
    strengths = {first, second}
    if "must" in strengths and strengths & {"can", "optional"}:
        return [Finding(Relation.CONTRADICTS, "modality_mismatch")]
    if strengths in ({"must", "should"}, {"must", "may"}, {"should", "can"}, {"should", "may"}, {"should", "optional"}):
        return [Finding(Relation.DIFFERENT, "modality_mismatch")]
    if strengths in ({"", "may"}, {"", "optional"}, {"", "should"}):
        return [Finding(Relation.DIFFERENT, "modality_missing", close=True)]
    return []


_NEED = re.compile(
    r"\b(?:need(?:s|ed)? to|ha(?:s|ve) to|need(?:s|ed)? (?:a|an|the|two|three|\d+)|is needed|are needed|it is necessary)\b",
    re.I,
)


def _strength(text: str) -> str:
    text = normalise(text)
    words = frozenset(token.word for token in tokens(text))
    if _OPTIONAL.search(text) or words & lexicon.OPTIONAL:
        return "optional"
    if words & lexicon.MUST or _NEED.search(text):
        return "must"
    if words & lexicon.SHOULD:
        return "should"
    if _ALLOWED_NOTHING.search(text) or re.search(r"\b(?:can|may) not\b", text, re.I):
        return "must"
    if words & lexicon.CAN and words & lexicon.NEGATORS:
        return "must"
    if words & (lexicon.CAN - {"may"}) or re.search(r"\bmay\b(?! be\b)", text):
        return "can"
    return "may" if words & lexicon.MAY else ""


def tense_findings(a: str, b: str) -> list[Finding]:
    """What used to be so is no longer so."""
    first, second = (bool(_FORMERLY.search(normalise(x)) or _NO_LONGER.search(normalise(x))) for x in (a, b))
    return [] if first == second else [Finding(Relation.CONTRADICTS, "no_longer")]
