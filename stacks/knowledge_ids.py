"""How the other stacks know the Knowledge Base: its ids are given, or looked up where the knowledge stack put them."""

import aws_cdk as cdk
from agent_memory import contract

from stacks.settings import KNOWLEDGE_IDS, Deployment, looked_up


def look_up_knowledge_ids(stack: cdk.Stack, deployment: Deployment) -> None:
    """Declare what Deployment.knowledge_ids refers to. CloudFormation reads such a parameter anew on every update."""
    if deployment.makes_knowledge_base:
        for key, name in KNOWLEDGE_IDS.items():
            cdk.CfnParameter(
                stack,
                looked_up(key),
                type="AWS::SSM::Parameter::Value<String>",
                default=f"{contract.PARAMETER_ROOT}/{deployment.env}/{name}",
                description="Published by the knowledge stack",
            )
