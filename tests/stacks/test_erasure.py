"""Who may delete: a role of its own, of one tenant at a time, and nobody of every day."""

from typing import Any

from agent_memory import contract
from support.deployments import allow_statements, as_list, flat, resources, templates

TENANT = "${aws:PrincipalTag/tenant_id}"


def statements(room: str, holder: str) -> list[dict[str, Any]]:
    return [one for key, one in allow_statements(templates({"env": "prod"})[room]) if key.startswith(holder)]


def test_the_role_of_erasures_reaches_one_tenants_rows_and_objects_only() -> None:
    for statement in statements("erasure", "ErasureRole"):
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


def test_the_variables_of_the_functions_of_erasures_fit_lambda() -> None:
    real = {"AWS::AccountId": "123456789012", "AWS::Region": "ap-southeast-2", "AWS::Partition": "aws-us-gov"}
    for function in resources(templates({"env": "prod"})["erasure"], "AWS::Lambda::Function").values():
        told = function["Properties"]["Environment"]["Variables"]
        size = 0
        for name, value in told.items():
            text = flat(value)
            for token, word in real.items():
                text = text.replace(f"<{token}>", word)
            size += len(name) + len(text)
        assert size < 4096
