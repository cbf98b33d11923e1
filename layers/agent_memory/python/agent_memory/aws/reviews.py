"""The review function from outside. Where callerAuth=principal it is called through its signed URL instead."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agent_memory.aws.failures import translating
from agent_memory.aws.signed_url import answer_from
from agent_memory.domain.errors import RetryableError

ACTION = "lambda:InvokeFunction on the review function"
REVIEWS = "the review function"


class Reviews(Protocol):
    """Takes requests to the review function."""

    def ask(self, request: Mapping[str, object]) -> dict[str, object]:
        """The function's answer. Raises RefusedInputError when it refuses *request*, AccessRefusedError,
        RetryableError."""


class DirectReviews:
    """Invokes the function; who calls is what the caller's own credentials say, and is kept as stated."""

    def __init__(self, client: Any, *, function: str, identity: Callable[[], str]) -> None:
        self._client = client
        self._function = function
        self._identity = identity

    def ask(self, request: Mapping[str, object]) -> dict[str, object]:
        payload = json.dumps({**request, "reviewer": self._identity()})
        with translating(ACTION):
            response = self._client.invoke(FunctionName=self._function, Payload=payload.encode())
            body = response["Payload"].read()
        if response.get("FunctionError"):
            raise RetryableError(f"{REVIEWS} failed; its log says why")
        return answer_from(body, REVIEWS)
