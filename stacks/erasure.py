"""Forgetting: the machine of erasures, the desk where people ask for them, and the role that may delete."""

from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.agentcore_grants import DELETE, LIST, on_records
from stacks.alarms import Alarms
from stacks.erasure_role import ErasureRole
from stacks.ingestion import JOBS
from stacks.knowledge_ids import look_up_knowledge_ids
from stacks.layers import Layers
from stacks.memory_function import MemoryFunction
from stacks.settings import Deployment
from stacks.wildcards import ERASURE_EXECUTIONS, EXECUTIONS, RECEIPT_KEYS, acknowledge
from stacks.workflow import Workflow

FIVE_MINUTES: Final = cdk.Duration.minutes(5)
# Seconds; the machine allows a little more, people wait for the desk.
TIMEOUTS: Final = {"erase_store": 900, "erasure_desk": 900}
LETTERS: Final = ("intake-dead-letters", "retrievals-dead-letters", "refused")
REGISTRY: Final = (contract.REGISTRY_DIRTY, contract.REGISTRY_STORED, contract.REGISTRY_TENANTS)
EVENTS: Final = (
    "bedrock-agentcore:DeleteEvent",
    "bedrock-agentcore:ListActors",
    "bedrock-agentcore:ListEvents",
    "bedrock-agentcore:ListSessions",
)
PARTIAL: Final = "An erasure left something undone: agent-memory erase status, agent-memory erase retry"


class ErasureStack(cdk.Stack):
    """Stateless: receipts, and the key that proves them, are in the storage stack."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, synthesizer: cdk.StackSynthesizer
    ) -> None:
        super().__init__(
            scope, construct_id, synthesizer=synthesizer, description="agent-memory: erasure of users and tenants"
        )
        self._deployment = deployment
        look_up_knowledge_ids(self, deployment)
        self._layers = Layers(self, "Layers", deployment=deployment)
        self._role = ErasureRole(self, "ErasureRole", deployment=deployment)
        self._desk = self._function("ErasureDesk")
        self._machine = self._erasure(self._function("EraseStore"))
        self._desk.may("states:StartExecution", on=[deployment.names.erasure_machine_arn])
        self._desk.may("states:DescribeExecution", on=[deployment.names.erasure_executions_arn])
        acknowledge(
            self._desk.own_role,
            ERASURE_EXECUTIONS.reason,
            f"IAM5[Resource::{deployment.names.erasure_executions_arn}]",
        )
        self._eraser()
        self._alarms()

    def _function(self, construct_id: str) -> MemoryFunction:
        folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in construct_id).lstrip("_")
        function = MemoryFunction(
            self,
            construct_id,
            folder=folder,
            deployment=self._deployment,
            layers=self._layers,
            timeout=cdk.Duration.seconds(TIMEOUTS[folder]),
            memory=1024,
        )
        for name, value in self._deployment.erasure_environment().items():
            function.add_environment(name, value)
        names = self._deployment.names
        function.may_reach_tenants(names.erasure_role_arn)
        # A dead letter names its user by the id, which only the key turns into the pseudonym.
        function.may_name_users()
        # Whether the Knowledge Base has forgotten is found out by asking.
        function.may_retrieve()
        function.may("bedrock:GetKnowledgeBaseDocuments", on=[self._deployment.knowledge_base_arn])
        function.may(
            "sqs:ChangeMessageVisibility",
            "sqs:DeleteMessage",
            "sqs:ReceiveMessage",
            on=[names.arn("sqs", names.queue(queue)) for queue in self._letters()],
        )
        self._may_prove(function)
        self._may_see_nights(function)
        if self._deployment.agentcore_entries:
            self._may_erase_from_agentcore(function)
        if self._deployment.encryption_key_arn:
            function.may("kms:Decrypt", on=[self._deployment.encryption_key_arn])
        return function

    def _letters(self) -> tuple[str, ...]:
        return (*LETTERS, "agentcore-reads-dead-letters") if self._deployment.agentcore_entries else LETTERS

    def _may_prove(self, function: MemoryFunction) -> None:
        keys = self._deployment.names.arn("kms", "key/*")
        function.may(
            *RECEIPT_KEYS.actions,
            on=[keys],
            when={"ForAnyValue:StringEquals": {"kms:ResourceAliases": self._deployment.names.receipt_key}},
        )
        acknowledge(function.own_role, RECEIPT_KEYS.reason, f"IAM5[Resource::{keys}]")

    def _may_see_nights(self, function: MemoryFunction) -> None:
        """The names of nights' files, whose content is reached on the tenant's credentials; and the registry's rows."""
        names = self._deployment.names
        archive = names.bucket_arn(names.archive_bucket)
        function.may(
            "s3:ListBucketVersions",
            on=[archive],
            when={"StringLike": {"s3:prefix": [f"{contract.LIFECYCLE_PREFIX}*"]}},
        )
        function.may_keep_registry("dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:Query", kinds=REGISTRY)
        function.may_keep_registry("dynamodb:GetItem", kinds=(contract.REGISTRY_LIFECYCLE,))

    def _may_erase_from_agentcore(self, function: MemoryFunction) -> None:
        """Events and records of the named memories, the one ledger of accesses, the names of its nights' files."""
        bucket = self._deployment.names.bucket_arn(self._deployment.names.agentcore_bucket)
        function.may(*EVENTS, on=self._deployment.agentcore_arns)
        for statement in on_records(self._deployment, DELETE, LIST):
            function.add_to_role_policy(statement)
        if self._deployment.encryption_key_arn:
            function.may("kms:GenerateDataKey", on=[self._deployment.encryption_key_arn])
        function.may(
            "s3:GetObject", "s3:GetObjectVersion", "s3:PutObject", on=[f"{bucket}/{contract.ACCESS_LEDGER_KEY}"]
        )
        names = [f"{contract.LIFECYCLE_PREFIX}*", contract.ACCESS_LEDGER_KEY]
        listing = {"StringLike": {"s3:prefix": names}}
        function.may("s3:ListBucket", "s3:ListBucketVersions", on=[bucket], when=listing)
        function.may_keep_registry("dynamodb:GetItem", kinds=(contract.REGISTRY_AGENTCORE,))

    def _erasure(self, function: MemoryFunction) -> Workflow:
        names = self._deployment.names
        function.may(*(job for job in JOBS if "List" not in job), on=[self._deployment.knowledge_base_arn])
        function.may("states:DescribeExecution", on=[names.executions_arn])
        acknowledge(function.own_role, EXECUTIONS.reason, f"IAM5[Resource::{names.executions_arn}]")
        return Workflow(
            self,
            "Workflow",
            definition="erasure.asl.json",
            name=names.erasure_machine,
            deployment=self._deployment,
            functions={"EraseStoreFunction": function},
            substitutions={},
        )

    def _eraser(self) -> None:
        """Who erases is named on purpose: no operator may by being one."""
        names = self._deployment.names
        root = names.arn("ssm", f"parameter{contract.PARAMETER_ROOT}/{names.env}")
        iam.ManagedPolicy(
            self,
            "Eraser",
            managed_policy_name=f"agent-memory-{names.env}-eraser",
            description="What data protection officers need: ask for erasures, see receipts, have them proved",
            statements=[
                iam.PolicyStatement(actions=["ssm:GetParametersByPath"], resources=[root, f"{root}/"]),
                iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[self._desk.function_arn]),
            ],
        )

    def _alarms(self) -> None:
        topic = sns.Topic.from_topic_arn(self, "Topic", self._deployment.names.alarms_topic_arn)
        alarms = Alarms(self, "Alarms", deployment=self._deployment, topic=topic)
        machine = self._machine.machine
        for construct_id, metric in (
            ("ErasureFailed", machine.metric_failed(period=FIVE_MINUTES)),
            ("ErasureTimedOut", machine.metric_timed_out(period=FIVE_MINUTES)),
            ("ErasureAborted", machine.metric_aborted(period=FIVE_MINUTES)),
        ):
            alarms.when_any(construct_id, metric, meaning=PARTIAL)
        partial = cloudwatch.Metric(
            namespace=contract.METRICS_NAMESPACE,
            metric_name=contract.ERASURES_PARTIAL,
            dimensions_map={"service": "erase_store"},
            statistic=cloudwatch.Stats.SUM,
            period=FIVE_MINUTES,
        )
        alarms.when_any(contract.ERASURES_PARTIAL, partial, meaning=PARTIAL)
