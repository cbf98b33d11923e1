"""The night over Amazon Bedrock AgentCore Memory: its trail, its bucket, and the functions of the night once more.

Only there when agentcoreMemories names a memory. Each step may do on the named memories what it is for, and no more:
whoever looks reads, whoever prunes reads and deletes, whoever merges creates as well.
"""

from collections.abc import Sequence
from typing import Final, Literal

import aws_cdk as cdk
from agent_memory import contract
from agent_memory.contract import environment_variable
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.agentcore_buckets import AgentCoreBuckets
from stacks.agentcore_grants import CREATE, DELETE, LIST, READ, SEARCH, on_records, operator_over_agentcore
from stacks.agentcore_limits import fits
from stacks.agentcore_reads import ReportedReads
from stacks.alarms import Alarms
from stacks.emptying import tend_the_emptying_function
from stacks.knowledge_ids import look_up_knowledge_ids
from stacks.layers import Layers
from stacks.lifecycle import GATES
from stacks.memory_function import MemoryFunction
from stacks.models import may_ask
from stacks.settings import Deployment
from stacks.wildcards import (
    AGENTCORE_EXECUTIONS,
    AGENTCORE_FILES,
    DETECT_PII,
    TRAIL_FILES,
    acknowledge,
)
from stacks.workflow import Workflow

# Seconds; each task of the machine allows its function a little more.
TIMEOUTS: Final = {
    "decay": 300,
    "refresh_records": 900,
    "examine_memories": 300,
    "prune_memories": 300,
    "merge_memories": 900,
    "restore_memories": 300,
    "quality_check": 900,
    "lifecycle_report": 300,
}
# MB. A refresh of 100,000 records and 10,000 trail files had 1,070 at once: make bench NAME=agentcore-refresh.
MEMORY: Final = {"refresh_records": 3008}
# What a step does with the books of the memories: nothing, read them, note beside them what it did, write them anew.
Book = Literal["", "reads", "notes", "writes"]
FIVE_MINUTES: Final = cdk.Duration.minutes(5)


class AgentCoreStack(cdk.Stack):
    """The buckets are stateful: the archive of what nights removed, the ledger of accesses, the indexes."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, synthesizer: cdk.StackSynthesizer
    ) -> None:
        super().__init__(
            scope, construct_id, synthesizer=synthesizer, description="agent-memory: the night over AgentCore Memory"
        )
        self._deployment = deployment
        fits(deployment)
        look_up_knowledge_ids(self, deployment)
        self._layers = Layers(self, "Layers", deployment=deployment)
        AgentCoreBuckets(self, "Buckets", deployment=deployment)
        if deployment.empty_on_destroy:
            tend_the_emptying_function(self, name="agent-memory-empty-agentcore-buckets", deployment=deployment)
        self._machine = self._night()
        ReportedReads(self, "Reported", deployment=deployment, layers=self._layers, told=self._told())
        operator_over_agentcore(self, "Operator", deployment=deployment)
        self._schedule()
        self._alarms()

    def _night(self) -> Workflow:
        names = self._deployment.names
        functions = {
            "DecayFunction": self._decay(),
            "ExamineMemoriesFunction": self._examine(),
            "PruneMemoriesFunction": self._function(
                "PruneMemories", *READ, DELETE, book="notes", archives=True, holds=True
            ),
            "MergeMemoriesFunction": self._merge(),
            "RestoreMemoriesFunction": self._function(
                "RestoreMemories", *READ, CREATE, DELETE, book="notes", archives=True
            ),
            "QualityCheckFunction": self._quality(),
            "LifecycleReportFunction": self._function("LifecycleReport"),
        }
        # By name: eight ARNs would take a fifth of the variables that a function may have.
        roles = [function.own_role.role_name for function in functions.values()]
        functions["RefreshRecordsFunction"] = self._refresh(roles)
        workflow = Workflow(
            self,
            "Workflow",
            definition="agentcore.asl.json",
            name=names.agentcore_machine,
            deployment=self._deployment,
            functions=functions,
            substitutions={"BusName": names.bus, "Source": contract.OWN_SOURCE, "Topic": names.alarms_topic_arn},
            limit=cdk.Duration.hours(self._deployment.lifecycle_limit_hours),
        )
        self._may_map_and_tell(workflow.role)
        return workflow

    def _function(
        self,
        construct_id: str,
        *actions: str,
        book: Book = "",
        archives: bool = False,
        holds: bool = False,
        calls_model: bool = False,
    ) -> MemoryFunction:
        """*holds*: whether it reads rows of the tenant in our ledger: holds of namespaces, regression cases."""
        folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in construct_id).lstrip("_")
        function = MemoryFunction(
            self,
            construct_id,
            folder=folder,
            called=f"agentcore_{folder}",
            deployment=self._deployment,
            layers=self._layers,
            timeout=cdk.Duration.seconds(TIMEOUTS[folder]),
            memory=MEMORY.get(folder, 1024),
            calls_model=calls_model,
            told=self._told(),
        )
        if holds:
            function.may_reach_tenants()
        self._may_keep(function, book=book, archives=archives)
        for statement in on_records(self._deployment, *actions) if actions else ():
            function.add_to_role_policy(statement)
        return function

    def _told(self) -> dict[str, str]:
        """What a function of this night is told beside what every function is: whose records, and where it keeps."""
        bucket = self._deployment.names.agentcore_bucket
        values = self._deployment.agentcore() | {"nightBackend": "agentcore", "archiveBucket": bucket}
        # Only whoever reads the trail must know whom to ignore.
        values.pop("agentcoreIgnoredRoles")
        return {environment_variable(key): value for key, value in values.items()}

    def _may_keep(self, function: MemoryFunction, *, book: Book, archives: bool) -> None:
        """Slices and reports; of the books what the step is for; only whoever removes or brings back, the archive."""
        bucket = self._deployment.names.bucket_arn(self._deployment.names.agentcore_bucket)
        nights, books, archive = (
            f"{bucket}/{prefix}*"
            for prefix in (contract.LIFECYCLE_PREFIX, contract.AGENTCORE_PREFIX, contract.ARCHIVE_PREFIX)
        )
        notes = f"{bucket}/{contract.AGENTCORE_PREFIX}*/notes/*"
        read = [nights, *([books] if book else []), *([archive] if archives else [])]
        written = [nights, *{"notes": [notes], "writes": [books]}.get(book, []), *([archive] if archives else [])]
        function.may("s3:GetObject", on=read)
        function.may("s3:PutObject", on=written)
        listed = {"StringLike": {"s3:prefix": [one.removeprefix(f"{bucket}/") for one in read]}}
        function.may("s3:ListBucket", on=[bucket], when=listed)
        if self._deployment.encryption_key_arn:
            function.may("kms:Decrypt", "kms:GenerateDataKey", on=[self._deployment.encryption_key_arn])
        for one in dict.fromkeys([*read, *written]):
            acknowledge(function.own_role, AGENTCORE_FILES.reason, f"IAM5[Resource::{one}]")

    def _decay(self) -> MemoryFunction:
        decay = self._function("Decay", book="reads", holds=True)
        decay.may_keep_registry(
            "dynamodb:DeleteItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
            kinds=(contract.REGISTRY_AGENTCORE,),
        )
        return decay

    def _refresh(self, roles: Sequence[str]) -> MemoryFunction:
        """Reads the trail. What the night's own roles read counts for nothing."""
        names = self._deployment.names
        refresh = self._function("RefreshRecords", LIST, book="writes")
        others = filter(None, [self._deployment.agentcore_ignored_roles])
        ignored = cdk.Fn.join(",", [*roles, refresh.own_role.role_name, *others])
        refresh.add_environment(environment_variable("agentcoreIgnoredRoles"), ignored)
        state, trail = names.bucket_arn(names.agentcore_bucket), names.bucket_arn(names.trail_bucket)
        book, files = f"{state}/{contract.AGENTCORE_PREFIX}*", f"{trail}/*"
        notes = f"{state}/{contract.AGENTCORE_PREFIX}*/notes/*"
        refresh.may("s3:DeleteObject", on=[notes])
        # A ledger of accesses that is damaged goes back to an earlier version of it.
        refresh.may("s3:GetObjectVersion", on=[book])
        versions = {"StringLike": {"s3:prefix": [f"{contract.AGENTCORE_PREFIX}*"]}}
        refresh.may("s3:ListBucketVersions", on=[state], when=versions)
        acknowledge(refresh.own_role, AGENTCORE_FILES.reason, f"IAM5[Resource::{notes}]")
        refresh.may("s3:GetObject", on=[files])
        refresh.may("s3:ListBucket", on=[trail])
        acknowledge(refresh.own_role, TRAIL_FILES.reason, f"IAM5[Resource::{files}]")
        return refresh

    def _examine(self) -> MemoryFunction:
        examine = self._function("ExamineMemories", *READ, book="notes", holds=True)
        examine.may_embed(self._deployment.embedding_model_id)
        return examine

    def _merge(self) -> MemoryFunction:
        model = self._deployment.summarise_model
        merge = self._function(
            "MergeMemories",
            *READ,
            CREATE,
            DELETE,
            book="notes",
            archives=True,
            holds=True,
            calls_model=bool(model),
        )
        merge.may_embed(self._deployment.embedding_model_id)
        merge.may_use(DETECT_PII)
        if model:
            may_ask(merge, model)
        if self._deployment.guardrail_id:
            merge.may("bedrock:ApplyGuardrail", on=[self._deployment.guardrail_arn])
        return merge

    def _quality(self) -> MemoryFunction:
        judge = self._deployment.judge_model_id
        quality = self._function("QualityCheck", SEARCH, book="reads", holds=True, calls_model=bool(judge))
        quality.may_embed(self._deployment.embedding_model_id)
        if judge:
            may_ask(quality, judge)
        return quality

    def _may_map_and_tell(self, role: iam.Role) -> None:
        """What the machine itself does: list slices, run a child for each, announce the end, call somebody."""
        names = self._deployment.names
        children = names.arn("states", f"execution:{names.agentcore_machine}:*")
        listing = {"StringLike": {"s3:prefix": [f"{contract.LIFECYCLE_PREFIX}*"]}}
        bucket = names.bucket_arn(names.agentcore_bucket)
        for statement in (
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket], conditions=listing),
            iam.PolicyStatement(actions=["states:StartExecution"], resources=[names.agentcore_machine_arn]),
            iam.PolicyStatement(actions=list(AGENTCORE_EXECUTIONS.actions), resources=[children]),
            iam.PolicyStatement(
                actions=["events:PutEvents"],
                resources=[names.bus_arn],
                conditions={"StringEquals": {"events:source": contract.OWN_SOURCE}},
            ),
            iam.PolicyStatement(actions=["sns:Publish"], resources=[names.alarms_topic_arn]),
        ):
            role.add_to_policy(statement)
        acknowledge(role, AGENTCORE_EXECUTIONS.reason, f"IAM5[Resource::{children}]")

    def _schedule(self) -> None:
        scheduler.Schedule(
            self,
            "Night",
            schedule_name=self._deployment.names.agentcore_machine,
            description="Starts the night over AgentCore Memory",
            schedule=scheduler.ScheduleExpression.cron(
                minute="30", hour=str(self._deployment.lifecycle_hour_utc), time_zone=cdk.TimeZone.ETC_UTC
            ),
            time_window=scheduler.TimeWindow.off(),
            target=targets.StepFunctionsStartExecution(
                self._machine.machine,
                input=scheduler.ScheduleTargetInput.from_object({}),
                max_event_age=cdk.Duration.hours(1),
                retry_attempts=10,
            ),
        )

    def _alarms(self) -> None:
        topic = sns.Topic.from_topic_arn(self, "Topic", self._deployment.names.alarms_topic_arn)
        alarms = Alarms(self, "Alarms", deployment=self._deployment, topic=topic)
        machine, meaning = (
            self._machine.machine,
            "The night over AgentCore needs somebody: agent-memory agentcore status",
        )
        for construct_id, metric in (
            ("AgentCoreNightFailed", machine.metric_failed(period=FIVE_MINUTES)),
            ("AgentCoreNightTimedOut", machine.metric_timed_out(period=FIVE_MINUTES)),
            ("AgentCoreNightAborted", machine.metric_aborted(period=FIVE_MINUTES)),
            (
                "AgentCoreAnnouncementLost",
                self._machine.count_entered(
                    "AnnouncementLost", period=FIVE_MINUTES, counted="AgentCoreAnnouncementLost"
                ),
            ),
        ):
            alarms.when_any(construct_id, metric, meaning=meaning)
        for name, gate in GATES:
            metric = _counted(name, by="agentcore_lifecycle_report", period=FIVE_MINUTES)
            alarms.when_any(name, metric, meaning=f"AgentCore: {gate}")
        started = machine.metric_started(period=cdk.Duration.days(1), statistic=cloudwatch.Stats.SUM)
        alarms.when_none(
            "AgentCoreNightMissed", started, meaning="No night over AgentCore was started for two days", periods=2
        )
        if self._deployment.layer_platform == "lambda":
            digests = _counted(contract.TRAIL_DIGESTS, by="agentcore_refresh_records", period=cdk.Duration.days(1))
            # Every record would look unread, and fade.
            alarms.when_none("TrailSilent", digests, meaning="The trail of AgentCore delivers nothing", periods=2)


def _counted(name: str, *, by: str, period: cdk.Duration) -> cloudwatch.Metric:
    """What a function of this night counts."""
    return cloudwatch.Metric(
        namespace=contract.METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={"service": by},
        statistic=cloudwatch.Stats.SUM,
        period=period,
    )
