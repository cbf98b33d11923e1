"""Dead letters of a person or a tenant. Messages in living queues are dropped by the tombstone when they are read."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from agent_memory.aws.erasing_rows import run_test
from agent_memory.aws.failures import translating
from agent_memory.aws.queues import BATCH
from agent_memory.domain.erasing_files import IsTheirRun, mentions
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.intake import event_of
from agent_memory.domain.keys import user_identity

# Long enough to read all of them once, and they come back by themselves when the reading dies.
HIDDEN_SECONDS = 60
Names = Callable[[str, str], str]


class LettersStore:
    """One queue. *names*: the pseudonym of a user id in a tenant."""

    def __init__(self, client: Any, *, url: str, store: str, names: Names) -> None:
        self._client = client
        self._url = url
        self._store = store
        self._names = names

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally = Tally(self._store)
        for message in self._look(erasure, traces):
            with translating("sqs:DeleteMessage on the dead letters"):
                self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
            tally.remove(message["MessageId"])
        return tally.swept(), traces

    def left(self, erasure: Erasure, traces: Traces) -> int:
        found = list(self._look(erasure, traces))
        self._show(found)
        return len(found)

    def _look(self, erasure: Erasure, traces: Traces) -> Iterator[dict[str, Any]]:
        """The subject's letters, hidden from others; all the others are shown again."""
        received = list(self._received())
        theirs = [message for message in received if self._is_theirs(message["Body"], erasure, traces)]
        self._show([message for message in received if message not in theirs])
        yield from theirs

    def _show(self, messages: list[dict[str, Any]]) -> None:
        with translating("sqs:ChangeMessageVisibility on the dead letters"):
            for message in messages:
                self._client.change_message_visibility(
                    QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                )

    def _received(self) -> Iterator[dict[str, Any]]:
        seen: set[str] = set()
        while True:
            with translating("sqs:ReceiveMessage on the dead letters"):
                answer = self._client.receive_message(
                    QueueUrl=self._url, MaxNumberOfMessages=BATCH, VisibilityTimeout=HIDDEN_SECONDS, WaitTimeSeconds=1
                )
            new = [message for message in answer.get("Messages", []) if message["MessageId"] not in seen]
            if not new:
                return
            seen |= {message["MessageId"] for message in new}
            yield from new

    def _is_theirs(self, body: str, erasure: Erasure, traces: Traces) -> bool:
        detail = _detail(body)
        if detail.get("tenant_id") != erasure.tenant_id or _happened_at(detail) > erasure.erased_before:
            return False
        theirs = run_test(erasure, traces)
        if erasure.whole or mentions([detail], theirs, frozenset()) or _reads_theirs(detail, theirs):
            return True
        if mentions(detail.get("items"), theirs, frozenset()):
            return True
        try:
            user = user_identity(detail.get("user_id"))
        except RefusedInputError:
            return False
        return user is not None and self._names(erasure.tenant_id, user) == erasure.user_ref


def _reads_theirs(detail: Mapping[str, Any], theirs: IsTheirRun) -> bool:
    """Whether a report of reads names a record of theirs, by which it is known to the erasure, or was for their run."""
    agent, context, memory = (detail.get(name) for name in ("agent_id", "context_id", "memory_id"))
    read = detail.get("record_ids")
    if isinstance(agent, str) and isinstance(context, str) and theirs(agent, context):
        return True
    ids = read if isinstance(read, list) and isinstance(memory, str) else []
    return any(theirs(str(memory), one) for one in ids if isinstance(one, str))


def _happened_at(detail: Mapping[str, Any]) -> int:
    """When the run ended, or the records were read; 0 when nobody can tell."""
    try:
        return int(datetime.fromisoformat(str(detail.get("ended_at") or detail.get("read_at"))).timestamp())
    except (ValueError, OverflowError):
        return 0


def _detail(body: str) -> Mapping[str, Any]:
    """The detail of an event, also of one that was kept with a refusal."""
    try:
        event = event_of(body)
    except RefusedInputError:
        return {}
    kept = event.get("event") if isinstance(event.get("event"), Mapping) else event
    detail = kept.get("detail") if isinstance(kept, Mapping) else None
    if isinstance(detail, str):
        try:
            detail = json.loads(detail)
        except (ValueError, RecursionError):
            return {}
    return detail if isinstance(detail, Mapping) else {}
