"""Who reviews procedures: the identity behind a call, and whether it is a person's or an agent's.

Through the function's URL IAM says who calls, in the request context. A direct invocation carries whatever its caller
writes, so what it says is kept as stated; where callerAuth=principal it is not taken at all, and the policy of
reviewers allows calls through the URL only.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Final

from agent_memory.domain.errors import ConfigurationError, RefusedInputError
from agent_memory.domain.keys import identifier
from agent_memory.domain.models import Model
from agent_memory.domain.procedures import Reviewer

PRINCIPAL: Final = "principal"
_ARN = re.compile(r"arn:aws[a-z-]*:(iam|sts)::([0-9]{12}):([A-Za-z0-9_+=,.@/-]{1,1500})")
ARN_RULE = "must be the ARN of a user, a role or a session, as `aws sts get-caller-identity` prints it"


class Call(Model):
    """One call of the review function: who calls, and what for. *stated*: the caller said so itself."""

    arn: str
    stated: bool
    body: Mapping[str, object]


def is_http(event: object) -> bool:
    """Whether *event* came through the function's URL."""
    return isinstance(event, Mapping) and isinstance(event.get("requestContext"), Mapping)


def call_of(event: object, *, caller_auth: str) -> Call:
    """Read the event of a call. Raises RefusedInputError naming what is missing."""
    if not isinstance(event, Mapping):
        raise RefusedInputError("input", "must be a JSON object")
    # Where direct invocations are allowed, anybody who may invoke can write a request context as well.
    stated = caller_auth != PRINCIPAL
    if is_http(event):
        return Call(arn=_arn(_signer(event), "requestContext"), stated=stated, body=_body(event))
    if not stated:
        raise RefusedInputError("input", "must come through the function's URL, signed: callerAuth is principal")
    return Call(arn=_arn(event.get("reviewer"), "reviewer"), stated=True, body=event)


def reviewer_of(call: Call, tenant_id: str, agents: Mapping[str, object]) -> Reviewer:
    """The reviewer behind *call*, for *tenant_id*. *agents*: the setting procedureReviewerAgents, agent id to role ARN.

    This is where a map from callers to tenants belongs: every decision on a tenant's procedures asks here first.
    """
    caller = principal(call.arn)
    for agent_id, role in agents.items():
        if caller == principal(_configured(agent_id, role)):
            return Reviewer(by=agent_id, kind="agent", stated=call.stated)
    return Reviewer(by=call.arn, kind="person", stated=call.stated)


def principal(arn: str) -> tuple[str, str]:
    """Account and name behind *arn*: a session of a role is its role, wherever in the account the role lies."""
    found = _ARN.fullmatch(arn)
    if found is None:
        raise RefusedInputError("reviewer", ARN_RULE)
    _, account, resource = found.groups()
    kind, _, rest = resource.partition("/")
    if kind == "assumed-role":
        return account, f"role/{rest.partition('/')[0]}"
    return account, f"{kind}/{rest.rpartition('/')[2]}" if kind in ("role", "user") else resource


def _configured(agent_id: str, role: object) -> str:
    try:
        identifier(agent_id, "procedureReviewerAgents")
    except RefusedInputError as error:
        raise ConfigurationError(f"{error}: it maps agent ids to the ARNs of their roles") from None
    if not isinstance(role, str) or not _ARN.fullmatch(role):
        raise ConfigurationError(f"procedureReviewerAgents must map agent {agent_id} to the ARN of its role")
    return role


def _signer(event: Mapping[str, object]) -> object:
    found: object = event.get("requestContext")
    for name in ("authorizer", "iam", "userArn"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _arn(value: object, field: str) -> str:
    if not isinstance(value, str) or not _ARN.fullmatch(value):
        raise RefusedInputError(field, ARN_RULE)
    return value


def _body(event: Mapping[str, object]) -> Mapping[str, object]:
    text = event.get("body")
    try:
        if event.get("isBase64Encoded") is True and isinstance(text, str):
            text = base64.b64decode(text, validate=True).decode()
        body = json.loads(text) if isinstance(text, str) else None
    except (ValueError, binascii.Error, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise RefusedInputError("body", "must be a JSON object")
    return body
