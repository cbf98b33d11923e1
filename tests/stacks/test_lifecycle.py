"""When the night begins, how long it may take, what its machine may do, and who hears of it."""

from typing import Any

import pytest
from support.deployments import as_list, flat, functions, resources, templates
from support.machines import all_states, definition

from stacks.lifecycle import TIMEOUTS


def room(**context: object) -> dict[str, Any]:
    return templates({"env": "prod", **context})["lifecycle"]


@pytest.mark.parametrize("hour", ["2", "0", "23"])
def test_the_night_begins_at_its_hour_in_utc_so_that_no_clock_change_doubles_or_drops_it(hour: str) -> None:
    [schedule] = resources(room(lifecycleHourUtc=hour), "AWS::Scheduler::Schedule").values()
    properties = schedule["Properties"]
    assert properties["ScheduleExpression"] == f"cron(0 {hour} * * ? *)"
    assert properties["ScheduleExpressionTimezone"] == "Etc/UTC"
    assert properties["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert properties["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] == 3600


@pytest.mark.parametrize("hours", ["1", "6"])
def test_the_machine_ends_by_the_limit_of_the_deployment(hours: str) -> None:
    [machine] = resources(room(lifecycleLimitHours=hours), "AWS::StepFunctions::StateMachine").values()
    assert f'"TimeoutSeconds\\": {int(hours) * 3600}' in str(machine["Properties"]["DefinitionString"]).replace(
        '"TimeoutSeconds"', '"TimeoutSeconds\\"'
    )


def test_every_task_waits_a_little_longer_than_its_function_may_take() -> None:
    assert set(TIMEOUTS) <= set(functions("prod"))
    by_name = {"".join(word.capitalize() for word in folder.split("_")): limit for folder, limit in TIMEOUTS.items()}
    tasks = [s for s in all_states(definition("lifecycle")) if s["Type"] == "Task" and "lambda" in s["Resource"]]
    assert tasks
    for task in tasks:
        name = task["Parameters"]["FunctionName"].removeprefix("${").removesuffix("Function}")
        assert task["TimeoutSeconds"] == by_name[name] + 10


def test_the_machine_lists_slices_runs_children_of_its_own_and_calls_somebody_and_nothing_else() -> None:
    template, allowed = room(), {}
    for key, policy in resources(template, "AWS::IAM::Policy").items():
        if key.startswith("WorkflowRole"):
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                for action in as_list(statement["Action"]):
                    allowed.setdefault(action, []).extend(map(flat, as_list(statement["Resource"])))
    own = {action: arns for action, arns in allowed.items() if not action.startswith(("logs:", "xray:"))}
    assert len(own.pop("lambda:InvokeFunction")) == 9
    where = "<AWS::Region>:<AWS::AccountId>"
    children = f"arn:<AWS::Partition>:states:{where}:execution:agent-memory-lifecycle-prod:*"
    assert own == {
        "s3:ListBucket": ["arn:<AWS::Partition>:s3:::agent-memory-archive-prod-<AWS::AccountId>"],
        "states:StartExecution": [f"arn:<AWS::Partition>:states:{where}:stateMachine:agent-memory-lifecycle-prod"],
        "states:DescribeExecution": [children],
        "states:StopExecution": [children],
        "events:PutEvents": [f"arn:<AWS::Partition>:events:{where}:event-bus/agent-memory-prod"],
        "sns:Publish": [f"arn:<AWS::Partition>:sns:{where}:agent-memory-alarms-prod"],
    }


def test_somebody_hears_of_a_parked_run_that_nobody_redrives() -> None:
    alarms = [alarm["Properties"] for alarm in resources(room(), "AWS::CloudWatch::Alarm").values()]
    [waits] = [alarm for alarm in alarms if alarm["MetricName"] == "OldestParkedRunDays"]
    assert (waits["Threshold"], waits["Statistic"], waits["Period"]) == (7, "Maximum", 86_400)
    assert waits["Dimensions"] == [{"Name": "service", "Value": "flag_procedures"}]


def test_somebody_hears_of_a_night_that_fails_ends_late_is_stopped_or_does_not_come() -> None:
    alarms = [alarm["Properties"] for alarm in resources(room(), "AWS::CloudWatch::Alarm").values()]
    of_the_machine = {alarm["MetricName"]: alarm for alarm in alarms if alarm["Namespace"] == "AWS/States"}
    assert set(of_the_machine) == {"ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted", "ExecutionsStarted"}
    missed = of_the_machine["ExecutionsStarted"]
    assert (missed["TreatMissingData"], missed["EvaluationPeriods"], missed["Period"]) == ("breaching", 2, 86_400)
    for alarm in alarms:
        [action] = alarm["AlarmActions"]
        assert flat(action).endswith(":agent-memory-alarms-prod")
