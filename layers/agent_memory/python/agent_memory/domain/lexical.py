"""Words: tokens of any language, ids among them, and BM25 whose scores can be compared between queries and stores.

No stop words and no stemmer, which help one language and harm others; scripts without spaces become character pairs.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

# Combining vowels are part of a word, but \w leaves them out: Hindi, Thai, pointed Arabic and Hebrew would fall apart.
_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece"
)
_WORD = rf"[\w{_MARKS}\u0f18-\u0fbc\u102b-\u109d\u17b4-\u17d3\u20d0-\u20f0]"
_ASCII_TOKEN = re.compile(r"\w+(?:[-./:@]\w+)*", re.ASCII)
_WORDS = re.compile("[^-./:@]+")
_UNSEGMENTED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
# What the scrubber writes instead of personal data says nothing about the task.
_REPLACED = re.compile(r"\[[A-Z][A-Z_]{2,40}\]")
_QUANTITY = re.compile(r"\d{1,4}[^\W\d_]{1,3}|[^\W\d_]{1,3}\d{1,2}", re.UNICODE)
_CAPITALS = re.compile(r"(?<![\w-])[A-Z]{5,}(?![\w-])")

# A few dozen texts can't tell which words are common, so the first estimate comes from their length (short words are
# frequent words in every language) and weighs as much as this many texts.
PRIOR_TEXTS = 50
_PRIOR_SHARE = {1: 0.4, 2: 0.4, 3: 0.3, 4: 0.15, 5: 0.06}
_RARE_SHARE = 0.02
K1 = 1.2
B = 0.4
ID_WEIGHT = 2.0
# At this much matched information the evidence is half of what words can give.
HALF_SATURATION = 20.0
# An id that stands in more texts than this does not single one out.
MAX_ID_TEXTS = 3
MAX_ID_SHARE = 0.05


class Query(NamedTuple):
    """The tokens of a task, and those among them that name one thing: order numbers, error codes, part numbers."""

    tokens: tuple[str, ...]
    ids: frozenset[str]


class LexicalMatch(NamedTuple):
    """*score* in [0, 1) grows with the information that matched. *strong*: an id of the query that few texts hold."""

    score: float
    strong: bool


def tokens(text: str) -> list[str]:
    """Return the tokens of *text* as they are compared; a compound such as `err-4042` counts whole and in parts."""
    text = _REPLACED.sub(" ", text)
    if text.isascii():
        pattern = _ASCII_TOKEN
    else:
        text, pattern = unicodedata.normalize("NFKC", text), _scripts().token
    found: list[str] = []
    for token in pattern.findall(text.casefold()):
        words = _WORDS.findall(token)
        if len(words) > 1:
            found.append(token)
        for word in words:
            found.extend(_segments(word))
    return found


class _Scripts(NamedTuple):
    """Patterns for more than ASCII, compiled when needed: large character classes take milliseconds."""

    token: re.Pattern[str]
    run: re.Pattern[str]
    unsegmented: re.Pattern[str]


@cache
def _scripts() -> _Scripts:
    return _Scripts(
        token=re.compile(f"{_WORD}+(?:[-./:@]{_WORD}+)*"),
        run=re.compile(f"[{_UNSEGMENTED}]+|[^{_UNSEGMENTED}]+"),
        unsegmented=re.compile(f"[{_UNSEGMENTED}]"),
    )


def _segments(word: str) -> Iterable[str]:
    if word.isascii() or not _scripts().unsegmented.search(word):
        return (word,)
    pieces: list[str] = []
    for run in _scripts().run.findall(word):
        if len(run) < 2 or not _scripts().unsegmented.match(run):
            pieces.append(run)
        else:
            pieces.extend(run[i : i + 2] for i in range(len(run) - 1))
    return pieces


def query(text: str) -> Query:
    """Return the tokens and ids of a task."""
    found = tuple(tokens(text))
    ids = {token for token in found if is_id(token)}
    capitals = _CAPITALS.findall(text)
    # In a text that shouts, capitals say nothing.
    if len(capitals) * 4 <= len(text.split()):
        ids.update(word.casefold() for word in capitals)
    return Query(found, frozenset(ids))


def is_id(token: str) -> bool:
    """Whether *token* names one thing: letters and digits mixed, or five digits; not a quantity, date or time."""
    digits = sum(character.isdigit() for character in token)
    if not digits:
        return False
    if token.isdigit():
        return len(token) >= 5
    if not any(character.isalpha() for character in token):
        return False
    return len(token) >= 4 and not _QUANTITY.fullmatch(token)


def matches(asked: Query, texts: Sequence[str]) -> list[LexicalMatch]:
    """Return how well each of *texts* matches *asked* by its words."""
    counted = [Counter(tokens(text)) for text in texts]
    lengths = [counts.total() for counts in counted]
    average = sum(lengths) / max(len(lengths), 1) or 1.0
    wanted = dict.fromkeys(asked.tokens)
    holding = {token: sum(token in counts for counts in counted) for token in wanted}
    weights = {
        token: _information(token, holding[token], len(texts)) * (ID_WEIGHT if token in asked.ids else 1.0)
        for token in wanted
    }
    rare = max(MAX_ID_TEXTS, int(MAX_ID_SHARE * len(texts)))
    single = {token for token in asked.ids if holding.get(token, 0) <= rare}
    return [
        LexicalMatch(_saturated(_bm25(counts, weights, length / average)), any(token in counts for token in single))
        for counts, length in zip(counted, lengths, strict=True)
    ]


def _information(token: str, holding: int, texts: int) -> float:
    """Inverse document frequency, with the prior's texts counted in."""
    known = _RARE_SHARE if any(c.isdigit() for c in token) else _PRIOR_SHARE.get(len(token), _RARE_SHARE)
    if not token.isascii():
        known = min(known, _PRIOR_SHARE[5])  # two signs of an unsegmented script are a word, not a particle
    having = holding + PRIOR_TEXTS * known
    return math.log(1 + (texts + PRIOR_TEXTS - having + 0.5) / (having + 0.5))


def _bm25(counts: Counter[str], weights: dict[str, float], relative_length: float) -> float:
    norm = K1 * (1 - B + B * relative_length)
    return sum(
        weight * counts[token] * (K1 + 1) / (counts[token] + norm)
        for token, weight in weights.items()
        if token in counts
    )


def _saturated(information: float) -> float:
    return information / (information + HALF_SATURATION)
