"""make bench NAME=agentcore-refresh: does the first step of a night over AgentCore fit its quarter of an hour?

100,000 records in pages of 100 and 10,000 trail files with 20 reads each, besides 5,000 reports of agents, against
services in this process that answer after a pause: 0.2 s for a page of AgentCore (five a second, at which aws-facts
advises to begin), 25 ms for an object of S3. The ledger holds the event ids of seven such days before it begins, more
than it would keep. With less --seconds it has to stop and go on. Prints seconds, calls and the peak of memory, what the
bench itself holds included; a function has 900 s.
"""

import argparse
import gc
import gzip
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_memory.aws.access_ledger import S3AccessLedger
from agent_memory.aws.agentcore import AgentCoreRecords
from agent_memory.aws.cloudtrail_logs import S3TrailLogs
from agent_memory.aws.record_book import S3RecordBook
from agent_memory.domain.accesses import AccessLedger
from agent_memory.domain.agentcore import AgentCoreMemory
from agent_memory.domain.agentcore_night import UNFINISHED, MemoryDoors, RefreshDoors, RefreshRules, refresh
from agent_memory.domain.decay import DecayRules
from agent_memory.domain.lifecycle import LifecycleRun, NightTicket
from agent_memory.domain.record_reads import ReadsReport, report_key
from agent_memory.domain.retention import RetentionRules
from benchmarks.stack import figures, say
from botocore.exceptions import ClientError
from support.nights import HeldFiles

NOW, DAY = 1_800_000_000, 86_400
MEMORY = AgentCoreMemory(memory_id="harbour-Abc1234567", namespaces=("/actors/",))
PAGE_SECONDS, OBJECT_SECONDS = 0.2, 0.025
SPACES, PER_FILE, PER_REPORT, DAYS_BEFORE = 1_000, 20, 10, 7


def record_id(number: int) -> str:
    return f"mem-{number:040d}"


class Pages:
    """AgentCore, as far as a listing asks it."""

    def __init__(self, records: int) -> None:
        self.records, self.calls = records, 0

    def list_memory_records(self, **request: Any) -> dict[str, Any]:
        time.sleep(PAGE_SECONDS)
        self.calls += 1
        start = int(request.get("nextToken", 0))
        page = [self._record(number) for number in range(start, min(start + 100, self.records))]
        end = start + 100
        return {"memoryRecordSummaries": page, **({"nextToken": str(end)} if end < self.records else {})}

    def _record(self, number: int) -> dict[str, Any]:
        return {
            "memoryRecordId": record_id(number),
            "content": {
                "text": f"Berth {number} holds {number * 13} crates until the {number % 28}th, says the log. " * 4
            },
            "namespaces": [f"/actors/{number % SPACES}/"],
            "memoryStrategyId": "semantic-1",
            "createdAt": datetime.fromtimestamp(NOW - (number % 30) * DAY, UTC),
        }


class Objects:
    """S3, as far as trail, ledger and index ask it."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def _called(self, name: str) -> None:
        time.sleep(OBJECT_SECONDS)
        with self._lock:
            self.calls[name] += 1

    def get_object(self, **request: Any) -> dict[str, Any]:
        self._called("get")
        if request["Key"] not in self.held:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        body = self.held[request["Key"]]
        return {"Body": Body(body), "ETag": str(hash(body))}

    def put_object(self, **request: Any) -> dict[str, Any]:
        self._called("put")
        self.held[request["Key"]] = request["Body"]
        return {}

    def get_paginator(self, name: str) -> "Objects":
        return self

    def paginate(self, **request: Any) -> Iterator[dict[str, Any]]:
        prefix, cut = request["Prefix"], request.get("Delimiter")
        keys = sorted(key for key in self.held if key.startswith(prefix))
        if cut:
            self._called("list")
            folders = {prefix + key.removeprefix(prefix).split(cut)[0] + cut for key in keys}
            yield {"CommonPrefixes": [{"Prefix": folder} for folder in sorted(folders)]}
            return
        for start in range(0, max(len(keys), 1), 1_000):
            self._called("list")
            yield {"Contents": [{"Key": key} for key in keys[start : start + 1_000]]}


class Body(io.BytesIO):
    """What botocore gives of an object."""

    def iter_chunks(self, size: int) -> Iterator[bytes]:
        while chunk := self.read(size):
            yield chunk


def deliver(objects: Objects, files: int, reports: int, records: int) -> None:
    """Trail files, as CloudTrail names them, and reports, spread over the records."""
    folder = datetime.fromtimestamp(NOW - 3_600, UTC).strftime("AWSLogs/123456789012/CloudTrail/eu-west-1/%Y/%m/%d")
    stamp = datetime.fromtimestamp(NOW - 3_600, UTC).strftime("%Y%m%dT%H%MZ")
    for number in range(files):
        events = [an_event(number * PER_FILE + place, records) for place in range(PER_FILE)]
        name = f"123456789012_CloudTrail_eu-west-1_{stamp}_{number:016x}.json.gz"
        objects.held[f"{folder}/{name}"] = gzip.compress(json.dumps({"Records": events}).encode())
    for number in range(reports):
        ids = tuple(record_id((number * PER_REPORT + place) % records) for place in range(PER_REPORT))
        report = ReadsReport(
            by="agent",
            tenant_id=MEMORY.name,
            memory_id=MEMORY.memory_id,
            context=f"{number:032x}",
            record_ids=ids,
            at=NOW - 60,
            received_at=NOW - 30,
        )
        objects.held[report_key(report)] = report.model_dump_json().encode()


def an_event(number: int, records: int) -> dict[str, Any]:
    """As long as a real one is."""
    role = {"type": "Role", "principalId": "AROAEXAMPLE", "arn": "arn:aws:iam::123456789012:role/agent-role"}
    return {
        "eventVersion": "1.11",
        "userIdentity": {
            "type": "AssumedRole",
            "principalId": "AROAEXAMPLE:session",
            "arn": "arn:aws:sts::123456789012:assumed-role/agent-role/session",
            "accountId": "123456789012",
            "accessKeyId": "ASIAEXAMPLE",
            "sessionContext": {"sessionIssuer": {**role, "userName": "agent-role"}, "attributes": {}},
        },
        "eventTime": datetime.fromtimestamp(NOW - 3_600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "eventSource": "bedrock-agentcore.amazonaws.com",
        "eventName": "GetMemoryRecord",
        "awsRegion": "eu-west-1",
        "sourceIPAddress": "203.0.113.7",
        "userAgent": "Boto3/1.43 md/Botocore#1.43 ua/2.1 os/linux#6.1 lang/python#3.14",
        "requestParameters": {"memoryId": MEMORY.memory_id, "memoryRecordId": record_id(number % records)},
        "responseElements": None,
        "requestID": f"00000000-0000-4000-8000-{number:012d}",
        "eventID": f"11111111-0000-4000-8000-{number:012d}",
        "readOnly": True,
        "resources": [{"accountId": "123456789012", "type": "AWS::BedrockAgentCore::Memory", "ARN": MEMORY.memory_id}],
        "eventType": "AwsApiCall",
        "managementEvent": False,
        "eventCategory": "Data",
    }


def the_ledger_before(events: int, records: int) -> AccessLedger:
    """As seven days like this one have left it."""
    seen = {
        f"22222222-{day:04d}-4000-8000-{number:012d}": NOW - (day + 1) * DAY
        for day in range(DAYS_BEFORE)
        for number in range(events)
    }
    accesses = {MEMORY.memory_id: {record_id(number): (14, NOW - DAY) for number in range(records)}}
    return AccessLedger(read_until=NOW - DAY, seen=seen, accesses=accesses)


def resident_mb(*, forget: bool = False) -> int:
    """The most memory that this process had; *forget*: what it has now, and count the most from here on."""
    if forget:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def measured(records: int, files: int, reports: int, seconds: float) -> dict[str, object]:
    """Refresh until it is done, each call with *seconds* of time; what each took."""
    pages, objects = Pages(records), Objects()
    deliver(objects, files, reports, records)
    accesses = S3AccessLedger(objects, bucket="state")
    accesses.change(lambda _: the_ledger_before(files * PER_FILE + reports * PER_REPORT, records))
    objects.calls.clear()
    logs = S3TrailLogs(objects, bucket="trail", ignored=())
    book: Callable[[AgentCoreMemory], MemoryDoors] = lambda memory: MemoryDoors(  # noqa: E731 - a door, made anew
        AgentCoreRecords(pages, memory_id=memory.memory_id), S3RecordBook(objects, bucket="state", name=memory.name)
    )
    doors = RefreshDoors(HeldFiles(), accesses, logs, book)
    run = LifecycleRun(night="n-2027-01-15", attempt=1, owner="bench", now=NOW, settings_hash="s")
    rooms = ("look", "expire", "merge", "prune", "facts", "rollback")
    ticket = NightTicket.model_validate({"run": run, "bucket": "state", **{f"{room}_prefix": room for room in rooms}})
    rules = RefreshRules(DecayRules(), RetentionRules())
    calls: list[float] = []
    before = resident_mb(forget=True)
    cpu = time.process_time()
    counts: Mapping[str, int] = {}
    while not calls or ticket.decision == UNFINISHED:
        begun = time.monotonic()
        ticket, counts = refresh(ticket, (MEMORY,), doors, rules, lambda: time.monotonic() - begun > seconds)  # noqa: B023
        calls.append(round(time.monotonic() - begun, 1))
        say(f"{ticket.decision} after {calls[-1]} s: {ticket.reason or dict(counts)}")
    peak = resident_mb()
    ledger = accesses.ledger()
    read = sum(times for times, _ in ledger.accesses[MEMORY.memory_id].values()) - 14 * records
    return {
        "decision": ticket.decision,
        "seconds": calls,
        "cpu_s": round(time.process_time() - cpu, 1),
        "pages": pages.calls,
        "s3": dict(objects.calls),
        "records": counts.get("records"),
        "reads_counted": read,
        "ledger_mb": round(len(objects.held["agentcore/accesses.json.gz"]) / 1e6, 1),
        "held_by_the_bench_mb": before,
        "peak_mb": peak,
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--records", type=int, default=100_000)
    asked.add_argument("--files", type=int, default=10_000)
    asked.add_argument("--reports", type=int, default=5_000)
    asked.add_argument("--seconds", type=float, default=720.0, help="of a call, before it stops (900 less its reserve)")
    given = asked.parse_args()
    figures(**measured(given.records, given.files, given.reports, given.seconds))


if __name__ == "__main__":
    main()
