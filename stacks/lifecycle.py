"""The night: what is due is archived, merged and removed, facts and procedures are looked after, quality is proved."""

from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.alarms import Alarms
from stacks.knowledge_ids import look_up_knowledge_ids
from stacks.layers import Layers
from stacks.memory_function import MemoryFunction
from stacks.models import may_ask
from stacks.settings import Deployment
from stacks.wildcards import DETECT_PII, LIFECYCLE_EXECUTIONS, NIGHT_FILES, acknowledge
from stacks.workflow import Workflow

FIVE_MINUTES: Final = cdk.Duration.minutes(5)
# Seconds; each task of the machine allows its function a little more.
TIMEOUTS: Final = {
    "decay": 300,
    "examine_memories": 300,
    "prune_memories": 300,
    "merge_memories": 900,
    "restore_memories": 300,
    "flag_procedures": 300,
    "expire_facts": 300,
    "quality_check": 900,
    "lifecycle_report": 300,
}
DUE: Final = "dynamodb:Query"
GATES: Final = (
    (
        contract.QUALITY_GATES_FAILED,
        "A night made regression cases of a tenant fail and was taken back there: agent-memory lifecycle report",
    ),
    (
        contract.QUALITY_GATES_FAILED_BEFORE,
        "Regression cases of a tenant were below their minimum before the night: agent-memory lifecycle report",
    ),
    (
        contract.QUALITY_GATES_NOT_RUN,
        "A night changed memories of a tenant without regression cases to prove it: agent-memory regress add",
    ),
)
FOREIGN: Final = "The Knowledge Base answered with a fact of another tenant or without one; it was dropped"


class LifecycleStack(cdk.Stack):
    """Stateless: everything here can be deleted and deployed again."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, synthesizer: cdk.StackSynthesizer
    ) -> None:
        super().__init__(
            scope, construct_id, synthesizer=synthesizer, description="agent-memory: the nightly lifecycle"
        )
        self._deployment = deployment
        look_up_knowledge_ids(self, deployment)
        self._layers = Layers(self, "Layers", deployment=deployment)
        self._topic = sns.Topic.from_topic_arn(self, "Topic", deployment.names.alarms_topic_arn)
        self._machine = self._night()
        self._schedule()
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
        self._may_keep_night_files(function)
        return function

    def _may_keep_night_files(self, function: MemoryFunction) -> None:
        """Slices, plans and results of a night hold ids and scores; what a memory says lies under another prefix."""
        names = self._deployment.names
        bucket = names.bucket_arn(names.archive_bucket)
        files = f"{bucket}/{contract.LIFECYCLE_PREFIX}*"
        function.may("s3:GetObject", "s3:PutObject", on=[files])
        function.may("s3:ListBucket", on=[bucket], when=_under(contract.LIFECYCLE_PREFIX))
        if self._deployment.encryption_key_arn:
            function.may("kms:Decrypt", "kms:GenerateDataKey", on=[self._deployment.encryption_key_arn])
        acknowledge(function.own_role, NIGHT_FILES.reason, f"IAM5[Resource::{files}]")

    def _night(self) -> Workflow:
        names = self._deployment.names
        workflow = Workflow(
            self,
            "Workflow",
            definition="lifecycle.asl.json",
            name=names.lifecycle_machine,
            deployment=self._deployment,
            functions={
                "DecayFunction": self._decay(),
                "ExamineMemoriesFunction": self._function("ExamineMemories", memory=1024),
                "PruneMemoriesFunction": self._function("PruneMemories"),
                "MergeMemoriesFunction": self._merge(),
                "RestoreMemoriesFunction": self._restore(),
                "FlagProceduresFunction": self._flag(),
                "ExpireFactsFunction": self._expire_facts(),
                "QualityCheckFunction": self._quality(),
                "LifecycleReportFunction": self._function("LifecycleReport"),
            },
            substitutions={
                "BusName": names.bus,
                "Source": contract.OWN_SOURCE,
                "Topic": names.alarms_topic_arn,
            },
            limit=cdk.Duration.hours(self._deployment.lifecycle_limit_hours),
        )
        self._may_map_and_tell(workflow.role)
        return workflow

    def _decay(self) -> MemoryFunction:
        names = self._deployment.names
        decay = self._function("Decay", memory=1024)
        # Keys only and across tenants: no other function may ask, and this one may ask nothing else.
        tables = (names.episodes_table, names.facts_table)
        decay.may(DUE, on=[f"{names.table_arn(table)}/index/{contract.DUE_INDEX}" for table in tables])
        decay.may_keep_registry(
            "dynamodb:DeleteItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
            kinds=(contract.REGISTRY_LIFECYCLE, contract.REGISTRY_STORED),
        )
        return decay

    def _merge(self) -> MemoryFunction:
        model = self._deployment.summarise_model
        merge = self._function("MergeMemories", memory=1024, calls_model=bool(model))
        merge.may_embed(self._deployment.embedding_model_id)
        # A summary is scrubbed once more, and what it says may be a fact that the Knowledge Base has to follow.
        merge.may_use(DETECT_PII)
        self._may_announce_facts(merge)
        for asked in dict.fromkeys(filter(None, (model, self._deployment.judge_model_id))):
            may_ask(merge, asked)
        if self._deployment.guardrail_id:
            merge.may("bedrock:ApplyGuardrail", on=[self._deployment.guardrail_arn])
        return merge

    def _may_announce_facts(self, function: MemoryFunction) -> None:
        function.may_keep_registry("dynamodb:PutItem", kinds=(contract.REGISTRY_DIRTY,))

    def _restore(self) -> MemoryFunction:
        restore = self._function("RestoreMemories")
        self._may_announce_facts(restore)
        return restore

    def _flag(self) -> MemoryFunction:
        flag = self._function("FlagProcedures")
        flag.may_keep_registry("dynamodb:Query", kinds=(contract.REGISTRY_TENANTS,))
        flag.may_publish()
        return flag

    def _expire_facts(self) -> MemoryFunction:
        expire = self._function("ExpireFacts")
        self._may_announce_facts(expire)
        return expire

    def _quality(self) -> MemoryFunction:
        judge = self._deployment.judge_model_id
        quality = self._function("QualityCheck", memory=1024, calls_model=bool(judge))
        # It asks as a run would ask.
        quality.may_embed(self._deployment.embedding_model_id)
        quality.may_retrieve()
        if judge:
            may_ask(quality, judge)
        return quality

    def _may_map_and_tell(self, role: iam.Role) -> None:
        """What the machine itself does: list slices, run a child for each, announce the end, call somebody."""
        names = self._deployment.names
        bucket, children = names.bucket_arn(names.archive_bucket), names.lifecycle_executions_arn
        statements = [
            iam.PolicyStatement(
                actions=["s3:ListBucket"], resources=[bucket], conditions=_under(contract.LIFECYCLE_PREFIX)
            ),
            iam.PolicyStatement(actions=["states:StartExecution"], resources=[names.lifecycle_machine_arn]),
            iam.PolicyStatement(actions=list(LIFECYCLE_EXECUTIONS.actions), resources=[children]),
            iam.PolicyStatement(
                actions=["events:PutEvents"],
                resources=[names.bus_arn],
                conditions={"StringEquals": {"events:source": contract.OWN_SOURCE}},
            ),
            iam.PolicyStatement(actions=["sns:Publish"], resources=[names.alarms_topic_arn]),
        ]
        for statement in statements:
            role.add_to_policy(statement)
        acknowledge(role, LIFECYCLE_EXECUTIONS.reason, f"IAM5[Resource::{children}]")

    def _schedule(self) -> None:
        hour = str(self._deployment.lifecycle_hour_utc)
        scheduler.Schedule(
            self,
            "Night",
            schedule_name=self._deployment.names.lifecycle_machine,
            description="Starts the nightly lifecycle of agent-memory",
            schedule=scheduler.ScheduleExpression.cron(minute="0", hour=hour, time_zone=cdk.TimeZone.ETC_UTC),
            time_window=scheduler.TimeWindow.off(),
            target=targets.StepFunctionsStartExecution(
                self._machine.machine,
                input=scheduler.ScheduleTargetInput.from_object({}),
                # A night that could not be started for an hour is a missed one; the next covers both.
                max_event_age=cdk.Duration.hours(1),
                retry_attempts=10,
            ),
        )

    def _alarms(self) -> None:
        alarms = Alarms(self, "Alarms", deployment=self._deployment, topic=self._topic)
        machine = self._machine.machine
        for construct_id, metric in (
            ("NightFailed", machine.metric_failed(period=FIVE_MINUTES)),
            ("NightTimedOut", machine.metric_timed_out(period=FIVE_MINUTES)),
            ("NightAborted", machine.metric_aborted(period=FIVE_MINUTES)),
            ("NightAnnouncementLost", self._machine.count_entered("AnnouncementLost", period=FIVE_MINUTES)),
        ):
            alarms.when_any(
                construct_id, metric, meaning="The nightly lifecycle needs somebody: agent-memory lifecycle status"
            )
        for name, meaning in GATES:
            alarms.when_any(name, _counted(name, by="lifecycle_report"), meaning=meaning)
        crossed = _counted(contract.CROSS_TENANT_RESULTS, by="quality_check")
        alarms.when_any("CrossTenantQualityCheck", crossed, meaning=FOREIGN)
        self._say_what_nobody_redrives(alarms)
        self._say_when_it_does_not_run(alarms)

    def _say_what_nobody_redrives(self, alarms: Alarms) -> None:
        """Measured once in a night."""
        waiting = cloudwatch.Metric(
            namespace=contract.METRICS_NAMESPACE,
            metric_name=contract.OLDEST_PARKED_RUN_DAYS,
            dimensions_map={"service": "flag_procedures"},
            statistic=cloudwatch.Stats.MAXIMUM,
            period=cdk.Duration.days(1),
        )
        days = self._deployment.parked_alarm_days
        meaning = f"A run has been parked for {days} days, and is given up after parkedDays: agent-memory parked list"
        alarms.when_any("RunParkedForLong", waiting, meaning=meaning, threshold=days)

    def _say_when_it_does_not_run(self, alarms: Alarms) -> None:
        started = self._machine.machine.metric_started(period=cdk.Duration.days(1), statistic=cloudwatch.Stats.SUM)
        alarms.when_none("NightMissed", started, meaning="No nightly lifecycle was started for two days", periods=2)


def _under(prefix: str) -> dict[str, object]:
    return {"StringLike": {"s3:prefix": [f"{prefix}*"]}}


def _counted(name: str, *, by: str) -> cloudwatch.Metric:
    """What a function of ours counts; Powertools adds its folder as the dimension `service`."""
    return cloudwatch.Metric(
        namespace=contract.METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={"service": by},
        statistic=cloudwatch.Stats.SUM,
        period=FIVE_MINUTES,
    )
