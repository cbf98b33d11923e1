"""The only role that reads or writes what tenants store, held to one tenant by the tag of its session."""

from collections.abc import Sequence

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.settings import Deployment
from stacks.wildcards import TENANT_OBJECTS, acknowledge

TENANT = f"${{aws:PrincipalTag/{contract.TENANT_TAG}}}"
# The registry is nobody's tenant, a slash would let one tenant's prefix lie inside another's, and a pattern is nobody's
# name.
NO_TENANTS = [contract.REGISTRY_TENANT, "*/*", "*${*}*", "*${?}*", ""]
WORK = f"{contract.WORK_ROOT}/{TENANT}/*"
READ_ITEMS = ("dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:Query")
WRITE_ITEMS = ("dynamodb:PutItem", "dynamodb:UpdateItem")


def for_one_tenant() -> iam.PrincipalBase:
    """Who may take a role that is held to one tenant: whoever the account lets, with the tenant as the tag."""
    tag = f"aws:RequestTag/{contract.TENANT_TAG}"
    return (
        iam.AccountRootPrincipal()
        .with_conditions(
            {
                "Null": {tag: "false"},
                "ForAllValues:StringEquals": {"aws:TagKeys": [contract.TENANT_TAG]},
                "StringNotLike": {tag: NO_TENANTS},
            }
        )
        .with_session_tags()
    )


def on_own_keys(actions: Sequence[str], resources: Sequence[str]) -> iam.PolicyStatement:
    """Allow *actions* on the rows of the session's tenant."""
    return iam.PolicyStatement(
        actions=list(actions),
        resources=list(resources),
        conditions={
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{TENANT}#*"]},
            # ForAllValues holds when the key is absent.
            "Null": {"dynamodb:LeadingKeys": "false"},
        },
    )


def never_the_registry(ledger: str) -> iam.PolicyStatement:
    """No session can be of the registry (see for_one_tenant); should that ever change, its rows stay out of reach."""
    return iam.PolicyStatement(
        effect=iam.Effect.DENY,
        actions=[*READ_ITEMS, *WRITE_ITEMS, "dynamodb:DeleteItem"],
        resources=[ledger],
        conditions={"ForAnyValue:StringLike": {"dynamodb:LeadingKeys": [f"{contract.REGISTRY_TENANT}#*"]}},
    )


class TenantRole(Construct):
    """Assumed with the session tag tenant_id by whoever may; without the tag, or as the registry, by nobody."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self._names = deployment.names
        self.role = iam.Role(
            self,
            "Role",
            role_name=self._names.tenant_role,
            description="Reaches the memories of the one tenant that the session tag names",
            assumed_by=for_one_tenant(),
            max_session_duration=cdk.Duration.hours(1),
        )
        self._items()
        self._objects()
        if deployment.encryption_key_arn:
            self.role.add_to_policy(
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
                    resources=[deployment.encryption_key_arn],
                )
            )

    def _items(self) -> None:
        episodes = self._names.table_arn(self._names.episodes_table)
        ledger = self._names.table_arn(self._names.ledger_table)
        # due-index is keyed by shard across tenants, so it is not here; nor is Scan, which has no leading keys.
        facts = self._names.table_arn(self._names.facts_table)
        indexes = [f"{episodes}/index/{name}" for name in (contract.AGENT_TIME_INDEX, contract.USER_INDEX)]
        indexes += [f"{facts}/index/{name}" for name in (contract.PENDING_INDEX, contract.USER_INDEX)]
        procedures = self._names.table_arn(self._names.procedures_table)
        by = (contract.PROCEDURE_INDEX, contract.REVIEW_INDEX, contract.USER_INDEX)
        indexes += [f"{procedures}/index/{name}" for name in by]
        for statement in (
            on_own_keys((*READ_ITEMS, *WRITE_ITEMS), [episodes, facts, ledger, procedures]),
            # The night removes what the archive holds; facts leave the Knowledge Base before their rows go.
            on_own_keys(("dynamodb:DeleteItem",), [episodes, facts, ledger]),
            on_own_keys(("dynamodb:Query",), indexes),
            never_the_registry(ledger),
        ):
            self.role.add_to_policy(statement)

    def _objects(self) -> None:
        transcripts = self._names.bucket_arn(self._names.transcripts_bucket)
        parked = self._names.bucket_arn(self._names.parked_bucket)
        knowledge = self._names.bucket_arn(self._names.knowledge_bucket)
        archive = self._names.bucket_arn(self._names.archive_bucket)
        keep = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
        for actions, bucket, prefix in (
            # Uploads are the agents' own; what the pipeline makes of them lies where no agent may write.
            (["s3:GetObject"], transcripts, f"{TENANT}/*"),
            (["s3:GetObject", "s3:PutObject"], transcripts, WORK),
            (keep, parked, f"parked/{TENANT}/*"),
            (keep, knowledge, f"{contract.KNOWLEDGE_PREFIX}{TENANT}/*"),
            (["s3:GetObject", "s3:PutObject"], archive, f"{contract.ARCHIVE_PREFIX}{TENANT}/*"),
        ):
            self.role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[f"{bucket}/{prefix}"]))
            self.role.add_to_policy(
                iam.PolicyStatement(
                    actions=["s3:ListBucket"], resources=[bucket], conditions={"StringLike": {"s3:prefix": [prefix]}}
                )
            )
            acknowledge(self.role, TENANT_OBJECTS.reason, f"IAM5[Resource::{bucket}/{prefix}]")
