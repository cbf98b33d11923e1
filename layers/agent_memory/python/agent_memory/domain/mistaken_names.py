"""What a detector takes for somebody's name and is none: the verb that begins an order, and the code of a booking.

Both come from capitals. "Unlock the account" would reach a reviewer as "[NAME] the account", and a memory that lost its
flight numbers is found less well. In doubt a finding stays: a verb that is also a name ("Mark", "Grant") always does,
and so does a code that could be read as a name ("PUNERT", "MARIA1").
"""

import re
from collections.abc import Iterator, Sequence

from agent_memory.domain.detection import detect_fields
from agent_memory.domain.models import DetectedSpan
from agent_memory.domain.opening_verbs import VERBS
from agent_memory.domain.ports import PersonalDataDetector

# What stands before the first word of a sentence, an item of a list, or a line.
_OPENING = re.compile(
    r"(?:^|(?<!\b[A-Z])(?<!\b[A-Z][a-z])(?<!\b[A-Z][a-z]{2})\.[ \t]*|[!?;:\n][ \t]*"  # not after "J." and "Mrs."
    r"|(?:^|\n)[ \t]*(?:\d{1,3}[.)]|[*\u2022-])[ \t]+)[\"'(*]{0,3}$"
)
_LOOK_BACK = 12
_FIRST_WORD = re.compile(r"[A-Za-z]+(?:-[a-z]+)?(?![\w'\u2019-])")
_OBJECT = re.compile(r"[ \t]+[\"'(\[*`]{0,3}(\w+)")
# After a subject comes a verb or "and"; an object that ends like a verb ("fares", "used") is a doubt, so it is one too.
_TOLD_OF = re.compile(
    r"(?:is|was|has|had|did|does|will|would|must|can|could|may|might|shall|should|said|says|and|or|who"
    r"|(?!(?:this|its|his|access|address|status)$)[a-z]+(?:s|ed))"
)

# A letter beside one that it stands beside in no name, in any spelling that uses our letters.
_UNREADABLE = re.compile(r"[BCDFGHJMPQSTVWXZ]X|X[GJKQRVXZ]|[BFGJKMPVWXZ]Q|Q[CFGJKPVWXZ]|V[BFGPQ]|[WJFVG]Q|YYZ")
_NO_VOWEL = re.compile(r"[B-DF-HJ-NP-TV-XZ]{3,}")
# Lengths of the codes of airports and of bookings.
_LENGTHS_OF_LETTERS = (3, 6)
_FLIGHT = re.compile(r"[A-Z]{2,3}\d{1,4}")
_BOOKING = re.compile(r"(?=.*[A-Z])[A-Z0-9]{3,6}")
# "MARIA1" is an account of Maria's.
_WORD_AND_NUMBER = re.compile(r"([A-Z]{4,})\d+")
_TOKEN = re.compile(r"(?<![\w@.+'\u2019-])[A-Z0-9]{3,7}(?![\w@+'\u2019-]|\.\w)")
_BETWEEN = " \t\n,;:*()-"
# Left with the code that they announce.
_LABEL = re.compile(
    r"(?:\b(?:airport|booking|cancel|case|code|confirmation|flight|gate|id|locator|number|order|reservation|ticket|train)"
    r"\b[\W_]{1,6})+$",
    re.IGNORECASE,
)


def detect_without_mistakes(
    fields: Sequence[str], language: str, detector: PersonalDataDetector
) -> list[list[DetectedSpan]]:
    """Like detect_fields, without verbs and codes that were taken for names.

    Where a verb may have been, a second request over those fields asks about it in small letters.
    """
    found = detect_fields(fields, language, detector)
    found = [
        [part for span in spans for part in _without_codes(field, span)]
        for field, spans in zip(fields, found, strict=True)
    ]
    verbs = {at: words for at, field in enumerate(fields) if (words := _opening_verbs(field, found[at]))}
    if language != "en" or not verbs:
        return found
    lowered = [_in_small_letters(fields[at], words) for at, words in verbs.items()]
    for (at, words), spans in zip(verbs.items(), detect_fields(lowered, language, detector), strict=True):
        no_names = [word for word in words if not any(_is_name(span) and _overlap(span, word) for span in spans)]
        found[at] = [part for span in found[at] for part in _cut(fields[at], span, no_names)]
    return found


def is_code(token: str) -> bool:
    """Whether *token*, taken for a name, has the shape of a booking, a flight or an airport and could be no name."""
    if not _TOKEN.fullmatch(token) or token.isdigit():
        return False
    if token.isalpha():
        return len(token) in _LENGTHS_OF_LETTERS and _unreadable(token)
    word = _WORD_AND_NUMBER.fullmatch(token)
    if word:
        return _unreadable(word.group(1))
    return bool(_FLIGHT.fullmatch(token) or _BOOKING.fullmatch(token))


def _unreadable(letters: str) -> bool:
    return bool(_NO_VOWEL.fullmatch(letters) or _UNREADABLE.search(letters))


def _without_codes(text: str, span: DetectedSpan) -> Iterator[DetectedSpan]:
    if not _is_name(span):
        yield span
        return
    codes = []
    # With what stands around: a piece of an e-mail address or of an account's name is no token.
    for match in _TOKEN.finditer(text, max(span.start - 1, 0), span.end + 2):
        if is_code(match.group()) and span.start <= match.start() and match.end() <= span.end:
            label = _LABEL.search(text[span.start : match.start()])
            codes.append((span.start + label.start() if label else match.start(), match.end()))
    yield from _cut(text, span, codes)


def _opening_verbs(text: str, spans: Sequence[DetectedSpan]) -> list[tuple[int, int]]:
    """Where in *text* a sentence is opened by a verb that was taken for a name, as far as the words around it say."""
    found = []
    for span in spans:
        word = _FIRST_WORD.match(text, span.start)
        if not _is_name(span) or not word or word.group().lower() not in VERBS:
            continue
        opens = _OPENING.search(text[max(0, span.start - _LOOK_BACK) : span.start])
        after = _OBJECT.match(text, word.end())
        if opens and after and not _TOLD_OF.fullmatch(after.group(1)):
            found.append(word.span())
    return found


def _in_small_letters(text: str, words: Sequence[tuple[int, int]]) -> str:
    for start, end in words:
        text = text[:start] + text[start:end].lower() + text[end:]
    return text


def _cut(text: str, span: DetectedSpan, holes: Sequence[tuple[int, int]]) -> Iterator[DetectedSpan]:
    """What is left of *span* beside *holes*, as far as it says anything."""
    inside = sorted(hole for hole in holes if _overlap(span, hole)) if _is_name(span) else []
    if not inside:
        yield span
        return
    at = span.start
    for start, end in [*inside, (span.end, span.end)]:
        piece = text[at:start]
        if any(c.isalnum() for c in piece):
            first, last = start - len(piece.lstrip(_BETWEEN)), at + len(piece.rstrip(_BETWEEN))
            yield span.model_copy(update={"start": first, "end": last})
        at = end


def _is_name(span: DetectedSpan) -> bool:
    return span.type == "NAME"


def _overlap(span: DetectedSpan, place: tuple[int, int]) -> bool:
    return span.start < place[1] and place[0] < span.end
