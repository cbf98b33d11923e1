"""The canary: every hour it looks for what nobody may see, and somebody hears of it."""

from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from agent_memory.contract import environment_variable
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from stacks.alarms import Alarms
from stacks.callers import Door
from stacks.layers import Layers
from stacks.memory_function import MemoryFunction
from stacks.settings import Deployment

HOUR: Final = cdk.Duration.hours(1)
TIMEOUT: Final = 300
# The first look plants the secrets, the second sees them where nothing waits; one more for what does.
SILENT_HOURS: Final = 3


class Canary(Construct):
    """The function, its hour and its alarms. It speaks for its two tenants and no other."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        layers: Layers,
        bootstrap: MemoryFunction,
        door: Door,
    ) -> None:
        super().__init__(scope, construct_id)
        self.function = function = MemoryFunction(
            self,
            "Canary",
            folder="canary",
            deployment=deployment,
            layers=layers,
            timeout=cdk.Duration.seconds(TIMEOUT),
            role_name=deployment.names.canary_role,
        )
        function.add_environment(environment_variable("bootstrapFunction"), bootstrap.function_name)
        function.add_environment(environment_variable("bootstrapUrl"), door.url)
        self._grant(deployment, door)
        events.Rule(
            self,
            "Hour",
            description="Lets the canary look",
            schedule=events.Schedule.rate(HOUR),
            targets=[targets.LambdaFunction(function, retry_attempts=2)],
        )

    def _grant(self, deployment: Deployment, door: Door) -> None:
        function, names, tenants = self.function, deployment.names, list(contract.CANARY_TENANTS)
        for statement in door.statements():
            function.add_to_role_policy(statement)
        function.may(
            "sts:AssumeRole",
            "sts:TagSession",
            on=[names.tenant_role_arn],
            when={
                "ForAllValues:StringEquals": {"aws:TagKeys": [contract.TENANT_TAG]},
                "StringEquals": {f"aws:RequestTag/{contract.TENANT_TAG}": tenants},
            },
        )
        function.may_retrieve()
        sources = [f"{contract.CLIENT_SOURCE_PREFIX}{tenant_id}" for tenant_id in tenants]
        function.may("events:PutEvents", on=[names.bus_arn], when={"StringEquals": {"events:source": sources}})

    def watch(self, alarms: Alarms) -> None:
        """Say when it saw something, and when it could not look."""
        alarms.when_any(
            "CanaryLeak",
            _counted(contract.CANARY_LEAKS),
            meaning="A tenant of the canary saw what is the other's: the log of the canary function says by which way",
        )
        alarms.when_none(
            "CanaryBlind",
            _counted(contract.CANARY_LOOKED),
            meaning="The canary could not look for hours, or does not see its own secrets: its log says which",
            periods=SILENT_HOURS,
        )


def _counted(name: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=contract.METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={"service": "canary"},
        period=HOUR,
        statistic=cloudwatch.Stats.SUM,
    )
