"""How the review function answers: plainly to a direct invocation, with a status code over HTTP."""

import json
from collections.abc import Mapping
from typing import Final

from agent_memory.domain.errors import RefusedInputError

_STATUS: Final = {"not_found": 404, "refused": 409}


def refusal(refused: RefusedInputError) -> dict[str, object]:
    """The answer to input that breaks a rule."""
    return {"error": {"field": refused.field, "rule": refused.rule, "message": str(refused)}}


def over_http(answer: Mapping[str, object]) -> dict[str, object]:
    """*answer* as the response of a function URL."""
    status = 400 if "error" in answer else _STATUS.get(str(answer.get("decision")), 200)
    headers = {"content-type": "application/json", "cache-control": "no-store"}
    return {"statusCode": status, "headers": headers, "body": json.dumps(answer, ensure_ascii=False, allow_nan=False)}
