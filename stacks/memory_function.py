"""One Lambda function of the product, the same way every time."""

from collections.abc import Mapping, Sequence
from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.layers import ROOT, Layers
from stacks.settings import Deployment
from stacks.wildcards import Wildcard, acknowledge

LOG_RETENTION: Final = {
    1: logs.RetentionDays.ONE_DAY, 3: logs.RetentionDays.THREE_DAYS, 5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK, 14: logs.RetentionDays.TWO_WEEKS, 30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS, 90: logs.RetentionDays.THREE_MONTHS, 120: logs.RetentionDays.FOUR_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS, 365: logs.RetentionDays.ONE_YEAR, 400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS, 731: logs.RetentionDays.TWO_YEARS,
}  # fmt: skip


def log_group(scope: Construct, construct_id: str, *, name: str, deployment: Deployment) -> logs.LogGroup:
    """A log group that belongs to the stack, so that it has a retention and leaves with it."""
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=LOG_RETENTION[deployment.log_retention_days],
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )


def embedding_model_arn(model_id: str) -> str:
    """The embedding model of a deployment, in its own region."""
    return f"arn:{cdk.Aws.PARTITION}:bedrock:{cdk.Aws.REGION}::foundation-model/{model_id}"


def on_registry(*kinds: str) -> dict[str, object]:
    """The condition that holds a grant on the ledger to these kinds of rows of the registry."""
    keys = [f"{contract.REGISTRY_TENANT}#{kind}" for kind in kinds]
    # ForAllValues holds when the key is absent.
    return {
        "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": keys},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }


def _environment(folder: str, deployment: Deployment) -> dict[str, str]:
    powertools = {
        "POWERTOOLS_SERVICE_NAME": folder,
        "POWERTOOLS_METRICS_NAMESPACE": contract.METRICS_NAMESPACE,
    }
    return deployment.function_environment() | powertools


class MemoryFunction(lambda_.Function):
    """The function in lambdas/*folder*: its own role, its own log group, nothing granted but what is named.

    *called*: its name where one folder makes two functions, each of which is *told* what is its own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        folder: str,
        deployment: Deployment,
        layers: Layers,
        timeout: cdk.Duration,
        memory: int = 512,
        calls_model: bool = False,
        role_name: str | None = None,
        called: str = "",
        told: Mapping[str, str] | None = None,
    ) -> None:
        name = deployment.names.function(called or folder)
        log = log_group(scope, f"{construct_id}Log", name=f"/aws/lambda/{name}", deployment=deployment)
        service = iam.ServicePrincipal("lambda.amazonaws.com")
        role = iam.Role(scope, f"{construct_id}Role", role_name=role_name, assumed_by=service, description=name)
        log.grant_write(role)
        super().__init__(
            scope,
            construct_id,
            function_name=name,
            code=lambda_.Code.from_asset(str(ROOT / "lambdas" / folder), exclude=["**/__pycache__", "*.pyc"]),
            handler="handler.handler",
            runtime=layers.platform.runtime,
            architecture=layers.platform.architecture,
            layers=[layers.code, layers.dependencies, *([layers.model] if calls_model else [])],
            timeout=timeout,
            memory_size=memory,
            environment=_environment(called or folder, deployment) | dict(told or {}),
            role=role,
            log_group=log,
        )
        if deployment.layer_platform == "host":
            acknowledge(self, "An emulator runs functions on its own interpreter, whatever the template says.", "L1")
        self.own_role = role
        self._names, self._key = deployment.names, deployment.encryption_key_arn
        self._knowledge_base = deployment.knowledge_base_arn

    def may(self, *actions: str, on: Sequence[str], when: Mapping[str, object] | None = None) -> None:
        """Allow *actions* on exactly these ARNs."""
        self.add_to_role_policy(iam.PolicyStatement(actions=list(actions), resources=list(on), conditions=when))

    def may_use(self, wildcard: Wildcard) -> None:
        """Allow what can't be named more closely; the list says why."""
        self.may(*wildcard.actions, on=[wildcard.resource])
        acknowledge(self.own_role, wildcard.reason, f"IAM5[Resource::{wildcard.resource}]")

    def may_reach_tenants(self, role_arn: str | None = None) -> None:
        """Let it take credentials that reach one tenant. Nothing else reaches what tenants store."""
        self.may(
            "sts:AssumeRole",
            "sts:TagSession",
            on=[role_arn or self._names.tenant_role_arn],
            when={"ForAllValues:StringEquals": {"aws:TagKeys": [contract.TENANT_TAG]}},
        )

    def may_name_users(self) -> None:
        """Let it read the key under which user ids become pseudonyms."""
        self.may("secretsmanager:GetSecretValue", on=[self._names.user_key_secret_arn])
        if self._key:
            self.may("kms:Decrypt", on=[self._key])

    def may_embed(self, model_id: str) -> None:
        """Let it embed with the model of this deployment, in this region."""
        self.may("bedrock:InvokeModel", on=[embedding_model_arn(model_id)])

    def may_retrieve(self) -> None:
        """Let it ask the Knowledge Base. IAM can't see the filter, so few may and each checks what comes back."""
        self.may("bedrock:Retrieve", on=[self._knowledge_base])

    def may_keep_registry(self, *actions: str, kinds: Sequence[str]) -> None:
        """Let it keep rows that are nobody's data, which no tenant's credentials reach."""
        self.may(*actions, on=[self._names.table_arn(self._names.ledger_table)], when=on_registry(*kinds))

    def may_publish(self) -> None:
        """Let it put events on our bus, under our own source only."""
        self.may(
            "events:PutEvents", on=[self._names.bus_arn], when={"StringEquals": {"events:source": contract.OWN_SOURCE}}
        )
