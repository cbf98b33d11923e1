"""Records in memories of the emulator's AgentCore, reads in the files of a trail, and a model that merges.

What a night has to make of the two thousand is worked out here from the words of the product's description alone.
"""

import gzip
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from agent_memory.contract import TRAIL_PREFIX
from support.converse_server import Answer, converse, tool_use

DAY, HOUR, BATCH = 86_400, 3_600, 100
RECORDS, CELLS, SPACES = 2_000, 60, 20
# Every third cell (a namespace and a type) holds two records that may become one.
PAIRS = range(0, CELLS, 3)
STRATEGIES = {"facts-1": "semantic", "prefs-1": "preferences", "sessions-1": "summaries"}
KEPT_DAYS = {"facts-1": 270, "prefs-1": 270, "sessions-1": 45}
# What the service takes as keys and values of metadata.
METADATA = re.compile(r"[a-zA-Z0-9\s._:/=+@-]+")
# What a restore adds to a record's metadata: its first date and id.
ADDED = ("agent-memory:created-at", "agent-memory:restored-from")


class Told(NamedTuple):
    """One record as a test puts it there. *at*: epoch seconds. *reads*: how often it was read, *read_at* last."""

    text: str
    namespace: str
    strategy: str
    at: int
    reads: int = 0
    read_at: int = 0
    metadata: Mapping[str, Any] = {}


def two_about(quay: int, namespace: str, strategy: str, *, now: int, days: float = 36.2) -> list[Told]:
    """Two unread records about the hoist of a quay, the older first."""
    said = ("lifts loads of 40 tonnes", "lifts loads with two operators")
    ages = (days + 1, days)
    return [
        Told(f"The loading hoist of quay {quay} {what}.", namespace, strategy, now - round(age * DAY))
        for what, age in zip(said, ages, strict=True)
    ]


def two_thousand(now: int) -> list[Told]:
    """Records of 20 namespaces and 3 types, 33 or 34 of each; none lies on an edge of the formula."""
    return [_one(number, now) for number in range(RECORDS)]


def _one(number: int, now: int) -> Told:
    cell, row = number % CELLS, number // CELLS
    namespace, strategy = f"/actors/a{cell % SPACES}/", list(STRATEGIES)[cell // SPACES]
    if row < 2 and cell in PAIRS:
        return two_about(100 + cell, namespace, strategy, now=now)[row]
    age, reads, hours = {
        2: (40.0, 0, 0),
        3: (40.3, 20, 1),
        4: (50.5, 25, 1),
        5: (280.1, 25, 1),
        6: (60.2, 1, 20),
    }.get(row, (1.5 + row % 20, 0, 0))
    lone = f"The canteen serves leek soup with {cell + 3} slices of bread."
    text = lone if row == 2 else f"Berth {number} takes ships of {number * 3 + 7} metres, harbour master {number * 11}."
    metadata = {
        "source": {"stringValue": f"log-{number}"},
        "weight": {"numberValue": number / 4},
        "seen": {"dateTimeValue": datetime.fromtimestamp(now - number, UTC)},
        "tags": {"stringListValue": ["quay", "tide"]},
    }
    return Told(
        text, namespace, strategy, now - round(age * DAY), reads, now - hours * HOUR, metadata if number % 2 else {}
    )


def expected(told: Told, *, now: int) -> tuple[str, float]:
    """What the night does with a record, by the formula as the product is described, and its score."""
    rate = -math.log(0.3) / 45
    age = (now - told.at) / DAY
    idle = (now - told.read_at) / DAY if told.reads else age
    score = 0.4 * math.exp(-rate * age) + 0.35 * math.exp(-rate * idle) + 0.25 * min(told.reads / 50, 1)
    if age >= KEPT_DAYS[told.strategy]:
        return "expire", score
    if score >= 0.3:
        return "keep", score
    return ("merge" if told.text.startswith("The loading hoist") else "prune"), score


def put_there(client: Any, memory_id: str, records: Sequence[Told]) -> list[str]:
    """Create *records*, and return their ids in that order."""
    ids: dict[int, str] = {}
    for start in range(0, len(records), BATCH):
        asked = [
            {
                "requestIdentifier": f"n-{number}",
                "namespaces": [one.namespace],
                "content": {"text": one.text},
                "timestamp": datetime.fromtimestamp(one.at, UTC),
                "memoryStrategyId": one.strategy,
                **({"metadata": one.metadata} if one.metadata else {}),
            }
            for number, one in enumerate(records[start : start + BATCH], start)
        ]
        answer = client.batch_create_memory_records(memoryId=memory_id, records=asked)
        ids |= {int(one["requestIdentifier"][2:]): one["memoryRecordId"] for one in answer["successfulRecords"]}
    return [ids[number] for number in range(len(records))]


def a_read(event_id: str, memory_id: str, record_id: str, at: int, **changes: Any) -> dict[str, Any]:
    """A CloudTrail event of GetMemoryRecord by an agent's role."""
    return {
        "eventID": event_id,
        "eventTime": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "eventSource": "bedrock-agentcore.amazonaws.com",
        "eventName": "GetMemoryRecord",
        "requestParameters": {"memoryId": memory_id, "memoryRecordId": record_id},
        "userIdentity": {"sessionContext": {"sessionIssuer": {"userName": "agent-role"}}},
        **changes,
    }


def deliver(s3: Any, bucket: str, events: Sequence[Mapping[str, Any]], *, at: int, name: str) -> None:
    """Put *events* into four files of the trail that overlap: every event is in two of them."""
    folder = f"{TRAIL_PREFIX}123456789012/CloudTrail/us-east-1/{datetime.fromtimestamp(at, UTC):%Y/%m/%d}"
    for part in range(4):
        held = [event for place, event in enumerate(events) if place % 4 in (part, (part + 1) % 4)]
        body = gzip.compress(json.dumps({"Records": held}).encode())
        s3.put_object(Bucket=bucket, Key=f"{folder}/{name}-{part}.json.gz", Body=body)


def asked_about(body: Mapping[str, Any]) -> list[str]:
    """The texts that a question to the model shows, in their order."""
    question = json.loads(body["messages"][0]["content"][0]["text"])
    return [text for one in question for text in one["said"]]


def one_of(texts: Iterable[str]) -> str:
    """What an honest model makes of texts about one hoist."""
    said = [re.fullmatch(r"(The loading hoist of quay \d+) (.+)\.", text) for text in texts]
    [about] = {found[1] for found in said if found}
    return f"{about} {' and '.join(found[2] for found in said if found)}."


def answered(summary: str, *, confidence: float = 0.9, **more: object) -> Answer:
    """An answer of the model."""
    return converse(tool_use({"summary": summary, "confidence": confidence, "key_facts": [], **more}))


def _fenced(texts: Sequence[str]) -> Answer:
    held = json.dumps({"summary": one_of(texts), "confidence": 0.9, "key_facts": []})
    return converse({"text": f"Here is {{the}} memory:\n```json\n{held}\n```"}, stop="end_turn")


# What the model answers about the hoist of this quay, and what that is refused for; nothing where it is not.
ANSWERS: Mapping[int, tuple[Callable[[Sequence[str]], Answer], str]] = {
    901: (_fenced, ""),
    902: (lambda texts: answered(""), "empty"),
    903: (lambda texts: answered(one_of(texts), confidence=0.3), "low_confidence"),
    904: (lambda texts: answered(one_of(texts).replace("40", "90")), "number_not_in_sources"),
    905: (
        lambda texts: answered(one_of(texts).replace("lifts loads with", "does not lift loads with")),
        "contradicts_sources",
    ),
    906: (lambda texts: answered(one_of(texts), delete=["mem-" + "a" * 40]), "unexpected_fields"),
    907: (lambda texts: converse({"text": "I merged them."}, stop="end_turn"), "not_json"),
}


def a_merging_model(body: Mapping[str, Any]) -> Answer:
    """Answers as the number of the quay says, honestly where nothing is said of it."""
    texts = asked_about(body)
    numbers = {int(found) for found in re.findall(r"of quay (\d+)", " ".join(texts))}
    answer, _ = ANSWERS.get(min(numbers), (lambda held: answered(one_of(held)), ""))
    return answer(texts)
