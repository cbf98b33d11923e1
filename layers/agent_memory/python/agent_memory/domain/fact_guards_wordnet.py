"""What WordNet says of two words: opposites, or near enough to stand for each other.

What is alike is searched as one text and never parsed: a start costs the reading, a question well under a millisecond.
"""

from functools import cache, lru_cache
from pkgutil import get_data

DATA = "fact_guards_wordnet.txt"
DIVIDE = "# alike"


def opposite(x: str, y: str) -> bool:
    """Whether the stems *x* and *y* are direct antonyms."""
    first, second = sorted((x, y))
    return f" {first} ! {second} " in _relations()[0]


@lru_cache(maxsize=4096)
def alike(x: str, y: str) -> bool:
    """Whether one stem can mean what the other means, or is a kind of it."""
    text, sought, position = _relations()[1], f" {x} ", 0
    while (position := text.find(sought, position)) >= 0:
        start, end = text.rfind("\n", 0, position), text.find("\n", position)
        meaning = text[start:end].partition(":")[0]
        if f" {y} " in text[start:end] and (sought in meaning or f" {y} " in meaning):
            return True
        position = end
    return False


@cache
def _relations() -> tuple[frozenset[str], str]:
    """The opposites and the words that are alike, one relation a line."""
    # A constant of this package that is too long for a module; not a file of anyone's.
    text = (get_data("agent_memory.domain", DATA) or b"").decode("ascii")
    opposites, _, likes = text.partition(DIVIDE)
    return frozenset(opposites.splitlines()), likes
