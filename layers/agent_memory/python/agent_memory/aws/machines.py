"""The state machines that our own code starts."""

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.domain.keys import execution_name
from agent_memory.domain.models import RunTicket
from agent_memory.domain.ports import Execution

# Both clocks are synchronised; a second covers what they differ by.
CLOCK_TOLERANCE_SECONDS = 1.0
MAX_LISTED = 100
_AT_WORK = frozenset({"RUNNING", "PENDING_REDRIVE"})


class ConsolidationMachine:
    """Starts one execution per attempt of a run, however often it is asked."""

    def __init__(self, client: Any, *, arn: str) -> None:
        self._client = client
        self._arn = arn

    def start(self, ticket: RunTicket) -> bool:
        """Start the attempt. False when its execution was there already, running or finished."""
        name = execution_name(ticket.tenant_id, ticket.agent_id, ticket.run_id, ticket.attempt)
        asked_at = time.time()
        with translating("states:StartExecution"):
            try:
                answer = self._client.start_execution(
                    stateMachineArn=self._arn, name=name, input=ticket.model_dump_json(exclude_none=True)
                )
            except ClientError as error:
                if error_code(error) == "ExecutionAlreadyExists":
                    return False
                raise
        # While an execution runs, the same name and input are answered with that execution, not with an error.
        return float(answer["startDate"].timestamp()) >= asked_at - CLOCK_TOLERANCE_SECONDS

    def execution(self, tenant_id: str, agent_id: str, run_id: str, attempt: int) -> Execution:
        """What became of an attempt; Step Functions forgets it after 90 days."""
        name = execution_name(tenant_id, agent_id, run_id, attempt)
        arn = f"{self._arn.replace(':stateMachine:', ':execution:')}:{name}"
        with translating("states:DescribeExecution"):
            try:
                status = self._client.describe_execution(executionArn=arn)["status"]
            except ClientError as error:
                if error_code(error) == "ExecutionDoesNotExist":
                    return "none"
                raise
        return "running" if status in _AT_WORK else "ended"


class OnDemandMachine:
    """Starts executions and tells how they went; one works at a time, whoever starts it."""

    def __init__(self, client: Any, *, arn: str) -> None:
        self._client = client
        self._arn = arn

    def start(self, asked: Mapping[str, object] | None = None) -> str:
        """Start an execution on the input *asked* and return its name."""
        name = f"on-demand-{uuid.uuid4()}"
        with translating("states:StartExecution"):
            self._client.start_execution(stateMachineArn=self._arn, name=name, input=json.dumps(dict(asked or {})))
        return name

    def status(self, name: str) -> str:
        """How the execution *name* stands, in the service's word. A new one may not be listed yet: it is running."""
        return next((str(one["status"]) for one in self.recent(MAX_LISTED) if one["name"] == name), "RUNNING")

    def recent(self, limit: int = 5) -> list[dict[str, Any]]:
        """The latest executions, newest first, with their times in epoch seconds."""
        with translating("states:ListExecutions"):
            listed = self._client.list_executions(stateMachineArn=self._arn, maxResults=limit)["executions"]
        newest = sorted(listed, key=lambda one: one["startDate"], reverse=True)
        return [
            {
                "name": str(one["name"]),
                "status": str(one["status"]),
                "started_at": int(one["startDate"].timestamp()),
                "stopped_at": int(one["stopDate"].timestamp()) if one.get("stopDate") else None,
            }
            for one in newest[:limit]
        ]


class IngestionMachine(OnDemandMachine):
    """The machine that ingests facts."""


class LifecycleMachine(OnDemandMachine):
    """The machine of the night."""
