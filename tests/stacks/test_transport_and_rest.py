"""In transit and at rest, over every template and every resource that holds anything: new ones are held to it as well."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support.deployments import as_list, flat, resources, templates

ENVIRONMENTS = ("dev", "staging", "prod", "local")
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
PUBLIC = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")


def every(kind: str, **context: object) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """(environment, logical id, properties, template) of every resource of *kind*."""
    for environment in ENVIRONMENTS:
        for template in templates({"env": environment, **context}).values():
            for key, resource in resources(template, kind).items():
                yield environment, key, resource["Properties"], template


def refuses_plain(template: Mapping[str, Any], kind: str, holder: str, of: str) -> bool:
    """Whether a policy of *kind* on resource *of* denies everything to everybody without TLS."""
    for policy in resources(template, kind).values():
        if {"Ref": of} not in as_list(policy["Properties"][holder]):
            continue
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            plain = statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport") == "false"
            if plain and statement["Effect"] == "Deny" and statement["Principal"] in ("*", {"AWS": "*"}):
                return True
    return False


def test_every_bucket_is_private_encrypted_and_refuses_plain_http() -> None:
    found = set()
    for environment, key, bucket, template in every("AWS::S3::Bucket"):
        assert all(bucket["PublicAccessBlockConfiguration"][name] is True for name in PUBLIC), key
        assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"], key
        assert refuses_plain(template, "AWS::S3::BucketPolicy", "Bucket", key), f"{environment} {key}"
        found.add(key)
    assert len(found) >= 4


def test_every_queue_is_encrypted_forgets_and_refuses_plain_http() -> None:
    found = set()
    for environment, key, queue, template in every("AWS::SQS::Queue"):
        assert queue.get("SqsManagedSseEnabled") is True or queue.get("KmsMasterKeyId"), f"{environment} {key}"
        assert queue["MessageRetentionPeriod"] <= 14 * 86_400, key
        assert refuses_plain(template, "AWS::SQS::QueuePolicy", "Queues", key), f"{environment} {key}"
        found.add(key)
    assert len(found) >= 5


def test_every_topic_refuses_plain_http_and_lets_no_stranger_publish() -> None:
    found = set()
    for environment, key, _, template in every("AWS::SNS::Topic"):
        denied = False
        for policy in resources(template, "AWS::SNS::TopicPolicy").values():
            if {"Ref": key} in policy["Properties"]["Topics"]:
                for one in policy["Properties"]["PolicyDocument"]["Statement"]:
                    plain = one.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport") == "false"
                    denied = denied or (one["Effect"] == "Deny" and plain)
                    assert one["Effect"] == "Deny" or one["Principal"] not in ("*", {"AWS": "*"}), key
        assert denied, f"{environment} {key}"
        found.add(key)
    assert len(found) >= 2


def test_a_key_of_the_owner_encrypts_every_table_and_bucket_and_the_secret() -> None:
    template = templates({"env": "prod", "encryptionKeyArn": KEY})["storage"]
    for table in resources(template, "AWS::DynamoDB::GlobalTable").values():
        assert KEY in str(table["Properties"]), table["Properties"]["TableName"]
    for bucket in resources(template, "AWS::S3::Bucket").values():
        assert KEY in str(bucket["Properties"]["BucketEncryption"])
    for secret in resources(template, "AWS::SecretsManager::Secret").values():
        assert secret["Properties"]["KmsKeyId"] == KEY


def test_every_log_is_forgotten_and_every_function_has_one_of_its_own() -> None:
    for environment, key, group, _ in every("AWS::Logs::LogGroup"):
        assert 1 <= group["RetentionInDays"] <= 731, f"{environment} {key}"
    for environment, key, function, template in every("AWS::Lambda::Function"):
        if "POWERTOOLS_SERVICE_NAME" in function.get("Environment", {}).get("Variables", {}):
            group = function["LoggingConfig"]["LogGroup"]["Ref"]
            assert group in resources(template, "AWS::Logs::LogGroup"), f"{environment} {key}"


def test_no_machine_logs_what_passes_through_it() -> None:
    found = set()
    for environment, key, machine, _ in every("AWS::StepFunctions::StateMachine"):
        assert machine["LoggingConfiguration"].get("IncludeExecutionData") is not True, f"{environment} {key}"
        found.add(flat(machine["StateMachineName"]))
    assert len(found) >= 3 * len(ENVIRONMENTS)


@pytest.mark.parametrize("name", ["POWERTOOLS_LOGGER_LOG_EVENT", "POWERTOOLS_DEV", "POWERTOOLS_LOG_LEVEL"])
def test_no_function_is_told_to_log_its_events(name: str) -> None:
    for environment, key, function, _ in every("AWS::Lambda::Function"):
        assert name not in function.get("Environment", {}).get("Variables", {}), f"{environment} {key}"
