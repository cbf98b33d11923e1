"""Procedures wait for a person: the function that takes the decisions, and who hears that there is one to take."""

from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.alarms import Alarms
from stacks.callers import Door
from stacks.layers import Layers
from stacks.memory_function import MemoryFunction
from stacks.queues import queue
from stacks.settings import Deployment
from stacks.wildcards import DETECT_PII, acknowledge

FIVE_MINUTES: Final = cdk.Duration.minutes(5)
TIMEOUT: Final = 30


class ReviewNotices(Construct):
    """A topic for those who review. The notices hold ids, counts and the task type, no content."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment, bus: events.IEventBus) -> None:
        super().__init__(scope, construct_id)
        names = deployment.names
        self.topic = sns.Topic(self, "Topic", topic_name=names.named("agent-memory-reviews"), enforce_ssl=True)
        acknowledge(self.topic, "EventBridge can't publish under the AWS managed key; notices hold no content.", "SNS2")
        if deployment.review_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(deployment.review_email))
        self.dead_letters = queue(
            self, "DeadLetters", name=names.queue("reviews-dead-letters"), days=deployment.dead_letter_days
        )
        events.Rule(
            self,
            "Rule",
            description="Tells reviewers of procedures that wait for them",
            event_bus=bus,
            event_pattern=events.EventPattern(
                source=[contract.OWN_SOURCE], detail_type=[contract.PROCEDURE_AWAITING_REVIEW]
            ),
            targets=[
                targets.SnsTopic(self.topic, message=_notice(deployment.env), dead_letter_queue=self.dead_letters)
            ],
        )

    def watch(self, alarms: Alarms) -> None:
        """Say when a notice did not reach the topic: the queue itself is `agent-memory procedures list`."""
        metric = self.dead_letters.metric_approximate_number_of_messages_visible(
            period=FIVE_MINUTES, statistic=cloudwatch.Stats.MAXIMUM
        )
        meaning = "Reviewers were not told of procedures that wait: agent-memory procedures list"
        alarms.when_any("ReviewNoticesLost", metric, meaning=meaning)


class ProcedureReview(Construct):
    """The function that reviewers call: through its URL, signed, or directly where callerAuth=platform."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment, layers: Layers) -> None:
        super().__init__(scope, construct_id)
        self.function = MemoryFunction(
            self,
            "ReviewProcedure",
            folder="review_procedure",
            deployment=deployment,
            layers=layers,
            timeout=cdk.Duration.seconds(TIMEOUT),
        )
        self.function.may_reach_tenants()
        # What a person writes is scrubbed and compared with other procedures like what a run proposes.
        self.function.may_use(DETECT_PII)
        self.function.may_embed(deployment.embedding_model_id)
        self.function.may_publish()
        self.door = Door(self.function, deployment=deployment)


def _notice(env: str) -> events.RuleTargetInput:
    field = events.EventField.from_path
    return events.RuleTargetInput.from_text(
        f"A procedure awaits review in {env}. "
        f"Tenant {field('$.detail.tenant_id')}, task type {field('$.detail.task_type')}, "
        f"state {field('$.detail.state')}, runs that proposed it: {field('$.detail.evidence')}. "
        f"Look at it: agent-memory procedures show {field('$.detail.procedure_id')} "
        f"--tenant {field('$.detail.tenant_id')} --env {env}"
    )
