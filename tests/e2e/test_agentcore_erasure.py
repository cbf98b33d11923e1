"""A person is forgotten in AgentCore on the laptop's stack, through the command, by the deployed machine; another whose
id begins with theirs keeps everything."""

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command
from agent_memory.contract import AGENTCORE_PARAMETER_NAMES
from agent_memory.deployment import Deployment
from agent_memory.domain.accesses import AccessLedger
from agent_memory.domain.agentcore import AgentCoreMemory, place_of
from agent_memory.domain.agentcore_index import Note
from agent_memory.domain.agentcore_ports import Asked
from agent_memory.domain.agentcore_records import Record, canonical
from support.agentcore_memories import a_stack_over_agentcore

from local import runtime

pytestmark = pytest.mark.e2e

DAY, TENANT = 86_400, "orchard"
PREFIXES = ("/actors/", "/sessions/", "/strategies/")
STRATEGIES = {"sessions-1": "summaries", "facts-1": "semantic"}
SPACES = ("/actors/{}/", "/sessions/{}/s-1/", "/strategies/facts-1/actors/{}/")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    entry = {"tenant_id": TENANT, "namespaces": PREFIXES, "strategies": STRATEGIES}
    settle = {"erasureSettleSeconds": "1", "agentcoreSettleSeconds": "2"}
    with a_stack_over_agentcore(tmp_path_factory.mktemp("project"), {TENANT: entry}, **settle) as project:
        yield project


@pytest.fixture
def deployment(stack: runtime.Stack) -> Deployment:
    return Deployment("local", timeout_seconds=60.0, backend="agentcore")


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert command.run([*words, "--env", "local", "--output", "json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def plant(deployment: Deployment, memory: AgentCoreMemory, actor: str) -> None:
    """Old and young records in every namespace of *actor*, and events over several pages."""
    client, now = deployment.clients.get("bedrock-agentcore"), deployment.now()
    records = [
        {
            "requestIdentifier": f"{actor}-{number}",
            "namespaces": [SPACES[number % 3].format(actor)],
            "content": {"text": f"Tree {number} of {actor} bears {number * 7 + 3} pears."},
            "timestamp": datetime.fromtimestamp(now - (60 if number % 10 == 0 else 2) * DAY, UTC),
            "memoryStrategyId": list(STRATEGIES)[number % 2],
        }
        for number in range(90)
    ]
    made = client.batch_create_memory_records(memoryId=memory.memory_id, records=records)
    assert len(made["successfulRecords"]) == 90
    said = [{"conversational": {"role": "USER", "content": {"text": f"{actor} was here."}}}]
    for number in range(120):
        client.create_event(
            memoryId=memory.memory_id, actorId=actor, sessionId=f"s-{number % 2}", payload=said,
            eventTimestamp=datetime.fromtimestamp(now - DAY, UTC),
        )  # fmt: skip


def merged(deployment: Deployment, memory: AgentCoreMemory, actor: str) -> None:
    """A merge as a night that broke off left it: the record is made, and its note is not in the index yet."""
    sources = [one.record_id for one in records_of(deployment, memory, actor)[:3]]
    client, space = deployment.clients.get("bedrock-agentcore"), SPACES[0].format(actor)
    record = {
        "requestIdentifier": f"m-{actor}", "namespaces": [space], "content": {"text": f"{actor} has pears."},
        "timestamp": datetime.fromtimestamp(deployment.now(), UTC), "memoryStrategyId": "facts-1",
    }  # fmt: skip
    made = client.batch_create_memory_records(memoryId=memory.memory_id, records=[record])["successfulRecords"]
    note = Note(
        kind="merge", name=f"m-{actor}", place=place_of(memory.memory_id, space), namespace=space,
        record_id=made[0]["memoryRecordId"], created_at=deployment.now(), sources=tuple(sources), at=deployment.now(),
    )  # fmt: skip
    deployment.agentcore.book(memory).note(note)


def records_of(deployment: Deployment, memory: AgentCoreMemory, actor: str) -> list[Record]:
    spaces = {one.format(actor).rstrip("/") for one in SPACES}
    listed = [one for prefix in PREFIXES for one in deployment.agentcore.records(memory).listed(Asked(prefix))]
    return sorted((one for one in listed if one.namespace.rstrip("/") in spaces), key=lambda one: one.record_id)


def events_of(deployment: Deployment, memory: AgentCoreMemory, actor: str) -> list[tuple[str, str]]:
    events = deployment.agentcore.events(memory)
    return sorted((s, one.event_id) for s in events.sessions(actor) for one in events.events(actor, s))


def read(deployment: Deployment, memory: AgentCoreMemory, ids: list[str]) -> None:
    def changed(ledger: AccessLedger) -> AccessLedger:
        return ledger.model_copy(update={"accesses": {memory.memory_id: dict.fromkeys(ids, (1, deployment.now()))}})

    deployment.agentcore.accesses.change(changed)


def dead_letters(deployment: Deployment) -> str:
    """The queue of reports of reads that could not be kept."""
    name = f"/agent-memory/local/{AGENTCORE_PARAMETER_NAMES[0]}"
    return str(deployment.clients.get("ssm").get_parameter(Name=name)["Parameter"]["Value"])


def report_in_vain(deployment: Deployment, memory: AgentCoreMemory, context_id: str, ids: list[str]) -> None:
    """A report of reads that ended in the dead letters."""
    detail = {"tenant_id": TENANT, "agent_id": "desk", "memory_id": memory.memory_id, "context_id": context_id}
    event = {"source": f"agent-memory.client/{TENANT}", "detail": {**detail, "record_ids": ids}}
    deployment.clients.get("sqs").send_message(QueueUrl=dead_letters(deployment), MessageBody=json.dumps(event))


def waiting_reports(deployment: Deployment) -> list[str]:
    """The contexts of the letters that are there."""
    asked = {"QueueUrl": dead_letters(deployment), "MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
    found = deployment.clients.get("sqs").receive_message(**asked).get("Messages", ())
    return sorted(json.loads(one["Body"])["detail"]["context_id"] for one in found)


def versions(deployment: Deployment) -> Mapping[str, str]:
    """Every version in AgentCore's bucket as text, but for former ones of the ledger of accesses."""
    s3, bucket = deployment.clients.get("s3"), deployment.services.settings.agentcore_bucket
    found = {}
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for one in page.get("Versions", ()):
            if one["Key"] == "agentcore/accesses.json.gz" and not one["IsLatest"]:
                continue
            body = s3.get_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])["Body"].read()
            text = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
            found[f"{one['Key']}?{one['VersionId']}"] = text.decode()
    return found


def test_a_person_is_forgotten_in_agentcore_and_one_of_a_longer_id_keeps_everything(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [memory] = deployment.agentcore.memories
    for actor in ("ida", "ida2"):
        plant(deployment, memory, actor)
    before = {actor: {one.record_id for one in records_of(deployment, memory, actor)} for actor in ("ida", "ida2")}
    report = answer(capsys, "agentcore", "run")
    assert report["ended"] == "completed"
    assert report["totals"]["pruned"] >= 18
    for actor in ("ida", "ida2"):
        merged(deployment, memory, actor)
    left = {actor: records_of(deployment, memory, actor) for actor in ("ida", "ida2")}
    read(deployment, memory, [one.record_id for actor in left.values() for one in actor])
    for actor, records in left.items():
        report_in_vain(deployment, memory, f"of-{actor}", [records[0].record_id])
    answer(capsys, "agentcore", "hold", "--tenant", TENANT, "--agent", place_of(memory.memory_id, "/actors/ida/"))
    marks = {place_of(memory.memory_id, one.format("ida")) for one in SPACES} | before["ida"]
    marks |= {one.record_id for one in left["ida"]} | {"of ida ", '/ida/"', "/ida/s-1", 'm-ida"'}
    held = versions(deployment)
    others = {place: text for place, text in held.items() if not any(mark in place + text for mark in marks)}
    assert len(held) > len(others) > 9
    events = events_of(deployment, memory, "ida2")

    receipt = answer(capsys, "erase", "user", "ida", "--confirm", "--tenant", TENANT)

    stores = {one["store"]: one for one in receipt["receipt"]["stores"]}
    assert receipt["receipt"]["decision"] == "erased"
    assert stores["agentcore-events"]["removed"] == 120
    assert stores["agentcore-records"]["removed"] == len(left["ida"]) > 60
    archived = [place for place, text in held.items() if place.startswith("archive/") and place not in others]
    assert stores["agentcore-archive"]["removed"] == len(archived) >= 9
    assert stores["agentcore-accesses"]["removed"] == len(left["ida"])
    assert stores["agentcore-rows"]["removed"] == 1
    assert min(stores[name]["removed"] + stores[name]["changed"] for name in stores if "agentcore" in name) > 0
    assert (records_of(deployment, memory, "ida"), events_of(deployment, memory, "ida")) == ([], [])
    assert [*map(canonical, records_of(deployment, memory, "ida2"))] == [*map(canonical, left["ida2"])]
    assert events_of(deployment, memory, "ida2") == events
    assert waiting_reports(deployment) == ["of-ida2"]
    after = versions(deployment)
    assert {place for place, text in after.items() if any(mark in place + text for mark in marks)} == set()
    assert {place: after.get(place) for place in others} == others
    assert set(deployment.agentcore.accesses.ledger().accesses[memory.memory_id]) == {
        one.record_id for one in left["ida2"]
    }
    assert answer(capsys, "agentcore", "holds", "--tenant", TENANT) == []

    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt))
    proved = answer(capsys, "erase", "verify", str(file))
    assert proved["clean"] is True
    assert {name for name in proved["left"] if "agentcore" in name} == {name for name in stores if "agentcore" in name}

    report = answer(capsys, "agentcore", "run")
    assert (report["ended"], report["totals"]["failed"]) == ("completed", 0)
    assert {one.text for one in records_of(deployment, memory, "ida")} == set()
    whole = answer(capsys, "erase", "tenant", TENANT, "--confirm")
    assert whole["receipt"]["decision"] == "erased"
    assert (records_of(deployment, memory, "ida2"), events_of(deployment, memory, "ida2")) == ([], [])
    assert not [
        place for place in versions(deployment) if f"/{TENANT}/" in place and not place.startswith("lifecycle/")
    ]
