"""Names found in one text of a run, found again in its other texts: a detector reads each sentence for itself and
misses in one what it saw in the other. Whole words only, in linear time.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from agent_memory.domain.models import DetectedSpan
from agent_memory.domain.opening_verbs import VERBS

SPREADING = frozenset({"NAME", "ADDRESS", "USERNAME"})
_WORD = re.compile(r"\w+")
# Between two words of one name, on the same line or over one line's end.
_GAP = re.compile(r"[ \t\u00a0]*[.,'\u2019-]?[ \t\u00a0]*\n?[ \t\u00a0]*")
_MAX_WORDS = 12
_LEAST_LETTERS = 3
# Capitals below this length are codes: airports, companies, currencies.
_LEAST_CAPITALS = 5
_LEAST_USERNAME = 4
# A detector takes these for a person now and then, and one such mistake must not spread over a whole run.
_COMMON_WORDS = (
    "account admin administrator agent airport api april assistant august bill booking card case chase client code "
    "customer data dear default email error flight friday general grant guest hello help hope hotel january july june "
    "mark march may member monday name note number order page password payment please post price reservation root "
    "sales saturday service status street sunday support system test thank thanks thursday ticket tool tuesday user "
    "username wednesday will"
)
_NOT_ALONE = frozenset(_COMMON_WORDS.split()) | VERBS


class _Repeated(NamedTuple):
    words: tuple[str, ...]
    exact: str | None
    type: str


def repeats(
    texts: Sequence[str], found: Mapping[str, Iterable[DetectedSpan]], spared: Iterable[str] = ()
) -> dict[str, list[DetectedSpan]]:
    """Where in each of *texts* a name stands that was *found* in any of them. *spared*: strings that are no names."""
    by_first: dict[str, dict[_Repeated, None]] = defaultdict(dict)
    for name in _names(found, frozenset(spared)):
        by_first[name.words[0]][name] = None
    if not by_first:
        return {}
    return {text: list(_occurrences(text, by_first)) for text in texts}


def _names(found: Mapping[str, Iterable[DetectedSpan]], spared: frozenset[str]) -> Iterator[_Repeated]:
    for text, spans in found.items():
        for span in spans:
            said = text[span.start : span.end].strip(" \t\n.,;:'\"\u2019()")
            if span.type not in SPREADING:
                continue
            for name in (said, *(_WORD.findall(said) if span.type == "NAME" else ())):
                words = tuple(_WORD.findall(name.lower()))
                if words and len(words) <= _MAX_WORDS and name not in spared and _spreads(name, words, span.type):
                    alone = len(words) == 1 or span.type == "USERNAME"
                    yield _Repeated(words, name if alone else None, span.type)


def _spreads(said: str, words: tuple[str, ...], type_: str) -> bool:
    """Whether the same characters elsewhere are surely the same thing."""
    digits = any(c.isdigit() for c in said)
    if type_ == "ADDRESS":
        # "New York" is no address where somebody flies there.
        return digits and len(words) > 1
    if type_ == "USERNAME":
        return len(said) >= _LEAST_USERNAME and said.lower() not in _NOT_ALONE
    if digits or "_" in said or "[" in said or "]" in said:
        return False
    if len(words) > 1:
        return all(word[0].isupper() for word in _WORD.findall(said) if len(word) > _LEAST_LETTERS)
    long_enough = len(said) >= (_LEAST_CAPITALS if said.isupper() else _LEAST_LETTERS)
    return long_enough and said[0].isupper() and words[0] not in _NOT_ALONE


def _occurrences(text: str, by_first: Mapping[str, Iterable[_Repeated]]) -> Iterator[DetectedSpan]:
    words = [(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)]
    for at, (word, start, _) in enumerate(words):
        for name in by_first.get(word, ()):
            here = words[at : at + len(name.words)]
            end = here[-1][2]
            if tuple(said for said, _, _ in here) != name.words:
                continue
            if name.exact is not None and text[start:end] != name.exact:
                continue
            gaps = pairwise(here)
            if name.exact is not None or all(_GAP.fullmatch(text, one[2], other[1]) for one, other in gaps):
                yield DetectedSpan(type=name.type, start=start, end=end, score=1.0)
