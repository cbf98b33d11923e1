"""How every bucket of a deployment is made: private, encrypted, versioned, reached through TLS alone."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.settings import Deployment
from stacks.wildcards import acknowledge


def a_bucket(
    scope: Construct,
    construct_id: str,
    name: str,
    *,
    deployment: Deployment,
    key: kms.IKey | None,
    rules: Sequence[s3.LifecycleRule],
    unlogged: str,
) -> s3.Bucket:
    """A bucket under *key*, or S3's own where the owner gave none. *unlogged*: what access logs of it would name."""
    bucket = s3.Bucket(
        scope,
        construct_id,
        bucket_name=name,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        versioned=True,
        lifecycle_rules=[*rules, s3.LifecycleRule(expired_object_delete_marker=True)],
        removal_policy=cdk.RemovalPolicy.RETAIN if deployment.retain_data else cdk.RemovalPolicy.DESTROY,
        auto_delete_objects=deployment.empty_on_destroy,
    )
    acknowledge(bucket, f"Access logs would name {unlogged}; CloudTrail data events are the audit trail.", "S1")
    return bucket
