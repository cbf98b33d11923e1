"""Who may ask which chat model: the profile, and the model behind it only through that profile."""

import aws_cdk as cdk

from stacks.memory_function import MemoryFunction
from stacks.wildcards import MODEL_EVERYWHERE, acknowledge

GEOGRAPHIES = ("us", "eu", "au", "jp", "in", "apac", "global")


def may_ask(function: MemoryFunction, model_id: str) -> None:
    """Allow InvokeModel (Converse has no action of its own) on a profile id, a profile ARN or a model id."""
    here = f"arn:{cdk.Aws.PARTITION}:bedrock:{cdk.Aws.REGION}"
    geography, _, model = model_id.partition(".")
    if model_id.startswith("arn:"):
        _through(function, model_id, [f"arn:{cdk.Aws.PARTITION}:bedrock:*::foundation-model/*"])
    elif geography in GEOGRAPHIES:
        behind = [f"arn:{cdk.Aws.PARTITION}:bedrock:*::foundation-model/{model}"]
        if geography == "global":
            behind.append(f"arn:{cdk.Aws.PARTITION}:bedrock:::foundation-model/{model}")
        _through(function, f"{here}:{cdk.Aws.ACCOUNT_ID}:inference-profile/{model_id}", behind)
    else:
        function.may("bedrock:InvokeModel", on=[f"{here}::foundation-model/{model_id}"])


def _through(function: MemoryFunction, profile: str, models: list[str]) -> None:
    function.may("bedrock:InvokeModel", on=[profile])
    function.may("bedrock:InvokeModel", on=models, when={"StringEquals": {"bedrock:InferenceProfileArn": profile}})
    for model in models:
        acknowledge(function.own_role, MODEL_EVERYWHERE.reason, f"IAM5[Resource::{model}]")
