"""The stores: keys, protection, and the one role that reaches them."""

from typing import Any

import pytest
from agent_memory import contract
from support.deployments import a_deployment, allow_statements, as_list, flat, resources, templates

from stacks.stateful import IDENTITY

STORES = {"AWS::DynamoDB::GlobalTable": 4, "AWS::S3::Bucket": 4, "AWS::SecretsManager::Secret": 1}


def storage(**context: object) -> dict[str, Any]:
    return templates(context)["storage"]


def tables(environment: str) -> dict[str, dict[str, Any]]:
    found = resources(storage(env=environment), "AWS::DynamoDB::GlobalTable").values()
    return {table["Properties"]["TableName"].removesuffix(f"-{environment}"): table["Properties"] for table in found}


def test_tables_have_the_keys_and_indexes_of_the_contract() -> None:
    episodes, ledger = tables("dev")[contract.EPISODES_TABLE], tables("dev")[contract.LEDGER_TABLE]
    indexes = {index["IndexName"]: index for index in episodes["GlobalSecondaryIndexes"]}
    keys = {name: [key["AttributeName"] for key in index["KeySchema"]] for name, index in indexes.items()}
    assert [key["AttributeName"] for key in episodes["KeySchema"]] == ["agent_id", "run_id"]
    assert keys == {
        "agent-time-index": ["agent_id", "created_at"],
        "user-index": ["user_key"],
        "due-index": ["due_shard", "decays_at"],
    }
    assert indexes["agent-time-index"]["Projection"]["NonKeyAttributes"] == list(contract.AGENT_TIME_PROJECTION)
    assert {indexes[name]["Projection"]["ProjectionType"] for name in ("user-index", "due-index")} == {"KEYS_ONLY"}
    assert [key["AttributeName"] for key in ledger["KeySchema"]] == ["ledger_key", "entry_id"]
    for table in (episodes, ledger):
        assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert {table["BillingMode"] for table in tables("dev").values()} == {"PAY_PER_REQUEST"}


def test_facts_have_keys_and_small_indexes_and_no_expiry_behind_the_knowledge_base() -> None:
    facts = tables("dev")[contract.FACTS_TABLE]
    indexes = {index["IndexName"]: index for index in facts["GlobalSecondaryIndexes"]}
    keys = {name: [key["AttributeName"] for key in index["KeySchema"]] for name, index in indexes.items()}
    assert [key["AttributeName"] for key in facts["KeySchema"]] == ["domain_key", "fact_id"]
    assert keys == {
        "pending-index": ["pending_key", "promoted_at"],
        "user-index": ["user_key"],
        "due-index": ["due_shard", "decays_at"],
    }
    assert {index["Projection"]["ProjectionType"] for index in indexes.values()} == {"KEYS_ONLY"}
    assert "TimeToLiveSpecification" not in facts


def test_procedures_have_keys_and_small_indexes_and_never_expire() -> None:
    procedures = tables("dev")[contract.PROCEDURES_TABLE]
    indexes = {index["IndexName"]: index for index in procedures["GlobalSecondaryIndexes"]}
    keys = {name: [key["AttributeName"] for key in index["KeySchema"]] for name, index in indexes.items()}
    assert [key["AttributeName"] for key in procedures["KeySchema"]] == ["task_key", "procedure_id"]
    assert keys == {
        "procedure-index": ["procedure_key"],
        "review-index": ["review_key", "last_used_at"],
        "user-index": ["user_key"],
    }
    review = indexes.pop("review-index")["Projection"]
    assert (review["ProjectionType"], set(review["NonKeyAttributes"])) == ("INCLUDE", set(contract.REVIEW_PROJECTION))
    assert {index["Projection"]["ProjectionType"] for index in indexes.values()} == {"KEYS_ONLY"}
    assert "TimeToLiveSpecification" not in procedures


def test_indexes_project_nothing_that_an_access_changes() -> None:
    changing = {"access_count", "last_access_at", "use_count", "pinned", "decays_at"}
    assert not changing & set(contract.AGENT_TIME_PROJECTION)
    assert not {"applied", "succeeded", "offered", "passed_over", "revision"} & set(contract.REVIEW_PROJECTION)


@pytest.mark.parametrize("environment", ["staging", "prod"])
def test_data_outlive_the_stack_where_they_matter(environment: str) -> None:
    template = storage(env=environment)
    for kind, count in STORES.items():
        found = resources(template, kind)
        assert len(found) == count
        for store in found.values():
            assert (store["DeletionPolicy"], store["UpdateReplacePolicy"]) == ("Retain", "Retain")
    for table in tables(environment).values():
        replica = table["Replicas"][0]
        assert replica["DeletionProtectionEnabled"]
        assert replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
    assert not [kind for kind in template["Resources"].values() if kind["Type"].startswith("Custom::")]


def test_destroying_dev_leaves_nothing_behind() -> None:
    everything = [r for template in templates({"env": "dev"}).values() for r in template["Resources"].values()]
    assert not [
        r["Type"] for r in everything if r.get("DeletionPolicy") in {"Retain", "RetainExceptOnCreate", "Snapshot"}
    ]
    emptied = [flat(r["Properties"]["BucketName"]) for r in everything if r["Type"] == "Custom::S3AutoDeleteObjects"]
    assert len(emptied) == STORES["AWS::S3::Bucket"]
    # A table with recovery leaves a backup for 35 days, and a function without a group of its own leaves its log.
    for table in tables("dev").values():
        assert not table["Replicas"][0]["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
    for function in (r for r in everything if r["Type"] == "AWS::Lambda::Function"):
        assert "LogGroup" in function["Properties"]["LoggingConfig"]


def test_buckets_are_private_encrypted_and_forget() -> None:
    days = {}
    for bucket in resources(storage(env="prod"), "AWS::S3::Bucket").values():
        properties = bucket["Properties"]
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert properties["BucketEncryption"]
        assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
        rule = properties["LifecycleConfiguration"]["Rules"][0]
        after = rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
        days[flat(properties["BucketName"]).split("-prod")[0]] = (rule.get("ExpirationInDays"), after)
    assert days == {
        "agent-memory-transcripts": (3, 1),
        "agent-memory-parked": (30, 1),
        "agent-memory-knowledge": (None, 30),
        "agent-memory-archive": (33, 1),
    }
    policies = resources(storage(env="prod"), "AWS::S3::BucketPolicy").values()
    assert len(policies) == STORES["AWS::S3::Bucket"]
    for policy in policies:
        conditions = [
            s["Condition"] for s in policy["Properties"]["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"
        ]
        assert {"Bool": {"aws:SecureTransport": "false"}} in conditions


def test_the_key_of_the_pseudonyms_is_generated_and_never_in_the_template() -> None:
    [secret] = resources(storage(env="dev"), "AWS::SecretsManager::Secret").values()
    assert secret["Properties"]["GenerateSecretString"] == {"ExcludePunctuation": True, "PasswordLength": 64}
    assert "SecretString" not in secret["Properties"]


def test_a_key_of_the_owner_encrypts_every_store() -> None:
    key = "arn:aws:kms:eu-west-1:111122223333:key/0a1b2c3d-0000-1111-2222-333344445555"
    rooms = templates({"env": "dev", "encryptionKeyArn": key})
    for table in resources(rooms["storage"], "AWS::DynamoDB::GlobalTable").values():
        assert table["Properties"]["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
    for bucket in resources(rooms["storage"], "AWS::S3::Bucket").values():
        [rule] = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == key
    for room, holder in (("storage", "TenantRole"), ("consolidation", "AcceptRun")):
        grants = [s for k, s in allow_statements(rooms[room]) if k.startswith(holder) and key in as_list(s["Resource"])]
        assert grants, holder


def tenant_statements() -> list[dict[str, Any]]:
    return [s for key, s in allow_statements(storage(env="prod")) if key.startswith("TenantRole")]


def test_items_are_reached_only_under_the_tenant_of_the_session() -> None:
    statements = [s for s in tenant_statements() if as_list(s["Action"])[0].startswith("dynamodb:")]
    assert statements
    for statement in statements:
        assert statement["Condition"] == {
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["${aws:PrincipalTag/tenant_id}#*"]},
            "Null": {"dynamodb:LeadingKeys": "false"},
        }
        assert "dynamodb:Scan" not in as_list(statement["Action"])
        assert not [arn for arn in as_list(statement["Resource"]) if "due-index" in flat(arn) or "*" in flat(arn)]


def test_objects_are_reached_only_under_the_tenants_prefix() -> None:
    statements = [s for s in tenant_statements() if as_list(s["Action"])[0].startswith("s3:")]
    assert statements
    for statement in statements:
        for arn in map(flat, as_list(statement["Resource"])):
            if as_list(statement["Action"]) == ["s3:ListBucket"]:
                [prefix] = statement["Condition"]["StringLike"]["s3:prefix"]
                own = prefix
                for root in ("parked/", "~runs/", "semantic-memory/", "archive/"):
                    own = own.removeprefix(root)
                assert own == "${aws:PrincipalTag/tenant_id}/*"
            else:
                assert arn.endswith("/${aws:PrincipalTag/tenant_id}/*")


def test_nobody_but_the_pipeline_writes_where_the_pipeline_trusts_what_it_finds() -> None:
    written = [
        flat(arn).partition("transcripts-prod-")[2].partition("/")[2]
        for s in tenant_statements()
        if "s3:PutObject" in as_list(s["Action"])
        for arn in as_list(s["Resource"])
        if "transcripts" in flat(arn)
    ]
    assert written == ["~runs/${aws:PrincipalTag/tenant_id}/*"]


def test_the_tenant_role_can_be_taken_only_with_a_tenant() -> None:
    [role] = [r for k, r in resources(storage(env="prod"), "AWS::IAM::Role").items() if k.startswith("TenantRole")]
    [trust] = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert trust["Condition"]["Null"] == {"aws:RequestTag/tenant_id": "false"}
    assert "registry" in trust["Condition"]["StringNotLike"]["aws:RequestTag/tenant_id"]
    assert role["Properties"]["RoleName"] == "agent-memory-prod-tenant-data"


def test_the_stateful_stack_is_protected_in_prod() -> None:
    assert a_deployment(env="prod").deletion_protection
    assert not a_deployment(env="dev").deletion_protection


def test_every_kind_of_store_is_on_the_record() -> None:
    assert set(STORES) <= set(IDENTITY)
