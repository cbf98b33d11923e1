"""The regression_cases function as people and pipelines call it."""

import json
from collections.abc import Mapping
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.domain.errors import RefusedInputError, RetryableError


class RegressionFunction:
    """Invokes the function and hands back its answer."""

    def __init__(self, client: Any, *, function: str) -> None:
        self._client = client
        self._function = function

    def add(self, tenant_id: str, case: Mapping[str, object]) -> dict[str, Any]:
        """Keep a case, scrubbed. Raises RefusedInputError."""
        return self._answer({"action": "add", "tenant_id": tenant_id, "case": dict(case)})

    def ask(self, tenant_id: str, case_id: str) -> dict[str, Any]:
        """Ask one case now; its score by CaseScore's names and the verdict. Raises RefusedInputError."""
        answer = self._answer({"action": "ask", "tenant_id": tenant_id, "case_id": case_id})
        cases = answer.get("cases")
        if not isinstance(cases, list) or len(cases) != 1 or not isinstance(cases[0], dict):
            raise RetryableError("the regression_cases function answered something else than one case")
        return dict(cases[0])

    def _answer(self, question: Mapping[str, object]) -> dict[str, Any]:
        with translating("lambda:InvokeFunction on the regression_cases function"):
            response = self._client.invoke(FunctionName=self._function, Payload=json.dumps(question).encode())
            body = response["Payload"].read()
        if response.get("FunctionError"):
            raise RetryableError("the regression_cases function failed: a model or a store is busy; its log says which")
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise RetryableError("the regression_cases function answered something other than a JSON object")
        refusal = answer.get("error")
        if isinstance(refusal, dict):
            raise RefusedInputError(str(refusal.get("field", "input")), str(refusal.get("rule", "was refused")))
        return answer
