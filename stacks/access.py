"""A run starts: the bootstrap function, what operators may do, and the names that clients look up."""

import json
from collections.abc import Mapping

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.agentcore_rules import memories_by_tenant
from stacks.agents import agent_policy
from stacks.alarms import Alarms
from stacks.callers import Door
from stacks.canary import Canary
from stacks.knowledge_ids import look_up_knowledge_ids
from stacks.layers import Layers
from stacks.memory_function import MemoryFunction, embedding_model_arn, on_registry
from stacks.models import may_ask
from stacks.review import ProcedureReview
from stacks.settings import Deployment
from stacks.wildcards import CLIENT_UPLOADS, DETECT_PII, EXECUTIONS, NIGHT_FILES, acknowledge

NIGHTS = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]
CALLERS = ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]
REGISTRY = (contract.REGISTRY_TENANTS, contract.REGISTRY_DIRTY, contract.REGISTRY_INGESTION)


class AccessStack(cdk.Stack):
    """Stateless. callerAuth=platform: whoever may invoke a function is trusted with the tenant that it names."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, synthesizer: cdk.StackSynthesizer
    ) -> None:
        super().__init__(
            scope, construct_id, synthesizer=synthesizer, description="agent-memory: what agents and operators call"
        )
        self._deployment = deployment
        look_up_knowledge_ids(self, deployment)
        self._layers = Layers(self, "Layers", deployment=deployment)
        bootstrap = self._bootstrap()
        review = ProcedureReview(self, "Review", deployment=deployment, layers=self._layers)
        regressions = self._regression_cases()
        door = Door(bootstrap, deployment=deployment)
        canary = Canary(self, "Canary", deployment=deployment, layers=self._layers, bootstrap=bootstrap, door=door)
        topic = sns.Topic.from_topic_arn(self, "Topic", deployment.names.alarms_topic_arn)
        canary.watch(Alarms(self, "Alarms", deployment=deployment, topic=topic))
        self._operators(door, review, regressions)
        self._reviewers(review)
        agent_policy(self, "Agent", deployment=deployment, statements=[self._may_look_up(), *door.statements()])
        self._parameters(bootstrap, door, review, regressions)

    def _bootstrap(self) -> MemoryFunction:
        function = MemoryFunction(
            self,
            "Bootstrap",
            folder="bootstrap",
            deployment=self._deployment,
            layers=self._layers,
            timeout=cdk.Duration.seconds(30),
            # CPU grows with memory, and an agent is waiting.
            memory=1769,
        )
        function.may_reach_tenants()
        function.may_embed(self._deployment.embedding_model_id)
        function.may_retrieve()
        # A user's own facts are found by the pseudonym.
        function.may_name_users()
        function.may_publish()
        return function

    def _regression_cases(self) -> MemoryFunction:
        judge = self._deployment.judge_model_id
        function = MemoryFunction(
            self,
            "RegressionCases",
            folder="regression_cases",
            deployment=self._deployment,
            layers=self._layers,
            timeout=cdk.Duration.seconds(300),
            memory=1024,
            calls_model=bool(judge),
        )
        function.may_reach_tenants()
        function.may_embed(self._deployment.embedding_model_id)
        function.may_retrieve()
        # What a person writes into a case is scrubbed, and the user it is asked as becomes a pseudonym.
        function.may_use(DETECT_PII)
        function.may_name_users()
        if judge:
            may_ask(function, judge)
        return function

    def _operators(self, door: Door, review: ProcedureReview, regressions: MemoryFunction) -> None:
        names = self._deployment.names
        uploads = f"{names.bucket_arn(names.transcripts_bucket)}/*"
        ledger = names.table_arn(names.ledger_table)
        client_source = {"StringLike": {"events:source": f"{contract.CLIENT_SOURCE_PREFIX}*"}}
        dead_letters = [names.arn("sqs", names.queue(f"{queue}-dead-letters")) for queue in ("intake", "retrievals")]
        homes = [names.arn("sqs", names.queue(queue)) for queue in ("intake", "retrievals")]
        queues = [*dead_letters, *homes, names.arn("sqs", names.queue("refused"))]
        machines = [names.machine_arn, names.ingestion_machine_arn, names.lifecycle_machine_arn]
        policy = iam.ManagedPolicy(
            self,
            "Operator",
            managed_policy_name=f"agent-memory-{names.env}-operator",
            description="What the agent-memory command needs: recall, emit, look at and redrive any tenant's runs",
            statements=[
                self._may_look_up(),
                _may(["lambda:InvokeFunction"], [regressions.function_arn]),
                *door.statements(),
                *review.door.statements(),
                _may(["events:PutEvents"], [names.bus_arn], client_source),
                _may(["s3:PutObject"], [uploads]),
                _may(["sts:AssumeRole", "sts:TagSession"], [names.tenant_role_arn]),
                _may(["states:StartExecution"], machines),
                _may(["states:ListExecutions"], machines[1:]),
                _may(["states:DescribeExecution"], [names.executions_arn]),
                _may(["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"], dead_letters),
                _may(["sqs:SendMessage"], homes),
                _may(["sqs:GetQueueAttributes", "sqs:GetQueueUrl"], queues),
                # A fact that a person lets out of quarantine is observed like any other, so it is embedded.
                _may(["bedrock:InvokeModel"], [embedding_model_arn(self._deployment.embedding_model_id)]),
                *_registry(ledger),
                *self._nights(ledger),
                *self._with_key(),
            ],
        )
        files = f"{names.bucket_arn(names.archive_bucket)}/{contract.LIFECYCLE_PREFIX}*"
        acknowledge(policy, NIGHT_FILES.reason, f"IAM5[Resource::{files}]")
        acknowledge(policy, CLIENT_UPLOADS.reason, f"IAM5[Resource::{uploads}]")
        acknowledge(policy, EXECUTIONS.reason, f"IAM5[Resource::{names.executions_arn}]")

    def _reviewers(self, review: ProcedureReview) -> None:
        env = self._deployment.names.env
        iam.ManagedPolicy(
            self,
            "Reviewer",
            managed_policy_name=f"agent-memory-{env}-reviewer",
            description="What people and agents need who decide on procedures, and no more",
            statements=[self._may_look_up(), *review.door.statements()],
        )

    def _may_look_up(self) -> iam.PolicyStatement:
        names = self._deployment.names
        root = names.arn("ssm", f"parameter{contract.PARAMETER_ROOT}/{names.env}")
        return _may(["ssm:GetParametersByPath"], [root, f"{root}/"])

    def _nights(self, ledger: str) -> list[iam.PolicyStatement]:
        """Plans and reports of nights, and a person's word on a plan."""
        names = self._deployment.names
        archive, prefix = names.bucket_arn(names.archive_bucket), contract.LIFECYCLE_PREFIX
        return [
            _may(NIGHTS, [ledger], on_registry(contract.REGISTRY_LIFECYCLE)),
            _may(["s3:GetObject"], [f"{archive}/{prefix}*"]),
            _may(["s3:ListBucket"], [archive], {"StringLike": {"s3:prefix": [f"{prefix}*"]}}),
        ]

    def _with_key(self) -> list[iam.PolicyStatement]:
        """Transcripts are uploaded to, nights' files and rows of the registry read from, what is encrypted with it."""
        key = self._deployment.encryption_key_arn
        services = [f"{name}.{cdk.Aws.REGION}.{cdk.Aws.URL_SUFFIX}" for name in ("dynamodb", "s3")]
        through = {"StringEquals": {"kms:ViaService": services}}
        return [_may(["kms:Decrypt", "kms:GenerateDataKey"], [key], through)] if key else []

    def _parameters(
        self, bootstrap: MemoryFunction, door: Door, review: ProcedureReview, regressions: MemoryFunction
    ) -> None:
        names = self._deployment.names
        values = {
            **_doors(bootstrap, door, review),
            "agentcore-memories": json.dumps(memories_by_tenant(self._deployment.agentcore_entries)),
            "archive-bucket": names.archive_bucket,
            "bus": names.bus,
            "caller-auth": self._deployment.caller_auth,
            "consolidation-machine": names.machine_arn,
            "embedding-model": self._deployment.embedding_model_id,
            "environment": names.env,
            "episodes-table": names.episodes_table,
            "erasure-function": names.function("erasure_desk"),
            "erasure-machine": names.erasure_machine_arn,
            "facts-table": names.facts_table,
            "ingestion-machine": names.ingestion_machine_arn,
            "intake-dead-letters": names.queue_url("intake-dead-letters"),
            "intake-queue": names.queue_url("intake"),
            "knowledge-bucket": names.knowledge_bucket,
            "ledger-table": names.ledger_table,
            "lifecycle-machine": names.lifecycle_machine_arn,
            "operator-settings": self.to_json_string(self._deployment.operator_settings()),
            "parked-bucket": names.parked_bucket,
            "procedures-table": names.procedures_table,
            "refused-queue": names.queue_url("refused"),
            "regression-function": regressions.function_name,
            "retrievals-dead-letters": names.queue_url("retrievals-dead-letters"),
            "retrievals-queue": names.queue_url("retrievals"),
            "tenant-role": names.tenant_role_arn,
            "transcripts-bucket": names.transcripts_bucket,
            "user-key-secret": names.user_key_secret,
            "working-memory": json.dumps(self._deployment.working_memory()),
        }
        for name in contract.PARAMETER_NAMES:
            self._publish(name, values[name])
        if self._deployment.agentcore_entries:
            for name in contract.AGENTCORE_PARAMETER_NAMES:
                self._publish(name, names.queue_url(name.removesuffix("-queue")))

    def _publish(self, name: str, value: str) -> None:
        ssm.StringParameter(
            self,
            "".join(word.capitalize() for word in name.split("-")) + "Parameter",
            parameter_name=f"{contract.PARAMETER_ROOT}/{self._deployment.names.env}/{name}",
            string_value=value,
            # The settings grow with the memories of AgentCore that are named; more than 4 KB cost 5 cents a month.
            tier=ssm.ParameterTier.INTELLIGENT_TIERING if name == "operator-settings" else None,
        )


def _may(
    actions: list[str], resources: list[str], conditions: Mapping[str, object] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)


def _registry(ledger: str) -> list[iam.PolicyStatement]:
    return [
        _may(["dynamodb:Query"], [ledger], on_registry(*REGISTRY)),
        # A fact that a person settles or retires is to be ingested or withdrawn.
        _may(["dynamodb:PutItem"], [ledger], on_registry(contract.REGISTRY_DIRTY)),
        # Who speaks for which tenants is an operator's word.
        _may(CALLERS, [ledger], on_registry(contract.REGISTRY_CALLERS)),
    ]


def _doors(bootstrap: MemoryFunction, door: Door, review: ProcedureReview) -> dict[str, str]:
    return {
        "bootstrap-function": bootstrap.function_name,
        "bootstrap-url": door.url,
        "review-function": review.function.function_name,
        "review-url": review.door.url,
    }
