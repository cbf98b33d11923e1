"""A function's URL, called under the caller's own signature: IAM tells the function who that is."""

import json
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from agent_memory.aws.failures import translating
from agent_memory.domain.errors import AccessRefusedError, ConfigurationError, RefusedInputError, RetryableError

_ANSWERED = frozenset({200, 400, 404, 409})
_FORBIDDEN = 403


class SignedUrl:
    """Posts requests. *function*: how errors call it, such as "the review function"."""

    def __init__(self, session: boto3.session.Session, *, url: str, timeout_seconds: float, function: str) -> None:
        self._session = session
        self._url = url
        self._http = URLLib3Session(timeout=timeout_seconds)
        self._function = function
        self._action = f"lambda:InvokeFunctionUrl on {function}"

    def ask(self, request: Mapping[str, object]) -> dict[str, object]:
        """The function's answer. Raises RefusedInputError when it refuses *request*, AccessRefusedError when it or IAM
        refuses the caller, RetryableError."""
        with translating(self._action):
            response = self._http.send(self._signed(json.dumps(request)).prepare())
        if response.status_code == _FORBIDDEN:
            raise AccessRefusedError(f"{self._action} was refused: {self._why(response.content)}")
        if response.status_code not in _ANSWERED:
            raise RetryableError(f"{self._function} failed (HTTP {response.status_code}); its log says why")
        return answer_from(response.content, self._function)

    def _why(self, body: bytes) -> str:
        """The function's own reason, where it is not IAM that refused."""
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        error = answer.get("error") if isinstance(answer, dict) else None
        rule = error.get("rule") if isinstance(error, dict) else None
        return f"the caller {rule}" if rule else "it takes a policy of the deployment that allows this call"

    def _signed(self, body: str) -> Any:
        credentials, region = self._session.get_credentials(), self._session.region_name
        if credentials is None:
            raise AccessRefusedError(f"{self._action} has no credentials")
        if region is None:
            raise ConfigurationError("no AWS region: set AWS_DEFAULT_REGION to the region of the deployment")
        headers = {"content-type": "application/json"}
        request = AWSRequest(method="POST", url=self._url, data=body.encode(), headers=headers)
        SigV4Auth(credentials.get_frozen_credentials(), "lambda", region).add_auth(request)
        return request


def answer_from(body: bytes, function: str) -> dict[str, object]:
    """What *function* answered. Raises RefusedInputError when it refused the request, RetryableError."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise RetryableError(f"{function} answered something other than a JSON object")
    refusal = answer.get("error")
    if isinstance(refusal, dict):
        raise RefusedInputError(str(refusal.get("field", "input")), str(refusal.get("rule", "was refused")))
    return answer
