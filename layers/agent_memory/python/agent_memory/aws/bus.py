"""Our own events on the bus."""

import json
from collections.abc import Mapping
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.contract import OWN_SOURCE
from agent_memory.domain.errors import StoreBusyError


class EventBus:
    """Publishes ids and decisions under the product's own source."""

    def __init__(self, client: Any, *, bus: str) -> None:
        self._client = client
        self._bus = bus

    def publish(self, detail_type: str, detail: Mapping[str, object]) -> None:
        """Put one event. An answer of 200 may still say that the entry failed: raises StoreBusyError then."""
        entry = {
            "EventBusName": self._bus,
            "Source": OWN_SOURCE,
            "DetailType": detail_type,
            "Detail": json.dumps(detail, allow_nan=False),
        }
        with translating("events:PutEvents"):
            answer = self._client.put_events(Entries=[entry])
        if answer.get("FailedEntryCount"):
            code = answer["Entries"][0].get("ErrorCode", "Unknown")
            raise StoreBusyError(f"events:PutEvents did not take the event ({code})")
