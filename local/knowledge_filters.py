"""The retrieval filters of Bedrock Agent Runtime, in ChromaDB's words.

As on a Knowledge Base over S3 Vectors: equality, sets and numeric ranges; no startsWith, stringContains, listContains.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from local.aws_wire import AwsError, sound_text

Where = dict[str, Any]
# Keys of ours in front keep a document's attributes apart from names that ChromaDB has for itself.
ATTRIBUTE: Final = "attribute:"
MOST_CONDITIONS: Final = 100
MOST_LEVELS: Final = 10
KEY_CHARACTERS: Final = 100
NOT_IN_S3_VECTORS: Final = ("startsWith", "stringContains", "listContains")
RANGES: Final = {
    "greaterThan": "$gt",
    "greaterThanOrEquals": "$gte",
    "lessThan": "$lt",
    "lessThanOrEquals": "$lte",
}


def chroma_where(request: Any) -> Where:
    """Translate the filter of a request, or refuse it as the service would."""
    left = [MOST_CONDITIONS]
    return _translated(request, left, level=1)


def number(value: int | float) -> float:
    """Numbers are doubles there; ChromaDB would keep whole numbers and fractions apart."""
    try:
        converted = float(value)
    except OverflowError:
        converted = math.inf
    if not math.isfinite(converted):
        raise ValueError("a number must be a finite double")
    return converted


def _translated(request: Any, left: list[int], *, level: int) -> Where:
    if not isinstance(request, dict) or len(request) != 1:
        raise _refused("a filter has exactly one operator")
    if level > MOST_LEVELS:
        raise _refused(f"a filter has at most {MOST_LEVELS} levels")
    ((operator, operand),) = request.items()
    if operator in ("andAll", "orAll"):
        if not isinstance(operand, list) or len(operand) < 2:
            raise _refused(f"{operator} needs at least two filters")
        return _joined(operator, [_translated(member, left, level=level + 1) for member in operand])
    left[0] -= 1
    if left[0] < 0:
        raise _refused(f"a filter has at most {MOST_CONDITIONS} conditions")
    if operator in NOT_IN_S3_VECTORS:
        raise _refused(f"{operator} is not supported by the vector store S3_VECTORS")
    condition = CONDITIONS.get(operator)
    if condition is None:
        raise _refused(f"unknown operator {operator[:40]!r}")
    key, value = _key_and_value(operator, operand)
    return condition(ATTRIBUTE + key, operator, value)


def _key_and_value(operator: str, operand: Any) -> tuple[str, Any]:
    if not isinstance(operand, Mapping) or set(operand) != {"key", "value"}:
        raise _refused(f"{operator} takes a key and a value")
    key = operand["key"]
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_CHARACTERS or not sound_text(key):
        raise _refused(f"a key has 1 to {KEY_CHARACTERS} characters")
    return key, operand["value"]


def _equals(key: str, operator: str, value: Any) -> Where:
    return _any_of(key, [_scalar(operator, value)])


def _not_equals(key: str, operator: str, value: Any) -> Where:
    return _none_of(key, [_scalar(operator, value)])


def _in(key: str, operator: str, value: Any) -> Where:
    return _any_of(key, _scalars(operator, value))


def _not_in(key: str, operator: str, value: Any) -> Where:
    return _none_of(key, _scalars(operator, value))


def _in_range(key: str, operator: str, value: Any) -> Where:
    limit = _scalar(operator, value)
    if not isinstance(limit, float):
        raise _refused(f"{operator} takes a number")
    return {key: {RANGES[operator]: limit}}


CONDITIONS: Final[Mapping[str, Callable[[str, str, Any], Where]]] = {
    "equals": _equals,
    "notEquals": _not_equals,
    "in": _in,
    "notIn": _not_in,
    **dict.fromkeys(RANGES, _in_range),
}


def _any_of(key: str, values: list[Any]) -> Where:
    """One of *values*, or a list that holds one of them: lists match by their members."""
    alike = [{key: {"$in": group}} for group in _by_type(values)]
    members = [{key: {"$contains": value}} for value in values if isinstance(value, str)]
    return _joined("orAll", alike + members)


def _none_of(key: str, values: list[Any]) -> Where:
    """The complement of the above: a document without the key is in it, as in the service."""
    alike = [{key: {"$nin": group}} for group in _by_type(values)]
    members = [{key: {"$not_contains": value}} for value in values if isinstance(value, str)]
    return _joined("andAll", alike + members)


def _by_type(values: list[Any]) -> list[list[Any]]:
    groups = ([value for value in values if type(value) is kind] for kind in (str, float, bool))
    return [group for group in groups if group]


def _joined(operator: str, members: list[Where]) -> Where:
    if len(members) == 1:
        return members[0]
    return {"$and" if operator == "andAll" else "$or": members}


def _scalars(operator: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_CONDITIONS:
        raise _refused(f"{operator} takes a list of 1 to {MOST_CONDITIONS} values")
    return [_scalar(operator, member) for member in value]


def _scalar(operator: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        try:
            return number(value)
        except ValueError as error:
            raise _refused(str(error)) from None
    if isinstance(value, str) and sound_text(value):
        return value
    raise _refused(f"{operator} takes strings, numbers and booleans")


def _refused(rule: str) -> AwsError:
    return AwsError("ValidationException", f"The filter is invalid: {rule}.")
