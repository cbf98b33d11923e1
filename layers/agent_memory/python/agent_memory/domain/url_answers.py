"""How a function answers: plainly to a direct invocation, with a status code through its URL."""

import json
from collections.abc import Mapping
from typing import Final

from agent_memory.domain.callers import CALLER, came_by_url
from agent_memory.domain.errors import RefusedInputError

_STATUS: Final = {"not_found": 404, "refused": 409}


def refusal(refused: RefusedInputError) -> dict[str, object]:
    """The answer to input that breaks a rule."""
    return {"error": {"field": refused.field, "rule": refused.rule, "message": str(refused)}}


def metric_of(refused: RefusedInputError, otherwise: str) -> str:
    """What a refusal counts as: callers that are turned away apart from requests that break a rule."""
    return "CallersRefused" if refused.field == CALLER else otherwise


def answered(event: object, answer: Mapping[str, object]) -> dict[str, object]:
    """*answer* for whoever asked by *event*."""
    return over_http(answer) if came_by_url(event) else dict(answer)


def over_http(answer: Mapping[str, object]) -> dict[str, object]:
    """*answer* as the response of a function URL."""
    headers = {"content-type": "application/json", "cache-control": "no-store"}
    body = json.dumps(answer, ensure_ascii=False, allow_nan=False)
    return {"statusCode": _status(answer), "headers": headers, "body": body}


def _status(answer: Mapping[str, object]) -> int:
    error = answer.get("error")
    if isinstance(error, Mapping):
        return 403 if error.get("field") == CALLER else 400
    return _STATUS.get(str(answer.get("decision")), 200)
