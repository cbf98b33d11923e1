"""A run starts: the bootstrap function, what operators may do, and the names that clients look up."""

from collections.abc import Mapping

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.knowledge_ids import look_up_knowledge_ids
from stacks.layers import Layers
from stacks.memory_function import MemoryFunction, embedding_model_arn, on_registry
from stacks.settings import Deployment
from stacks.wildcards import CLIENT_UPLOADS, EXECUTIONS, acknowledge

REGISTRY = (contract.REGISTRY_TENANTS, contract.REGISTRY_DIRTY, contract.REGISTRY_INGESTION)


class AccessStack(cdk.Stack):
    """Stateless. callerAuth=platform: whoever may invoke the function is trusted with the tenant that it names."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, synthesizer: cdk.StackSynthesizer
    ) -> None:
        super().__init__(
            scope, construct_id, synthesizer=synthesizer, description="agent-memory: what agents and operators call"
        )
        self._deployment = deployment
        look_up_knowledge_ids(self, deployment)
        bootstrap = self._bootstrap()
        self._operators(bootstrap)
        self._parameters(bootstrap)

    def _bootstrap(self) -> MemoryFunction:
        function = MemoryFunction(
            self,
            "Bootstrap",
            folder="bootstrap",
            deployment=self._deployment,
            layers=Layers(self, "Layers", deployment=self._deployment),
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

    def _operators(self, bootstrap: MemoryFunction) -> None:
        names = self._deployment.names
        uploads = f"{names.bucket_arn(names.transcripts_bucket)}/*"
        root = names.arn("ssm", f"parameter{contract.PARAMETER_ROOT}/{names.env}")
        ledger = names.table_arn(names.ledger_table)
        client_source = {"StringLike": {"events:source": f"{contract.CLIENT_SOURCE_PREFIX}*"}}
        dead_letters = [names.arn("sqs", names.queue(f"{queue}-dead-letters")) for queue in ("intake", "retrievals")]
        homes = [names.arn("sqs", names.queue(queue)) for queue in ("intake", "retrievals")]
        queues = [*dead_letters, *homes, names.arn("sqs", names.queue("refused"))]
        policy = iam.ManagedPolicy(
            self,
            "Operator",
            managed_policy_name=f"agent-memory-{names.env}-operator",
            description="What the agent-memory command needs: recall, emit, look at and redrive any tenant's runs",
            statements=[
                _may(["ssm:GetParametersByPath"], [root, f"{root}/"]),
                _may(["lambda:InvokeFunction"], [bootstrap.function_arn]),
                _may(["events:PutEvents"], [names.bus_arn], client_source),
                _may(["s3:PutObject"], [uploads]),
                _may(["sts:AssumeRole", "sts:TagSession"], [names.tenant_role_arn]),
                _may(["states:StartExecution"], [names.machine_arn, names.ingestion_machine_arn]),
                _may(["states:ListExecutions"], [names.ingestion_machine_arn]),
                _may(["states:DescribeExecution"], [names.executions_arn]),
                _may(["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"], dead_letters),
                _may(["sqs:SendMessage"], homes),
                _may(["sqs:GetQueueAttributes", "sqs:GetQueueUrl"], queues),
                _may(["dynamodb:Query"], [ledger], on_registry(*REGISTRY)),
                # A fact that a person lets out of quarantine is observed like any other, so it is embedded.
                _may(["bedrock:InvokeModel"], [embedding_model_arn(self._deployment.embedding_model_id)]),
                # A fact that a person settles or retires is to be ingested or withdrawn.
                _may(["dynamodb:PutItem"], [ledger], on_registry(contract.REGISTRY_DIRTY)),
            ],
        )
        acknowledge(policy, CLIENT_UPLOADS.reason, f"IAM5[Resource::{uploads}]")
        acknowledge(policy, EXECUTIONS.reason, f"IAM5[Resource::{names.executions_arn}]")

    def _parameters(self, bootstrap: MemoryFunction) -> None:
        names = self._deployment.names
        values = {
            "bootstrap-function": bootstrap.function_name,
            "bus": names.bus,
            "consolidation-machine": names.machine_arn,
            "embedding-model": self._deployment.embedding_model_id,
            "environment": names.env,
            "episodes-table": names.episodes_table,
            "facts-table": names.facts_table,
            "ingestion-machine": names.ingestion_machine_arn,
            "intake-dead-letters": names.queue_url("intake-dead-letters"),
            "intake-queue": names.queue_url("intake"),
            "knowledge-bucket": names.knowledge_bucket,
            "ledger-table": names.ledger_table,
            "operator-settings": self.to_json_string(self._deployment.runtime_environment()),
            "parked-bucket": names.parked_bucket,
            "refused-queue": names.queue_url("refused"),
            "retrievals-dead-letters": names.queue_url("retrievals-dead-letters"),
            "retrievals-queue": names.queue_url("retrievals"),
            "tenant-role": names.tenant_role_arn,
            "transcripts-bucket": names.transcripts_bucket,
            "user-key-secret": names.user_key_secret,
        }
        for name in contract.PARAMETER_NAMES:
            ssm.StringParameter(
                self,
                "".join(word.capitalize() for word in name.split("-")) + "Parameter",
                parameter_name=f"{contract.PARAMETER_ROOT}/{names.env}/{name}",
                string_value=values[name],
            )


def _may(
    actions: list[str], resources: list[str], conditions: Mapping[str, object] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
