"""The night over AgentCore on the laptop's stack: 2,000 records, accesses from files seen twice, plan, run, undo."""

import gzip
import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command
from agent_memory.deployment import Deployment
from agent_memory.domain.agentcore import place_of
from agent_memory.domain.agentcore_ports import Asked

from local import runtime

pytestmark = pytest.mark.e2e

DAY, RECORDS, BATCH, SPACES = 86_400, 2_000, 100, 20
STRATEGIES = {"facts-1": "semantic", "prefs-1": "preferences", "sessions-1": "summaries"}
KEPT = {"facts-1": 270, "prefs-1": 270, "sessions-1": 45}
Answered = Callable[..., Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    """A stack of its own, deployed twice: the memory that it is to name gets its id when it is made."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "local").mkdir()
    (folder / "local" / "__main__.py").touch()
    stack = runtime.up(folder / ".local")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in stack.environment.items():
            patch.setenv(name, value)
        control = Deployment("local").clients.get("bedrock-agentcore-control")
        memory_id = control.create_memory(name="harbour", eventExpiryDuration=30)["memory"]["id"]
    entry = {"memory_id": memory_id, "namespaces": ["/actors/"], "strategies": STRATEGIES}
    stack = runtime.up(folder / ".local", context={"agentcoreMemories": json.dumps([entry])})
    yield folder, stack
    stack.down()


@pytest.fixture
def deployment(stack: runtime.Stack) -> Deployment:
    return Deployment("local", timeout_seconds=60.0, backend="agentcore")


@pytest.fixture
def answered(stack: runtime.Stack, capsys: pytest.CaptureFixture[str]) -> Answered:
    """What a command answers, and that it ends with *code*."""

    def ask(*words: str, code: int = 0) -> Any:
        ended = command.run(["agentcore", *words, "--env", "local", "--output", "json"])
        printed = capsys.readouterr()
        assert ended == code, printed.err
        return json.loads(printed.out)

    return ask


def age_of(number: int) -> float:
    """A fifth of a fifth is old: days, never on an edge."""
    return 30.5 + (number % 31) if number % 6 == 0 else 1.5 + number % 20


def put_records(deployment: Deployment, memory_id: str, now: int) -> list[str]:
    """Records by their number."""
    client, ids = deployment.clients.get("bedrock-agentcore"), {}
    for start in range(0, RECORDS, BATCH):
        records = [
            {
                "requestIdentifier": f"n-{number}",
                "namespaces": [f"/actors/a{number % SPACES}/"],
                "content": {"text": text_of(number)},
                "timestamp": datetime.fromtimestamp(now - age_of(number) * DAY, UTC),
                "memoryStrategyId": list(STRATEGIES)[number % 3],
            }
            for number in range(start, start + BATCH)
        ]
        answer = client.batch_create_memory_records(memoryId=memory_id, records=records)
        ids |= {int(one["requestIdentifier"][2:]): one["memoryRecordId"] for one in answer["successfulRecords"]}
    return [ids[number] for number in range(RECORDS)]


def reads_of(number: int) -> int:
    return 25 if number % 12 == 0 else 0


def deliver(deployment: Deployment, memory_id: str, ids: list[str], at: int) -> None:
    """The reads, in files that overlap: every event is in two of them."""
    s3, bucket = deployment.clients.get("s3"), deployment.services.settings.trail_bucket
    when = datetime.fromtimestamp(at, UTC)
    events = [
        {
            "eventID": f"e-{number}-{read}",
            "eventTime": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "eventSource": "bedrock-agentcore.amazonaws.com",
            "eventName": "GetMemoryRecord",
            "requestParameters": {"memoryId": memory_id, "memoryRecordId": ids[number]},
            "userIdentity": {"sessionContext": {"sessionIssuer": {"userName": "agent-role"}}},
        }
        for number in range(RECORDS)
        for read in range(reads_of(number))
    ]
    folder = f"AWSLogs/123456789012/CloudTrail/us-east-1/{when:%Y/%m/%d}"
    for part in range(4):
        held = [event for place, event in enumerate(events) if place % 4 in (part, (part + 1) % 4)]
        body = gzip.compress(json.dumps({"Records": held}).encode())
        s3.put_object(Bucket=bucket, Key=f"{folder}/part-{part}.json.gz", Body=body)


def expected(number: int, *, days_since_read: float) -> bool:
    """Whether a record is due, worked out by itself: expired by its type, or below the threshold."""
    if age_of(number) >= KEPT[list(STRATEGIES)[number % 3]]:
        return True
    rate, reads = -math.log(0.3) / 45, reads_of(number)
    accessed = days_since_read if reads else age_of(number)
    score = 0.4 * math.exp(-rate * age_of(number)) + 0.35 * math.exp(-rate * accessed) + 0.25 * min(reads / 50, 1)
    return score < 0.3


def described(deployment: Deployment) -> set[tuple[object, ...]]:
    own = deployment.agentcore
    [memory] = own.memories
    found = own.records(memory).listed(Asked("/actors/"))
    return {(one.text, one.namespace, one.strategy_id, one.created_at) for one in found}


def test_two_thousand_records_are_planned_by_the_formula_removed_and_brought_back(
    deployment: Deployment, answered: Answered
) -> None:
    [memory] = deployment.agentcore.memories
    now = deployment.now()
    ids = put_records(deployment, memory.memory_id, now)
    deliver(deployment, memory.memory_id, ids, now - 3600)
    due = {number for number in range(RECORDS) if expected(number, days_since_read=1 / 24)}
    assert 100 < len(due) < 0.2 * RECORDS

    run_id = answered("plan")["run"]["night"]
    items = answered("plan", run_id, "--tenant", memory.name)
    assert {one["run_id"] for one in items} == {ids[number] for number in due}
    assert {one["agent_id"] for one in items} <= {place_of(memory.memory_id, f"/actors/a{n}/") for n in range(SPACES)}

    before = described(deployment)
    report = answered("run")
    assert (report["ended"], report["quality"]) == ("completed", "not_run")
    left = described(deployment)
    assert len(left) == RECORDS - len(due)
    assert left == {one for one in before if one[0] not in {text_of(number) for number in due}}
    assert deployment.agentcore.accesses.ledger().of(memory.memory_id, ids[0]).times == 25

    back = answered("restore", report["run"]["night"] + ".2", "--tenant", memory.name)
    assert {one["decision"] for one in back} == {"restored"}
    assert described(deployment) == before

    again = answered("run")
    assert (again["ended"], described(deployment)) == ("completed", before)


def text_of(number: int) -> str:
    return f"Berth {number} takes ships of {number * 3 + 7} metres, harbour master {number * 11}."
