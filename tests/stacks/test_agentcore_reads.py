"""Reports of reads from AgentCore: who may send them, what the function behind the queue may do, how long they stay."""

import json
from typing import Any

import pytest
from agent_memory import contract
from support.deployments import allow_statements, as_list, flat, resources, templates

ENTRIES = [
    {"memory_id": "harbour-Abc1234567", "namespaces": ["/actors/"], "tenant_id": "harbour"},
    {"memory_id": "quays-Abc1234567", "namespaces": ["/"]},
]
QUEUES = ("agent-memory-agentcore-reads-prod", "agent-memory-agentcore-reads-dead-letters-prod")
FUNCTION = "AWS::Lambda::Function"
NAMED = {"env": "prod", "agentcoreMemories": json.dumps(ENTRIES)}


def stack() -> dict[str, Any]:
    return templates(NAMED)["agentcore"]


def test_the_function_may_write_reports_and_reach_nothing_else_of_anybodys() -> None:
    mine = [one for key, one in allow_statements(stack()) if key.startswith("ReportedRecordReadsRole")]
    allowed = {
        action: flat(arn) for one in mine for action in as_list(one["Action"]) for arn in as_list(one["Resource"])
    }
    logs_and_queue = {action for action in allowed if action.startswith(("logs:", "sqs:"))}
    assert set(allowed) - logs_and_queue == {"s3:PutObject"}
    assert allowed["s3:PutObject"] == ("arn:<AWS::Partition>:s3:::agent-memory-trail-prod-<AWS::AccountId>/reports/*")
    assert "sqs:SendMessage" not in allowed


def test_what_agents_say_comes_from_their_sources_and_what_bootstrap_says_of_the_named_tenants_only() -> None:
    rules = [one["Properties"] for one in resources(stack(), "AWS::Events::Rule").values()]
    patterns = {json.dumps(one["EventPattern"]["detail-type"]): one["EventPattern"] for one in rules}
    assert patterns['["AgentCore Records Read"]'] == {
        "source": [{"prefix": "agent-memory.client/"}],
        "detail-type": ["AgentCore Records Read"],
    }
    assert patterns['["Memory Retrieved"]'] == {
        "source": ["agent-memory"],
        "detail-type": ["Memory Retrieved"],
        "detail": {"tenant_id": ["harbour", "quays-Abc1234567"]},
    }
    assert all(one["Targets"][0]["DeadLetterConfig"] for one in rules)


def test_reports_go_with_the_trails_files_after_eight_days() -> None:
    buckets = resources(stack(), "AWS::S3::Bucket").values()
    [trail] = [one["Properties"] for one in buckets if "agent-memory-trail-" in flat(one["Properties"]["BucketName"])]
    rules = trail["LifecycleConfiguration"]["Rules"]
    assert [one["ExpirationInDays"] for one in rules if "ExpirationInDays" in one and "Prefix" not in one] == [8]


def test_what_is_refused_or_cannot_be_kept_is_heard_of() -> None:
    alarms = [one["Properties"] for one in resources(stack(), "AWS::CloudWatch::Alarm").values()]
    heard = {one["MetricName"]: one for one in alarms if one["AlarmActions"]}
    assert heard["ReadsRefused"]["Dimensions"] == [{"Name": "service", "Value": "agentcore_record_reads"}]
    assert "agentcore-reads-dead-letters" in json.dumps(stack())
    assert any(one["MetricName"] == "ApproximateNumberOfMessagesVisible" for one in alarms)


def test_agents_are_told_which_memory_is_their_tenants() -> None:
    for context, told in ((NAMED, {"harbour": "harbour-Abc1234567", "quays-Abc1234567": "quays-Abc1234567"}), ({}, {})):
        parameters = resources(templates({"env": "prod", **context})["access"], "AWS::SSM::Parameter").values()
        [value] = [
            one["Properties"]["Value"]
            for one in parameters
            if one["Properties"]["Name"] == "/agent-memory/prod/agentcore-memories"
        ]
        assert json.loads(value) == told


def test_who_moves_letters_over_agentcore_finds_its_queues_and_reaches_these_alone() -> None:
    published = resources(templates(NAMED)["access"], "AWS::SSM::Parameter").values()
    values = {one["Properties"]["Name"]: flat(one["Properties"]["Value"]) for one in published}
    urls = {name: values[f"/agent-memory/prod/{name}"] for name in contract.AGENTCORE_PARAMETER_NAMES}
    assert {url.rpartition("/")[2] for url in urls.values()} == set(QUEUES)
    assert urls["agentcore-reads-queue"].endswith(f"/{QUEUES[0]}")
    operator = [one for key, one in allow_statements(stack()) if key.startswith("Operator")]
    reach = {
        action: [flat(arn).rpartition(":")[2] for arn in as_list(one["Resource"])]
        for one in operator
        for action in as_list(one["Action"])
    }
    assert (reach["sqs:SendMessage"], reach["sqs:ReceiveMessage"]) == ([QUEUES[0]], [QUEUES[1]])
    assert reach["sqs:DeleteMessage"] == reach["sqs:ChangeMessageVisibility"] == [QUEUES[1]]


@pytest.mark.parametrize(("context", "there"), [(NAMED, True), ({"env": "prod"}, False)], ids=["named", "none"])
def test_erasures_sweep_the_letters_of_reads_where_there_are_any(context: dict[str, str], there: bool) -> None:
    erasing = templates(context)["erasure"]
    for function in ("EraseStore", "ErasureDesk"):
        allowed = {
            flat(arn).rpartition(":")[2]
            for key, one in allow_statements(erasing)
            for arn in as_list(one["Resource"])
            if key.startswith(function) and "sqs:DeleteMessage" in as_list(one["Action"])
        }
        assert (QUEUES[1] in allowed) is there
    told = [one["Properties"]["Environment"]["Variables"] for one in resources(erasing, FUNCTION).values()]
    urls = [
        flat(one["AGENT_MEMORY_AGENTCORE_READS_DEAD_LETTERS"]) for one in told if "AGENT_MEMORY_ERASURE_MACHINE" in one
    ]
    assert len(urls) == 2
    assert all(url.endswith(QUEUES[1]) is there for url in urls)
