"""Physical names and ARNs, made from the environment alone: no stack imports a value from another."""

from dataclasses import dataclass

import aws_cdk as cdk
from agent_memory import contract

_HERE = f"{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}"


@dataclass(frozen=True)
class Names:
    """Where everything of one environment is."""

    env: str

    def named(self, name: str) -> str:
        return f"{name}-{self.env}"

    @property
    def episodes_table(self) -> str:
        return self.named(contract.EPISODES_TABLE)

    @property
    def ledger_table(self) -> str:
        return self.named(contract.LEDGER_TABLE)

    @property
    def facts_table(self) -> str:
        return self.named(contract.FACTS_TABLE)

    @property
    def procedures_table(self) -> str:
        return self.named(contract.PROCEDURES_TABLE)

    @property
    def bus(self) -> str:
        return self.named(contract.BUS)

    @property
    def transcripts_bucket(self) -> str:
        return f"agent-memory-transcripts-{self.env}-{cdk.Aws.ACCOUNT_ID}"

    @property
    def parked_bucket(self) -> str:
        return f"agent-memory-parked-{self.env}-{cdk.Aws.ACCOUNT_ID}"

    @property
    def knowledge_bucket(self) -> str:
        return f"agent-memory-knowledge-{self.env}-{cdk.Aws.ACCOUNT_ID}"

    @property
    def archive_bucket(self) -> str:
        return f"agent-memory-archive-{self.env}-{cdk.Aws.ACCOUNT_ID}"

    @property
    def receipts_bucket(self) -> str:
        return f"agent-memory-receipts-{self.env}-{cdk.Aws.ACCOUNT_ID}"

    @property
    def receipt_key(self) -> str:
        return f"alias/agent-memory-receipts-{self.env}"

    @property
    def erasure_role(self) -> str:
        return f"agent-memory-{self.env}-erasure-data"

    @property
    def erasure_machine(self) -> str:
        return self.named("agent-memory-erasure")

    @property
    def vector_bucket(self) -> str:
        return f"agent-memory-vectors-{self.env}-{cdk.Aws.ACCOUNT_ID}"

    @property
    def knowledge_base(self) -> str:
        return self.named("agent-memory-facts")

    @property
    def user_key_secret(self) -> str:
        return f"agent-memory/{self.env}/user-key"

    @property
    def tenant_role(self) -> str:
        return f"agent-memory-{self.env}-tenant-data"

    @property
    def canary_role(self) -> str:
        return f"agent-memory-{self.env}-canary"

    @property
    def canary_role_arn(self) -> str:
        return f"arn:{cdk.Aws.PARTITION}:iam::{cdk.Aws.ACCOUNT_ID}:role/{self.canary_role}"

    @property
    def machine(self) -> str:
        return self.named("agent-memory-consolidation")

    @property
    def ingestion_machine(self) -> str:
        return self.named("agent-memory-ingestion")

    @property
    def lifecycle_machine(self) -> str:
        return self.named("agent-memory-lifecycle")

    @property
    def agentcore_machine(self) -> str:
        return self.named("agent-memory-agentcore")

    @property
    def agentcore_bucket(self) -> str:
        return f"agent-memory-agentcore-{self.env}-{cdk.Aws.ACCOUNT_ID}"

    @property
    def trail_bucket(self) -> str:
        return f"agent-memory-trail-{self.env}-{cdk.Aws.ACCOUNT_ID}"

    @property
    def trail(self) -> str:
        return self.named("agent-memory-accesses")

    @property
    def alarms_topic(self) -> str:
        return self.named("agent-memory-alarms")

    @property
    def bootstrap_function(self) -> str:
        return self.function("bootstrap")

    def function(self, folder: str) -> str:
        """Name of the function in lambdas/*folder*."""
        return self.named(f"agent-memory-{folder.replace('_', '-')}")

    def queue(self, name: str) -> str:
        return self.named(f"agent-memory-{name}")

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{cdk.Aws.PARTITION}:{service}:{_HERE}:{resource}"

    def table_arn(self, table: str) -> str:
        return self.arn("dynamodb", f"table/{table}")

    def bucket_arn(self, bucket: str) -> str:
        return f"arn:{cdk.Aws.PARTITION}:s3:::{bucket}"

    @property
    def bus_arn(self) -> str:
        return self.arn("events", f"event-bus/{self.bus}")

    @property
    def machine_arn(self) -> str:
        return self.arn("states", f"stateMachine:{self.machine}")

    @property
    def ingestion_machine_arn(self) -> str:
        return self.arn("states", f"stateMachine:{self.ingestion_machine}")

    @property
    def lifecycle_machine_arn(self) -> str:
        return self.arn("states", f"stateMachine:{self.lifecycle_machine}")

    @property
    def erasure_machine_arn(self) -> str:
        return self.arn("states", f"stateMachine:{self.erasure_machine}")

    @property
    def erasure_executions_arn(self) -> str:
        return self.arn("states", f"execution:{self.erasure_machine}:*")

    @property
    def erasure_role_arn(self) -> str:
        return f"arn:{cdk.Aws.PARTITION}:iam::{cdk.Aws.ACCOUNT_ID}:role/{self.erasure_role}"

    @property
    def agentcore_machine_arn(self) -> str:
        return self.arn("states", f"stateMachine:{self.agentcore_machine}")

    @property
    def lifecycle_executions_arn(self) -> str:
        return self.arn("states", f"execution:{self.lifecycle_machine}:*")

    @property
    def alarms_topic_arn(self) -> str:
        return self.arn("sns", self.alarms_topic)

    @property
    def executions_arn(self) -> str:
        return self.arn("states", f"execution:{self.machine}:*")

    @property
    def tenant_role_arn(self) -> str:
        return f"arn:{cdk.Aws.PARTITION}:iam::{cdk.Aws.ACCOUNT_ID}:role/{self.tenant_role}"

    @property
    def user_key_secret_arn(self) -> str:
        # Secrets Manager adds a dash and six characters of its own.
        return self.arn("secretsmanager", f"secret:{self.user_key_secret}-??????")

    def queue_url(self, name: str) -> str:
        return f"https://sqs.{cdk.Aws.REGION}.{cdk.Aws.URL_SUFFIX}/{cdk.Aws.ACCOUNT_ID}/{self.queue(name)}"

    def for_functions(self) -> dict[str, str]:
        """The resources that settings.Settings of the layer names."""
        return {
            "episodesTable": self.episodes_table,
            "ledgerTable": self.ledger_table,
            "factsTable": self.facts_table,
            "proceduresTable": self.procedures_table,
            "transcriptsBucket": self.transcripts_bucket,
            "parkedBucket": self.parked_bucket,
            "knowledgeBucket": self.knowledge_bucket,
            "archiveBucket": self.archive_bucket,
            "bus": self.bus,
            "tenantRole": self.tenant_role_arn,
            "canaryRole": self.canary_role_arn,
            "userKeySecret": self.user_key_secret,
            "refusedQueue": self.queue_url("refused"),
            "consolidationMachine": self.machine_arn,
            "ingestionMachine": self.ingestion_machine_arn,
            "lifecycleMachine": self.lifecycle_machine_arn,
        }

    def for_erasures(self) -> dict[str, str]:
        """The resources that only erasures are told."""
        return {
            "erasureMachine": self.erasure_machine_arn,
            "erasureRole": self.erasure_role_arn,
            "receiptsBucket": self.receipts_bucket,
            "receiptKey": self.receipt_key,
            "intakeDeadLetters": self.queue_url("intake-dead-letters"),
            "retrievalsDeadLetters": self.queue_url("retrievals-dead-letters"),
        }
