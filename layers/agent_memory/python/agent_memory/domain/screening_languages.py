"""The same deeds in other languages: words of one idea, and which ideas together in one sentence are an order.

The words lie in a text file beside this: they are data, and longer than a module may be.
"""

import re
from functools import cache
from pkgutil import get_data

DATA = "screening_languages.txt"
_ALPHABETIC = re.compile(r"[a-z\u0400-\u04ff]")
_MUST = re.compile(
    r"\b(?:deb\w+|tien\w+ que|doi\w+|devez|dev\w+|muss\w*|soll\w*|moet\w*|musza|musi\w*|powinn\w+|must|please|"
    r"por favor|"
    r"bitte|per favore|\u0434\u043e\u043b\u0436\u043d\w*|\u043e\u0431\u044f\u0437\u0430\u043d\w*|ska|maste)\b"
)
_ALWAYS = r"sempre|siempre|immer|toujours|\u0432\u0441\u0435\u0433\u0434\u0430|zawsze|altijd"
_AND = r"y|et|und|en|i|och|\u0438|\u0442\u0430"
_NOW = (
    r"jetzt|ahora|maintenant|d'ora in poi|a partir de (?:ahora|agora|maintenant)|desde ahora|ab sofort|ab jetzt|"
    r"von nun an|desormais|dorenavant|vanaf nu|od teraz"
)
_NEGATED = re.compile(r"\b(?:nicht|non|no|ne|pas|nao|niet|nie|\u043d\u0435)\b")
_CLAUSE = re.compile(
    rf"(?:^|[,:;.!?(\[\"'>*-])\W*(?:(?:{_AND}|{_NOW}|{_ALWAYS}|e|ve|dan|va|ou|oder|o|tambien|auch|aussi|"
    rf"por favor|bitte|please)\s+)*$|\b(?:{_AND})\s+(?:(?:{_ALWAYS}) )?$"
)
# Ideas whose verb must be said as an order, where a language shows that by its place.
_ORDERED = frozenset(("send", "praise"))
# Ideas that stand in one sentence, the reason and the points.
DEEDS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("override", 5, ("cancel", "rules", "before")),
    ("exfiltration", 5, ("send", "secret")),
    ("persona", 4, ("become",)),
    ("bias", 3, ("always", "praise")),
    ("bias", 3, ("praise", "everybody")),
    ("approval", 3, ("approve", "unchecked")),
    ("insistence", 1, ("approve", "unchecked", "always")),
    ("secrecy", 3, ("hide",)),
    ("trust", 3, ("trust",)),
    ("memory_order", 2, ("memory", "always")),
    ("addressed_to_ai", 2, ("agent",)),
    ("addressed_to_ai", 2, ("system_note",)),
    ("addressed_to_ai", 2, ("this_reader",)),
    ("override", 4, ("forget", "everything")),
    ("override", 4, ("forget", "rules")),
    ("override", 3, ("rules", "not_here", "this_reader")),
    ("reveal", 4, ("disclose", "own_rules")),
    ("unrestricted", 3, ("unbound",)),
    ("steering", 3, ("each_answer", "system_note")),
    ("steering", 3, ("send", "each_answer")),
    ("exfiltration", 3, ("send", "hide")),
)


def foreign_deeds(sentence: str) -> dict[str, int]:
    """The reasons and points of what *sentence* (folded) orders in another language than English."""
    found: dict[str, int] = {}
    said: dict[str, bool] = {}

    def says(idea: str) -> bool:
        if idea not in said:
            # "Do not forget the rules" is a reminder.
            matches = () if idea == "forget" and _NEGATED.search(sentence) else ideas()[idea].finditer(sentence)
            said[idea] = any(idea not in _ORDERED or _is_ordered(sentence, match) for match in matches)
        return said[idea]

    for reason, points, together in DEEDS:
        if all(map(says, together)):
            found[reason] = max(points, found.get(reason, 0))
    return found


@cache
def ideas() -> dict[str, re.Pattern[str]]:
    """The words of each idea as one pattern, read when they are first needed."""
    # A constant of this package that is too long for a module; not a file of anyone's.
    lines = (get_data("agent_memory.domain", DATA) or b"").decode("utf-8").splitlines()
    words = (line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: _pattern(*stems.split("|")) for name, stems in words}


def _pattern(spaced: str, unspaced: str) -> re.Pattern[str]:
    stems = "|".join(map(_stem, spaced.split()))
    anywhere = "|".join(re.escape(stem).replace("_", r"\s*") for stem in unspaced.split())
    return re.compile(rf"(?<!\w)(?:{stems})" + (f"|{anywhere}" if anywhere else ""))


def _stem(stem: str) -> str:
    """A stem as a pattern: `_` inside is a gap, at the end the end of the word."""
    inner = re.escape(stem.rstrip("_")).replace("_", r"[\s,:]+")
    return inner + (r"(?!\w)" if stem.endswith("_") else "")


def _is_ordered(sentence: str, verb: re.Match[str]) -> bool:
    """Whether *verb* is said as an order; in scripts whose verbs come last this can't be told, and is taken for one."""
    before = sentence[: verb.start()]
    if not _ALPHABETIC.match(verb.group()):
        return True
    return bool(_CLAUSE.search(before) or _MUST.search(before) or ideas()["agent"].search(before))
