"""Guards for names, codes and roles: who, which one, and who does what to whom."""

import re
from typing import NamedTuple

from agent_memory.domain import fact_guards_lexicon as lexicon
from agent_memory.domain.fact_guards_dates import dates
from agent_memory.domain.fact_guards_numbers import codes, without_codes
from agent_memory.domain.fact_guards_text import Finding, Relation, Token, normalise, tokens
from agent_memory.domain.fact_guards_units import EVERY, NUMBER_WORDS, UNITS

_TITLES = frozenset("mr mrs ms dr prof sir ok pm am i".split())
# A bare singular noun before a verb opens a sentence as a name does; these endings are those of plain nouns.
_PLAIN_ENDINGS = (
    "s",
    "ing",
    "ment",
    "tion",
    "sion",
    "ance",
    "ence",
    "ness",
    "ity",
    "age",
    "al",
    "ship",
    "ure",
    "ery",
    "ware",
    "one",
    "body",
    "thing",
    "ers",
)
_VERB_AFTER = re.compile(
    r"(?:is|was|has|will|must|can|may|should|does|do|did|would|could|requires?|needs?|[a-z]+(?<!s)s)"
)
_PLAIN = frozenset(
    "there here it he she they we you this that these those some all every each most many no nobody everybody people if when after before only both "
    "access delivery email data cash mail freight support production staff traffic payroll food water glass payment billing checkout login".split()
)


def names(text: str) -> frozenset[str]:
    """Proper names, abbreviations and single letters that tell one thing from another, casefolded."""
    words = tokens(without_codes(dates(text)[2]))
    if sum(token.surface[0].isupper() for token in words) * 5 > len(words) * 4 and len(words) > 4:
        return frozenset()  # a headline capitalises everything
    return frozenset(token.word for index, token in enumerate(words) if _is_name(token, words, index))


def _is_name(token: Token, words: tuple[Token, ...], index: int) -> bool:
    if (
        any(c.isdigit() for c in token.surface)
        or token.word in _TITLES
        or (token.word in UNITS and len(token.word) > 1)
    ):
        return False
    if len(token.word) == 1 and token.word.isascii():
        return token.word not in "aix" and not _after_number(words, index)
    if not token.surface[0].isupper():
        return False
    if token.surface.isupper() and len(token.word) > 1:
        return token.word not in lexicon.FUNCTION and token.word not in lexicon.ALL
    return not token.initial or _opens_as_name(token, words, index)


def _after_number(words: tuple[Token, ...], index: int) -> bool:
    return index > 0 and (words[index - 1].word[-1].isdigit() or bool(NUMBER_WORDS.fullmatch(words[index - 1].word)))


def _opens_as_name(token: Token, words: tuple[Token, ...], index: int) -> bool:
    if (
        token.word in lexicon.FUNCTION
        or token.word in _PLAIN
        or token.word in EVERY
        or NUMBER_WORDS.fullmatch(token.word)
        or token.word.endswith(_PLAIN_ENDINGS)
    ):
        return False
    following = words[index + 1] if index + 1 < len(words) else None
    return following is not None and bool(_VERB_AFTER.fullmatch(following.surface))


def name_findings(a: str, b: str) -> list[Finding]:
    """Every name and code of one fact has to stand in the other."""
    left, right = missing_names(a, b), missing_names(b, a)
    if left and right:
        return [Finding(Relation.DIFFERENT, "name_mismatch")]
    if left or right:
        return [Finding(Relation.DIFFERENT, "name_missing", close=True)]
    return []


def missing_names(text: str, other: str) -> frozenset[str]:
    """The names and codes of *text* that do not stand in *other*, spelled out or abbreviated."""
    theirs = tokens(other)
    words = {token.word for token in theirs} | {token.stem for token in theirs}
    squeezed = re.sub(r"[\W_]", "", normalise(other)).casefold()
    pieces = {piece for token in theirs for piece in re.split(r"[-']", token.word)}
    initials = "".join(token.word[0] for token in theirs)
    spelled_out = _spelled_out(tokens(text), {token.word for token in theirs if token.surface.isupper()})
    gone = {
        name
        for name in names(text) - spelled_out
        if name not in words | pieces and name.rstrip("s") not in words and not _abbreviates(name, initials, squeezed)
    }
    own = codes(other)
    return frozenset(gone | {code for code in codes(text) if code not in own and code not in _joined(theirs)})


def _abbreviates(name: str, initials: str, squeezed: str) -> bool:
    """The name is spelled apart or joined over there, or over there stand the words of which it has the initials."""
    return (len(name) > 3 and re.sub(r"\W", "", name) in squeezed) or (1 < len(name) < 6 and name in initials)


def _spelled_out(words: tuple[Token, ...], abbreviations: set[str]) -> frozenset[str]:
    """The words of *words* that one of *abbreviations* stands for."""
    initials = "".join(token.word[0] for token in words)
    starts = [(initials.find(short), len(short)) for short in abbreviations if len(short) > 1]
    return frozenset(token.word for start, length in starts if start >= 0 for token in words[start : start + length])


def _joined(words: tuple[Token, ...]) -> frozenset[str]:
    plain = [token.word.replace("-", "") for token in words]
    return frozenset("".join(plain[i : i + n]) for n in (2, 3) for i in range(len(plain)))


class Place(NamedTuple):
    """Where a content word stands and which preposition governs it."""

    position: int
    governing: str


def role_findings(a: str, b: str) -> list[Finding]:
    """ "A pays B" is not "B pays A": two arguments changed places."""
    if not (_reads_as_english(a) and _reads_as_english(b)):
        return []  # where the prepositions are not known, every change of order would look like a swap
    first, second = _places(a), _places(b)
    shared = [stem for stem in first if stem in second]
    voices = {stem: (_voice(a, stem), _voice(b, stem)) for stem in shared}
    # Where one fact is in the passive, only its verb can tell: everything else has changed sides around everything.
    turned = [stem for stem, (here, there) in voices.items() if here != there]
    if turned:
        swapped = any(_kept_sides(verb, first, second) for verb in turned if set(voices[verb]) == {"by", ""})
    else:
        swapped = any(_swapped(x, y, first, second, shared) for x in shared for y in shared if x < y)
    return [Finding(Relation.CONTRADICTS, "roles_swapped")] if swapped else []


def _reads_as_english(text: str) -> bool:
    words = tokens(text)
    return len(words) <= 3 or any(token.word in lexicon.FUNCTION | lexicon.PREPOSITIONS for token in words)


def _places(text: str) -> dict[str, Place]:
    """The content words that occur once."""
    placed: dict[str, Place] = {}
    repeated = set()
    governing = ""
    for position, token in enumerate(tokens(text)):
        if token.word in lexicon.PREPOSITIONS:
            governing = token.word
        elif token.word not in lexicon.FUNCTION:
            if token.stem in placed:
                repeated.add(token.stem)
            placed[token.stem] = Place(position, governing)
        elif token.word not in _ARTICLES:
            governing = ""
    return {stem: place for stem, place in placed.items() if stem not in repeated}


def _swapped(x: str, y: str, a: dict[str, Place], b: dict[str, Place], shared: list[str]) -> bool:
    """x stands where y stood and the other way round, with the preposition that goes with the place."""
    if (a[x].governing, a[y].governing) != (b[y].governing, b[x].governing):
        return False
    if {a[x].governing, a[y].governing} & lexicon.MUTUAL:
        return False
    if a[x].governing != a[y].governing and a[x].governing and a[y].governing:
        return True  # "from x to y", "from y to x"
    if (a[x].governing and a[x].governing == a[y].governing) or (a[x].position < a[y].position) == (
        b[x].position < b[y].position
    ):
        return False
    return any(_between(pivot, x, y, a) and _between(pivot, x, y, b) for pivot in shared)


def _between(pivot: str, x: str, y: str, places: dict[str, Place]) -> bool:
    first, last = sorted((places[x].position, places[y].position))
    return first < places[pivot].position < last


def _kept_sides(verb: str, a: dict[str, Place], b: dict[str, Place]) -> bool:
    """Both arguments of *verb* stay where they are although one fact is passive: then they changed roles."""
    sides = {
        a[word].position < a[verb].position
        for word in a
        if word != verb and word in b and (a[word].position < a[verb].position) == (b[word].position < b[verb].position)
        and {a[word].governing, b[word].governing} <= {"", "by"}
    }  # fmt: skip
    moved = any(
        (a[word].position < a[verb].position) != (b[word].position < b[verb].position)
        for word in a
        if word != verb and word in b
    )
    return sides == {True, False} and not moved


def _voice(text: str, verb: str) -> str:
    """`by`: passive with its agent. `be`: passive without. Empty: active, or no verb."""
    words = tokens(text)
    for index, token in enumerate(words):
        if token.stem != verb or token.word.endswith("ing"):
            continue
        helped = any(earlier.stem in ("be", "get") for earlier in words[max(index - 3, 0) : index])
        if (helped or token.word.endswith("ed")) and any(later.word == "by" for later in words[index + 1 : index + 7]):
            return "by"
        if (
            helped
            and token.word != token.stem
            and token.word not in (token.stem + "s", token.stem + "e", token.stem + "es")
        ):
            return "be"
    return ""


_ARTICLES = frozenset("a an the its their his her".split())
