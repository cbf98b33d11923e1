"""Reads the object that was asked for out of whatever a model answered: nothing is executed, nothing is invented.

From strict to lenient: the value itself, strict JSON, JSON inside prose, a Python literal, a repair. The first value
that matches the expected shape wins, so that an example or a draft before it does not.
"""

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

import json_repair

from agent_memory.domain.errors import ModelAnswerError
from agent_memory.domain.thinking import without_thinking

Matches = Callable[[object], bool]

MAX_CHARACTERS = 60_000
# Each opening bracket is one attempt; an answer that is nothing but brackets must not take all day.
MAX_ATTEMPTS = 60
MAX_REPAIRS = 3
# Models write line breaks into strings as they are.
_DECODER = json.JSONDecoder(strict=False)
_STRUCTURE = re.compile(r"\\.|[\"'{}\[\],]", re.DOTALL)


def read_answer(arguments: object, text: str, matches: Matches) -> tuple[object, bool]:
    """Return the first value that *matches* and whether it took a repair.

    *arguments*: of the forced tool, as an object or as JSON text; *text*: what the model wrote beside or instead.
    Raises ModelAnswerError: `empty`, `not_json`, `wrong_schema`, `truncated`.
    """
    if isinstance(arguments, str):
        arguments, text = None, f"{arguments}\n{text}"
    found = next(_matching(iter((arguments,)), matches), None) if arguments is not None else None
    if found is not None:
        return found, False
    answer = text.strip().lstrip("\ufeff")[:MAX_CHARACTERS]
    if not answer:
        raise ModelAnswerError("empty" if arguments is None else "wrong_schema")
    seen = arguments is not None
    for repaired, read in ((False, _strict), (True, _literals), (True, _repairs)):
        for value in read(answer):
            seen = True
            found = next(_matching(iter((value,)), matches), None)
            if found is not None:
                return found, repaired
    raise ModelAnswerError(_why_not(answer, seen=seen))


def _why_not(answer: str, *, seen: bool) -> str:
    start = _next_opening(without_thinking(answer)[0], 0)
    if start >= 0 and _closing(without_thinking(answer)[0], start) < 0:
        return "truncated"
    return "wrong_schema" if seen else "not_json"


def _matching(values: Iterator[object], matches: Matches) -> Iterator[object]:
    for value in values:
        decoded = decoded_once(value)
        if matches(decoded):
            yield decoded
        elif isinstance(decoded, Mapping):
            yield from _unwrapped(decoded, matches)


def _unwrapped(value: Mapping[object, object], matches: Matches) -> Iterator[object]:
    """Models wrap: {"artifacts": {...}, "facts": [...]}, {"name": ..., "arguments": "{...}"}."""
    for key, inner in value.items():
        decoded = decoded_once(inner)
        if isinstance(decoded, Mapping) and matches(decoded):
            yield {**{k: v for k, v in value.items() if k != key}, **decoded}


def decoded_once(value: object) -> object:
    """A list or object that was encoded twice, decoded; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        for read in (_whole, _literal):
            decoded = read(value.strip())
            if isinstance(decoded, Mapping | list):
                return decoded
    return value


def _whole(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _strict(answer: str) -> Iterator[object]:
    whole = _whole(answer)
    if whole is not None:
        yield whole
        return
    visible = without_thinking(answer)[0]
    position = attempts = 0
    while (start := _next_opening(visible, position)) >= 0 and attempts < MAX_ATTEMPTS:
        attempts += 1
        try:
            value, position = _DECODER.raw_decode(visible, start)
            yield value
        except (ValueError, RecursionError):
            position = start + 1


def _next_opening(text: str, position: int) -> int:
    places = [place for place in (text.find("{", position), text.find("[", position)) if place >= 0]
    return min(places, default=-1)


def _literals(answer: str) -> Iterator[object]:
    for segment in _segments(without_thinking(answer)[0]):
        value = _literal(segment)
        if isinstance(value, dict | list):
            yield value


def _literal(text: str) -> object:
    if len(text) > 100_000:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _repairs(answer: str) -> Iterator[object]:
    """Mend trailing commas, comments, curly quotes; never an object whose end is missing."""
    for segment in islice(filter(_worth_a_repair, _segments(without_thinking(answer)[0])), MAX_REPAIRS):
        try:
            value = json_repair.loads(segment, skip_json_loads=True)
        except (ValueError, RecursionError, IndexError):
            continue
        if value:
            yield value


def _worth_a_repair(segment: str) -> bool:
    return ":" in segment or "{" in segment[1:]


def _segments(text: str) -> Iterator[str]:
    """The balanced {...} and [...] of *text*, outermost first, brackets inside quotes left aside."""
    position = attempts = 0
    while (start := _next_opening(text, position)) >= 0 and attempts < MAX_ATTEMPTS:
        attempts += 1
        end = _closing(text, start)
        if end < 0:
            position = start + 1
            continue
        yield text[start:end]
        position = end


def _closing(text: str, start: int) -> int:
    depth, quote, position = 0, "", start
    for found in _STRUCTURE.finditer(text, start):
        mark, position = found[0], found.end()
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "\"'":
            quote = mark if mark == '"' or not text[found.start() - 1].isalnum() else ""
        elif mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth == 0:
                return position
    return -1


def complete_part(arguments: object, text: str) -> tuple[object, str]:
    """What of a cut answer was written to its end: (*arguments*, *text*) without the last, possibly half, entry."""
    if isinstance(arguments, Mapping) and arguments:
        return _without_last_entry(arguments), ""
    cut = text if not isinstance(arguments, str) else arguments
    visible = without_thinking(cut)[0]
    start = _next_opening(visible, 0)
    return None, _closed(visible[start:]) if start >= 0 else ""


def _without_last_entry(value: Mapping[object, object]) -> dict[object, object]:
    *whole, (last_name, last) = value.items()
    last = decoded_once(last)
    kept = {last_name: last[:-1]} if isinstance(last, list) else {}
    return {**dict(whole), **kept}


def _closed(text: str) -> str:
    """Cut JSON text after its last complete member of the object, or entry of a list directly inside it."""
    stack: list[str] = []
    safe, closing, in_string = 0, "", False
    for found in _STRUCTURE.finditer(text):
        mark = found[0]
        if mark == '"':
            in_string = not in_string
        if in_string or mark in "\"'" or mark[0] == "\\":
            continue
        if mark in "{[":
            stack.append("}" if mark == "{" else "]")
            continue
        if mark in "}]":
            if not stack:
                break
            stack.pop()
        if stack in (["}"], ["}", "]"], ["]"]):
            safe = found.start() if mark == "," else found.end()
            closing = "".join(reversed(stack))
        elif not stack:
            return text[: found.end()]
    return text[:safe] + closing
