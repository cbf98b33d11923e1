"""Who reviews procedures: the identity behind a call, and whether it is a person's or an agent's.

Through the function's URL IAM says who calls, in the request context. A direct invocation carries whatever its caller
writes, so what it says is kept as stated; where callerAuth=principal it is refused at the door (domain.callers).
"""

import re
from collections.abc import Mapping
from typing import Final

from agent_memory.domain.callers import Call, CallerAuth
from agent_memory.domain.errors import ConfigurationError, RefusedInputError
from agent_memory.domain.keys import identifier
from agent_memory.domain.procedures import Reviewer

_ARN: Final = re.compile(r"arn:aws[a-z-]*:(iam|sts)::([0-9]{12}):([A-Za-z0-9_+=,.@/-]{1,1500})")
ARN_RULE = "must be the ARN of a user, a role or a session, as `aws sts get-caller-identity` prints it"


def reviewer_of(call: Call, agents: Mapping[str, object], auth: CallerAuth) -> Reviewer:
    """The reviewer behind *call*. *agents*: the setting procedureReviewerAgents, agent id to role ARN."""
    arn = _arn(call.request.get("reviewer") if call.arn is None else call.arn)
    # Where direct invocations are allowed, anybody who may invoke can write a request context as well.
    stated = auth != "principal"
    caller = principal(arn)
    for agent_id, role in agents.items():
        if caller == principal(_configured(agent_id, role)):
            return Reviewer(by=agent_id, kind="agent", stated=stated)
    return Reviewer(by=arn, kind="person", stated=stated)


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


def _arn(value: object) -> str:
    if not isinstance(value, str) or not _ARN.fullmatch(value):
        raise RefusedInputError("reviewer", ARN_RULE)
    return value
