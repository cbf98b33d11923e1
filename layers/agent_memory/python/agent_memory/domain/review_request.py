"""What a reviewer may ask: outside text in, a typed ReviewRequest or a refusal naming the field out."""

import re
from collections.abc import Mapping
from typing import Final, Literal, get_args

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import tenant_identifier
from agent_memory.domain.models import Model
from agent_memory.domain.plain_text import one_line, plain, shortened
from agent_memory.domain.procedures import ProcedureState

Action = Literal["list", "show", "approve", "reject", "edit", "retire", "pin", "unpin"]
ACTIONS: Final = get_args(Action)
# What takes the hash of the steps that the reviewer read.
BOUND: Final = ("approve", "edit")
# A refusal, a withdrawal or other words stay in the history with their reason.
REASONED: Final = ("reject", "retire")
MAX_REASON, MAX_LISTED, LISTED = 500, 200, 50
# More than a procedure may have, so that the rule that refuses it can say how many are too many.
MAX_STEPS_READ, MAX_STEP_CHARACTERS = 200, 5_000
PROCEDURE_ID = re.compile(r"p-[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ReviewRequest(Model):
    """One deed of a reviewer. *title*, *steps*: the new words of an edit; None leaves them as they are."""

    action: Action
    tenant_id: str
    procedure_id: str = ""
    steps_sha256: str = ""
    reason: str = ""
    title: str | None = None
    steps: tuple[str, ...] | None = None
    states: tuple[ProcedureState, ...] = ()
    limit: int = LISTED


def review_request(body: Mapping[str, object]) -> ReviewRequest:
    """Read *body*; unknown fields are left alone. Raises RefusedInputError."""
    action = next((one for one in ACTIONS if one == body.get("action")), None)
    if action is None:
        raise RefusedInputError("action", f"must be one of {', '.join(ACTIONS)}")
    request = ReviewRequest(
        action=action,
        tenant_id=tenant_identifier(body.get("tenant_id")),
        procedure_id="" if action == "list" else _procedure_id(body.get("procedure_id")),
        steps_sha256=_sha256(body.get("steps_sha256"), required=action in BOUND),
        reason=_reason(body.get("reason"), required=action in REASONED),
        title=_text(body.get("title"), "title"),
        steps=_steps(body.get("steps")),
        states=_states(body.get("states")),
        limit=_limit(body.get("limit")),
    )
    if action == "edit" and request.title is None and request.steps is None:
        raise RefusedInputError("steps", "is required: an edit needs new steps, a new title or both")
    return request


def _procedure_id(value: object) -> str:
    if not isinstance(value, str) or not PROCEDURE_ID.fullmatch(value):
        raise RefusedInputError("procedure_id", "must be p- and 32 hex digits, as procedures list prints it")
    return value


def _sha256(value: object, *, required: bool) -> str:
    if value is None and not required:
        return ""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise RefusedInputError("steps_sha256", "must be the hash of the steps you read, as procedures show has it")
    return value


def _reason(value: object, *, required: bool) -> str:
    text = shortened(one_line(_text(value, "reason") or ""), MAX_REASON)
    if required and not text:
        raise RefusedInputError("reason", "is required: it stays in the history")
    return text


def _text(value: object, field: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_STEP_CHARACTERS:
        raise RefusedInputError(field, f"must be text of at most {MAX_STEP_CHARACTERS} characters")
    return plain(value)


def _steps(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not 0 < len(value) <= MAX_STEPS_READ:
        raise RefusedInputError("steps", f"must be a list of 1 to {MAX_STEPS_READ} texts")
    steps = [_text(step, "steps") for step in value]
    if None in steps:
        raise RefusedInputError("steps", "must be a list of texts")
    return tuple(step for step in steps if step is not None)


def _states(value: object) -> tuple[ProcedureState, ...]:
    if value is None:
        return ()
    names = {state.value: state for state in ProcedureState}
    if not isinstance(value, list) or any(not isinstance(name, str) or name not in names for name in value):
        raise RefusedInputError("states", f"must be a list of {', '.join(names)}")
    return tuple(dict.fromkeys(names[name] for name in value))


def _limit(value: object) -> int:
    if value is None:
        return LISTED
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_LISTED:
        raise RefusedInputError("limit", f"must be a whole number from 1 to {MAX_LISTED}")
    return value
