"""Would IAM allow this request? The published rules of policy evaluation, for the operators that our templates use.

Semantics: IAM User Guide, "Policy evaluation logic", "Condition operators" and "Multivalued context keys". What is not
known here raises, so that a new operator in a template is a failing test and never a silent yes.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

Context = Mapping[str, str | tuple[str, ...]]
VARIABLE: Final = re.compile(r"\$\{([^}]+)\}")
LITERALS: Final = ("*", "?", "$")
QUANTIFIERS: Final = ("ForAllValues:", "ForAnyValue:")


class Request(BaseModel):
    """One call. *context*: condition keys; several values as a tuple, a key that the call does not carry is absent."""

    model_config = ConfigDict(frozen=True)

    action: str
    resource: str
    context: dict[str, str | tuple[str, ...]] = {}


def allowed(statements: Iterable[Mapping[str, Any]], request: Request) -> bool:
    """Whether some statement allows the request and none denies it."""
    effects = {str(one["Effect"]) for one in statements if applies(one, request)}
    return "Allow" in effects and "Deny" not in effects


def applies(statement: Mapping[str, Any], request: Request) -> bool:
    """Whether a statement speaks of this request."""
    unknown = set(statement) - {"Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "Condition"}
    if unknown:
        raise NotImplementedError(f"elements {sorted(unknown)}")
    return (
        _names_action(statement, request.action)
        and _names_resource(statement, request)
        and all(
            _holds(operator, key, expected, request.context)
            for operator, keys in statement.get("Condition", {}).items()
            for key, expected in keys.items()
        )
    )


def _names_action(statement: Mapping[str, Any], action: str) -> bool:
    if "NotAction" in statement:
        return not any(_like(action.lower(), one.lower()) for one in _listed(statement["NotAction"]))
    return any(_like(action.lower(), one.lower()) for one in _listed(statement["Action"]))


def _names_resource(statement: Mapping[str, Any], request: Request) -> bool:
    patterns = (_substituted(one, request.context) for one in _listed(statement["Resource"]))
    return any(_like(request.resource, one) for one in patterns if one is not None)


def _holds(operator: str, key: str, expected: object, context: Context) -> bool:
    """One line of a condition. All of its values are alternatives; a negated operator must differ from every one."""
    quantifier = next((one for one in QUANTIFIERS if operator.startswith(one)), "")
    name = operator.removeprefix(quantifier)
    absent_holds = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    values = _of(key, context)
    if name == "Null":
        return str(expected).lower() == str(not values).lower()
    compare, negated = OPERATORS[name]
    patterns = [found for one in _listed(expected) if (found := _substituted(one, context)) is not None]

    def fits(value: str) -> bool:
        return negated != any(compare(value, pattern) for pattern in patterns)

    if quantifier == "ForAllValues:":
        # Holds when the key is absent: the reason why each of ours stands beside a Null check.
        return all(fits(value) for value in values)
    if quantifier == "ForAnyValue:":
        return any(fits(value) for value in values)
    if not values:
        return negated or absent_holds
    if len(values) > 1:
        raise NotImplementedError(f"{operator} on several values of {key}: use a set operator")
    return fits(values[0])


def _of(key: str, context: Context) -> tuple[str, ...]:
    """The values of a condition key; names of keys do not depend on case."""
    found = {name.lower(): value for name, value in context.items()}.get(key.lower(), ())
    return (found,) if isinstance(found, str) else found


def _substituted(pattern: object, context: Context) -> str | None:
    """A pattern with its policy variables filled in, each as literal text; None when one is not known: no match."""
    text = str(pattern)
    parts: list[str] = []
    end = 0
    for match in VARIABLE.finditer(text):
        # `${*}`, `${?}` and `${$}` are those characters themselves.
        values = (match[1],) if match[1] in LITERALS else _of(match[1], context)
        if len(values) != 1:
            return None
        # A value is text, never a pattern: a tenant called `*` would be everybody.
        parts += [text[end : match.start()].replace("\\", "\\\\"), re.sub(r"([*?\\])", r"\\\1", values[0])]
        end = match.end()
    return "".join([*parts, text[end:].replace("\\", "\\\\")])


def _like(value: str, pattern: str) -> bool:
    """`*` is any text, `?` one character; a backslash makes the next character literal (our own substitution)."""
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    signs = {"*": ".*", "?": "."}
    expression = "".join(signs.get(token) or re.escape(token[-1]) for token in tokens)
    return re.fullmatch(expression, value, re.DOTALL) is not None


def _equal(value: str, pattern: str) -> bool:
    return value == re.sub(r"\\(.)", r"\1", pattern)


OPERATORS: Final[Mapping[str, tuple[Callable[[str, str], bool], bool]]] = {
    "StringEquals": (_equal, False),
    "StringNotEquals": (_equal, True),
    "StringLike": (_like, False),
    "StringNotLike": (_like, True),
    "ArnEquals": (_like, False),
    "ArnLike": (_like, False),
    "Bool": (lambda value, pattern: value.lower() == pattern.lower(), False),
    "NumericLessThan": (lambda value, pattern: float(value) < float(pattern), False),
}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]
