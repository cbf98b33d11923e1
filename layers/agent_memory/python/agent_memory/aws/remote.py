"""A deployment seen from outside: its names in SSM, its bootstrap function, its bus, its transcripts bucket.

Agents call this with their own credentials, so every refusal says which action was missing.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

import boto3
from botocore.config import Config

from agent_memory.aws.failures import REFUSED, translating, why_busy
from agent_memory.aws.signed_url import answer_from
from agent_memory.contract import CLIENT_SOURCE_PREFIX, PARAMETER_ROOT
from agent_memory.domain.errors import (
    AccessRefusedError,
    ConfigurationError,
    RetryableError,
    UnknownDeploymentError,
)
from agent_memory.domain.keys import run_prefix

PUT_ATTEMPTS = 5
DEPLOYABLE = ("dev", "staging", "prod")
BOOTSTRAP = "the bootstrap function"
NOT_THIS_TENANT = "NotAuthorizedForSourceException"


class Clients:
    """SDK clients of the caller's own credentials, each made when it is first needed."""

    def __init__(self, *, timeout_seconds: float) -> None:
        self._config = Config(
            connect_timeout=min(2.0, timeout_seconds),
            read_timeout=timeout_seconds,
            retries={"mode": "standard", "total_max_attempts": 2},
        )
        self._made: dict[str, Any] = {}

    @cached_property
    def session(self) -> boto3.session.Session:
        """The caller's own credentials and region."""
        return boto3.session.Session()

    def identity(self) -> str:
        """The ARN behind the caller's credentials."""
        with translating("sts:GetCallerIdentity"):
            return str(self.get("sts").get_caller_identity()["Arn"])

    def get(self, service: str) -> Any:
        """The client of *service*."""
        if service not in self._made:
            with translating(f"opening {service}"):
                session = self.session
                if session.region_name is None:
                    raise ConfigurationError(
                        "no AWS region: set AWS_DEFAULT_REGION to the region of the deployment; for the laptop's "
                        "stack load its settings first: set -a; . .local/env; set +a"
                    )
                self._made[service] = session.client(service, config=self._config)
        return self._made[service]


class SsmDirectory:
    """The names of one deployment, read once from its parameters and never guessed."""

    def __init__(self, client: Any, *, environment: str) -> None:
        self._client = client
        self.environment = environment

    @cached_property
    def names(self) -> Mapping[str, str]:
        """All parameters of the environment, by their short names."""
        root = f"{PARAMETER_ROOT}/{self.environment}/"
        found: dict[str, str] = {}
        with translating(f"ssm:GetParametersByPath on {root}"):
            pages = self._client.get_paginator("get_parameters_by_path").paginate(Path=root, Recursive=True)
            for page in pages:
                found |= {p["Name"].removeprefix(root): p["Value"] for p in page["Parameters"]}
        if not found:
            deploy = f"deploy it with `cdk deploy -c env={self.environment} --all`, or "
            raise UnknownDeploymentError(
                self.environment,
                f"nothing under {root}; {deploy if self.environment in DEPLOYABLE else ''}check the name, AWS_REGION "
                "and the account",
            )
        return found

    def environments(self) -> list[str]:
        """The deployments that have names here, for who may read them all."""
        root = f"{PARAMETER_ROOT}/"
        with translating(f"ssm:GetParametersByPath on {root}"):
            pages = self._client.get_paginator("get_parameters_by_path").paginate(Path=root, Recursive=True)
            names = [p["Name"].removeprefix(root) for page in pages for p in page["Parameters"]]
        return sorted({name.partition("/")[0] for name in names})

    def name(self, parameter: str) -> str:
        """The value of one parameter. Raises ConfigurationError that says where it is missing and what to do."""
        try:
            return self.names[parameter]
        except KeyError:
            raise ConfigurationError(
                f"{PARAMETER_ROOT}/{self.environment}/{parameter} is missing: the deployment {self.environment!r} is "
                f"older than this package; deploy it again with `cdk deploy -c env={self.environment} --all`"
            ) from None


class Recalls(Protocol):
    """Takes questions to the bootstrap function."""

    def ask(self, question: Mapping[str, object]) -> dict[str, object]:
        """Its answer. Raises RefusedInputError when it refuses the question."""


class BootstrapFunction:
    """Calls the bootstrap function and hands back its answer."""

    def __init__(self, client: Any, *, function: str) -> None:
        self._client = client
        self._function = function

    def ask(self, question: Mapping[str, object]) -> dict[str, object]:
        """Invoke once. Raises RefusedInputError when the function refuses the question."""
        with translating(f"lambda:InvokeFunction on {BOOTSTRAP}"):
            response = self._client.invoke(FunctionName=self._function, Payload=json.dumps(question).encode())
            body = response["Payload"].read()
        if response.get("FunctionError"):
            raise RetryableError(f"{BOOTSTRAP} failed; its log says why")
        return answer_from(body, BOOTSTRAP)


class ClientEvents:
    """Puts an agent's events on the bus, under the source that names its tenant."""

    def __init__(self, client: Any, *, bus: str, tenant_id: str, pause: Callable[[float], None]) -> None:
        self._client = client
        self._bus = bus
        self._source = CLIENT_SOURCE_PREFIX + tenant_id
        self._pause = pause

    def put(self, detail_type: str, detail: str) -> str:
        """Put one event and return its id. HTTP 200 can carry a failed entry: it is tried again, then raised."""
        entry = {"EventBusName": self._bus, "Source": self._source, "DetailType": detail_type, "Detail": detail}
        code = "Unknown"
        for attempt in range(PUT_ATTEMPTS):
            if attempt:
                self._pause(0.1 * 2**attempt)
            with translating("events:PutEvents on the bus of agent-memory"):
                response = self._client.put_events(Entries=[entry])
            result = response["Entries"][0]
            if not response.get("FailedEntryCount") and result.get("EventId"):
                return str(result["EventId"])
            code = str(result.get("ErrorCode", "Unknown"))
            if code in REFUSED or code == NOT_THIS_TENANT:
                raise AccessRefusedError(f"events:PutEvents as {self._source} was refused ({code})")
        raise RetryableError(
            f"events:PutEvents did not take the event after {PUT_ATTEMPTS} attempts ({code})", why=why_busy(code)
        )


class TranscriptUploads:
    """Puts transcripts that are too large for an event into the tenant's prefix."""

    def __init__(self, client: Any, *, bucket: str, tenant_id: str) -> None:
        self._client = client
        self._bucket = bucket
        self._tenant_id = tenant_id

    def put(self, agent_id: str, run_id: str, transcript: str) -> str:
        """Upload *transcript* (JSON) and return its s3:// address; the same transcript has the same address."""
        content = transcript.encode()
        name = f"upload-{hashlib.sha256(content).hexdigest()}.json.gz"
        key = run_prefix(self._tenant_id, agent_id, run_id) + name
        body = gzip.compress(content, mtime=0)
        with translating("s3:PutObject on the transcripts bucket"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType="application/gzip")
        return f"s3://{self._bucket}/{key}"
