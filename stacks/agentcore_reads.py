"""What agents' sides were shown of AgentCore, on its way from the bus to the bucket where the night looks for it."""

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.agentcore_rules import memories_by_tenant
from stacks.alarms import Alarms
from stacks.layers import Layers
from stacks.memory_function import MemoryFunction
from stacks.queues import EventQueue
from stacks.settings import Deployment
from stacks.wildcards import REPORT_FILES, acknowledge

# Seconds.
TIMEOUT: Final = 30
FOLDER: Final = "record_reads"
FIVE_MINUTES: Final = cdk.Duration.minutes(5)


class ReportedReads(Construct):
    """A queue and the function that keeps each report: it may write reports, and reach nothing else."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        layers: Layers,
        told: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        bus = events.EventBus.from_event_bus_arn(self, "Bus", deployment.names.bus_arn)
        self._queue = EventQueue(
            self,
            "Reads",
            name="agentcore-reads",
            bus=bus,
            pattern=events.EventPattern(
                source=events.Match.prefix(contract.CLIENT_SOURCE_PREFIX), detail_type=[contract.RECORDS_READ]
            ),
            function=self._keeping(layers, told),
            deployment=deployment,
        )
        self._recalls_as_well(bus)
        self._watch()

    def _keeping(self, layers: Layers, told: Mapping[str, str]) -> MemoryFunction:
        names = self._deployment.names
        function = MemoryFunction(
            self,
            "RecordReads",
            folder=FOLDER,
            called=f"agentcore_{FOLDER}",
            deployment=self._deployment,
            layers=layers,
            timeout=cdk.Duration.seconds(TIMEOUT),
            told=told,
        )
        files = f"{names.bucket_arn(names.trail_bucket)}/{contract.REPORTS_PREFIX}*"
        function.may("s3:PutObject", on=[files])
        if self._deployment.encryption_key_arn:
            function.may("kms:Decrypt", "kms:GenerateDataKey", on=[self._deployment.encryption_key_arn])
        acknowledge(function.own_role, REPORT_FILES.reason, f"IAM5[Resource::{files}]")
        return function

    def _recalls_as_well(self, bus: events.IEventBus) -> None:
        """What bootstrap returned to the tenants of the named memories: some of it may be imported from there."""
        tenants = list(memories_by_tenant(self._deployment.agentcore_entries))
        events.Rule(
            self,
            "Recalls",
            event_bus=bus,
            event_pattern=events.EventPattern(
                source=[contract.OWN_SOURCE], detail_type=[contract.MEMORY_RETRIEVED], detail={"tenant_id": tenants}
            ),
            targets=[targets.SqsQueue(self._queue.queue, dead_letter_queue=self._queue.dead_letters)],
        )

    def _watch(self) -> None:
        topic = sns.Topic.from_topic_arn(self, "Topic", self._deployment.names.alarms_topic_arn)
        alarms = Alarms(self, "Alarms", deployment=self._deployment, topic=topic)
        refused = cloudwatch.Metric(
            namespace=contract.METRICS_NAMESPACE,
            metric_name=contract.READS_REFUSED,
            dimensions_map={"service": f"agentcore_{FOLDER}"},
            statistic=cloudwatch.Stats.SUM,
            period=FIVE_MINUTES,
        )
        alarms.when_any(
            "ReadsRefused",
            refused,
            meaning="A report of reads from AgentCore was refused: the log of agentcore_record_reads says which field",
        )
        letters = self._queue.dead_letters.metric_approximate_number_of_messages_visible(
            period=FIVE_MINUTES, statistic=cloudwatch.Stats.MAXIMUM
        )
        alarms.when_any("ReadsDeadLetters", letters, meaning="Reports of reads from AgentCore could not be kept")
