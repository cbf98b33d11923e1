"""Every `*` that any policy of the product may hold, with its reason. tests/stacks holds the templates to this list."""

from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from constructs import IConstruct


@dataclass(frozen=True)
class Wildcard:
    """Actions on a resource that is, or holds, a `*`."""

    actions: tuple[str, ...]
    resource: str
    reason: str


DETECT_PII: Final = Wildcard(
    ("comprehend:DetectPiiEntities",), "*", "Comprehend has no resource-level permission for it."
)
TRACE: Final = Wildcard(
    ("xray:GetSamplingRules", "xray:GetSamplingTargets", "xray:PutTelemetryRecords", "xray:PutTraceSegments"),
    "*",
    "X-Ray has no resource-level permission for it.",
)
DELIVER_LOGS: Final = Wildcard(
    (
        "logs:CreateLogDelivery",
        "logs:DeleteLogDelivery",
        "logs:DescribeLogGroups",
        "logs:DescribeResourcePolicies",
        "logs:GetLogDelivery",
        "logs:ListLogDeliveries",
        "logs:PutResourcePolicy",
        "logs:UpdateLogDelivery",
    ),
    "*",
    "Step Functions writes its log through vended log delivery, which has no resource-level permission.",
)
TENANT_OBJECTS: Final = Wildcard(
    ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
    "${aws:PrincipalTag/tenant_id}/*",
    "Object keys are made at run time; the session tag before the star holds them to one tenant.",
)
KNOWLEDGE_OBJECTS: Final = Wildcard(
    ("s3:GetObject",),
    "/semantic-memory/*",
    "The Knowledge Base reads the documents of all facts; their keys are made at run time.",
)
MODEL_EVERYWHERE: Final = Wildcard(
    ("bedrock:InvokeModel",),
    "foundation-model/",
    "An inference profile routes to regions of its own choice; the condition binds the model to that profile.",
)
CLIENT_UPLOADS: Final = Wildcard(
    ("s3:PutObject",),
    "agent-memory-transcripts-",
    "Operators replay runs of any tenant; they may write transcripts, and read none without the tenant's role.",
)
EXECUTIONS: Final = Wildcard(
    ("states:DescribeExecution",),
    ":execution:agent-memory-consolidation-",
    "Executions are named at run time; the machine before the star is ours.",
)
NIGHT_FILES: Final = Wildcard(
    ("s3:GetObject", "s3:PutObject"),
    "/lifecycle/*",
    "A night names its slices, plans and results at run time; they hold ids, scores and reason codes.",
)
LIFECYCLE_EXECUTIONS: Final = Wildcard(
    ("states:DescribeExecution", "states:StopExecution"),
    ":execution:agent-memory-lifecycle-",
    "The machine runs a child for each slice and names it at run time; the machine before the star is itself.",
)
ERASED_OBJECTS: Final = Wildcard(
    (
        "s3:DeleteObject",
        "s3:DeleteObjectVersion",
        "s3:GetObject",
        "s3:GetObjectVersion",
        "s3:PutObject",
    ),
    "${aws:PrincipalTag/tenant_id}/*",
    "An erasure deletes every version of a tenant's objects; the session tag before the star holds it to one tenant.",
)
ERASURE_EXECUTIONS: Final = Wildcard(
    ("states:DescribeExecution",),
    ":execution:agent-memory-erasure-",
    "Executions are named at run time; the machine before the star is ours.",
)
RECEIPT_KEYS: Final = Wildcard(
    ("kms:GenerateMac", "kms:VerifyMac"),
    ":key/*",
    "The key is known by its alias, to which a condition holds it: no stack imports a value from another.",
)
AGENTCORE_FILES: Final = Wildcard(
    ("s3:DeleteObject", "s3:GetObject", "s3:GetObjectVersion", "s3:PutObject"),
    ":s3:::agent-memory-agentcore-",
    "Slices, notes and archived records are named at run time; the prefix before the star is of the one kind.",
)
TRAIL_FILES: Final = Wildcard(
    ("s3:GetObject",),
    ":s3:::agent-memory-trail-",
    "CloudTrail names its files as it delivers them; nothing else lies in the bucket but reports of accesses.",
)
REPORT_FILES: Final = Wildcard(
    ("s3:PutObject",),
    "/reports/*",
    "Reports of accesses are named by a hash of what they say; nothing else lies under the prefix before the star.",
)
AGENTCORE_EXECUTIONS: Final = Wildcard(
    ("states:DescribeExecution", "states:StopExecution"),
    ":execution:agent-memory-agentcore-",
    "The machine runs a child for each slice and names it at run time; the machine before the star is itself.",
)
ALL: Final = (
    DETECT_PII,
    TRACE,
    DELIVER_LOGS,
    TENANT_OBJECTS,
    KNOWLEDGE_OBJECTS,
    MODEL_EVERYWHERE,
    CLIENT_UPLOADS,
    EXECUTIONS,
    NIGHT_FILES,
    LIFECYCLE_EXECUTIONS,
    ERASED_OBJECTS,
    ERASURE_EXECUTIONS,
    RECEIPT_KEYS,
    AGENTCORE_FILES,
    TRAIL_FILES,
    REPORT_FILES,
    AGENTCORE_EXECUTIONS,
)


def acknowledge(construct: IConstruct, reason: str, *rules: str) -> None:
    """Tell cdk-nag why *construct* breaks a rule on purpose."""
    for rule in rules:
        acknowledgment = cdk.Acknowledgment(id=f"AwsSolutions::AwsSolutions-{_shown(rule)}", reason=reason)
        cdk.Validations.of(construct).acknowledge(acknowledgment)


def _shown(rule: str) -> str:
    """cdk-nag writes pseudo parameters by name; a token can't be part of an id."""
    for name, token in (
        ("Partition", cdk.Aws.PARTITION),
        ("AccountId", cdk.Aws.ACCOUNT_ID),
        ("Region", cdk.Aws.REGION),
    ):
        rule = rule.replace(token, f"<AWS::{name}>")
    return rule.replace("${", "<").replace("}", ">")
