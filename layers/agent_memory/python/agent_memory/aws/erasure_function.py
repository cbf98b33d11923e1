"""The erasure desk as data protection officers call it."""

import json
from collections.abc import Mapping
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.domain.errors import RefusedInputError, RetryableError


class ErasureFunction:
    """Invokes the function and hands back its answer."""

    def __init__(self, client: Any, *, function: str) -> None:
        self._client = client
        self._function = function

    def ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        """The answer to one question. Raises RefusedInputError, RetryableError."""
        with translating("lambda:InvokeFunction on the erasure desk"):
            response = self._client.invoke(FunctionName=self._function, Payload=json.dumps(dict(question)).encode())
            body = response["Payload"].read()
        if response.get("FunctionError"):
            raise RetryableError("the erasure desk failed: a store is busy or refused it; its log says which")
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise RetryableError("the erasure desk answered something other than a JSON object")
        refusal = answer.get("error")
        if isinstance(refusal, dict):
            raise RefusedInputError(str(refusal.get("field", "input")), str(refusal.get("rule", "was refused")))
        return answer
