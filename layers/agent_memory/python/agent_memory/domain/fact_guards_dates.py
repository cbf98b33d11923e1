"""Guard for dates and weekdays: two facts that name different days are not the same fact."""

import re
from typing import NamedTuple

from agent_memory.domain.fact_guards_text import Finding, Relation, normalise

_MONTHS = "january february march april may june july august september october november december".split()
_MONTH_OF = {name[:n]: i + 1 for i, name in enumerate(_MONTHS) for n in (3, len(name))} | {"sept": 9}
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_DAY_OF = {name[:n]: i for i, name in enumerate(_DAYS) for n in (3, len(name))} | {
    "tues": 1,
    "weds": 2,
    "thur": 3,
    "thurs": 3,
}
_MONTH = "(?P<month>" + "|".join(sorted(_MONTH_OF, key=len, reverse=True)) + r")\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DATES = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"\b{_YEAR}-(?P<month>[01]\d)-(?P<day>[0-3]\d)(?:T[\d:.]+Z?)?\b",
        rf"\b(?P<day>[0-3]?\d)(?P<slash>[/.])(?P<month>[0-3]?\d)(?P=slash){_YEAR}\b",
        rf"\b(?:the )?{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?(?!\w)",
        rf"\b{_MONTH} (?:the )?{_DAY}(?!\d|:|,\d| ?[ap]\.?m|%)(?:,? {_YEAR})?(?!\w)",
        rf"\b{_MONTH},? (?:of )?{_YEAR}\b",
    )
)
# "may" and "march" are words as well: alone they are months only with a capital inside a sentence.
_LONE_MONTH = re.compile(r"(?<=[a-z,] )(?P<month>" + "|".join(m.capitalize() for m in _MONTHS) + r")\b")
_NAMES = "|".join(sorted(_DAY_OF, key=len, reverse=True))
_WEEKDAY = re.compile(
    rf"\b(?P<first>{_NAMES})s?\b(?:\s*(?:-|to|through|until|till|thru)\s*(?P<last>{_NAMES})s?\b)?", re.I
)
_NOT_DAYS = re.compile(r"\b(?:sun|sat|wed|fri|mon)\b")
_GROUPS = (
    (re.compile(r"\b(?:weekdays?|working days?|business days?|workdays?)\b(?<!\d )", re.I), range(5)),
    (re.compile(r"\bweekends?\b", re.I), (5, 6)),
)
_COUNTED_DAYS = re.compile(r"\d+ (?:working|business|week)\s?days?", re.I)


class Date(NamedTuple):
    """What a text says of a date; None: not said. *swapped*: day and month may stand the other way round."""

    year: int | None
    month: int | None
    day: int | None
    swapped: bool = False

    def agrees(self, other: "Date") -> bool:
        """Whether nothing that both say differs."""
        mine = (self, Date(self.year, self.day, self.month)) if self.swapped else (self,)
        theirs = (other, Date(other.year, other.day, other.month)) if other.swapped else (other,)
        return any(_agree(a, b) for a in mine for b in theirs)


def _agree(a: Date, b: Date) -> bool:
    pairs = zip(a[:3], b[:3], strict=True)
    return all(x is None or y is None or x == y for x, y in pairs)


def dates(text: str) -> tuple[list[Date], frozenset[int], str]:
    """The dates and weekdays (Monday 0) of *text*, and the text without them."""
    text = normalise(text)
    found: list[Date] = []
    for pattern in (*_DATES, _LONE_MONTH):
        text = pattern.sub(lambda match: _keep(match, found), text)
    counted = _COUNTED_DAYS.sub(" ", text)
    days = {day for pattern, group in _GROUPS for day in group if pattern.search(counted)}
    for match in _WEEKDAY.finditer(text):
        days |= _days_between(match["first"], match["last"])
    return found, frozenset(days), _WEEKDAY.sub(lambda match: match[0] if _NOT_DAYS.fullmatch(match[0]) else " ", text)


def _keep(match: re.Match[str], found: list[Date]) -> str:
    groups = match.groupdict()
    name = groups["month"]
    month = int(name) if name.isdigit() else _MONTH_OF[name.lower()]
    day = int(groups["day"]) if groups.get("day") else None
    year = int(groups["year"]) if groups.get("year") else None
    swapped = bool(groups.get("slash")) and day is not None and day <= 12
    if month > 12 and day is not None:
        month, day = day, month
    found.append(Date(year, month, day, swapped))
    return " "


def _days_between(first: str, last: str | None) -> set[int]:
    # Lower-case "sun", "sat", "wed" are words: a day's short name is written with a capital.
    if _NOT_DAYS.fullmatch(first):
        return set()
    start = _DAY_OF[first.lower()]
    if last is None or _NOT_DAYS.fullmatch(last):
        return {start}
    return {(start + step) % 7 for step in range((_DAY_OF[last.lower()] - start) % 7 + 1)}


def date_findings(a: str, b: str) -> list[Finding]:
    """What the dates of two facts object to."""
    first, days_first, _ = dates(a)
    second, days_second, _ = dates(b)
    findings = []
    if days_first != days_second:
        both = bool(days_first) and bool(days_second)
        findings.append(
            Finding(
                Relation.CONTRADICTS if both else Relation.DIFFERENT, "weekday_mismatch" if both else "weekday_missing"
            )
        )
    left = [x for x in first if not any(x.agrees(y) for y in second)]
    right = [y for y in second if not any(x.agrees(y) for x in first)]
    if left and right:
        findings.append(Finding(Relation.CONTRADICTS, "date_mismatch"))
    elif left or right:
        findings.append(Finding(Relation.DIFFERENT, "date_missing"))
    return findings
