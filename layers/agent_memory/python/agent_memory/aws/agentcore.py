"""The data plane of AgentCore Memory: records listed, read, created and deleted; events listed and deleted.

Batches answer with success although some of their records failed; what failed for a reason that passes is tried again,
the rest is told. A page token that has expired begins its listing anew.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.domain.agentcore_erasure import EventKey
from agent_memory.domain.agentcore_ports import Asked
from agent_memory.domain.agentcore_records import NewRecord, Record, plain_metadata, read_record, read_time
from agent_memory.domain.errors import AgentMemoryError, RetryableError, StoreBusyError

BATCH: Final = 100
PAGE: Final = 100
CREATED_AT: Final = "x-amz-agentcore-memory-createdAt"
TRIES: Final = 3
SIDE_BY_SIDE: Final = 4
_GONE = frozenset({"ResourceNotFoundException"})
_NOT_FOUND: Final = 404
_THROTTLED: Final = 429
_SERVER_FAULT: Final = 500
# Told of a page token that is too old, or of another listing.
_TOKEN_REFUSED = frozenset({"ValidationException", "InvalidInputException"})


class AgentCoreRecords:
    """The long-term records of one memory."""

    def __init__(self, client: Any, *, memory_id: str) -> None:
        self._client = client
        self._memory_id = memory_id

    def listed(self, asked: Asked) -> Iterator[Record]:
        """Every record that is asked for and can be read, each once, every page."""
        seen: set[str] = set()
        for _ in range(TRIES):
            token: str | None = None
            while True:
                page = self._page(asked, token)
                if page is None:
                    break
                for record in map(read_record, page.get("memoryRecordSummaries", ())):
                    if record is not None and record.record_id not in seen:
                        seen.add(record.record_id)
                        yield record
                token = page.get("nextToken")
                if not token:
                    return
        raise StoreBusyError("bedrock-agentcore:ListMemoryRecords lost its place three times")

    def _page(self, asked: Asked, token: str | None) -> Mapping[str, Any] | None:
        """One page; None when its token is not taken any more."""
        request: dict[str, Any] = {
            "memoryId": self._memory_id,
            "namespacePath": asked.prefix,
            "maxResults": PAGE,
            **({"memoryStrategyId": asked.strategy_id} if asked.strategy_id else {}),
            **({"nextToken": token} if token else {}),
        }
        filters = [
            {
                "left": {"metadataKey": CREATED_AT},
                "operator": operator,
                "right": {"metadataValue": {"dateTimeValue": datetime.fromtimestamp(max(at, 0), UTC)}},
            }
            for operator, at in (("AFTER", asked.after), ("BEFORE", asked.before))
            if at is not None
        ]
        with translating("bedrock-agentcore:ListMemoryRecords"):
            try:
                answer: Mapping[str, Any] = self._client.list_memory_records(
                    **request, **({"metadataFilters": filters} if filters else {})
                )
            except ClientError as error:
                if token and error_code(error) in _TOKEN_REFUSED:
                    return None
                raise
        return answer

    def get(self, record_id: str) -> Record | None:
        """One record; None when it is gone."""
        with translating("bedrock-agentcore:GetMemoryRecord"):
            try:
                answer = self._client.get_memory_record(memoryId=self._memory_id, memoryRecordId=record_id)
            except ClientError as error:
                if error_code(error) in _GONE:
                    return None
                raise
        return read_record(answer.get("memoryRecord"))

    def create(self, records: Sequence[NewRecord]) -> Mapping[str, str]:
        """Create records and return their ids by request id; what failed for good is left out."""
        made: dict[str, str] = {}
        left = list(records)
        for number in range(TRIES):
            again: list[NewRecord] = []
            for batch in _batches(left):
                answer = self._create(batch, number)
                made |= {one["requestIdentifier"]: one["memoryRecordId"] for one in answer.get("successfulRecords", ())}
                passing = {one.get("requestIdentifier") for one in answer.get("failedRecords", ()) if _passes(one)}
                again += [one for one in batch if one.request_id in passing]
            if not again:
                return made
            left = again
        raise StoreBusyError(f"bedrock-agentcore could not create {len(left)} records")

    def _create(self, batch: Sequence[NewRecord], number: int) -> Mapping[str, Any]:
        records = [
            {
                "requestIdentifier": one.request_id,
                "namespaces": [one.namespace],
                "content": {"text": one.text},
                "timestamp": datetime.fromtimestamp(one.at, UTC),
                **({"memoryStrategyId": one.strategy_id} if one.strategy_id else {}),
                **({"metadata": plain_metadata(one.metadata)} if one.metadata else {}),
            }
            for one in batch
        ]
        # The same batch again, after an answer that was lost, is the same request; after one that says that all of it
        # failed for a while, another: the service may give the answer that a token got once more.
        named = [f"{one.request_id} {one.at}" for one in batch]
        token = hashlib.sha256("\n".join([*named, str(number)] if number else named).encode()).hexdigest()
        with translating("bedrock-agentcore:BatchCreateMemoryRecords"):
            answer: Mapping[str, Any] = self._client.batch_create_memory_records(
                memoryId=self._memory_id, records=records, clientToken=token
            )
        return answer

    def delete(self, record_ids: Sequence[str]) -> Mapping[str, str]:
        """Delete records and return for each `removed`, `gone` or `failed`."""
        done: dict[str, str] = {}
        left = list(dict.fromkeys(record_ids))
        for _ in range(TRIES):
            again: list[str] = []
            for batch in _batches(left):
                with translating("bedrock-agentcore:BatchDeleteMemoryRecords"):
                    answer = self._client.batch_delete_memory_records(
                        memoryId=self._memory_id, records=[{"memoryRecordId": one} for one in batch]
                    )
                done |= {one["memoryRecordId"]: "removed" for one in answer.get("successfulRecords", ())}
                for one in answer.get("failedRecords", ()):
                    record_id = str(one.get("memoryRecordId", ""))
                    if _passes(one):
                        again.append(record_id)
                    done[record_id] = "gone" if _was_gone(one) else "failed"
            if not again:
                break
            left = again
        return {one: done.get(one, "failed") for one in record_ids}

    def search(self, namespace: str, query: str, *, most: int) -> Sequence[Record]:
        """What the service finds for *query* in a namespace, best first."""
        with translating("bedrock-agentcore:RetrieveMemoryRecords"):
            answer = self._client.retrieve_memory_records(
                memoryId=self._memory_id,
                namespacePath=f"{namespace.rstrip('/')}/",
                searchCriteria={"searchQuery": query, "topK": most},
                maxResults=most,
            )
        found = map(read_record, answer.get("memoryRecordSummaries", ()))
        return [record for record in found if record is not None]


class AgentCoreEvents:
    """The short-term events of one memory."""

    def __init__(self, client: Any, *, memory_id: str) -> None:
        self._client = client
        self._memory_id = memory_id

    def actors(self) -> list[str]:
        """Every actor with events, every page; none of a memory that is gone."""
        try:
            return [str(one["actorId"]) for one in self._pages("list_actors", "ListActors", "actorSummaries")]
        except _GoneError:
            return []

    def sessions(self, actor_id: str) -> list[str]:
        """The sessions of an actor, every page; none of one that is not known."""
        try:
            found = self._pages("list_sessions", "ListSessions", "sessionSummaries", actorId=actor_id)
            return [str(one["sessionId"]) for one in found]
        except _GoneError:
            return []

    def events(self, actor_id: str, session_id: str) -> list[EventKey]:
        """The events of a session, every page; their payloads are not asked for."""
        asked = {"actorId": actor_id, "sessionId": session_id, "includePayloads": False}
        try:
            found = self._pages("list_events", "ListEvents", "events", **asked)
        except _GoneError:
            return []
        return [EventKey(str(one["eventId"]), read_time(one.get("eventTimestamp"))) for one in found]

    def delete(self, actor_id: str, session_id: str, event_ids: Sequence[str]) -> dict[str, str]:
        """Delete events, some side by side, and return for each `removed`, `gone` or `failed`."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            words = list(pool.map(lambda one: self._deleted(actor_id, session_id, one), event_ids))
        return dict(zip(event_ids, words, strict=True))

    def _deleted(self, actor_id: str, session_id: str, event_id: str) -> str:
        try:
            return "removed" if self._delete(actor_id, session_id, event_id) else "gone"
        except RetryableError:
            raise
        except AgentMemoryError:
            return "failed"

    def _delete(self, actor_id: str, session_id: str, event_id: str) -> bool:
        with translating("bedrock-agentcore:DeleteEvent"):
            try:
                self._client.delete_event(
                    memoryId=self._memory_id, actorId=actor_id, sessionId=session_id, eventId=event_id
                )
            except ClientError as error:
                if error_code(error) in _GONE:
                    return False
                raise
        return True

    def _pages(self, method: str, action: str, listed: str, **asked: object) -> list[Mapping[str, Any]]:
        for _ in range(TRIES):
            found: list[Mapping[str, Any]] = []
            token: str | None = None
            while True:
                answer = self._page(method, action, asked, token)
                if answer is None:
                    break
                found += answer.get(listed, ())
                token = answer.get("nextToken")
                if not token:
                    return found
        raise StoreBusyError(f"bedrock-agentcore:{action} lost its place three times")

    def _page(self, method: str, action: str, asked: Mapping[str, Any], token: str | None) -> Mapping[str, Any] | None:
        """One page; None when its token is not taken any more. Raises _GoneError."""
        paging = {"maxResults": PAGE, **({"nextToken": token} if token else {})}
        with translating(f"bedrock-agentcore:{action}"):
            try:
                answer: Mapping[str, Any] = getattr(self._client, method)(memoryId=self._memory_id, **asked, **paging)
            except ClientError as error:
                if error_code(error) in _GONE:
                    raise _GoneError from None
                if token and error_code(error) in _TOKEN_REFUSED:
                    return None
                raise
        return answer


class _GoneError(Exception):
    """What was to be listed is not there."""


def _batches(records: Sequence[Any]) -> Iterator[Any]:
    return (records[start : start + BATCH] for start in range(0, len(records), BATCH))


def _passes(failed: Mapping[str, Any]) -> bool:
    """Whether a failed record is worth another try: throttled, or a fault of the service."""
    code = int(failed.get("errorCode") or 0)
    return code == _THROTTLED or code >= _SERVER_FAULT


def _was_gone(failed: Mapping[str, Any]) -> bool:
    return failed.get("errorCode") == _NOT_FOUND or "not found" in str(failed.get("errorMessage", "")).lower()
