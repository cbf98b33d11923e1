"""The consolidation state machine."""

import time
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.domain.keys import execution_name
from agent_memory.domain.models import RunTicket

# Both clocks are synchronised; a second covers what they differ by.
CLOCK_TOLERANCE_SECONDS = 1.0


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
