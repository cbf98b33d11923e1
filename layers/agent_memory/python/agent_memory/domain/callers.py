"""Who calls: a tenant is not believed because a caller names it.

`callerAuth=principal`: people and agents call through IAM-authorised function URLs. IAM has proven who they are before
the function runs and writes it into the request; a row of the registry says for which tenants that principal speaks and
whether it may review. `callerAuth=platform`: whoever may invoke the function is trusted with the tenant that it names.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from agent_memory.contract import CANARY_TENANTS
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import tenant_identifier
from agent_memory.domain.models import Model

CallerAuth = Literal["principal", "platform"]
MAX_TENANTS = 100
CALLER: Final = "caller"
# Roles and users, with or without a path; a session of a role is the role.
_PRINCIPAL = re.compile(r"arn:(aws[a-z-]*):iam::(\d{12}):(role|user)/(?:[\x21-\x7e]*/)?([\w+=,.@-]{1,64})")
_SESSION = re.compile(r"arn:(aws[a-z-]*):sts::(\d{12}):assumed-role/([\w+=,.@-]{1,64})/[\w+=,.@-]{1,64}")
PRINCIPAL_RULE = "must be the ARN of an IAM role or user, arn:aws:iam::<account>:role/<name>"


class CallerRefusedError(RefusedInputError):
    """The caller may not do this for the tenant. *rule* says who can change that."""


class Caller(Model):
    """What the registry says of one principal. *principal*: its ARN without path (names are unique without it)."""

    principal: str
    tenants: tuple[str, ...] = ()
    reviewer: bool = False


class Call(Model):
    """A request, read from whichever door it came through.

    *principal*: the role or user that IAM has proven; *arn*: the same with the name of the session. None when the
    function was called directly."""

    request: Mapping[str, object]
    principal: str | None = None
    arn: str | None = None


def principal_of(arn: object) -> str:
    """The role or user behind an ARN of a role, user or role session. RefusedInputError: anything else."""
    text = arn if isinstance(arn, str) else ""
    if session := _SESSION.fullmatch(text):
        return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}"
    if found := _PRINCIPAL.fullmatch(text):
        return f"arn:{found[1]}:iam::{found[2]}:{found[3]}/{found[4]}"
    raise RefusedInputError("principal", PRINCIPAL_RULE)


def caller(principal: object, tenants: object, *, reviewer: object = False) -> Caller:
    """A row for the registry. RefusedInputError names the field that breaks a rule."""
    if not isinstance(tenants, list | tuple) or len(tenants) > MAX_TENANTS:
        raise RefusedInputError("tenants", f"must be a list of at most {MAX_TENANTS} tenant ids")
    if not isinstance(reviewer, bool):
        raise RefusedInputError("reviewer", "must be true or false")
    named = tuple(sorted({tenant_identifier(one, "tenants") for one in tenants}))
    if set(named) & set(CANARY_TENANTS):
        raise RefusedInputError("tenants", "must not name the canary's tenants: nobody speaks for them")
    return Caller(principal=principal_of(principal), tenants=named, reviewer=reviewer)


def canary_caller(principal: str) -> Caller:
    """The canary, which no row of the registry can name."""
    return Caller(principal=principal, tenants=CANARY_TENANTS)


def came_by_url(event: object) -> bool:
    """Whether *event* came through a function's URL."""
    return isinstance(event, Mapping) and "requestContext" in event


def call_of(event: object) -> Call:
    """Read a direct invocation or a request to a function URL. RefusedInputError: neither, or a body without JSON."""
    if not isinstance(event, Mapping):
        raise RefusedInputError("input", "must be a JSON object")
    if not came_by_url(event):
        return Call(request=event)
    arn = _user_arn(event["requestContext"])
    return Call(request=_body(event), principal=principal_of(arn), arn=str(arn))


def authorised(
    event: object, auth: CallerAuth, known: Callable[[str], Caller | None], *, to_review: bool = False
) -> Call:
    """The call, if its caller may make it. *known* looks a principal up in the registry.

    Raises CallerRefusedError; RefusedInputError as call_of."""
    call = call_of(event)
    if auth == "platform":
        return call
    if call.principal is None:
        rule = "must be proven by IAM here (callerAuth=principal): call the function's URL, signed with SigV4"
        raise CallerRefusedError(CALLER, rule)
    tenant_id = tenant_identifier(call.request.get("tenant_id"))
    row = known(call.principal)
    # One answer for "unknown" and "of another tenant": it must not tell which tenants there are.
    if row is None or tenant_id not in row.tenants:
        rule = "may not speak for this tenant; an operator can allow it: agent-memory callers allow ARN --tenant TENANT"
        raise CallerRefusedError(CALLER, rule)
    if to_review and not row.reviewer:
        rule = "may not review; an operator can allow it: agent-memory callers allow ARN --tenant TENANT --reviewer"
        raise CallerRefusedError(CALLER, rule)
    return call


def _user_arn(context: object) -> object:
    for name in ("authorizer", "iam", "userArn"):
        context = context.get(name) if isinstance(context, Mapping) else None
    return context


def _body(event: Mapping[str, object]) -> Mapping[str, object]:
    body = event.get("body")
    try:
        text = base64.b64decode(str(body), validate=True) if event.get("isBase64Encoded") is True else str(body)
        decoded = json.loads(text)
    except (ValueError, binascii.Error, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise RefusedInputError("body", "must be a JSON object")
    return decoded
