"""Reads of AgentCore on the laptop's stack: reported by an agent, by a person and by bootstrap; the night counts them."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command
from agent_memory.client import AgentMemory
from agent_memory.contract import REPORTS_PREFIX
from agent_memory.deployment import Deployment
from support.agentcore_memories import a_stack_over_agentcore

from local import runtime

pytestmark = pytest.mark.e2e

DAY, TENANT, AGENT = 86_400, "harbour", "pilot"
TEXTS = {
    "searched": "The pilot boat of the east harbour leaves from berth 12.",
    "told": "Tankers over 200 metres need two tugs in the north channel.",
    "imported": "Release a reefer container: check the plug log, then call the cold store.",
    "unread": "The old crane log was kept in the blue binder.",
}
Answered = Callable[..., Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    entry = {"tenant_id": TENANT, "namespaces": ["/actors/"]}
    with a_stack_over_agentcore(tmp_path_factory.mktemp("project"), {TENANT: entry}) as project:
        yield project


@pytest.fixture
def deployment(stack: runtime.Stack) -> Deployment:
    return Deployment("local", timeout_seconds=60.0, backend="agentcore")


@pytest.fixture
def answered(stack: runtime.Stack, capsys: pytest.CaptureFixture[str]) -> Answered:
    """What a command answers, and that it ends well."""

    def ask(*words: str) -> Any:
        ended = command.run(["agentcore", *words, "--env", "local", "--output", "json"])
        printed = capsys.readouterr()
        assert ended == 0, printed.err
        return json.loads(printed.out)

    return ask


def put(deployment: Deployment, memory_id: str) -> dict[str, str]:
    """Records of 36 days, which fade unread after 34; their ids by name."""
    records = [
        {
            "requestIdentifier": name,
            "namespaces": ["/actors/imported/" if name == "imported" else "/actors/others/"],
            "content": {"text": text},
            "timestamp": datetime.fromtimestamp(deployment.now() - 36 * DAY, UTC),
        }
        for name, text in TEXTS.items()
    ]
    client = deployment.clients.get("bedrock-agentcore")
    answer = client.batch_create_memory_records(memoryId=memory_id, records=records)
    return {one["requestIdentifier"]: one["memoryRecordId"] for one in answer["successfulRecords"]}


def reports(deployment: Deployment, many: int) -> list[dict[str, Any]]:
    """What lies in the bucket, waited for until there are so *many*."""
    s3, bucket = deployment.clients.get("s3"), deployment.services.settings.trail_bucket
    until = time.monotonic() + 60
    while True:
        found = s3.list_objects_v2(Bucket=bucket, Prefix=f"{REPORTS_PREFIX}{TENANT}/").get("Contents", [])
        if len(found) >= many or time.monotonic() > until:
            return [json.loads(s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()) for one in found]
        time.sleep(0.2)


def test_what_was_reported_stays_and_what_nobody_read_goes(deployment: Deployment, answered: Answered) -> None:
    [memory] = deployment.agentcore.memories
    ids = put(deployment, memory.memory_id)
    agent = AgentMemory(TENANT, AGENT, strict=True, deployment=Deployment("local", timeout_seconds=60.0))
    # The agent says it twice, the second time with what helped; a person says it of another record.
    agent.report_reads(memory.memory_id, [ids["searched"]], context_id="run-1")
    agent.report_reads(memory.memory_id, [ids["searched"]], used=[ids["searched"]], context_id="run-1")
    answered("report-reads", memory.memory_id, ids["told"], "-t", TENANT, "-a", AGENT, "--context-id", "run-2")
    # What was imported is recalled, which bootstrap tells by itself.
    answered("import", "-m", TENANT, "-t", TENANT, "-a", AGENT, "--namespace", "/actors/imported/")
    recalled = agent.recall(TEXTS["imported"])
    assert f"{AGENT}/{ids['imported']}" in {item.id for item in recalled.items}

    kept = reports(deployment, 4)
    assert sorted(one["by"] for one in kept) == ["agent", "agent", "agent", "bootstrap"]
    assert {one for report in kept for one in report["record_ids"]} == set(ids.values()) - {ids["unread"]}

    assert answered("run")["ended"] == "completed"
    [entry] = answered("status")["memories"]
    assert (entry["read"], entry["used"]) == (3, 1)
    ledger = deployment.agentcore.accesses.ledger()
    times = {name: ledger.of(memory.memory_id, record_id).times for name, record_id in ids.items()}
    assert times == {"searched": 1, "told": 1, "imported": 1, "unread": 0}
    records = deployment.agentcore.records(memory)
    assert {name for name, record_id in ids.items() if records.get(record_id)} == {"searched", "told", "imported"}
