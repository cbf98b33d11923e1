"""Who hears of a gate, who may ask, and whether the time of its function is enough."""

from typing import Any

import pytest
from agent_memory import contract
from agent_memory.domain.recall_request import MAX_BUDGET_MS
from agent_memory.domain.regressions import MAX_CASES
from support.deployments import functions, resources, templates

GATES = (contract.QUALITY_GATES_FAILED, contract.QUALITY_GATES_FAILED_BEFORE, contract.QUALITY_GATES_NOT_RUN)
# A recall and a dozen short embeddings, on the slow side.
SECONDS_A_CASE = 8


def alarms(metric: str) -> list[dict[str, Any]]:
    found = resources(templates({"env": "prod"})["lifecycle"], "AWS::CloudWatch::Alarm").values()
    return [alarm["Properties"] for alarm in found if alarm["Properties"].get("MetricName") == metric]


def layers_of(folder: str, **context: object) -> int:
    """How many layers the function in lambdas/*folder* has."""
    found = [
        function["Properties"]["Layers"]
        for template in templates({"env": "prod", **context}).values()
        for function in resources(template, "AWS::Lambda::Function").values()
        if function["Properties"].get("Environment", {}).get("Variables", {}).get("POWERTOOLS_SERVICE_NAME") == folder
    ]
    return len(found[0])


@pytest.mark.parametrize("metric", GATES)
def test_somebody_hears_of_every_gate_that_did_not_pass(metric: str) -> None:
    [alarm] = alarms(metric)
    assert alarm["Dimensions"] == [{"Name": "service", "Value": "lifecycle_report"}]
    assert (alarm["Namespace"], alarm["Threshold"], alarm["TreatMissingData"]) == (
        contract.METRICS_NAMESPACE,
        1,
        "notBreaching",
    )
    assert alarm["AlarmActions"]


def test_somebody_hears_of_a_fact_of_another_tenant_whoever_asks() -> None:
    found = [
        alarm["Properties"]["Dimensions"][0]["Value"]
        for template in templates({"env": "prod"}).values()
        for alarm in resources(template, "AWS::CloudWatch::Alarm").values()
        if alarm["Properties"].get("MetricName") == contract.CROSS_TENANT_RESULTS
    ]
    assert sorted(found) == ["bootstrap", "fact_confirmation", "ingestion", "quality_check", "regression_cases"]


@pytest.mark.parametrize("folder", ["quality_check", "regression_cases"])
def test_the_library_of_chat_models_is_there_only_where_a_judge_is_named(folder: str) -> None:
    assert layers_of(folder, judgeModelId="us.anthropic.claude-haiku-5-5") == layers_of(folder) + 1


def test_all_cases_of_a_tenant_can_be_asked_within_the_time_of_the_function() -> None:
    assert functions("prod")["quality_check"]["Timeout"] >= MAX_CASES * SECONDS_A_CASE
    assert functions("prod")["regression_cases"]["Timeout"] * 1000 >= 2 * MAX_BUDGET_MS
