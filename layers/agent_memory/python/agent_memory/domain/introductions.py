"""Names that people introduce themselves or others by: "my name is ...". Rules, because a detector may miss even these.

A title-case or all-capitals sentence says nothing by its capitals, so the words of the introduction decide.
"""

import re
from collections.abc import Iterator

# Whatever follows these is a name, one word being enough.
_NAMED = re.compile(
    r"\b(?:[Mm]y(?: full| first| last)? name(?: is|['\u2019]s)|MY NAME IS|[Nn]ame of the (?:customer|caller|guest) is"
    r"|(?:[Cc]ustomer|[Cc]aller|[Gg]uest|[Pp]assenger|[Pp]atient)(?:['\u2019]s)?(?: full)? name is"
    r"|(?:[Cc]ustomer|[Cc]aller|[Gg]uest|[Pp]assenger|[Pp]atient) (?:is )?(?:named|called)"
    r"|[Mm]e llamo|[Mm]i nombre es|[Mm]ein [Nn]ame ist|[Ii]ch hei(?:\u00df|ss)e|[Jj]e m['\u2019]appelle|[Mm]on nom est"
    r"|[Mm]eu nome \u00e9|[Mm]i chiamo|[Mm]ijn naam is)[ \t:]+"
)
# These are said of much else as well ("I am sure"), so two capitalised words must follow.
_PERHAPS = re.compile(
    r"\b(?:I am|I['\u2019]m|[Tt]his is|(?:[Cc]ustomer|[Cc]aller|[Gg]uest|[Pp]assenger|[Pp]atient) is"
    r"|[Ss]oy|[Ii]ch bin|[Jj]e suis)[ \t]+"
)
_TITLE = re.compile(r"(?:(?:Mr|Mrs|Ms|Mx|Miss|Dr|Prof|Herr|Frau|Se\u00f1or|Se\u00f1ora|Sr|Sra)\b\.?[ \t]+){0,2}")
_WORD = re.compile(r"[^\W\d_](?:[^\W\d_]|['\u2019-](?=[^\W\d_]))*|[^\W\d_]\.")
_GAP = re.compile(r"\.?[ \t]+")
_PARTICLE_WORDS = "van von der den de del della da di dos la le bin ibn al el y zu af av ter ten"
_PARTICLES = frozenset(_PARTICLE_WORDS.split())
_MAX_WORDS = 6
# Capitalised words that describe somebody or something and are no part of a name.
_NO_NAME_WORDS = (
    "account agent airlines airport airways assistant bank bot business ceo certified class club company corp customer "
    "deluxe director economy elite employee engineer executive first frequent general gmbh gold group hotel inc "
    "insurance lead llc ltd manager member membership new officer order plan platinum plus premier premium president "
    "pro representative sales senior service silver specialist standard status store student subscription support team "
    "technology tier user vice vip "
    "monday tuesday wednesday thursday friday saturday sunday january february march april june july august september "
    "october november december "
    "a an and but for from hello hi i if in is it my no not on ok please so the to yes"
)
_NO_NAMES = frozenset(_NO_NAME_WORDS.split())


def introduced_names(text: str) -> Iterator[tuple[str, int, int]]:
    """Where the names that *text* introduces stand, as NAME findings."""
    for pattern, least in ((_NAMED, 1), (_PERHAPS, 2)):
        for match in pattern.finditer(text):
            start, end, words = _name_at(text, match.end(), shouted=least == 1)
            if words >= least:
                yield "NAME", start, end


def _name_at(text: str, at: int, *, shouted: bool) -> tuple[int, int, int]:
    """Start, end and number of capitalised words of the name at *at*; a word that names no person makes it none."""
    title = _TITLE.match(text, at)
    at = start = end = title.end() if title else at
    words = 0
    for _ in range(_MAX_WORDS):
        word = _WORD.match(text, at)
        if not word:
            break
        if word.group() not in _PARTICLES:
            if not _like_a_name(word.group(), shouted=shouted):
                # "Mia Berg I would like": the name is over. "Gold Member": there was none.
                words = 0 if word.group()[0].isupper() and word.group().lower() in _NO_NAMES and words < 2 else words
                break
            words, end = words + 1, word.end()
        gap = _GAP.match(text, word.end())
        # A full stop ends the sentence unless it belongs to an initial.
        if not gap or (gap.group().startswith(".") and len(word.group()) > 1):
            break
        at = gap.end()
    return start, end, words


def _like_a_name(word: str, *, shouted: bool) -> bool:
    if not word[0].isupper() or word.rstrip(".").lower() in _NO_NAMES:
        return False
    return shouted or len(word.rstrip(".")) == 1 or not word.isupper()
