"""What the night over AgentCore keeps, and the trail that tells it who read what."""

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_cloudtrail as cloudtrail
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.buckets import a_bucket
from stacks.settings import Deployment

# As long as a night that was missed may be made up for, and a day.
TRAIL_DAYS: Final = 8


class AgentCoreBuckets(Construct):
    """Stateful: the archive of what nights removed, the ledger of accesses, the indexes; and the trail's files."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        arn = deployment.encryption_key_arn
        self._key = kms.Key.from_key_arn(self, "Key", arn) if arn else None
        names = deployment.names
        self._bucket("State", names.agentcore_bucket, expiring=(contract.ARCHIVE_PREFIX, contract.LIFECYCLE_PREFIX))
        trail = self._bucket("Trail", names.trail_bucket, expiring=("",), days=TRAIL_DAYS)
        # An emulator has no trails; its tests write the files.
        if deployment.layer_platform == "lambda":
            self._trail(trail)

    def _bucket(self, construct_id: str, name: str, *, expiring: Sequence[str], days: int | None = None) -> s3.Bucket:
        kept = days or self._deployment.undo_days + 1
        rules = [
            *(s3.LifecycleRule(prefix=prefix or None, expiration=cdk.Duration.days(kept)) for prefix in expiring),
            s3.LifecycleRule(
                noncurrent_version_expiration=cdk.Duration.days(self._deployment.undo_days if days is None else 1),
                abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
            ),
        ]
        return a_bucket(
            self, construct_id, name, deployment=self._deployment, key=self._key, rules=rules, unlogged="memories"
        )

    def _trail(self, bucket: s3.Bucket) -> None:
        """Reads of records alone: advanced selectors replace the basic ones, so no management event is logged."""
        names = self._deployment.names
        self._may_deliver(bucket, names.arn("cloudtrail", f"trail/{names.trail}"))
        selectors = [
            _selector("eventCategory", "Data"),
            _selector("resources.type", self._deployment.agentcore_resource_type),
            _selector("readOnly", "true"),
        ]
        trail = cloudtrail.CfnTrail(
            self,
            "Accesses",
            trail_name=names.trail,
            s3_bucket_name=bucket.bucket_name,
            # Its policy must let CloudTrail use it (docs/agentcore.md), or CloudFormation says so and rolls back.
            kms_key_id=self._deployment.encryption_key_arn or None,
            is_logging=True,
            is_multi_region_trail=any(entry.get("region") for entry in self._deployment.agentcore_entries),
            include_global_service_events=False,
            enable_log_file_validation=True,
            advanced_event_selectors=[
                cloudtrail.CfnTrail.AdvancedEventSelectorProperty(
                    name="Reads of AgentCore memory records", field_selectors=selectors
                )
            ],
        )
        if bucket.policy:
            trail.node.add_dependency(bucket.policy)

    def _may_deliver(self, bucket: s3.Bucket, trail: str) -> None:
        """Let CloudTrail deliver, for this trail alone."""
        only = {"StringEquals": {"aws:SourceArn": trail}}
        deliver = iam.ServicePrincipal("cloudtrail.amazonaws.com")
        bucket.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["s3:GetBucketAcl"], principals=[deliver], resources=[bucket.bucket_arn], conditions=only
            )
        )
        bucket.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["s3:PutObject"],
                principals=[deliver],
                resources=[bucket.arn_for_objects(f"{contract.TRAIL_PREFIX}{cdk.Aws.ACCOUNT_ID}/*")],
                conditions={"StringEquals": {**only["StringEquals"], "s3:x-amz-acl": "bucket-owner-full-control"}},
            )
        )


def _selector(field: str, value: str) -> cloudtrail.CfnTrail.AdvancedFieldSelectorProperty:
    return cloudtrail.CfnTrail.AdvancedFieldSelectorProperty(field=field, equal_to=[value])
