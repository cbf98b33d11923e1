"""What may be done with records of AgentCore: on the memories that a deployment names, in the namespaces it names."""

from collections.abc import Mapping, Sequence
from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.memory_function import on_registry
from stacks.names import Names
from stacks.settings import Deployment
from stacks.wildcards import AGENTCORE_FILES, acknowledge

LIST: Final = "bedrock-agentcore:ListMemoryRecords"
READ: Final = ("bedrock-agentcore:GetMemoryRecord", LIST)
CREATE: Final = "bedrock-agentcore:BatchCreateMemoryRecords"
DELETE: Final = "bedrock-agentcore:BatchDeleteMemoryRecords"
SEARCH: Final = "bedrock-agentcore:RetrieveMemoryRecords"
NIGHTS: Final = ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query")
# Every namespace there is.
ROOT: Final = "/"


def on_records(deployment: Deployment, *actions: str) -> list[iam.PolicyStatement]:
    """Allow *actions* on the named memories, and of what names a namespace or a path of them, on the named ones only.

    A record that is read or deleted by its id names no namespace, so the condition can't bind that."""
    return [
        iam.PolicyStatement(actions=sorted(actions), resources=arns, conditions=_within(spaces))
        for spaces, arns in _memories(deployment).items()
    ]


def _memories(deployment: Deployment) -> dict[tuple[str, ...], list[str]]:
    """The ARNs of the memories that are named with the same namespaces, by these."""
    spaces: dict[tuple[str, str], list[str]] = {}
    for entry in deployment.agentcore_entries:
        named = (entry["memory_id"], entry.get("region") or cdk.Aws.REGION)
        spaces.setdefault(named, []).extend(entry["namespaces"])
    found: dict[tuple[str, ...], list[str]] = {}
    for (memory_id, region), mine in spaces.items():
        arn = f"arn:{cdk.Aws.PARTITION}:bedrock-agentcore:{region}:{cdk.Aws.ACCOUNT_ID}:memory/{memory_id}"
        found.setdefault(tuple(sorted(mine)), []).append(arn)
    return found


def _within(spaces: Sequence[str]) -> Mapping[str, object]:
    if ROOT in spaces:
        return {}
    # ForAllValues holds when a request carries no such key: of list and search the service asks for one of the two.
    # A record may stand in the namespace itself, without its closing delimiter.
    below = [f"{space}*" for space in spaces]
    return {
        "ForAllValues:StringLike": {
            "bedrock-agentcore:namespace": [*below, *(space.rstrip("/") for space in spaces)],
            "bedrock-agentcore:namespacePath": below,
        }
    }


def operator_over_agentcore(scope: Construct, construct_id: str, *, deployment: Deployment) -> iam.ManagedPolicy:
    """What `agent-memory agentcore` needs beside the operator's policy: a policy of its own, because it lets people
    create and delete records, and because IAM takes 6,144 characters of one."""
    names = deployment.names
    bucket = names.bucket_arn(names.agentcore_bucket)
    prefixes = (contract.LIFECYCLE_PREFIX, contract.AGENTCORE_PREFIX, contract.ARCHIVE_PREFIX)
    read = [f"{bucket}/{prefix}*" for prefix in prefixes]
    # Indexes and the ledger of accesses are the refresh's own; whoever restores notes beside them.
    written = [read[0], f"{bucket}/{contract.AGENTCORE_PREFIX}*/notes/*", read[2]]
    listed = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}}
    nights = on_registry(contract.REGISTRY_AGENTCORE)
    machine = ["states:ListExecutions", "states:StartExecution"]
    policy = iam.ManagedPolicy(
        scope,
        construct_id,
        managed_policy_name=f"agent-memory-{names.env}-agentcore-operator",
        description="What the agent-memory agentcore commands need beside the policy of operators",
        statements=[
            iam.PolicyStatement(actions=[*NIGHTS], resources=[names.table_arn(names.ledger_table)], conditions=nights),
            iam.PolicyStatement(actions=machine, resources=[names.agentcore_machine_arn]),
            *_over_letters(names),
            iam.PolicyStatement(actions=["s3:GetObject"], resources=read),
            iam.PolicyStatement(actions=["s3:PutObject"], resources=written),
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket], conditions=listed),
            *on_records(deployment, *READ, CREATE, DELETE),
            *([_with_key(deployment.encryption_key_arn)] if deployment.encryption_key_arn else []),
        ],
    )
    acknowledge(policy, AGENTCORE_FILES.reason, *(f"IAM5[Resource::{one}]" for one in dict.fromkeys([*read, *written])))
    return policy


def _over_letters(names: Names) -> list[iam.PolicyStatement]:
    """Reports of reads that could not be kept: looked at, and sent back to their queue."""
    home, letters = (
        names.arn("sqs", names.queue(name)) for name in ("agentcore-reads", "agentcore-reads-dead-letters")
    )
    move = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"]
    return [
        iam.PolicyStatement(actions=move, resources=[letters]),
        iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[home]),
    ]


def _with_key(arn: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[arn])
