"""A queue with its dead letters and the function that reads it."""

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.memory_function import MemoryFunction
from stacks.settings import Deployment
from stacks.wildcards import acknowledge

# AWS's advice: six times the function's timeout, so that a batch that is retried inside Lambda is not seen twice.
VISIBILITY_FACTOR = 6


def queue(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    days: int,
    visibility: cdk.Duration | None = None,
    dead_letters: sqs.Queue | None = None,
) -> sqs.Queue:
    """An encrypted queue that refuses plain HTTP."""
    made = sqs.Queue(
        scope,
        construct_id,
        queue_name=name,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=cdk.Duration.days(days),
        visibility_timeout=visibility,
        dead_letter_queue=sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=contract.MAX_RECEIVES)
        if dead_letters
        else None,
    )
    if dead_letters is None:
        acknowledge(made, "People read this queue; there is nothing behind it to move messages to.", "SQS3")
    return made


class EventQueue(Construct):
    """Events of *pattern* wait here for *function*, which reports each message that it could not take."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        bus: events.IEventBus,
        pattern: events.EventPattern,
        function: MemoryFunction,
        deployment: Deployment,
    ) -> None:
        super().__init__(scope, construct_id)
        timeout = function.timeout or cdk.Duration.seconds(3)
        letters_name = deployment.names.queue(f"{name}-dead-letters")
        self.dead_letters = queue(self, "DeadLetters", name=letters_name, days=deployment.dead_letter_days)
        self.queue = queue(
            self,
            "Queue",
            name=deployment.names.queue(name),
            days=deployment.intake_days,
            visibility=cdk.Duration.seconds(VISIBILITY_FACTOR * timeout.to_seconds()),
            dead_letters=self.dead_letters,
        )
        events.Rule(
            self,
            "Rule",
            event_bus=bus,
            event_pattern=pattern,
            targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.dead_letters)],
        )
        source = sources.SqsEventSource(
            self.queue,
            batch_size=10,
            report_batch_item_failures=True,
            max_concurrency=deployment.intake_concurrency,
        )
        function.add_event_source(source)
