"""Alarms that somebody hears about."""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.settings import Deployment
from stacks.wildcards import acknowledge


class Alarms(Construct):
    """The topic of one environment and the alarms that speak to it. They hold names and counts, no content.

    *topic*: that of another stack of the environment; without one it is made here."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, topic: sns.ITopic | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        self.topic = topic or self._made()

    def _made(self) -> sns.Topic:
        deployment = self._deployment
        topic = sns.Topic(self, "Topic", topic_name=deployment.names.alarms_topic, enforce_ssl=True)
        # A topic policy of its own replaces the default that lets alarms publish.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sns:Publish"],
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}},
            )
        )
        if deployment.alarm_email:
            topic.add_subscription(subscriptions.EmailSubscription(deployment.alarm_email))
        acknowledge(topic, "Alarms can't publish to a topic under the AWS managed key; they hold no content.", "SNS2")
        return topic

    def when_any(self, construct_id: str, metric: cloudwatch.Metric, *, meaning: str, threshold: int = 1) -> None:
        """Alarm from the first one on, or from *threshold*; no data is good news."""
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            metric=metric,
            alarm_description=meaning,
            threshold=threshold,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))

    def when_none(self, construct_id: str, metric: cloudwatch.Metric, *, meaning: str, periods: int) -> None:
        """Alarm when nothing was counted for *periods* in a row; no data is nothing."""
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            metric=metric,
            alarm_description=meaning,
            threshold=1,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
