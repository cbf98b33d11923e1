"""The log of the function by which CDK empties buckets that a deployment may destroy."""

import aws_cdk as cdk

from stacks.memory_function import log_group
from stacks.settings import Deployment


def tend_the_emptying_function(stack: cdk.Stack, *, name: str, deployment: Deployment) -> None:
    """Give it a log that belongs to *stack*: CloudFormation can't delete a bucket that holds objects, CDK's function
    empties it, and its log must go too. *name*: of the log, unlike that of every other stack."""
    provider = stack.node.find_child("Custom::S3AutoDeleteObjectsCustomResourceProvider")
    log = log_group(stack, "EmptyBucketsLog", name=f"/aws/lambda/{deployment.names.named(name)}", deployment=deployment)
    handler = provider.node.find_child("Handler")
    if isinstance(handler, cdk.CfnResource):
        handler.add_property_override("LoggingConfig", {"LogGroup": log.log_group_name})
