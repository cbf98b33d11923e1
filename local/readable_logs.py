"""Log lines as people read them: when, how grave, which function, what, and the ids and decisions with it."""

import json
import re
from datetime import UTC, datetime, timedelta

from local.layout import LocalRuntimeError

_LINE = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (?P<function>[\w-]+) (?P<said>.*)")
_SPAN = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
# What every line has, or what says nothing to people.
_LEFT_OUT = frozenset(
    {
        "cold_start",
        "exception",
        "function_arn",
        "function_memory_size",
        "function_name",
        "function_request_id",
        "level",
        "location",
        "message",
        "sampling_rate",
        "service",
        "stack_trace",
        "timestamp",
        "xray_trace_id",
    }
)
# Ours are ids, counts, decisions and codes. What is longer is somebody else's, and may quote.
_LONGEST = 80


def since(text: str, now: datetime) -> str:
    """The moment that *text* names (15m, 2h, 2026-12-01T09:30Z), as log lines write it."""
    if span := _SPAN.fullmatch(text):
        moment = now - timedelta(**{_UNITS[span[2]]: int(span[1])})
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise LocalRuntimeError(
                f"--since takes a span such as 15m, 2h, 1d or an ISO 8601 time, not {text!r}"
            ) from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def readable(line: str, *, function: str | None = None, after: str | None = None) -> str | None:
    """A function's line for people; None when it is not wanted. A line that is not one of ours, such as those of a
    traceback, stays as it is, unless some were chosen."""
    found = _LINE.match(line)
    if found is None:
        return None if function or after else line
    if (function and function not in found["function"]) or (after and found["at"] < after):
        return None
    try:
        said = json.loads(found["said"])
    except ValueError:
        said = None
    if not isinstance(said, dict):
        return line
    if "level" not in said and "_aws" in said:
        said = {"level": "METRICS", **{name: value for name, value in said.items() if name != "_aws"}}
    more = [f"{name}={_value(value)}" for name, value in said.items() if name not in _LEFT_OUT and value is not None]
    words = (found["at"], f"{said.get('level', '')!s:<7}", found["function"], str(said.get("message", "")), *more)
    return " ".join(word for word in words if word) + "\n"


def _value(value: object) -> str:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], int | float):
        value = value[0]  # a metric
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"[{len(text)} characters]"
