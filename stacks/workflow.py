"""One state machine from one file in statemachines/."""

import json
from collections.abc import Mapping

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stacks.layers import ROOT
from stacks.memory_function import MemoryFunction, log_group
from stacks.settings import Deployment
from stacks.wildcards import DELIVER_LOGS, TRACE, acknowledge


class Workflow(Construct):
    """The machine of *definition*. Functions fill the `${...}` of their names and may be invoked, nothing else may.

    *limit*: its time limit, where a deployment sets it; else that of the file."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        definition: str,
        name: str,
        deployment: Deployment,
        functions: Mapping[str, MemoryFunction],
        substitutions: Mapping[str, str],
        limit: cdk.Duration | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("states.amazonaws.com"), description=name)
        log = log_group(self, "Log", name=f"/aws/vendedlogs/states/{name}", deployment=deployment)
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=name,
            definition_body=sfn.DefinitionBody.from_string(_definition(definition, limit)),
            definition_substitutions={
                **{key: function.function_arn for key, function in functions.items()},
                **substitutions,
            },
            role=role,
            # Execution data are ids, but one careless state would put content into the log for good.
            logs=sfn.LogOptions(destination=log, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=True,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.role = role
        self._log = log
        for function in functions.values():
            role.add_to_policy(
                iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn])
            )
        acknowledge(role, f"{DELIVER_LOGS.reason} {TRACE.reason}", "IAM5[Resource::*]")

    def count_entered(self, state: str, *, period: cdk.Duration, counted: str = "") -> cloudwatch.Metric:
        """How often a Pass state was entered: Step Functions counts executions only, so its log is counted.

        *counted*: as which metric, where another machine has a state of the same name."""
        entered = logs.FilterPattern.string_value("$.type", "=", "PassStateEntered")
        named = logs.FilterPattern.string_value("$.details.name", "=", state)
        return logs.MetricFilter(
            self,
            f"{state}Count",
            log_group=self._log,
            filter_pattern=logs.FilterPattern.all(entered, named),
            metric_namespace=contract.METRICS_NAMESPACE,
            metric_name=counted or state,
            metric_value="1",
        ).metric(statistic=cloudwatch.Stats.SUM, period=period)


def _definition(name: str, limit: cdk.Duration | None) -> str:
    text = (ROOT / "statemachines" / name).read_text()
    if limit is None:
        return text
    return json.dumps({**json.loads(text), "TimeoutSeconds": limit.to_seconds()}, indent=2)
