"""Confirmed facts become searchable: the ingestion machine, its schedule and the alarms around it."""

from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from stacks.alarms import Alarms
from stacks.memory_function import MemoryFunction
from stacks.settings import Deployment
from stacks.workflow import Workflow

FIVE_MINUTES: Final = cdk.Duration.minutes(5)
JOBS: Final = tuple(
    f"bedrock:{action}"
    for action in ("StartIngestionJob", "GetIngestionJob", "ListIngestionJobs", "GetKnowledgeBaseDocuments")
)
# Functions that ask the Knowledge Base, each of which checks what comes back.
ASKING: Final = ("bootstrap", "fact_confirmation", "ingestion", "regression_cases")
# Rounds of the schedule that a fact may wait before somebody hears of it, and the least time that is worth a word.
ROUNDS: Final = 4
LEAST_SECONDS: Final = 3600


class Ingestion(Construct):
    """Runs every `ingestionMinutes` and on demand; one execution works at a time, the others find nothing to do."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, function: MemoryFunction
    ) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        function.may(*JOBS, on=[deployment.knowledge_base_arn])
        function.may_retrieve()
        function.may_keep_registry(
            "dynamodb:DeleteItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
            kinds=(contract.REGISTRY_DIRTY, contract.REGISTRY_INGESTION),
        )
        self.machine = Workflow(
            self,
            "Workflow",
            definition="ingestion.asl.json",
            name=deployment.names.ingestion_machine,
            deployment=deployment,
            functions={"IngestionFunction": function},
            substitutions={},
        ).machine
        if deployment.ingestion_minutes:
            events.Rule(
                self,
                "Schedule",
                description="Starts the ingestion of confirmed facts",
                schedule=events.Schedule.rate(cdk.Duration.minutes(deployment.ingestion_minutes)),
                targets=[targets.SfnStateMachine(self.machine, input=events.RuleTargetInput.from_object({}))],
            )

    def watch(self, alarms: Alarms) -> None:
        """Say when facts do not arrive, and when one arrives where it must not."""
        for folder in ASKING:
            alarms.when_any(
                f"CrossTenant{_camel(folder)}",
                _counted(contract.CROSS_TENANT_RESULTS, folder),
                meaning="The Knowledge Base answered with a fact of another tenant or without one; it was dropped",
            )
        for name, meaning in (
            (contract.INGESTION_DOCUMENTS_FAILED, "An ingestion job ended with documents that failed"),
            (contract.INGESTION_JOBS_FAILED, "An ingestion job failed as a whole"),
        ):
            alarms.when_any(name, _counted(name, "ingestion"), meaning=f"{meaning}: agent-memory ingestion status")
        waiting = max(LEAST_SECONDS, ROUNDS * 60 * self._deployment.ingestion_minutes)
        alarms.when_any(
            "OldestPendingFact",
            _counted(contract.OLDEST_PENDING_FACT_SECONDS, "ingestion", cloudwatch.Stats.MAXIMUM),
            meaning="A confirmed fact has waited long to become searchable: agent-memory ingestion status",
            threshold=waiting,
        )
        for construct_id, metric in (
            ("IngestionFailed", self.machine.metric_failed(period=FIVE_MINUTES)),
            ("IngestionTimedOut", self.machine.metric_timed_out(period=FIVE_MINUTES)),
        ):
            alarms.when_any(construct_id, metric, meaning="The ingestion machine did not end well")


def _camel(folder: str) -> str:
    return "".join(word.capitalize() for word in folder.split("_"))


def _counted(name: str, folder: str, statistic: str = cloudwatch.Stats.SUM) -> cloudwatch.Metric:
    """A metric that the function in lambdas/*folder* emits; Powertools adds the dimension."""
    return cloudwatch.Metric(
        namespace=contract.METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={"service": folder},
        period=FIVE_MINUTES,
        statistic=statistic,
    )
