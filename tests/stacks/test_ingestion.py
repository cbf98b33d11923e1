"""The schedule of ingestion and who hears of it."""

from typing import Any

import pytest
from support.deployments import resources, templates


def room(**context: object) -> dict[str, Any]:
    return templates({"env": "prod", **context})["consolidation"]


def schedules(**context: object) -> list[dict[str, Any]]:
    rules = [rule["Properties"] for rule in resources(room(**context), "AWS::Events::Rule").values()]
    return [rule for rule in rules if "ScheduleExpression" in rule]


@pytest.mark.parametrize(
    ("minutes", "rate"), [("15", "rate(15 minutes)"), ("1", "rate(1 minute)"), ("60", "rate(1 hour)")]
)
def test_ingestion_starts_as_often_as_asked(minutes: str, rate: str) -> None:
    [schedule] = schedules(ingestionMinutes=minutes)
    [target] = schedule["Targets"]
    machine = room(ingestionMinutes=minutes)["Resources"][target["Arn"]["Ref"]]["Properties"]
    assert (schedule["ScheduleExpression"], schedule["State"]) == (rate, "ENABLED")
    assert (machine["StateMachineName"], target["Input"]) == ("agent-memory-ingestion-prod", "{}")


def test_without_a_schedule_ingestion_runs_on_demand_only() -> None:
    assert schedules(ingestionMinutes="0") == []
    names = [
        m["Properties"]["StateMachineName"]
        for m in resources(room(ingestionMinutes="0"), "AWS::StepFunctions::StateMachine").values()
    ]
    assert "agent-memory-ingestion-prod" in names


def alarms(**context: object) -> dict[tuple[str, str], dict[str, Any]]:
    found = [alarm["Properties"] for alarm in resources(room(**context), "AWS::CloudWatch::Alarm").values()]
    own = [alarm for alarm in found if alarm["Namespace"] == "agent-memory" and alarm.get("Dimensions")]
    named = {(alarm["MetricName"], str(alarm["Dimensions"][0]["Value"])): alarm for alarm in own}
    return {key: alarm for key, alarm in named.items() if key[0] != "RunsParked"}


def test_somebody_hears_of_a_fact_of_another_tenant_and_of_failed_documents() -> None:
    assert {key for key, alarm in alarms().items() if alarm["Threshold"] == 1} == {
        ("CrossTenantResults", "bootstrap"),
        ("CrossTenantResults", "fact_confirmation"),
        ("CrossTenantResults", "ingestion"),
        ("CrossTenantResults", "regression_cases"),
        ("IngestionDocumentsFailed", "ingestion"),
        ("IngestionJobsFailed", "ingestion"),
    }
    assert {alarm["Dimensions"][0]["Name"] for alarm in alarms().values()} == {"service"}


@pytest.mark.parametrize(("minutes", "seconds"), [("0", 3600), ("15", 3600), ("60", 14_400)])
def test_somebody_hears_of_a_fact_that_waits_for_several_rounds(minutes: str, seconds: int) -> None:
    alarm = alarms(ingestionMinutes=minutes)[("OldestPendingFactSeconds", "ingestion")]
    assert (alarm["Threshold"], alarm["Statistic"]) == (seconds, "Maximum")
