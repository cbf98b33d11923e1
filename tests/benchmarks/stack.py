"""What the benches share: the running local stack, its services and functions, and the line of figures at the end."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from agent_memory.contract import COMPONENT, PARAMETER_ROOT
from agent_memory.settings import settings_from_json
from agent_memory.wiring import Services
from botocore.config import Config

from local import runtime
from local.layout import DEFAULT_STATE

ENVIRONMENT = "local"


class BenchStack:
    """The local stack seen from a bench."""

    def __init__(self, stack: runtime.Stack) -> None:
        self.local = stack

    def client(self, service: str) -> Any:
        config = Config(
            read_timeout=180, retries={"mode": "standard", "total_max_attempts": 2}, max_pool_connections=32
        )
        return boto3.client(service, config=config)

    def parameter(self, name: str) -> str:
        """One of the names that the deployment publishes."""
        found = self.client("ssm").get_parameter(Name=f"{PARAMETER_ROOT}/{ENVIRONMENT}/{name}")
        return str(found["Parameter"]["Value"])

    @cached_property
    def services(self) -> Services:
        """The very services that the deployed functions build, from the deployment's own parameter."""
        name = f"{PARAMETER_ROOT}/{ENVIRONMENT}/operator-settings"
        value = self.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        return Services(settings_from_json(value, ENVIRONMENT))

    @cached_property
    def _functions(self) -> Any:
        return self.client("lambda")

    def invoke(self, function: str, payload: Mapping[str, object]) -> dict[str, Any]:
        """Call a deployed function by its folder's name. Raises RuntimeError when it fails."""
        name = f"{COMPONENT}-{function.replace('_', '-')}-{ENVIRONMENT}"
        answer = self._functions.invoke(FunctionName=name, Payload=json.dumps(payload).encode())
        body = json.loads(answer["Payload"].read())
        if answer.get("FunctionError"):
            raise RuntimeError(f"{function} failed: {str(body)[:300]}")
        return dict(body)


@contextmanager
def the_stack(state: Path = DEFAULT_STATE, **context: str) -> Iterator[BenchStack]:
    """The stack of *state*; one that did not run before is stopped afterwards."""
    before = runtime.running(state)
    stack = runtime.up(state, context=context, say=say)
    os.environ.update(stack.environment)
    try:
        yield BenchStack(stack)
    finally:
        if before is None:
            stack.down()


def data_folder(arguments: argparse.Namespace) -> Path:
    folder = Path(arguments.data)
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder: give the public data with DATA=folder")
    return folder


def say(message: str) -> None:
    """Progress goes to standard error: the last line of standard output belongs to the figures."""
    print(message, file=sys.stderr, flush=True)


def figures(**values: object) -> None:
    """Print the result, one JSON object on the last line."""
    print(json.dumps(values), flush=True)
