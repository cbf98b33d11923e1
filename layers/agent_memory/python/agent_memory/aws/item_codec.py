"""Plain values to DynamoDB's JSON and back: numbers with a fixed number of places, never a float on the wire."""

from collections.abc import Iterator, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from agent_memory.domain.errors import RefusedInputError

Item = dict[str, Any]
# Nine places: equal numbers are stored equal (0.1 + 0.2 and 0.3), and DynamoDB's 38 digits are never exceeded.
PLACES = Decimal("1e-9")
_DIGITS = Context(prec=38)


def number(value: float | Decimal) -> str:
    """The text of a number as stored. RefusedInputError: NaN, infinity, too large."""
    try:
        rounded = Decimal(str(value)).quantize(PLACES, context=_DIGITS)
    except InvalidOperation:
        rounded = Decimal("nan")
    if not rounded.is_finite():
        raise RefusedInputError("number", "must be finite and have at most 29 digits before the point")
    text = f"{rounded + 0:f}"  # plus nought: a rounded-off minus sign goes
    return text.rstrip("0").rstrip(".") if "." in text else text


def value(plain: object) -> Item:
    """One attribute value."""
    match plain:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": plain}
        case int():
            return {"N": str(plain)}
        case float() | Decimal():
            return {"N": number(plain)}
        case str():
            return {"S": str(plain)}
        case bytes():
            return {"B": plain}
        case Mapping():
            return {"M": {str(name): value(inner) for name, inner in plain.items()}}
        case list() | tuple():
            return {"L": [value(inner) for inner in plain]}
    raise TypeError(f"DynamoDB holds no {type(plain).__name__}")


def item(attributes: Mapping[str, object]) -> Item:
    """A whole item; what is None is absent, because an index key must not be null or empty."""
    return {name: value(plain) for name, plain in attributes.items() if plain is not None}


def plain(attribute: Mapping[str, Any]) -> object:
    """An attribute value as Python has it: whole numbers are int, others float."""
    (kind, held), *_ = attribute.items()
    match kind:
        case "N":
            return float(held) if any(c in held for c in ".eE") else int(held)
        case "M":
            return attributes(held)
        case "L":
            return [plain(inner) for inner in held]
        case "NULL":
            return None
        case _:
            return held


def attributes(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A whole item as plain values."""
    return {name: plain(attribute) for name, attribute in stored.items()}


def names(*words: str) -> dict[str, str]:
    """Placeholders for attribute names: every one of them, because reserved words break updates only."""
    return {f"#{word}": word for word in words}


def pages(client: Any, **query: Any) -> Iterator[Item]:
    """Every item of a Query, page after page; a page may be empty and not be the last."""
    for page in client.get_paginator("query").paginate(**query):
        yield from page["Items"]
