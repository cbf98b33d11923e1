"""How people and agents reach the functions that they call: through signed URLs, or directly."""

from typing import Final

from agent_memory import contract
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from stacks.memory_function import MemoryFunction
from stacks.settings import Deployment

# IAM's name for "this call came through the function's URL, signed".
SIGNED: Final = {"StringEquals": {"lambda:FunctionUrlAuthType": "AWS_IAM"}}
# A direct invocation could bring a request context of its own making.
THROUGH_URL: Final = {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}


class Door:
    """A function with its signed URL. callerAuth=principal: the URL is the only way in, and the registry is asked who
    speaks for whom."""

    def __init__(self, function: MemoryFunction, *, deployment: Deployment) -> None:
        self._arn = function.function_arn
        self._direct = deployment.caller_auth == "platform"
        self.url = function.add_function_url(auth_type=lambda_.FunctionUrlAuthType.AWS_IAM).url
        if not self._direct:
            function.may_keep_registry("dynamodb:GetItem", kinds=(contract.REGISTRY_CALLERS,))

    def statements(self) -> list[iam.PolicyStatement]:
        """What a caller needs. A signed call of a URL needs both actions."""
        when = None if self._direct else THROUGH_URL
        return [
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[self._arn], conditions=when),
            iam.PolicyStatement(actions=["lambda:InvokeFunctionUrl"], resources=[self._arn], conditions=SIGNED),
        ]
