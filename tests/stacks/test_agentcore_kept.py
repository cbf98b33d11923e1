"""What the stack over AgentCore keeps: two buckets, as safe as every other, and lost to no deployment."""

import copy
import json
from typing import Any

import pytest
from support.deployments import as_list, flat, resources, templates

from app import stateful_templates
from stacks.stateful import RECORD, ReplacementError, refuse_replacements

ENTRY = {"memory_id": "harbour-Abc1234567", "namespaces": ["/actors/"], "tenant_id": "pier"}
OTHER = {"memory_id": "quays-Abc1234567", "namespaces": ["/"], "tenant_id": "quay", "region": "eu-west-1"}
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
PUBLIC = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
ENVIRONMENTS = ["dev", "staging", "prod", "local"]


def named(environment: str, *entries: dict[str, Any], **context: object) -> dict[str, dict[str, Any]]:
    return templates({"env": environment, "agentcoreMemories": json.dumps(entries or [ENTRY]), **context})


def bucket(kind: str, environment: str = "prod", **context: object) -> dict[str, Any]:
    found = resources(named(environment, **context)["agentcore"], "AWS::S3::Bucket")
    [held] = [one for one in found.values() if f"-{kind}-" in flat(one["Properties"]["BucketName"])]
    return held


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("kind", ["agentcore", "trail"])
def test_a_bucket_is_private_versioned_encrypted_and_refuses_plain_http(kind: str, environment: str) -> None:
    held = bucket(kind, environment)["Properties"]
    assert all(held["PublicAccessBlockConfiguration"][name] is True for name in PUBLIC)
    assert held["VersioningConfiguration"] == {"Status": "Enabled"}
    assert held["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert held["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    template = named(environment)["agentcore"]
    denied = set()
    for policy in resources(template, "AWS::S3::BucketPolicy").values():
        for one in policy["Properties"]["PolicyDocument"]["Statement"]:
            if one["Effect"] == "Deny" and one["Principal"] in ("*", {"AWS": "*"}):
                denied |= {(policy["Properties"]["Bucket"]["Ref"], key) for key in one["Condition"]}
    ids = [key for key, one in resources(template, "AWS::S3::Bucket").items() if one["Properties"] == held]
    assert {(ids[0], "Bool"), (ids[0], "NumericLessThan")} <= denied


@pytest.mark.parametrize(("environment", "policy"), [("dev", "Delete"), ("staging", "Retain"), ("prod", "Retain")])
@pytest.mark.parametrize("kind", ["agentcore", "trail"])
def test_what_is_kept_outlives_the_stack_where_data_are_kept(kind: str, environment: str, policy: str) -> None:
    held = bucket(kind, environment)
    assert (held["DeletionPolicy"], held["UpdateReplacePolicy"]) == (policy, policy)
    emptied = [one for one in held["Properties"].get("Tags", []) if one["Key"] == "aws-cdk:auto-delete-objects"]
    assert bool(emptied) == (policy == "Delete")


@pytest.mark.parametrize("kind", ["agentcore", "trail"])
def test_a_key_of_the_owner_encrypts_both_and_the_trail_writes_with_it(kind: str) -> None:
    [rule] = bucket(kind, encryptionKeyArn=KEY)["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"KMSMasterKeyID": KEY, "SSEAlgorithm": "aws:kms"}
    [trail] = resources(named("prod", encryptionKeyArn=KEY)["agentcore"], "AWS::CloudTrail::Trail").values()
    assert trail["Properties"]["KMSKeyId"] == KEY
    [plain] = resources(named("prod")["agentcore"], "AWS::CloudTrail::Trail").values()
    assert "KMSKeyId" not in plain["Properties"]


def test_whoever_writes_or_reads_a_bucket_may_use_the_key_of_the_owner() -> None:
    template = named("prod", encryptionKeyArn=KEY)["agentcore"]
    for policy in resources(template, "AWS::IAM::Policy").values():
        actions = {
            (action, flat(arn))
            for one in policy["Properties"]["PolicyDocument"]["Statement"]
            for action in as_list(one["Action"])
            for arn in as_list(one["Resource"])
        }
        if any(action in {"s3:GetObject", "s3:PutObject"} for action, _ in actions):
            assert {("kms:Decrypt", KEY), ("kms:GenerateDataKey", KEY)} <= actions, policy["Properties"]["PolicyName"]


def days(kind: str, **context: Any) -> dict[str, int]:
    """Days until objects expire, by prefix; of versions that were written over, as `versions`."""
    found = {}
    for rule in bucket(kind, **context)["Properties"]["LifecycleConfiguration"]["Rules"]:
        assert rule["Status"] == "Enabled"
        if "ExpirationInDays" in rule:
            found[rule.get("Prefix", "")] = rule["ExpirationInDays"]
        if "NoncurrentVersionExpiration" in rule:
            found["versions"] = rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
    return found


def test_archive_and_files_of_nights_go_after_the_days_of_undo_and_indexes_stay() -> None:
    assert days("agentcore") == {"archive/": 31, "lifecycle/": 31, "versions": 30}
    assert days("agentcore", undoDays=7) == {"archive/": 8, "lifecycle/": 8, "versions": 7}


def test_files_of_the_trail_go_after_eight_days_whatever_may_be_undone() -> None:
    assert days("trail") == {"": 8, "versions": 1}
    assert days("trail", undoDays=90) == {"": 8, "versions": 1}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_both_buckets_are_on_the_record_of_what_may_not_be_replaced(environment: str) -> None:
    recorded = json.loads(RECORD.read_text())[environment]["agentcore"]
    assert len(recorded) == 2
    refuse_replacements(environment, named(environment))
    refuse_replacements(environment, stateful_templates(environment))


@pytest.mark.parametrize("kind", ["State", "Trail"])
def test_a_change_that_would_replace_or_drop_a_bucket_is_refused(kind: str) -> None:
    for change in ("renamed", "dropped"):
        changed = copy.deepcopy(named("prod"))
        held = changed["agentcore"]["Resources"]
        [key] = [key for key, one in held.items() if one["Type"] == "AWS::S3::Bucket" and kind in key]
        if change == "renamed":
            held[key]["Properties"]["BucketName"] = "elsewhere"
        else:
            del held[key]
        with pytest.raises(ReplacementError, match="BucketName" if change == "renamed" else "dropped"):
            refuse_replacements("prod", changed)


@pytest.mark.parametrize("before", [[ENTRY, OTHER], [OTHER, ENTRY]])
def test_a_memory_that_is_taken_off_the_list_takes_no_bucket_and_no_object_with_it(
    before: list[dict[str, Any]],
) -> None:
    """What was kept for it stays where it is: only the functions forget where its records are."""
    two, one = named("prod", *before)["agentcore"], named("prod", ENTRY)["agentcore"]
    kept = {"AWS::S3::Bucket", "AWS::S3::BucketPolicy"}
    for kind in kept:
        assert resources(two, kind) == resources(one, kind)
    assert set(two["Resources"]) == set(one["Resources"])
    assert not [key for key in one["Resources"] if one["Resources"][key]["Type"].startswith("Custom::")]


def test_the_last_memory_that_is_taken_off_the_list_leaves_the_stack_to_whoever_destroys_it() -> None:
    """CDK deletes no stack that an app does not make any more; the record lets it go without a word."""
    without = templates({"env": "prod"})
    assert "agentcore" not in without
    refuse_replacements("prod", without)
    for room, template in without.items():
        if room != "access":
            assert named("prod")[room]["Resources"].keys() >= template["Resources"].keys(), room


def test_the_function_that_empties_buckets_has_a_log_that_is_forgotten() -> None:
    template = named("dev")["agentcore"]
    [emptying] = [
        one["Properties"]
        for key, one in resources(template, "AWS::Lambda::Function").items()
        if key.startswith("CustomS3AutoDelete")
    ]
    log = resources(template, "AWS::Logs::LogGroup")[emptying["LoggingConfig"]["LogGroup"]["Ref"]]
    assert log["Properties"]["RetentionInDays"] == 30
    assert not [key for key in named("prod")["agentcore"]["Resources"] if key.startswith("Custom")]
