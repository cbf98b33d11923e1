"""The queue of refused events: those without valid ids, which no key could park."""

import json
from collections.abc import Mapping
from typing import Any

from agent_memory.aws.failures import translating


class RefusedQueue:
    """Keeps refusals for a person to look at. The queue is encrypted; it may hold what an agent sent."""

    def __init__(self, client: Any, *, url: str) -> None:
        self._client = client
        self._url = url

    def put(self, refusal: Mapping[str, object]) -> None:
        """Keep one refusal."""
        with translating("sqs:SendMessage to the refused queue"):
            self._client.send_message(QueueUrl=self._url, MessageBody=json.dumps(refusal))
