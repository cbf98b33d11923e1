"""A run ends: the bus, the queue, the machine that turns the run into memory, and the alarms around them."""

from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.alarms import Alarms
from stacks.ingestion import Ingestion
from stacks.knowledge_ids import look_up_knowledge_ids
from stacks.layers import Layers
from stacks.memory_function import MemoryFunction
from stacks.models import may_ask
from stacks.queues import EventQueue, queue
from stacks.review import ReviewNotices
from stacks.settings import Deployment
from stacks.wildcards import DETECT_PII, EXECUTIONS, acknowledge
from stacks.workflow import Workflow

FIVE_MINUTES: Final = cdk.Duration.minutes(5)
# Seconds; each task of the machine allows its function a little more.
TIMEOUTS: Final = {
    "accept_run": 60,
    "consolidation": 900,
    "pii_scrubbing": 120,
    "store_episode": 60,
    "fact_confirmation": 60,
    "propose_procedure": 120,
    "ingestion": 300,
    "record_feedback": 30,
    "park_run": 30,
    "record_retrieval": 30,
}


class ConsolidationStack(cdk.Stack):
    """Stateless: everything here can be deleted and deployed again."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, synthesizer: cdk.StackSynthesizer
    ) -> None:
        super().__init__(
            scope, construct_id, synthesizer=synthesizer, description="agent-memory: from a run's end to memory"
        )
        self._deployment = deployment
        look_up_knowledge_ids(self, deployment)
        self._layers = Layers(self, "Layers", deployment=deployment)
        self._bus = events.EventBus(self, "Bus", event_bus_name=deployment.names.bus)
        self._refused = queue(self, "Refused", name=deployment.names.queue("refused"), days=deployment.dead_letter_days)
        self._park_run = self._function("ParkRun")
        self._machine = self._consolidation()
        self._intake = self._accepted_runs()
        self._retrievals = self._recorded_retrievals()
        self._notices = ReviewNotices(self, "Reviews", deployment=deployment, bus=self._bus)
        self._ingestion = Ingestion(self, "FactIngestion", deployment=deployment, function=self._function("Ingestion"))
        self._alarms()

    def _function(self, construct_id: str, *, memory: int = 512, calls_model: bool = False) -> MemoryFunction:
        folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in construct_id).lstrip("_")
        function = MemoryFunction(
            self,
            construct_id,
            folder=folder,
            deployment=self._deployment,
            layers=self._layers,
            timeout=cdk.Duration.seconds(TIMEOUTS[folder]),
            memory=memory,
            calls_model=calls_model,
        )
        function.may_reach_tenants()
        return function

    def _consolidation(self) -> Workflow:
        distil = self._function("Consolidation", memory=1024, calls_model=True)
        if self._deployment.distiller == "model":
            may_ask(distil, self._deployment.distil_model)
        if self._deployment.scrub_transcript:
            distil.may_use(DETECT_PII)
        scrub = self._function("PiiScrubbing")
        scrub.may_use(DETECT_PII)
        store = self._function("StoreEpisode")
        store.may_embed(self._deployment.embedding_model_id)
        store.may_keep_registry("dynamodb:PutItem", kinds=(contract.REGISTRY_STORED,))
        workflow = Workflow(
            self,
            "Workflow",
            definition="consolidation.asl.json",
            name=self._deployment.names.machine,
            deployment=self._deployment,
            functions={
                "ConsolidationFunction": distil,
                "PiiScrubbingFunction": scrub,
                "StoreEpisodeFunction": store,
                "FactConfirmationFunction": self._fact_confirmation(),
                "ProposeProcedureFunction": self._propose_procedure(),
                "RecordFeedbackFunction": self._record_feedback(),
                "ParkRunFunction": self._park_run,
            },
            substitutions={"BusName": self._deployment.names.bus, "Source": contract.OWN_SOURCE},
        )
        workflow.role.add_to_policy(
            iam.PolicyStatement(
                actions=["events:PutEvents"],
                resources=[self._bus.event_bus_arn],
                conditions={"StringEquals": {"events:source": contract.OWN_SOURCE}},
            )
        )
        return workflow

    def _fact_confirmation(self) -> MemoryFunction:
        judge = self._deployment.judge_model_id
        confirm = self._function("FactConfirmation", memory=1024, calls_model=bool(judge))
        confirm.may_embed(self._deployment.embedding_model_id)
        confirm.may_retrieve()
        confirm.may_keep_registry("dynamodb:PutItem", kinds=(contract.REGISTRY_DIRTY,))
        if judge:
            may_ask(confirm, judge)
        return confirm

    def _propose_procedure(self) -> MemoryFunction:
        propose = self._function("ProposeProcedure", memory=1024)
        propose.may_embed(self._deployment.embedding_model_id)
        # Reviewers are told of what waits for them.
        propose.may_publish()
        return propose

    def _record_feedback(self) -> MemoryFunction:
        feedback = self._function("RecordFeedback")
        feedback.may_publish()
        return feedback

    def _accepted_runs(self) -> EventQueue:
        names = self._deployment.names
        accept = self._function("AcceptRun", memory=1024)
        accept.may_name_users()
        accept.may("states:StartExecution", on=[names.machine_arn])
        accept.may("states:DescribeExecution", on=[names.executions_arn])
        acknowledge(accept.own_role, EXECUTIONS.reason, f"IAM5[Resource::{names.executions_arn}]")
        accept.may("sqs:SendMessage", on=[self._refused.queue_arn])
        accept.may_keep_registry("dynamodb:PutItem", kinds=(contract.REGISTRY_TENANTS,))
        if self._deployment.encryption_key_arn:
            accept.may("kms:Decrypt", on=[self._deployment.encryption_key_arn])
        return EventQueue(
            self,
            "Intake",
            name="intake",
            bus=self._bus,
            pattern=events.EventPattern(
                source=events.Match.prefix(contract.CLIENT_SOURCE_PREFIX), detail_type=[contract.RUN_ENDED]
            ),
            function=accept,
            deployment=self._deployment,
        )

    def _recorded_retrievals(self) -> EventQueue:
        return EventQueue(
            self,
            "Retrievals",
            name="retrievals",
            bus=self._bus,
            pattern=events.EventPattern(source=[contract.OWN_SOURCE], detail_type=[contract.MEMORY_RETRIEVED]),
            function=self._function("RecordRetrieval"),
            deployment=self._deployment,
        )

    def _alarms(self) -> None:
        alarms = Alarms(self, "Alarms", deployment=self._deployment)
        machine = self._machine.machine
        for construct_id, function, meaning in (
            ("RunParkedAtTheDoor", "accept_run", "A run was parked at the door: agent-memory parked list"),
            ("RunParked", "park_run", "A run could not be consolidated and was parked: agent-memory parked list"),
        ):
            alarms.when_any(construct_id, _counted("RunsParked", by=function), meaning=meaning)
        self._count_quarantined(alarms)
        alarms.when_any(
            "ParkingFails",
            self._park_run.metric_errors(period=FIVE_MINUTES),
            meaning="A run can't be parked; after hours of tries agent-memory parked list shows it as stuck",
        )
        self._count_lost(alarms)
        failures = (
            ("ExecutionsFailed", machine.metric_failed(period=FIVE_MINUTES)),
            ("ExecutionsTimedOut", machine.metric_timed_out(period=FIVE_MINUTES)),
            ("ExecutionsAborted", machine.metric_aborted(period=FIVE_MINUTES)),
        )
        for construct_id, metric in failures:
            alarms.when_any(construct_id, metric, meaning="A consolidation did not end well")
        self._ingestion.watch(alarms)
        self._notices.watch(alarms)
        self._watch_queues(alarms)

    def _watch_queues(self, alarms: Alarms) -> None:
        waiting = (
            ("IntakeDeadLetters", self._intake.dead_letters, "Runs that accept_run could not take are waiting"),
            (
                "RetrievalsDeadLetters",
                self._retrievals.dead_letters,
                "Retrievals that could not be recorded are waiting",
            ),
            ("RefusedEvents", self._refused, "Events without valid ids were refused: an agent is misconfigured"),
        )
        for construct_id, letters, meaning in waiting:
            metric = letters.metric_approximate_number_of_messages_visible(
                period=FIVE_MINUTES, statistic=cloudwatch.Stats.MAXIMUM
            )
            alarms.when_any(construct_id, metric, meaning=meaning)

    def _count_quarantined(self, alarms: Alarms) -> None:
        alarms.when_any(
            "QuarantineBurst",
            _counted("TextsQuarantined", by="pii_scrubbing"),
            meaning="Many texts that give orders to agents came at once, as in an attack: agent-memory quarantine list",
            threshold=self._deployment.quarantine_burst,
        )

    def _count_lost(self, alarms: Alarms) -> None:
        for state in ("FeedbackLost", "AnnouncementLost"):
            metric = self._machine.count_entered(state, period=FIVE_MINUTES)
            alarms.when_any(state, metric, meaning="An episode was stored, but what follows it could not be done")


def _counted(name: str, *, by: str) -> cloudwatch.Metric:
    """What a function of ours counts; Powertools adds its folder as the dimension `service`."""
    return cloudwatch.Metric(
        namespace=contract.METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={"service": by},
        statistic=cloudwatch.Stats.SUM,
        period=FIVE_MINUTES,
    )
