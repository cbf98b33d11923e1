"""The intake and the machine around the functions."""

import json
from pathlib import Path
from typing import Any

import pytest
from agent_memory import contract
from support.deployments import flat, functions, resources, templates
from support.machines import all_states, definition

ROOT = Path(__file__).parents[2]


def room(environment: str = "dev") -> dict[str, Any]:
    return templates({"env": environment})["consolidation"]


def machines(environment: str = "dev") -> dict[str, dict[str, Any]]:
    found = [m["Properties"] for m in resources(room(environment), "AWS::StepFunctions::StateMachine").values()]
    return {m["StateMachineName"].removeprefix("agent-memory-").removesuffix(f"-{environment}"): m for m in found}


def queues(environment: str = "dev") -> dict[str, dict[str, Any]]:
    found = resources(room(environment), "AWS::SQS::Queue").values()
    return {
        q["Properties"]["QueueName"].removeprefix("agent-memory-").removesuffix(f"-{environment}"): q["Properties"]
        for q in found
    }


def test_queues_wait_redeliver_and_forget_as_promised() -> None:
    assert set(queues()) == {
        "intake", "intake-dead-letters", "retrievals", "retrievals-dead-letters", "refused", "reviews-dead-letters",
    }  # fmt: skip
    for name, queue in queues().items():
        assert queue["SqsManagedSseEnabled"], name
        assert queue["MessageRetentionPeriod"] == (86_400 if name in {"intake", "retrievals"} else 4 * 86_400), name
    for name, folder in (("intake", "accept_run"), ("retrievals", "record_retrieval")):
        assert queues()[name]["VisibilityTimeout"] == 6 * functions()[folder]["Timeout"]
        assert queues()[name]["RedrivePolicy"]["maxReceiveCount"] == 5


def test_queues_refuse_plain_http() -> None:
    policies = resources(room(), "AWS::SQS::QueuePolicy").values()
    assert len(policies) == len(queues())
    for policy in policies:
        denied = [s for s in policy["Properties"]["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
        assert denied[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_rules_take_agents_events_by_prefix_and_ours_by_name() -> None:
    rules = [r for r in resources(room(), "AWS::Events::Rule").values() if "EventPattern" in r["Properties"]]
    patterns = [json.dumps(rule["Properties"]["EventPattern"], sort_keys=True) for rule in rules]
    assert sorted(patterns) == sorted(
        [
            json.dumps({"detail-type": ["Agent Run Ended"], "source": [{"prefix": contract.CLIENT_SOURCE_PREFIX}]}),
            json.dumps({"detail-type": ["Memory Retrieved"], "source": ["agent-memory"]}),
            json.dumps({"detail-type": ["Procedure Awaiting Review"], "source": ["agent-memory"]}),
        ]
    )
    for rule in rules:
        [target] = rule["Properties"]["Targets"]
        assert target["DeadLetterConfig"]["Arn"]


def test_our_own_events_never_match_the_rule_for_agents() -> None:
    assert not contract.OWN_SOURCE.startswith(contract.CLIENT_SOURCE_PREFIX)


def test_batches_report_which_messages_failed() -> None:
    mappings = resources(room(), "AWS::Lambda::EventSourceMapping").values()
    assert len(mappings) == 2
    for mapping in mappings:
        assert mapping["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_the_machine_logs_no_execution_data() -> None:
    for machine in machines("prod").values():
        logging = machine["LoggingConfiguration"]
        assert (logging["IncludeExecutionData"], logging["Level"]) == (False, "ALL")


@pytest.mark.parametrize("name", ["consolidation", "ingestion"])
def test_every_blank_of_the_definition_is_filled(name: str) -> None:
    definition = (ROOT / f"statemachines/{name}.asl.json").read_text()
    filled = set(machines()[name]["DefinitionSubstitutions"])
    assert filled == {part.split("}")[0] for part in definition.split("${")[1:]}


@pytest.mark.parametrize("name", ["consolidation", "ingestion"])
def test_a_function_ends_before_its_task_gives_up(name: str) -> None:
    functions_by_id = resources(room(), "AWS::Lambda::Function")
    tasks = [state for state in all_states(definition(name)) if state["Type"] == "Task"]
    for blank, value in machines()[name]["DefinitionSubstitutions"].items():
        if blank.endswith("Function"):
            called = [task for task in tasks if task["Parameters"].get("FunctionName") == f"${{{blank}}}"]
            assert called
            for task in called:
                assert functions_by_id[value["Fn::GetAtt"][0]]["Properties"]["Timeout"] < task["TimeoutSeconds"]


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_somebody_hears_of_parked_failed_refused_and_dead(environment: str) -> None:
    alarms = resources(room(environment), "AWS::CloudWatch::Alarm").values()
    watched = {
        (a["Properties"]["MetricName"], "".join(flat(d["Value"]) for d in a["Properties"].get("Dimensions", ())))
        for a in alarms
    }
    assert {name for name, _ in watched} >= {"Errors", "ExecutionsFailed", "ExecutionsTimedOut"}
    assert {by for name, by in watched if name == "RunsParked"} == {"accept_run", "park_run"}
    counted = resources(room(environment), "AWS::Logs::MetricFilter").values()
    lost = {
        f["Properties"]["MetricTransformations"][0]["MetricName"]: f["Properties"]["FilterPattern"] for f in counted
    }
    assert set(lost) == {"FeedbackLost", "AnnouncementLost"} <= {name for name, _ in watched}
    states = json.loads((ROOT / "statemachines/consolidation.asl.json").read_text())["States"]
    for state, pattern in lost.items():
        assert states[state]["Type"] == "Pass"
        assert f'"{state}"' in pattern
    assert len([1 for name, _ in watched if name == "ApproximateNumberOfMessagesVisible"]) == 4
    for alarm in alarms:
        assert alarm["Properties"]["AlarmActions"]
        assert alarm["Properties"]["TreatMissingData"] == "notBreaching"
    policies = resources(room(environment), "AWS::SNS::TopicPolicy").values()
    statements = [s for policy in policies for s in policy["Properties"]["PolicyDocument"]["Statement"]]
    allowed = [s["Principal"] for s in statements if s["Effect"] == "Allow"]
    assert {"Service": "cloudwatch.amazonaws.com"} in allowed


def test_an_address_is_subscribed_when_given() -> None:
    subscribed = templates({"env": "prod", "alarmEmail": "ops@example.com"})["consolidation"]
    [subscription] = resources(subscribed, "AWS::SNS::Subscription").values()
    assert subscription["Properties"]["Endpoint"] == "ops@example.com"


def test_every_folder_of_lambdas_is_deployed_under_its_name() -> None:
    folders = {path.parent.name for path in (ROOT / "lambdas").glob("*/handler.py")}
    assert folders
    # Deployed where a memory of AgentCore is named: tests/stacks/test_agentcore.py.
    assert folders - {"refresh_records", "record_reads"} <= set(functions("staging"))
    for folder, function in functions("staging").items():
        assert function["FunctionName"] == f"agent-memory-{folder.replace('_', '-')}-staging"
        assert (function["Runtime"], function["Architectures"]) == ("python3.14", ["arm64"])
        assert function["Handler"] == "handler.handler"


def test_only_functions_that_ask_a_model_carry_its_packages() -> None:
    assert {folder for folder, function in functions().items() if len(function["Layers"]) == 3} == {
        "consolidation",
        "merge_memories",
    }
    judging = templates({"env": "dev", "judgeModelId": "us.anthropic.claude-haiku-5-5"})["consolidation"]
    carry = {
        f["Properties"]["FunctionName"]
        for f in resources(judging, "AWS::Lambda::Function").values()
        if len(f["Properties"]["Layers"]) == 3
    }
    assert carry == {"agent-memory-consolidation-dev", "agent-memory-fact-confirmation-dev"}
