"""What an order to an agent looks like in English: kinds of deeds, each with a weight, not sentences of known attacks.

The patterns lie in a text file beside this: they are data, and longer than a module may be.
"""

import re
from functools import cache
from pkgutil import get_data
from typing import NamedTuple

DATA = "screening_signs.txt"
_PART = re.compile(r"<<([A-Z_]+)>>")
# A pair of these wraps data everywhere; a closing one alone closes somebody else's.
BALANCED = re.compile(r"<(context|memory|memories|data|document|thinking|user|input|query|message)>([^<]{0,2000})</\1>")


class Sign(NamedTuple):
    """One kind of deed. *reason*: the code that a reviewer reads. *points*: its weight. *ordered*: counts in full only
    where it is said as an order. *bounded*: a condition in the sentence makes it look like a rule of a trade."""

    reason: str
    points: int
    pattern: str
    ordered: bool
    bounded: bool


class Signs(NamedTuple):
    """*deeds*: read sentence by sentence. *fences*: structure that only a prompt has, read in the whole text."""

    deeds: tuple[Sign, ...]
    fences: tuple[Sign, ...]


@cache
def signs() -> Signs:
    """All signs, read when they are first needed."""
    # A constant of this package that is too long for a module; not a file of anyone's.
    lines = (get_data("agent_memory.domain", DATA) or b"").decode("ascii").splitlines()
    parts: dict[str, str] = {}
    found: dict[str, list[Sign]] = {"deed": [], "address": [], "fence": []}
    for line in (line for line in lines if line and not line.startswith("#")):
        name, _, rest = line.partition(" ")
        if rest.startswith("= "):
            parts[name] = _whole(rest[2:], parts)
            continue
        reason, points, flags, pattern = rest.split(" ", 3)
        found[name].append(Sign(reason, int(points), _whole(pattern, parts), "o" in flags, "b" in flags))
    return Signs(deeds=(*found["deed"], *found["address"]), fences=tuple(found["fence"]))


def _whole(pattern: str, parts: dict[str, str]) -> str:
    return _PART.sub(lambda part: parts[part[1]], pattern)


@cache
def compiled(sign: Sign) -> re.Pattern[str]:
    """Compiled when first needed: a function that screens nothing does not pay for it."""
    return re.compile(sign.pattern)
