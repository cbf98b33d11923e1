"""What AWS takes of a deployment over AgentCore, found out at synth and not halfway through a deployment."""

import json
import re
from collections.abc import Mapping
from typing import Final

from agent_memory.contract import environment_variable
from aws_cdk import aws_iam as iam

from stacks.agentcore_grants import CREATE, DELETE, READ, on_records
from stacks.agentcore_rules import KEY
from stacks.rules import DeploymentError
from stacks.settings import Deployment

# Lambda takes so many bytes of variables, IAM so many characters of a managed policy.
VARIABLES: Final = 4096
POLICY: Final = 6144
# What the operators' policy over AgentCore says beside its records; names of eight roles, of 64 characters each.
REST_OF_POLICY: Final = 1850
ROLES: Final = 8 * 65
# Two variables of Powertools; and what two of ours are longer by than their defaults.
POWERTOOLS: Final = 100
_TOKEN: Final = re.compile(r"\$\{Token\[([^\]]*)\]\}")
_LENGTHS: Final = {"AWS.AccountId": 12, "AWS.Partition": 10, "AWS.Region": 14, "AWS.URLSuffix": 16}
_LONGEST: Final = 16


def fits(deployment: Deployment) -> None:
    """Raise DeploymentError naming the setting, when a function's variables or a policy would be too long for AWS."""
    over = _variables(deployment) - VARIABLES
    if over > 0:
        rule = f"takes {over} bytes more than a function's variables may have beside all else that is set"
        raise DeploymentError(KEY, deployment.agentcore_memories, f"{rule}: name fewer memories, or shorter names")
    over = _policy(deployment) - POLICY
    if over > 0:
        rule = f"takes {over} characters more than an IAM policy may have"
        advice = "name fewer memories, or the same namespaces for all of them"
        raise DeploymentError(KEY, deployment.agentcore_memories, f"{rule}: {advice}")


def _variables(deployment: Deployment) -> int:
    told = {environment_variable(key): value for key, value in deployment.agentcore().items()}
    night: Mapping[str, str] = deployment.function_environment() | told
    erasing: Mapping[str, str] = deployment.function_environment() | deployment.erasure_environment()
    # Only a function of the night is told roles.
    return POWERTOOLS + max(ROLES + _bytes(night), _bytes(erasing))


def _bytes(variables: Mapping[str, str]) -> int:
    return sum(_size(name) + _size(value) for name, value in variables.items())


def _policy(deployment: Deployment) -> int:
    return REST_OF_POLICY + sum(_shown(one) for one in on_records(deployment, *READ, CREATE, DELETE))


def _shown(statement: iam.PolicyStatement) -> int:
    return _size(json.dumps(statement.to_statement_json(), separators=(",", ":")))


def _size(text: str) -> int:
    """Bytes of *text* once AWS has filled in account, region and partition, at their longest."""
    return len(_TOKEN.sub(_filled, text).encode())


def _filled(token: re.Match[str]) -> str:
    return "x" * _LENGTHS.get(token[1].rpartition(".")[0], _LONGEST)
