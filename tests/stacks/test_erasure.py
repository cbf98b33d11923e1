"""Who may delete: a role of its own, of one tenant at a time, and nobody of every day."""

import json
from typing import Any

import pytest
from agent_memory import contract
from agent_memory.domain.agentcore import agentcore_memories
from agent_memory.domain.agentcore_erasure import TRAIL_DAYS
from support.deployments import allow_statements, as_list, flat, resources, templates

TENANT = "${aws:PrincipalTag/tenant_id}"
ENTRY = {"memory_id": "harbour-Abc1234567", "tenant_id": "acme", "namespaces": ["/actors/"], "retention": {"x": 9}}
NAMED = {"agentcoreMemories": json.dumps([ENTRY])}


def statements(room: str, holder: str, **context: object) -> list[dict[str, Any]]:
    found = allow_statements(templates({"env": "prod", **context})[room])
    return [one for key, one in found if key.startswith(holder)]


@pytest.mark.parametrize("context", [{}, NAMED], ids=["without-agentcore", "with-agentcore"])
def test_the_role_of_erasures_reaches_one_tenants_rows_and_objects_only(context: dict[str, str]) -> None:
    for statement in statements("erasure", "ErasureRole", **context):
        actions = as_list(statement["Action"])
        if any(action.startswith("dynamodb:") for action in actions):
            assert statement["Condition"] == {
                "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{TENANT}#*"]},
                "Null": {"dynamodb:LeadingKeys": "false"},
            }
            assert "dynamodb:Scan" not in actions
        elif "s3:ListBucketVersions" in actions:
            assert all(f"{TENANT}/*" in one for one in as_list(statement["Condition"]["StringLike"]["s3:prefix"]))
        elif any(action.startswith("s3:") for action in actions):
            assert all(flat(arn).endswith(f"/{TENANT}/*") for arn in as_list(statement["Resource"]))


def test_nobody_else_deletes_versions_of_objects_or_rows_of_procedures() -> None:
    for room, template in templates({"env": "prod"}).items():
        for key, statement in allow_statements(template):
            actions = as_list(statement["Action"])
            if key.startswith(("ErasureRole", "CustomS3AutoDelete")):
                continue
            assert "s3:DeleteObjectVersion" not in actions, (room, key)
            if "dynamodb:DeleteItem" in actions:
                assert not [arn for arn in as_list(statement["Resource"]) if contract.PROCEDURES_TABLE in flat(arn)]


def test_receipts_never_expire_and_their_key_stays() -> None:
    storage = templates({"env": "prod"})["storage"]
    [bucket] = [one for key, one in resources(storage, "AWS::S3::Bucket").items() if key.startswith("Receipts")]
    rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
    assert {rule.get("Prefix") for rule in rules if "ExpirationInDays" in rule} == {contract.ERASURE_WORK_PREFIX}
    [key] = resources(storage, "AWS::KMS::Key").values()
    assert (key["Properties"]["KeySpec"], key["DeletionPolicy"]) == ("HMAC_256", "Retain")


def test_an_eraser_may_call_the_desk_and_nothing_else() -> None:
    template = templates({"env": "prod"})["erasure"]
    [policy] = resources(template, "AWS::IAM::ManagedPolicy").values()
    actions = {a for one in policy["Properties"]["PolicyDocument"]["Statement"] for a in as_list(one["Action"])}
    assert actions == {"ssm:GetParametersByPath", "lambda:InvokeFunction"}


def told(**context: object) -> list[dict[str, str]]:
    """The variables of the functions of erasures, with names as long as they get."""
    real = {"AWS::AccountId": "123456789012", "AWS::Region": "ap-southeast-2", "AWS::Partition": "aws-us-gov"}
    found = []
    for function in resources(templates({"env": "prod", **context})["erasure"], "AWS::Lambda::Function").values():
        variables = {}
        for name, value in function["Properties"]["Environment"]["Variables"].items():
            variables[name] = flat(value)
            for token, word in real.items():
                variables[name] = variables[name].replace(f"<{token}>", word)
        found.append(variables)
    return found


MANY = [{**ENTRY, "tenant_id": "", "namespaces": [f"/{n:02d}{'x' * 70}/" for n in range(16)]}]


@pytest.mark.parametrize("context", [{}, {"agentcoreMemories": json.dumps(MANY)}], ids=["usual", "most-memories"])
def test_the_variables_of_the_functions_of_erasures_fit_lambda(context: dict[str, str]) -> None:
    for variables in told(**context):
        assert sum(len(name) + len(value) for name, value in variables.items()) < 4096


def test_only_where_memories_are_named_erasures_are_told_of_them_and_of_places_alone() -> None:
    for variables in told():
        assert not {"AGENT_MEMORY_AGENTCORE_MEMORIES", "AGENT_MEMORY_AGENTCORE_BUCKET"} & set(variables)
    for variables in told(agentcoreSettleSeconds=1200, **NAMED):
        [memory] = agentcore_memories(variables["AGENT_MEMORY_AGENTCORE_MEMORIES"])
        assert (memory.name, memory.namespaces, memory.retention) == ("acme", ("/actors/",), {})
        assert variables["AGENT_MEMORY_AGENTCORE_BUCKET"] == "agent-memory-agentcore-prod-123456789012"
        assert variables["AGENT_MEMORY_AGENTCORE_SETTLE_SECONDS"] == "1200"


def test_erasures_list_and_delete_in_the_named_memories_and_nothing_else_there() -> None:
    assert not [one for one in statements("erasure", "") if "bedrock-agentcore" in json.dumps(one)]
    for holder in ("EraseStore", "ErasureDesk"):
        found = [
            one for one in statements("erasure", holder, **NAMED) if "bedrock-agentcore:" in json.dumps(one["Action"])
        ]
        assert {action.removeprefix("bedrock-agentcore:") for one in found for action in as_list(one["Action"])} == {
            "BatchDeleteMemoryRecords", "DeleteEvent", "ListActors", "ListEvents", "ListMemoryRecords", "ListSessions",
        }  # fmt: skip
        memories = {flat(arn).rpartition(":")[2] for one in found for arn in as_list(one["Resource"])}
        assert memories == {"memory/harbour-Abc1234567"}


def test_of_agentcores_bucket_a_function_of_erasures_itself_reaches_the_ledger_of_accesses_alone() -> None:
    for holder in ("EraseStore", "ErasureDesk"):
        objects = [
            flat(arn)
            for one in statements("erasure", holder, **NAMED)
            for arn in as_list(one["Resource"])
            if "agent-memory-agentcore-" in flat(arn) and "/" in flat(arn)
        ]
        assert {arn.partition("/")[2] for arn in objects} == {contract.ACCESS_LEDGER_KEY}


def test_a_receipt_says_no_earlier_day_than_the_trails_files_live() -> None:
    template = templates({"env": "prod", **NAMED})["agentcore"]
    [bucket] = [one for key, one in resources(template, "AWS::S3::Bucket").items() if "Trail" in key]
    rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
    current = max(one["ExpirationInDays"] for one in rules if "ExpirationInDays" in one)
    former = max(
        one["NoncurrentVersionExpiration"]["NoncurrentDays"] for one in rules if "NoncurrentVersionExpiration" in one
    )
    assert current + former + 1 == TRAIL_DAYS
