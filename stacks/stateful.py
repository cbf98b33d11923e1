"""What an environment may never lose to a deployment: a change that would replace a stateful resource is refused.

CloudFormation replaces a table or a bucket whose name or keys change, or whose logical id moves, without asking.
`python -m stacks.stateful` writes the record stacks/stateful.json after a change that is meant.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOMS: Final = ("storage", "knowledge", "agentcore")
# There only when agentcoreMemories names a memory. CDK leaves a stack alone that an app does not make any more.
OPTIONAL: Final = "agentcore"
# Names a memory, so that the room is made for the record; which one is in nothing that is recorded.
ANY_MEMORY: Final = '[{"memory_id": "any-Abc1234567", "namespaces": ["/"]}]'
RECORD: Final = Path(__file__).with_suffix(".json")
# Properties whose change replaces the resource, or loses what it holds, by type.
IDENTITY: Final = {
    "AWS::DynamoDB::GlobalTable": ("TableName", "KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes"),
    "AWS::DynamoDB::Table": ("TableName", "KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes"),
    "AWS::S3::Bucket": ("BucketName",),
    "AWS::SecretsManager::Secret": ("Name", "GenerateSecretString"),
    # Without it no receipt of an erasure can be proved any more.
    "AWS::KMS::Key": ("KeySpec", "KeyUsage"),
    "AWS::S3Vectors::VectorBucket": ("VectorBucketName",),
    "AWS::S3Vectors::Index": ("IndexName", "DataType", "Dimension", "DistanceMetric", "MetadataConfiguration"),
    "AWS::Bedrock::KnowledgeBase": ("KnowledgeBaseConfiguration", "StorageConfiguration"),
    "AWS::Bedrock::DataSource": ("KnowledgeBaseId", "DataSourceConfiguration", "VectorIngestionConfiguration"),
}


class ReplacementError(ValueError):
    """A deployment would replace or drop a stateful resource: one line, fit for stderr."""


def identities(template: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The stateful resources of a template by logical id, with what must not change."""
    return {
        logical_id: {"Type": resource["Type"], **_fixed(resource)}
        for logical_id, resource in sorted(template["Resources"].items())
        if resource["Type"] in IDENTITY
    }


def _fixed(resource: Mapping[str, Any]) -> dict[str, Any]:
    properties = resource.get("Properties", {})
    return {name: properties[name] for name in IDENTITY[resource["Type"]] if name in properties}


def refuse_replacements(environment: str, templates: Mapping[str, Mapping[str, Any]]) -> None:
    """Compare the templates of the stateful rooms with the record of *environment*.

    Raises ReplacementError naming resource and property."""
    record = json.loads(RECORD.read_text()).get(environment, {})
    for room in ROOMS:
        if room == OPTIONAL and room not in templates:
            continue
        found = identities(templates[room]) if room in templates else {}
        _refuse(environment, record.get(room, {}), found)


def _refuse(environment: str, known: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    for logical_id, before in known.items():
        after = found.get(logical_id)
        if after is None:
            raise ReplacementError(f"{logical_id}: {before['Type']} would be dropped from {environment}; {_ADVICE}")
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                raise ReplacementError(f"{logical_id}: a change of {name} would replace it in {environment}; {_ADVICE}")
    for logical_id in found:
        if logical_id not in known:
            raise ReplacementError(f"{logical_id}: not in stacks/stateful.json for {environment}; {_ADVICE}")


_ADVICE: Final = (
    "stateful resources keep their identity; if it is meant, or nothing is deployed yet, migrate the data, "
    "write the setting into cdk.json and run python -m stacks.stateful"
)


def main() -> None:
    """Write the record from what the app synthesises today."""
    from app import stateful_templates
    from stacks.rules import ENVIRONMENTS

    record = {
        environment: {room: identities(template) for room, template in stateful_templates(environment).items()}
        for environment in ENVIRONMENTS
    }
    RECORD.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
