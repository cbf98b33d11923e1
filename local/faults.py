"""What benches make go wrong in the AI server."""

import threading
from collections.abc import Mapping
from typing import Any

from local.aws_wire import AwsError

MOST_SECONDS = 600.0


class Faults:
    """Set over POST /control/faults; every key left out stays as it is."""

    def __init__(self, *, job_seconds: float) -> None:
        self.throttle = False
        self.job_seconds = job_seconds
        self._to_fail = 0
        self._failed: set[str] = set()
        self._lock = threading.Lock()

    def check(self) -> None:
        if self.throttle:
            raise AwsError("ThrottlingException", "Too many requests, please wait before trying again.")

    def set(self, wanted: Mapping[str, Any]) -> str | None:
        """Take over what *wanted* says, or say what is wrong with it and change nothing."""
        throttle = wanted.get("throttle", self.throttle)
        documents = wanted.get("fail_documents", 0)
        seconds = wanted.get("job_seconds", self.job_seconds)
        if not wanted or set(wanted) - {"throttle", "fail_documents", "job_seconds"}:
            return "send throttle, fail_documents or job_seconds, and nothing else"
        if not isinstance(throttle, bool):
            return 'send {"throttle": true} or {"throttle": false}'
        if type(documents) is not int or documents < 0:
            return "fail_documents is a whole number from 0"
        if type(seconds) not in (int, float) or not 0 <= seconds <= MOST_SECONDS:
            return f"job_seconds is a number from 0 to {MOST_SECONDS:.0f}"
        self.throttle, self.job_seconds = throttle, float(seconds)
        if "fail_documents" in wanted:
            with self._lock:
                self._to_fail, self._failed = documents, set()
        return None

    def told(self) -> dict[str, Any]:
        return {"throttle": self.throttle, "fail_documents": self._to_fail, "job_seconds": self.job_seconds}

    def fails(self, document: str) -> bool:
        """Whether *document* is one of the next that fail; each fails once."""
        with self._lock:
            if not self._to_fail or document in self._failed:
                return False
            self._to_fail -= 1
            self._failed.add(document)
            return True
