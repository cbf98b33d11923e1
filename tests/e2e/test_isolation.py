"""Isolation on the laptop's stack: the canary plants, sees, and is heard when one row lies wrong; no log holds a word."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from agent_memory import contract
from agent_memory.domain.canary import AGENT, secret_of
from botocore.config import Config

from local import runtime

pytestmark = pytest.mark.e2e

A, B = contract.CANARY_TENANTS
EPISODES = f"{contract.EPISODES_TABLE}-local"
SECRETS = [secret_of("local", tenant_id) for tenant_id in (A, B)]
PATIENCE = 90.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    """A folder that looks like the project, with a stack of its own."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "local").mkdir()
    (folder / "local" / "__main__.py").touch()
    stack = runtime.up(folder / ".local", context={"ingestionMinutes": "0"})
    yield folder, stack
    stack.down()


@pytest.fixture
def client(stack: runtime.Stack) -> Callable[[str], Any]:
    """One call is one look: on a busy machine the first one outlasts the minute after which an SDK calls again."""
    return partial(boto3.client, config=Config(read_timeout=2 * PATIENCE, retries={"total_max_attempts": 1}))


def look(client: Callable[[str], Any]) -> dict[str, Any]:
    """Let the canary look, as its hour does."""
    answer = client("lambda").invoke(FunctionName="agent-memory-canary-local", Payload=b"{}")
    assert "FunctionError" not in answer
    report: dict[str, Any] = json.loads(answer["Payload"].read())
    return report


def looks_until(client: Callable[[str], Any], decision: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while (report := look(client))["decision"] != decision and time.monotonic() < deadline:
        time.sleep(1)
    return report


def logged(client: Callable[[str], Any]) -> list[str]:
    """Every line of every log group."""
    logs = client("logs")
    groups = [g["logGroupName"] for p in logs.get_paginator("describe_log_groups").paginate() for g in p["logGroups"]]
    pages = (p for name in groups for p in logs.get_paginator("filter_log_events").paginate(logGroupName=name))
    return [event["message"] for page in pages for event in page["events"]]


def histories(client: Callable[[str], Any]) -> list[str]:
    """Every execution of every machine, with all that it was given and gave."""
    states = client("stepfunctions")
    found = []
    for machine in states.list_state_machines()["stateMachines"]:
        for run in states.list_executions(stateMachineArn=machine["stateMachineArn"])["executions"]:
            arn = run["executionArn"]
            pages = states.get_paginator("get_execution_history").paginate(executionArn=arn)
            found.append(str([states.describe_execution(executionArn=arn), *pages]))
    return found


def test_it_plants_its_secrets_through_the_pipeline_and_is_quiet_once_it_sees_them(
    client: Callable[[str], Any],
) -> None:
    first = look(client)
    assert (first["decision"], first["planted"]) == ("blind", 6)
    assert first["leaks"] == []
    report = looks_until(client, "quiet")
    assert (report["decision"], report["leaks"], report["blind"]) == ("quiet", [], [])


def test_a_row_under_the_others_key_is_heard_of_until_it_is_gone(client: Callable[[str], Any]) -> None:
    table = client("dynamodb")
    owner = {":key": {"S": f"{B}#{AGENT}"}}
    found = table.query(TableName=EPISODES, KeyConditionExpression="agent_id = :key", ExpressionAttributeValues=owner)
    stray = {"agent_id": {"S": f"{A}#{AGENT}"}, "run_id": {"S": "stray"}}
    table.put_item(TableName=EPISODES, Item={**found["Items"][0], **stray})
    report = look(client)
    assert report["decision"] == "leak"
    assert {f"{A}:bootstrap:plain", f"{A}:list:same_names"} <= set(report["leaks"])
    table.delete_item(TableName=EPISODES, Key=stray)
    assert look(client)["decision"] == "quiet"


def test_no_log_and_no_history_holds_a_word_of_what_passed_through(
    client: Callable[[str], Any], project: tuple[Path, runtime.Stack]
) -> None:
    lines, runs = logged(client), histories(client)
    assert len(lines) > 100
    assert len(runs) >= 6
    files = [path.read_text(errors="replace") for path in (project[0] / ".local" / "logs").glob("*.log")]
    assert any(files)
    planted = [*SECRETS, "tallest goat", "loading bay", "canary-user-"]
    seen = [word for word in planted for text in (*lines, *runs, *files) if word in text]
    assert seen == []
