"""JSON of outsiders, read without the limit that Python sets to the digits of an integer."""

import json

# Python refuses to read or write longer ones in decimal (CVE-2020-10735).
MAX_DIGITS = 4_300


def read_json(text: str | bytes) -> object:
    """Return what *text* holds; an integer too long for Python stays text. Raises ValueError or RecursionError."""
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits
