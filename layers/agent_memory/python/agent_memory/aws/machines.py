"""The consolidation state machine."""

import time
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.domain.keys import execution_name
from agent_memory.domain.models import RunTicket
from agent_memory.domain.ports import Execution

# Both clocks are synchronised; a second covers what they differ by.
CLOCK_TOLERANCE_SECONDS = 1.0
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
