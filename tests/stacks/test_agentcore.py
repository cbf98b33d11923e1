"""The stack of the night over AgentCore: there when a memory is named, and each step may do what it is for."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_memory.domain.agentcore import agentcore_memories
from agent_memory.domain.errors import ConfigurationError
from support.deployments import NO_BUNDLING, a_deployment, allow_statements, as_list, flat, resources, templates

from app import build
from stacks.agentcore import TIMEOUTS
from stacks.rules import DeploymentError
from stacks.wildcards import ALL

ENTRY = {"memory_id": "harbour-Abc1234567", "namespaces": ["/actors/"], "strategies": {"sem-1": "semantic"}}
NAMED = {"env": "prod", "agentcoreMemories": json.dumps([ENTRY])}
SNAPSHOTS = Path(__file__).with_name("snapshots")
READ = {"bedrock-agentcore:GetMemoryRecord", "bedrock-agentcore:ListMemoryRecords"}
CREATE, DELETE = "bedrock-agentcore:BatchCreateMemoryRecords", "bedrock-agentcore:BatchDeleteMemoryRecords"
MAY = {
    "Decay": set(),
    "RefreshRecords": {"bedrock-agentcore:ListMemoryRecords"},
    "ExamineMemories": READ,
    "PruneMemories": READ | {DELETE},
    "MergeMemories": READ | {CREATE, DELETE},
    "RestoreMemories": READ | {CREATE, DELETE},
    "QualityCheck": {"bedrock-agentcore:RetrieveMemoryRecords"},
    "LifecycleReport": set(),
}


def blanked(template: dict[str, Any]) -> str:
    """The template without the hashes of code and layers."""
    return re.sub(r"\b[0-9a-f]{64}\b", "<asset>", json.dumps(template, indent=1, sort_keys=True)) + "\n"


def statements(**context: object) -> list[tuple[str, dict[str, Any]]]:
    return [(key.split("Role")[0], one) for key, one in allow_statements(templates({**NAMED, **context})["agentcore"])]


def test_nothing_of_it_is_there_unless_a_memory_is_named() -> None:
    assert "agentcore" not in templates({"env": "prod"})


@pytest.mark.parametrize("function", MAY)
def test_a_step_may_do_with_records_what_it_is_for_and_on_the_named_memories_only(function: str) -> None:
    allowed = set()
    for holder, statement in statements():
        actions = {one for one in as_list(statement["Action"]) if one.startswith("bedrock-agentcore:")}
        if holder == function and actions:
            allowed |= actions
            assert [flat(arn) for arn in as_list(statement["Resource"])] == [
                "arn:<AWS::Partition>:bedrock-agentcore:<AWS::Region>:<AWS::AccountId>:memory/harbour-Abc1234567"
            ]
    assert allowed == MAY[function]


def test_only_whoever_removes_or_brings_back_reaches_the_archive() -> None:
    holders = {
        holder
        for holder, statement in statements()
        if not holder.startswith("Operator") and any("/archive/" in flat(arn) for arn in as_list(statement["Resource"]))
    }
    assert holders == {"PruneMemories", "MergeMemories", "RestoreMemories"}


def test_only_the_refresh_reads_the_trail() -> None:
    trail = [(h, s) for h, s in statements() if any("agent-memory-trail-" in flat(a) for a in as_list(s["Resource"]))]
    assert {holder for holder, s in trail if set(as_list(s["Action"])) != {"s3:PutObject"}} == {"RefreshRecords"}


@pytest.mark.parametrize("resource_type", ["AWS::BedrockAgentCore::Memory", "AWS::Other::Type"])
def test_the_trail_logs_reads_of_the_type_that_is_asked_for(resource_type: str) -> None:
    template = templates({**NAMED, "agentcoreResourceType": resource_type})["agentcore"]
    [trail] = resources(template, "AWS::CloudTrail::Trail").values()
    [selector] = trail["Properties"]["AdvancedEventSelectors"]
    fields = {one["Field"]: one["Equals"] for one in selector["FieldSelectors"]}
    assert fields == {"eventCategory": ["Data"], "resources.type": [resource_type], "readOnly": ["true"]}
    assert "EventSelectors" not in trail["Properties"]


def test_the_laptop_has_the_night_without_the_trail() -> None:
    template = templates({**NAMED, "env": "local"})["agentcore"]
    assert resources(template, "AWS::CloudTrail::Trail") == {}
    assert resources(template, "AWS::StepFunctions::StateMachine")


def test_every_function_is_told_of_agentcore_and_its_variables_fit_lambda() -> None:
    for function in resources(templates(NAMED)["agentcore"], "AWS::Lambda::Function").values():
        variables = function["Properties"].get("Environment", {}).get("Variables", {})
        if "POWERTOOLS_SERVICE_NAME" in variables:
            assert variables["AGENT_MEMORY_NIGHT_BACKEND"] == "agentcore"
            assert variables["AGENT_MEMORY_AGENTCORE_MEMORIES"] == a_deployment(**NAMED).agentcore_memories
            assert sum(len(key) + len(flat(value)) for key, value in variables.items()) < 3900


def test_the_reads_of_every_own_role_are_ignored_and_of_those_that_a_deployment_names() -> None:
    template = templates({**NAMED, "agentcoreIgnoredRoles": "audit-role"})["agentcore"]
    functions = resources(template, "AWS::Lambda::Function")
    [refresh] = [one for key, one in functions.items() if key.startswith("RefreshRecords")]
    ignored = flat(refresh["Properties"]["Environment"]["Variables"]["AGENT_MEMORY_AGENTCORE_IGNORED_ROLES"])
    assert "audit-role" in ignored
    for function in MAY:
        assert function in ignored, function


def test_a_gate_that_failed_or_did_not_run_is_heard_of() -> None:
    alarms = [one["Properties"] for one in resources(templates(NAMED)["agentcore"], "AWS::CloudWatch::Alarm").values()]
    gates = {
        one["MetricName"]
        for one in alarms
        if one.get("Dimensions") == [{"Name": "service", "Value": "agentcore_lifecycle_report"}] and one["AlarmActions"]
    }
    assert gates == {"QualityGatesFailed", "QualityGatesFailedBefore", "QualityGatesNotRun"}


def test_every_step_is_deployed_under_a_name_of_its_own() -> None:
    found = {
        one["Properties"].get("FunctionName")
        for one in resources(templates(NAMED)["agentcore"], "AWS::Lambda::Function").values()
    }
    assert {f"agent-memory-agentcore-{folder.replace('_', '-')}-prod" for folder in TIMEOUTS} <= found


def test_functions_of_other_stacks_are_not_told_of_the_memories() -> None:
    for room, template in templates(NAMED).items():
        if room not in ("agentcore", "erasure"):
            for function in resources(template, "AWS::Lambda::Function").values():
                variables = function["Properties"].get("Environment", {}).get("Variables", {})
                assert "AGENT_MEMORY_AGENTCORE_MEMORIES" not in variables


def test_every_task_waits_longer_than_its_function() -> None:
    machine = json.loads((Path(__file__).parents[2] / "statemachines" / "agentcore.asl.json").read_text())
    limits = {"".join(word.capitalize() for word in folder.split("_")): limit for folder, limit in TIMEOUTS.items()}
    states = list(machine["States"].values())
    states += [inner for one in states if "ItemProcessor" in one for inner in one["ItemProcessor"]["States"].values()]
    seen = set()
    for state in states:
        named = state.get("Parameters", {}).get("FunctionName", "")
        if named:
            folder = named.removeprefix("${").removesuffix("Function}")
            seen.add(folder)
            assert state["TimeoutSeconds"] > limits[folder]
    assert seen == set(limits)


BAD = [
    [{**ENTRY, "namespaces": ["/tenants/a"]}],
    [{**ENTRY, "namespaces": ["tenants/a/"]}],
    [{**ENTRY, "namespaces": ["/tenants/*/"]}],
    [{**ENTRY, "namespaces": []}],
    [{**ENTRY, "namespaces": ["/a/", "/a/b/"]}],
    [{**ENTRY, "memory_id": "harbour"}],
    [{**ENTRY, "retention": {"semantic": 0}}],
    [{**ENTRY, "retention": {"semantic": "many"}}],
    [{**ENTRY, "strategies": {"sem-1": "dreams"}}],
    [{**ENTRY, "region": "somewhere"}],
    [{**ENTRY, "tenant_id": "registry"}],
    [{**ENTRY, "days": 3}],
    [ENTRY, ENTRY],
    [ENTRY, {**ENTRY, "tenant_id": "other", "namespaces": ["/actors/b/"]}],
    ["harbour-Abc1234567"],
]
GOOD: list[list[dict[str, Any]]] = [
    [],
    [ENTRY],
    [{**ENTRY, "namespaces": ["/"]}],
    [ENTRY, {**ENTRY, "tenant_id": "other", "namespaces": ["/others/"]}],
    [ENTRY, {**ENTRY, "memory_id": "quays-Abc1234567", "region": "eu-west-1", "retention": {"sem-1": 400}}],
]


@pytest.mark.parametrize("entries", BAD, ids=range(len(BAD)))
def test_memories_that_cannot_be_kept_are_refused_at_synth_and_by_the_functions(entries: list[Any]) -> None:
    text = json.dumps(entries)
    with pytest.raises(DeploymentError, match="agentcoreMemories"):
        a_deployment(agentcoreMemories=text)
    with pytest.raises(ConfigurationError, match="agentcoreMemories"):
        agentcore_memories(text)


@pytest.mark.parametrize("entries", GOOD, ids=range(len(GOOD)))
def test_memories_that_can_be_kept_pass_both(entries: list[Any]) -> None:
    text = json.dumps(entries)
    assert len(agentcore_memories(a_deployment(agentcoreMemories=text).agentcore_memories)) == len(entries)


@pytest.mark.parametrize("environment", ["dev", "prod", "local"])
def test_every_star_of_it_is_on_the_list(environment: str) -> None:
    seen = 0
    for room in ("agentcore", "access", "erasure"):
        for holder, statement in allow_statements(templates({**NAMED, "env": environment})[room]):
            actions = as_list(statement["Action"])
            for arn in map(flat, as_list(statement["Resource"])):
                if "*" in arn and not holder.startswith("Custom"):
                    seen += 1
                    held = [one.actions for one in ALL if (one.resource in arn if one.resource != "*" else arn == "*")]
                    assert set(actions) <= {action for one in held for action in one}, (holder, actions, arn)
    assert seen


def test_the_template_is_the_one_reviewed() -> None:
    found = blanked(templates(NAMED)["agentcore"])
    snapshot = SNAPSHOTS / "prod-agentcore.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.write_text(found)
    assert found == snapshot.read_text()


def test_cfn_lint_finds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "agentcore.template.json"
    file.write_text(json.dumps(templates(NAMED)["agentcore"]))
    linter = shutil.which("cfn-lint", path=str(Path(sys.executable).parent))
    assert linter
    result = subprocess.run([linter, "-i", "W3005", "--", str(file)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_synth_warns_nobody_and_builds_in_every_environment(tmp_path: Path) -> None:
    for environment in ("dev", "staging"):
        app, _ = build({**NAMED, "env": environment, **NO_BUNDLING}, outdir=str(tmp_path / environment))
        assert app.synth().stacks


def test_whatever_keeps_a_night_from_its_work_is_alarmed_to_somebody() -> None:
    alarms = [one["Properties"] for one in resources(templates(NAMED)["agentcore"], "AWS::CloudWatch::Alarm").values()]
    assert {flat(one["MetricName"]) for one in alarms} >= {
        "ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted", "ExecutionsStarted", "AgentCoreAnnouncementLost",
        "TrailDigests",
    }  # fmt: skip
    for one in alarms:
        assert [flat(arn) for arn in one["AlarmActions"]] == [
            "arn:<AWS::Partition>:sns:<AWS::Region>:<AWS::AccountId>:agent-memory-alarms-prod"
        ]
    [silent] = [one for one in alarms if one["MetricName"] == "TrailDigests"]
    assert (silent["TreatMissingData"], silent["EvaluationPeriods"]) == ("breaching", 2)
    local = resources(templates({**NAMED, "env": "local"})["agentcore"], "AWS::CloudWatch::Alarm")
    assert "TrailDigests" not in {one["Properties"]["MetricName"] for one in local.values()}


def test_a_lost_announcement_of_this_night_is_no_lost_one_of_the_other() -> None:
    def counted(room: str) -> set[str]:
        filters = resources(templates(NAMED)[room], "AWS::Logs::MetricFilter").values()
        return {t["MetricName"] for one in filters for t in one["Properties"]["MetricTransformations"]}

    assert counted("agentcore") == {"AgentCoreAnnouncementLost"}
    assert counted("lifecycle") == {"AnnouncementLost"}
