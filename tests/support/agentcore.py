"""AgentCore Memory as its data plane behaves: pages, batches half of which fail, prefixes, filters by date, throttling.

It stands where botocore's client stands and holds requests to the service model, min, max and patterns included, which
botocore itself does not.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ClientError
from botocore.model import ServiceModel, Shape

MEMORY_ID = "harbour-Abc1234567"
CREATED_AT = "x-amz-agentcore-memory-createdAt"


@cache
def service_model() -> ServiceModel:
    session = botocore.session.get_session()
    return session.get_service_model("bedrock-agentcore")


def an_error(code: str, operation: str = "ListMemoryRecords", status: int = 400) -> ClientError:
    answer = {"Error": {"Code": code, "Message": "said by the test"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)  # type: ignore[arg-type]  # the parts that are read


def _held(shape: Shape, value: Any, where: str) -> None:
    rules = shape.metadata
    size = len(value) if isinstance(value, str | list | dict) else value if isinstance(value, int | float) else None
    if size is not None and not rules.get("min", 0) <= size <= rules.get("max", float("inf")):
        raise AssertionError(f"{where}: {size} is out of bounds")
    pattern = rules.get("pattern")
    if isinstance(value, str) and pattern and not re.fullmatch(pattern, value):
        raise AssertionError(f"{where}: does not match {pattern}")
    if shape.type_name == "structure":
        for name, held in value.items():
            _held(shape.members[name], held, f"{where}.{name}")  # type: ignore[attr-defined]
        missing = set(shape.required_members) - set(value)  # type: ignore[attr-defined]
        assert not missing, f"{where}: {missing} is required"
    elif shape.type_name == "list":
        for held in value:
            _held(shape.member, held, where)  # type: ignore[attr-defined]
    elif shape.type_name == "map":
        for key, held in value.items():
            _held(shape.key, key, where)  # type: ignore[attr-defined]
            _held(shape.value, held, f"{where}.{key}")  # type: ignore[attr-defined]


class AgentCore:
    """The data plane. *fail*: asked before each call, may raise; *reset_dates*: createdAt is when it was created."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, dict[str, Any]]] = {}
        self.events: dict[tuple[str, str, str], list[str]] = {}
        self.event_times: dict[str, datetime] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.fail: Callable[[str, dict[str, Any]], None] = lambda operation, request: None
        self.fails_in_batch: Callable[[str, Any], int] = lambda operation, one: 0
        self.page_size: int | None = None
        self.reset_dates: datetime | None = None
        self._ids = itertools.count(1)
        self._tokens: dict[str, dict[str, Any]] = {}

    def put(self, text: str, namespace: str, at: int, *, strategy: str = "semantic-1", memory: str = MEMORY_ID,
            metadata: Mapping[str, Any] | None = None) -> str:  # fmt: skip
        """Put a record there, as the service's own extraction does, and return its id."""
        record_id = f"mem-{next(self._ids):040d}"
        self.records.setdefault(memory, {})[record_id] = {
            "memoryRecordId": record_id,
            "content": {"text": text},
            "namespaces": [namespace],
            "memoryStrategyId": strategy,
            "createdAt": datetime.fromtimestamp(at, UTC),
            **({"metadata": dict(metadata)} if metadata else {}),
        }
        return record_id

    def texts(self, memory: str = MEMORY_ID) -> set[str]:
        return {one["content"]["text"] for one in self.records.get(memory, {}).values()}

    def count(self, *operations: str) -> int:
        return sum(operation in operations for operation, _ in self.calls) if operations else len(self.calls)

    def _called(self, operation: str, request: dict[str, Any]) -> dict[str, dict[str, Any]]:
        _held(service_model().operation_model(operation).input_shape, request, operation)  # type: ignore[arg-type]
        self.calls.append((operation, request))
        self.fail(operation, request)
        return self.records.setdefault(request["memoryId"], {})

    def list_memory_records(self, **request: Any) -> dict[str, Any]:
        records = self._called("ListMemoryRecords", request)
        found = [one for one in records.values() if self._asked_for(one, request)]
        return self._page(found, "memoryRecordSummaries", request)

    def _asked_for(self, record: dict[str, Any], request: dict[str, Any]) -> bool:
        prefix = request.get("namespace") or request["namespacePath"]
        if not any(f"{space.rstrip('/')}/".startswith(prefix) for space in record["namespaces"]):
            return False
        if request.get("memoryStrategyId", record["memoryStrategyId"]) != record["memoryStrategyId"]:
            return False
        for one in request.get("metadataFilters", ()):
            assert one["left"]["metadataKey"] == CREATED_AT, "no other key is indexed"
            limit, at = one["right"]["metadataValue"]["dateTimeValue"], record.get("createdAt")
            if at is None or not (at < limit if one["operator"] == "BEFORE" else at > limit):
                return False
        return True

    def _page(self, found: list[Any], name: str, request: dict[str, Any]) -> dict[str, Any]:
        start = int(request.get("nextToken", "0"))
        size = min(request.get("maxResults", 20), self.page_size or 100)
        page = {name: [dict(one) if isinstance(one, dict) else one for one in found[start : start + size]]}
        return {**page, "nextToken": str(start + size)} if start + size < len(found) else page

    def get_memory_record(self, **request: Any) -> dict[str, Any]:
        records = self._called("GetMemoryRecord", request)
        if request["memoryRecordId"] not in records:
            raise an_error("ResourceNotFoundException", "GetMemoryRecord", 404)
        return {"memoryRecord": dict(records[request["memoryRecordId"]])}

    def batch_create_memory_records(self, **request: Any) -> dict[str, Any]:
        records = self._called("BatchCreateMemoryRecords", request)
        if request.get("clientToken") in self._tokens:
            return self._tokens[request["clientToken"]]
        made, failed = [], []
        for one in request["records"]:
            code = self.fails_in_batch("BatchCreateMemoryRecords", one)
            result = {"memoryRecordId": f"mem-{next(self._ids):040d}", "requestIdentifier": one["requestIdentifier"]}
            if code:
                failed.append({**result, "status": "FAILED", "errorCode": code, "errorMessage": "said by the test"})
                continue
            records[result["memoryRecordId"]] = {
                "memoryRecordId": result["memoryRecordId"],
                "content": one["content"],
                "namespaces": one["namespaces"],
                "memoryStrategyId": one.get("memoryStrategyId", ""),
                "createdAt": self.reset_dates or one["timestamp"],
                **({"metadata": one["metadata"]} if one.get("metadata") else {}),
            }
            made.append({**result, "status": "SUCCEEDED"})
        answer = {"successfulRecords": made, "failedRecords": failed}
        if not failed and request.get("clientToken"):
            self._tokens[request["clientToken"]] = answer
        return answer

    def batch_delete_memory_records(self, **request: Any) -> dict[str, Any]:
        records = self._called("BatchDeleteMemoryRecords", request)
        gone, failed = [], []
        for record_id in (one["memoryRecordId"] for one in request["records"]):
            code = self.fails_in_batch("BatchDeleteMemoryRecords", record_id) or (0 if record_id in records else 404)
            if code:
                failed.append({"memoryRecordId": record_id, "status": "FAILED", "errorCode": code})
            else:
                del records[record_id]
                gone.append({"memoryRecordId": record_id, "status": "SUCCEEDED"})
        return {"successfulRecords": gone, "failedRecords": failed}

    def retrieve_memory_records(self, **request: Any) -> dict[str, Any]:
        records = self._called("RetrieveMemoryRecords", request)
        words = set(re.findall(r"\w+", request["searchCriteria"]["searchQuery"].lower()))
        found = [
            (len(words & set(re.findall(r"\w+", one["content"]["text"].lower()))), one)
            for one in records.values()
            if self._asked_for(one, request)
        ]
        best = [one for score, one in sorted(found, key=lambda pair: -pair[0]) if score]
        return {"memoryRecordSummaries": best[: request["searchCriteria"].get("topK", 10)]}

    def put_events(self, actor: str, session: str, number: int, *, memory: str = MEMORY_ID, at: int = 1) -> None:
        """*number* more events of a session, from *at*."""
        events, first = self.events.setdefault((memory, actor, session), []), len(self.event_times) + 1
        new = [f"{n}#{n:08x}" for n in range(first, first + number)]
        self.event_times |= dict.fromkeys(new, datetime.fromtimestamp(at, UTC))
        events += new

    def list_actors(self, **request: Any) -> dict[str, Any]:
        self._called("ListActors", request)
        actors = dict.fromkeys(actor for (memory, actor, _) in self.events if memory == request["memoryId"])
        return self._page([{"actorId": one} for one in actors], "actorSummaries", request)

    def list_sessions(self, **request: Any) -> dict[str, Any]:
        self._called("ListSessions", request)
        mine = [
            {"sessionId": session, "actorId": actor}
            for (memory, actor, session), events in self.events.items()
            if (memory, actor) == (request["memoryId"], request["actorId"]) and events
        ]
        if not mine:
            raise an_error("ResourceNotFoundException", "ListSessions", 404)
        return self._page(mine, "sessionSummaries", request)

    def list_events(self, **request: Any) -> dict[str, Any]:
        self._called("ListEvents", request)
        events = self.events.get((request["memoryId"], request["actorId"], request["sessionId"]), [])
        found = [{"eventId": one, "eventTimestamp": self.event_times[one]} for one in events]
        return self._page(found, "events", request)

    def delete_event(self, **request: Any) -> dict[str, Any]:
        self._called("DeleteEvent", request)
        events = self.events.get((request["memoryId"], request["actorId"], request["sessionId"]), [])
        if request["eventId"] not in events:
            raise an_error("ResourceNotFoundException", "DeleteEvent", 404)
        events.remove(request["eventId"])
        return {"eventId": request["eventId"]}


def names(numbers: Iterable[int]) -> list[str]:
    """The ids that the records with these numbers got."""
    return [f"mem-{number:040d}" for number in numbers]
