"""The review function from outside: invoked directly by whoever the deployment trusts, or through its signed URL."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from agent_memory.aws.failures import translating
from agent_memory.domain.errors import AccessRefusedError, ConfigurationError, RefusedInputError, RetryableError

ACTION = "lambda:InvokeFunction on the review function"
SIGNED_ACTION = "lambda:InvokeFunctionUrl on the review function"
_ANSWERED = frozenset({200, 400, 404, 409})
_FORBIDDEN = 403


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
            raise RetryableError("the review function failed; its log says why")
        return _read(body)


class SignedReviews:
    """Calls the function's URL under the caller's signature: IAM tells the function who that is."""

    def __init__(self, session: boto3.session.Session, *, url: str, timeout_seconds: float) -> None:
        self._session = session
        self._url = url
        self._http = URLLib3Session(timeout=timeout_seconds)

    def ask(self, request: Mapping[str, object]) -> dict[str, object]:
        with translating(SIGNED_ACTION):
            response = self._http.send(self._signed(json.dumps(request)).prepare())
        if response.status_code == _FORBIDDEN:
            raise AccessRefusedError(f"{SIGNED_ACTION} was refused: it takes the reviewer policy of the deployment")
        if response.status_code not in _ANSWERED:
            raise RetryableError(f"the review function failed (HTTP {response.status_code}); its log says why")
        return _read(response.content)

    def _signed(self, body: str) -> AWSRequest:
        credentials, region = self._session.get_credentials(), self._session.region_name
        if credentials is None:
            raise AccessRefusedError(f"{SIGNED_ACTION} has no credentials")
        if region is None:
            raise ConfigurationError("no AWS region: set AWS_DEFAULT_REGION to the region of the deployment")
        headers = {"content-type": "application/json"}
        request = AWSRequest(method="POST", url=self._url, data=body.encode(), headers=headers)
        SigV4Auth(credentials.get_frozen_credentials(), "lambda", region).add_auth(request)
        return request


def _read(body: bytes) -> dict[str, object]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise RetryableError("the review function answered something other than a JSON object")
    refusal = answer.get("error")
    if isinstance(refusal, dict):
        raise RefusedInputError(str(refusal.get("field", "input")), str(refusal.get("rule", "was refused")))
    return answer
