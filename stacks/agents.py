"""What an agent needs, held to the one tenant that its principal is tagged with."""

from collections.abc import Sequence

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.settings import Deployment
from stacks.tenant_role import NO_TENANTS, TENANT
from stacks.wildcards import CLIENT_UPLOADS, acknowledge

TAG = f"aws:PrincipalTag/{contract.TENANT_TAG}"
# A principal that is tagged as the registry, a path, a pattern or the canary speaks for nobody.
TAGGED = {"Null": {TAG: "false"}, "StringNotLike": {TAG: [*NO_TENANTS, "~*", *contract.CANARY_TENANTS]}}


def agent_policy(
    scope: Construct, construct_id: str, *, deployment: Deployment, statements: Sequence[iam.PolicyStatement]
) -> iam.ManagedPolicy:
    """The policy for the principals of agents, which carry the tag tenant_id. *statements*: how they look things up and
    ask memory, which the tag does not bind: the registry of callers does, where callerAuth=principal."""
    names = deployment.names
    uploads = f"{names.bucket_arn(names.transcripts_bucket)}/{TENANT}/*"
    source = {"StringEquals": {"events:source": f"{contract.CLIENT_SOURCE_PREFIX}{TENANT}"}}
    policy = iam.ManagedPolicy(
        scope,
        construct_id,
        managed_policy_name=f"agent-memory-{names.env}-agent",
        description="What an agent needs whose principal carries the tag tenant_id: its own tenant's memory",
        statements=[
            *statements,
            iam.PolicyStatement(
                actions=["events:PutEvents"], resources=[names.bus_arn], conditions={**TAGGED, **source}
            ),
            iam.PolicyStatement(actions=["s3:PutObject"], resources=[uploads], conditions=TAGGED),
            *_with_key(deployment.encryption_key_arn),
        ],
    )
    acknowledge(policy, CLIENT_UPLOADS.reason, f"IAM5[Resource::{uploads}]")
    return policy


def _with_key(arn: str) -> list[iam.PolicyStatement]:
    """The transcripts bucket is encrypted with it: whoever uploads asks for a data key, and reads nothing with it."""
    through = {"StringEquals": {"kms:ViaService": f"s3.{cdk.Aws.REGION}.{cdk.Aws.URL_SUFFIX}"}}
    allowed = iam.PolicyStatement(actions=["kms:GenerateDataKey"], resources=[arn], conditions={**TAGGED, **through})
    return [allowed] if arn else []
