"""Guard for numbers, units, times of day, bounds and rates: "2x" never confirms "3x", "60 min" confirms "1 h"."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from agent_memory.domain.fact_guards_dates import dates
from agent_memory.domain.fact_guards_lexicon import FUNCTION, LABEL_NOUNS
from agent_memory.domain.fact_guards_text import Finding, Relation, normalise
from agent_memory.domain.fact_guards_units import BOUNDS, EVERY, LOWER, NUMBER_WORDS, ORDINALS, UNITS, UPPER, spelled

# 10 lb are 4.54 kg: converted measures are rounded.
MEASURED = frozenset("mass length volume speed pressure".split())
COUNT, CLOCK, LABEL, ORDINAL = "count", "clock", "label", "ordinal"
_MARKS = "\u2264\u2265\u226b\u226a\u2248\u2261"
_CODE = re.compile(
    r"(?<![\w.])(?=[\w.-]*[A-Za-z])(?=[\w.-]*\d)[A-Za-z][\w]*(?:[-.:/_]\w+)*|\b\d+(?:\.\d+){2,}\b|\b\d{5,}-\w+\b|\b\d+-\d+-\d+\b"
)
_UNIT_RUN = re.compile(r"(?:x|usd|eur|gbp|chf)\d[\d.,]*", re.I)
_CLOCK = re.compile(
    r"(?<![\d.,:])(?P<hour>[01]?\d|2[0-4])(?:[:.](?P<minute>[0-5]\d)|h(?P<minute2>[0-5]\d)?(?=\s|$))?(?::\d\d)?\s*(?P<half>[ap]\.?m\b\.?)?(?P<oclock>\s*o'clock)?(?![\d:]|[.,]\d)",
    re.I,
)
_NAMED_TIMES = ((re.compile(r"\b(?:noon|midday)\b", re.I), " 12:00 "), (re.compile(r"\bmidnight\b", re.I), " 0:00 "))
_NUMBER = re.compile(
    rf"(?P<bound>[{_MARKS}])?\s*(?:the |a |an )?(?P<currency>[$\u20ac\u00a3\u00a5])?\s?(?P<sign>(?<![\w)])-)?"
    r"(?<![\w.])(?P<digits>\d{1,3}(?:[, ']\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?P<nth>(?:st|nd|rd|th)\b)?(?P<one>\u00b9)?"
    r"(?P<scale>\s?(?:k|bn|million|billion|thousand|mn)\b|m\b(?=\s*(?:usd|eur|gbp|dollars|euros)))?\s*-?(?P<unit>\u00b0[cf]|[%$\u20ac\u00a3\u00a5]|km/h|[a-z]+)?"
    rf"(?P<after>\s*[{_MARKS}])?",
    re.I,
)
_SCALE = {"k": 1000, "thousand": 1000, "m": 10**6, "mn": 10**6, "million": 10**6, "bn": 10**9, "billion": 10**9}
_RANGE = re.compile(r"(\d)\s*-\s*(?=\d)")
_RANGE_UNIT = re.compile(r"(?<![\d.,])(\d+(?:\.\d+)?)(?: to | or | and |\s*-\s*)(?=(\d+(?:\.\d+)?)\s*([a-z%]+))", re.I)
_RATE = re.compile(
    r"(?:\bper\b|\bof the\b(?= (?:month|week|year|day)\b)|/|\bevery\b|\beach\b|(?<=\d)\s+an?\b|(?<=times)\s+an?\b)\s*(?P<count>\d+(?:\.\d+)?\s*)?(?P<unit>[a-z]+)\b",
    re.I,
)
_FRACTIONS = ((re.compile(r"\b(?:a|the) (?:pair|couple) of\b", re.I), lambda m: " 2 "),
              (re.compile(r"([$\u20ac\u00a3]\s?\d[\d.,]*)\s?m\b", re.I), lambda m: f"{m[1]} million"), (re.compile(r"(\d),(\d{1,2})(?!\d)"), lambda m: f"{m[1]}.{m[2]}"),
              (re.compile(r"\bonce (?:an?|per|every|each)\b", re.I), lambda m: " per "), (re.compile(r"\btwice (?:an?|per|every|each)\b", re.I), lambda m: " 2 times per "),
              (re.compile(r"\bhalf (?:an? )?(second|minute|hour|day|year|dozen|million|litre|metre)\b|\bhalf-(hour|day)\b", re.I), lambda m: f" 0.5 {m[1] or m[2]} "),
              (re.compile(r"\bhalf\b(?! past)", re.I), lambda m: " 50% "), (re.compile(r"\bthree quarters of an hour\b", re.I), lambda m: " 45 minutes "), (re.compile(r"\bthree quarters of\b", re.I), lambda m: " 75% of "),
        (re.compile(r"\ba quarter of\b", re.I), lambda m: " 25% of "),
              (re.compile(r"\b(?:twice|double[sd]?)\b", re.I), lambda m: " 2x "), (re.compile(r"\b(?:triple[sd]?|thrice)\b", re.I), lambda m: " 3x "))  # fmt: skip
_ONE_UNIT = re.compile(r"\b(?:an?|one|single) (?=(?P<unit>[a-z]+)\b)", re.I)
_PHRASE_END = re.compile(
    r"\s*(?:$|[.,;)]|(?:of|long|wide|high|deep|tall|thick|heavy|in|per|or|and|at|on|for|from|to|away|max)\b)"
)
_PRECEDING = re.compile(r"([^\W\d_]+)[ .#:-]*$")


class Quantity(NamedTuple):
    """One number of a text. *value* in the base unit of *dimension*; *raw* as written; *optional*: "a", "one"."""

    value: Fraction
    dimension: str
    raw: Fraction
    bound: str = ""
    optional: bool = False
    half_open: bool = False

    def agrees(self, other: "Quantity") -> bool:
        """The same amount, whatever its unit."""
        if self.dimension == other.dimension:
            near = self.dimension in MEASURED and abs(self.value - other.value) * 2000 < abs(self.value)
            return self.value == other.value or (near and self.raw != other.raw)
        if "clock" in (self.dimension, other.dimension):
            clock, plain = (self, other) if self.dimension == CLOCK else (other, self)
            return plain.dimension in (COUNT, LABEL) and clock.value == plain.raw * 60
        loose = {COUNT, LABEL, ORDINAL}
        return self.raw == other.raw and (self.dimension in loose and other.dimension in loose)


def codes(text: str) -> frozenset[str]:
    """Identifiers such as NW-77 or 1.2.3, without their separators."""
    return frozenset(
        re.sub(r"[\W_]", "", code).casefold() for code in _CODE.findall(dates(text)[2]) if not _UNIT_RUN.fullmatch(code)
    )


def without_codes(text: str) -> str:
    """*text* without its identifiers."""
    return _CODE.sub(lambda match: match[0] if _UNIT_RUN.fullmatch(match[0]) else " ", text)


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """Every amount that *text* names."""
    text = without_codes(dates(text)[2])
    for pattern, digits in _NAMED_TIMES:
        text = pattern.sub(digits, text)
    for fraction, replacement in _FRACTIONS:
        text = fraction.sub(replacement, text)
    text = NUMBER_WORDS.sub(_in_digits, text)
    text = _ONE_UNIT.sub(lambda m: "1\u00b9 " if _dimension(m["unit"]) else m[0], text)
    found: list[Quantity] = []
    text = _RATE.sub(lambda match: _keep_rate(match, found), text)
    for word, (dimension, value) in EVERY.items():
        if re.search(rf"\b{word}\b", text, re.I):
            found.append(Quantity(value, f"per {dimension}", value))
    for pattern, mark in BOUNDS:
        text = pattern.sub(mark, text)
    text = _RANGE_UNIT.sub(_shared_unit, text)
    text = _CLOCK.sub(lambda match: _keep_clock(match, found), text)
    text = _RANGE.sub(r"\1 ", text)
    for match in _NUMBER.finditer(text):
        found.append(_quantity(match, text))
    return tuple(dict.fromkeys(found))


def _in_digits(match: re.Match[str]) -> str:
    words = match[0]
    if words.lower() == "one":
        return "1\u00b9"
    return str(spelled(words))


def _dimension(unit: str) -> tuple[str, Fraction] | None:
    found = UNITS.get(unit.lower())
    return found if found and len(unit) > 1 else None


def _keep_rate(match: re.Match[str], found: list[Quantity]) -> str:
    unit = _dimension(match["unit"]) or (UNITS.get(match["unit"]) if match[0].startswith("/") else None)
    if unit is None:
        return match[0]
    count = Fraction(match["count"].strip()) if match["count"] else Fraction(1)
    found.append(Quantity(count * unit[1], f"per {unit[0]}", count))
    return " "


def _shared_unit(match: re.Match[str]) -> str:
    return f"{match[1]} {match[3]} " if match[3].lower() in UNITS or match[3] == "%" else match[0]


def _keep_clock(match: re.Match[str], found: list[Quantity]) -> str:
    minute = match["minute"] or match["minute2"]
    colon = bool(match["minute"]) and ":" in match[0]
    if not (match["half"] or match["oclock"] or colon or match["minute2"]):
        return match[0]
    hour = int(match["hour"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
    minutes = Fraction(hour % 24 * 60 + int(minute or 0))
    found.append(Quantity(minutes, CLOCK, Fraction(hour), half_open=not match["half"] and 0 < hour <= 12))
    return " "


def _quantity(match: re.Match[str], text: str) -> Quantity:
    raw = Fraction(re.sub(r"[, ']", "", match["digits"])) * (-1 if match["sign"] else 1)
    if match["scale"]:
        raw *= _SCALE[match["scale"].strip().lower()]
    bound = (match["bound"] or (match["after"] or "").strip()).strip()
    unit = (match["currency"] or match["unit"] or "").lower()
    if match["nth"]:
        return Quantity(raw, ORDINAL, raw)
    optional = bool(match["one"])
    if unit in UNITS and (len(unit) > 1 or not unit.isalpha() or _tight(match)):
        dimension, factor = UNITS[unit]
        return Quantity(raw * factor, dimension, raw, bound, optional)
    before = _PRECEDING.search(text[: match.start("digits")])
    label = not bound and before is not None and _is_label(before[1])
    return Quantity(raw, LABEL if label else COUNT, raw, bound, optional)


def _tight(match: re.Match[str]) -> bool:
    """A one-letter unit stands at its number or ends the phrase."""
    gap = match.start("unit") - match.end("digits")
    return gap == 0 or bool(_PHRASE_END.match(match.string[match.end("unit") :]))


def _is_label(word: str) -> bool:
    return word.lower() in LABEL_NOUNS or (word[0].isupper() and word.lower() not in FUNCTION and len(word) > 1)


def number_findings(a: str, b: str) -> list[Finding]:
    """What the amounts of two facts object to."""
    first, second = quantities(a), quantities(b)
    left = [x for x in first if not any(x.agrees(y) for y in second)]
    right = [y for y in second if not any(x.agrees(y) for x in first)]
    findings = _bound_findings(_bounded(first, a), _bounded(second, b))
    ordinals = _ordinals(a) ^ _ordinals(b)
    if ordinals:
        findings.append(Finding(Relation.DIFFERENT, "ordinal_mismatch"))
    if left and right:
        return [*findings, _mismatch(left, right)]
    if any(not x.optional for x in (*left, *right)):
        findings.append(Finding(Relation.DIFFERENT, "number_missing", close=True))
    return findings


def _mismatch(left: list[Quantity], right: list[Quantity]) -> Finding:
    if any(x.dimension == LABEL for x in left) and any(y.dimension == LABEL for y in right):
        return Finding(Relation.DIFFERENT, "label_mismatch")
    clocks = [(x, y) for x in left for y in right if (x.half_open or y.half_open) and (x.value - y.value) % 720 == 0]
    if clocks:
        return Finding(Relation.DIFFERENT, "time_of_day_unclear", close=True)
    units = any(x.raw == y.raw and x.dimension != y.dimension for x in left for y in right)
    return Finding(Relation.CONTRADICTS, "unit_mismatch" if units else "number_mismatch")


def _bounded(found: tuple[Quantity, ...], text: str) -> tuple[Quantity, ...]:
    """A lone "minimum" bounds every amount, however far from it."""
    bound = next((mark for pattern, mark in _FAR_BOUNDS if pattern.search(text)), "")
    return tuple(amount if amount.bound or not bound else amount._replace(bound=bound) for amount in found)


_FAR_BOUNDS = (
    (re.compile(r"\b(?:minimum|minimal|at least)\b", re.I), "\u2265"),
    (re.compile(r"\b(?:maximum|maximal|at most|limit|cap)\b", re.I), "\u2264"),
)


def _bound_findings(first: tuple[Quantity, ...], second: tuple[Quantity, ...]) -> list[Finding]:
    pairs = [(x.bound, y.bound) for x in first for y in second if x.agrees(y)]
    if any((x in UPPER and y in LOWER) or (x in LOWER and y in UPPER) for x, y in pairs if x and y):
        return [Finding(Relation.CONTRADICTS, "bound_mismatch")]
    if any((x in LOWER) != (y in LOWER) for x, y in pairs):
        return [Finding(Relation.DIFFERENT, "bound_missing", close=True)]
    return []


def _ordinals(text: str) -> frozenset[int]:
    return frozenset(
        value
        for word, value in ORDINALS.items()
        if re.search(rf"\b{word}\b(?! (?:later|before|ago))", normalise(text), re.I) and word != "second"
    )
