"""Who may do what, function by function; a `*` only where the list of wildcards gives its reason."""

from typing import Any

import pytest
from support.deployments import allow_statements, as_list, flat, functions, resources, templates

from stacks.wildcards import ALL

ENVIRONMENTS = ["dev", "staging", "prod", "local"]
LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
TENANTS = {"sts:AssumeRole", "sts:TagSession"}
INTAKE = {
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
    "sqs:ReceiveMessage",
}
NIGHT_FILES = {"s3:GetObject", "s3:PutObject", "s3:ListBucket"}
ERASING = {
    "bedrock:GetKnowledgeBaseDocuments",
    "bedrock:Retrieve",
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "kms:GenerateMac",
    "kms:VerifyMac",
    "s3:ListBucketVersions",
    "secretsmanager:GetSecretValue",
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:ReceiveMessage",
    "states:DescribeExecution",
}
MAY = {
    "accept_run": INTAKE
    | {
        "sqs:SendMessage",
        "states:StartExecution",
        "states:DescribeExecution",
        "secretsmanager:GetSecretValue",
        "dynamodb:PutItem",
    },
    "consolidation": {"bedrock:InvokeModel"},
    "pii_scrubbing": {"comprehend:DetectPiiEntities"},
    "store_episode": {"bedrock:InvokeModel", "dynamodb:PutItem"},
    "fact_confirmation": {"bedrock:InvokeModel", "bedrock:Retrieve", "dynamodb:PutItem"},
    "ingestion": {
        "bedrock:GetIngestionJob",
        "bedrock:GetKnowledgeBaseDocuments",
        "bedrock:ListIngestionJobs",
        "bedrock:Retrieve",
        "bedrock:StartIngestionJob",
        "dynamodb:DeleteItem",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "dynamodb:UpdateItem",
    },
    "canary": {
        "bedrock:Retrieve",
        "events:PutEvents",
        "lambda:InvokeFunction",
        "lambda:InvokeFunctionUrl",
    },
    "erase_store": ERASING | {"bedrock:GetIngestionJob", "bedrock:StartIngestionJob"},
    "erasure_desk": ERASING | {"states:StartExecution"},
    "propose_procedure": {"bedrock:InvokeModel", "events:PutEvents"},
    "record_feedback": {"events:PutEvents"},
    "regression_cases": {
        "bedrock:InvokeModel",
        "bedrock:Retrieve",
        "comprehend:DetectPiiEntities",
        "secretsmanager:GetSecretValue",
    },
    "decay": NIGHT_FILES
    | {"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"},
    "examine_memories": NIGHT_FILES,
    "prune_memories": NIGHT_FILES,
    "merge_memories": NIGHT_FILES | {"bedrock:InvokeModel", "comprehend:DetectPiiEntities", "dynamodb:PutItem"},
    "restore_memories": NIGHT_FILES | {"dynamodb:PutItem"},
    "flag_procedures": NIGHT_FILES | {"dynamodb:Query", "events:PutEvents"},
    "expire_facts": NIGHT_FILES | {"dynamodb:PutItem"},
    "quality_check": NIGHT_FILES | {"bedrock:InvokeModel", "bedrock:Retrieve"},
    "lifecycle_report": NIGHT_FILES,
    "park_run": set(),
    "record_retrieval": INTAKE,
    "review_procedure": {
        "bedrock:InvokeModel",
        "comprehend:DetectPiiEntities",
        "dynamodb:GetItem",
        "events:PutEvents",
    },
    "bootstrap": {
        "bedrock:InvokeModel",
        "bedrock:Retrieve",
        "dynamodb:GetItem",
        "events:PutEvents",
        "secretsmanager:GetSecretValue",
    },
}
# Rows of the registry are nobody's data.
REGISTRY = {
    "bootstrap": ["registry#callers"],
    "review_procedure": ["registry#callers"],
    "accept_run": ["registry#tenants"],
    "fact_confirmation": ["registry#dirty"],
    "ingestion": ["registry#dirty", "registry#ingestion"],
    "store_episode": ["registry#stored"],
    "decay": ["registry#lifecycle", "registry#stored"],
    "merge_memories": ["registry#dirty"],
    "restore_memories": ["registry#dirty"],
    "expire_facts": ["registry#dirty"],
    "flag_procedures": ["registry#tenants"],
}


ERASES = {"erase_store", "erasure_desk"}


def registry_of(folder: str, actions: list[str]) -> list[str]:
    """An erasure deletes what the registry notes of a tenant, and asks whether a night is at work."""
    if folder in ERASES:
        looks = actions == ["dynamodb:GetItem"]
        return ["registry#lifecycle"] if looks else ["registry#dirty", "registry#stored", "registry#tenants"]
    return REGISTRY[folder]


def role_statements(folder: str, environment: str = "prod", **context: object) -> list[dict[str, Any]]:
    """What the role of one function allows."""
    role = functions(environment)[folder]["Role"]["Fn::GetAtt"][0]
    found = []
    for template in templates({"env": environment, **context}).values():
        for policy in resources(template, "AWS::IAM::Policy").values():
            if {"Ref": role} in policy["Properties"]["Roles"]:
                found += policy["Properties"]["PolicyDocument"]["Statement"]
    return found


def test_the_table_covers_every_function() -> None:
    assert set(MAY) == set(functions("prod"))


@pytest.mark.parametrize("folder", MAY)
def test_a_function_may_do_this_and_nothing_else(folder: str) -> None:
    allowed = {action for s in role_statements(folder) for action in as_list(s["Action"])}
    assert allowed == MAY[folder] | LOGS | TENANTS


def test_whoever_scrubs_before_the_model_may_ask_the_detector() -> None:
    allowed = {a for s in role_statements("consolidation", scrubTranscript=True) for a in as_list(s["Action"])}
    assert allowed == MAY["consolidation"] | MAY["pii_scrubbing"] | LOGS | TENANTS


@pytest.mark.parametrize("folder", MAY)
def test_no_function_touches_what_tenants_store_with_its_own_role(folder: str) -> None:
    for statement in role_statements(folder):
        actions, arns = as_list(statement["Action"]), [flat(arn) for arn in as_list(statement["Resource"])]
        if any(a.startswith("s3:") for a in actions):
            # Slices, plans and reports of nights: ids and scores, beside what was archived of tenants.
            [bucket] = arns
            # An erasure sees their names alone, of those under a delete marker too.
            assert set(actions) <= (NIGHT_FILES if folder not in ERASES else {"s3:ListBucketVersions"})
            under = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
            assert bucket.endswith("/lifecycle/*") or (under == ["lifecycle/*"] and len(actions) == 1)
        elif folder == "decay" and arns[0].endswith("/due-index"):
            assert actions == ["dynamodb:Query"]
            assert [arn.rpartition("table/")[2] for arn in arns] == [
                "agent-episodic-memory-prod/index/due-index", "fact-confirmation-log-prod/index/due-index",
            ]  # fmt: skip
        elif any(a.startswith("dynamodb:") for a in actions):
            assert statement["Condition"] == {
                "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": registry_of(folder, actions)},
                "Null": {"dynamodb:LeadingKeys": "false"},
            }


def test_only_the_plan_of_the_night_sees_what_is_due_across_tenants() -> None:
    holders = {
        key.split("Role")[0]
        for template in templates({"env": "prod"}).values()
        for key, statement in allow_statements(template)
        if any("due-index" in flat(arn) for arn in as_list(statement["Resource"]))
    }
    assert holders == {"Decay"}


def knowledge_base_actions(statement: dict[str, Any]) -> list[str]:
    words = ("Retrieve", "Ingestion", "KnowledgeBase", "Rerank")
    return [a for a in as_list(statement["Action"]) if a.startswith("bedrock:") and any(word in a for word in words)]


def test_only_functions_that_check_its_answers_reach_the_knowledge_base_and_that_one_only() -> None:
    """IAM can't see the filter of a Retrieve."""
    holders = set()
    for template in templates({"env": "prod"}).values():
        for key, statement in allow_statements(template):
            if knowledge_base_actions(statement):
                holders.add(key.split("Role")[0])
                assert [flat(arn) for arn in as_list(statement["Resource"])] == [
                    "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:knowledge-base/<KnowledgeBaseId>"
                ]
    assert holders == {
        "Bootstrap",
        "CanaryCanary",
        "QualityCheck",
        "RegressionCases",
        "EraseStore",
        "ErasureDesk",
        "FactConfirmation",
        "Ingestion",
    }


def allowed_wildcard(actions: list[str], resource: str) -> bool:
    if resource == "*":
        unconditional = {action for wildcard in ALL if wildcard.resource == "*" for action in wildcard.actions}
        return set(actions) <= unconditional
    return any(
        wildcard.resource in resource and set(actions) <= set(wildcard.actions)
        for wildcard in ALL
        if wildcard.resource != "*"
    )


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_star_is_on_the_list(environment: str) -> None:
    seen = 0
    for template in templates({"env": environment}).values():
        for holder, statement in allow_statements(template):
            if holder.startswith("Custom"):
                continue
            actions = as_list(statement["Action"])
            assert not [action for action in actions if "*" in action], holder
            assert "NotAction" not in statement
            assert "NotResource" not in statement
            for arn in map(flat, as_list(statement["Resource"])):
                if "*" in arn:
                    seen += 1
                    assert allowed_wildcard(actions, arn), (holder, actions, arn)
    assert seen


def test_the_list_would_catch_a_star_that_is_not_on_it() -> None:
    assert not allowed_wildcard(["dynamodb:Query"], "*")
    assert not allowed_wildcard(["s3:DeleteObject"], "arn:<AWS::Partition>:s3:::agent-memory-transcripts-dev-1/*")
    assert not allowed_wildcard(["events:PutEvents"], "arn:aws:events:*:*:event-bus/*")


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_roles_attach_no_managed_policies_of_aws(environment: str) -> None:
    for template in templates({"env": environment}).values():
        for key, role in resources(template, "AWS::IAM::Role").items():
            if not key.startswith("CustomS3AutoDelete"):
                assert "ManagedPolicyArns" not in role["Properties"], key


def consolidation_models(holder: str = "ConsolidationRole", **context: object) -> dict[str, Any]:
    template = templates({"env": "dev", **context})["consolidation"]
    found = {}
    for key, statement in allow_statements(template):
        if key.startswith(holder) and as_list(statement["Action"]) == ["bedrock:InvokeModel"]:
            for arn in as_list(statement["Resource"]):
                found[flat(arn)] = flat(
                    statement.get("Condition", {}).get("StringEquals", {}).get("bedrock:InferenceProfileArn", "")
                )
    return found


def test_a_model_is_reached_through_its_profile_only() -> None:
    profile = (
        "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:inference-profile/eu.anthropic.claude-sonnet-5"
    )
    assert consolidation_models(bedrockModelId="eu.anthropic.claude-sonnet-5") == {
        profile: "",
        "arn:<AWS::Partition>:bedrock:*::foundation-model/anthropic.claude-sonnet-5": profile,
    }


def test_a_global_profile_also_needs_the_model_without_a_region() -> None:
    arns = consolidation_models(bedrockGeo="global")
    assert "arn:<AWS::Partition>:bedrock:::foundation-model/anthropic.claude-sonnet-5" in arns


def test_a_model_of_the_region_needs_no_profile() -> None:
    [arn] = consolidation_models(bedrockModelId="amazon.nova-lite-v1:0")
    assert arn == "arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model/amazon.nova-lite-v1:0"


def test_close_calls_are_judged_by_the_model_that_the_deployment_names() -> None:
    embedder = "arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model/amazon.titan-embed-text-v2:0"
    assert set(consolidation_models("FactConfirmationRole")) == {embedder}
    judged = consolidation_models("FactConfirmationRole", judgeModelId="us.anthropic.claude-haiku-5-5")
    profile = (
        "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:inference-profile/us.anthropic.claude-haiku-5-5"
    )
    assert judged == {
        embedder: "",
        profile: "",
        "arn:<AWS::Partition>:bedrock:*::foundation-model/anthropic.claude-haiku-5-5": profile,
    }


def test_without_a_model_distiller_nobody_may_ask_one() -> None:
    assert consolidation_models(distiller="extractive") == {}


def test_a_merge_asks_the_model_and_the_guardrail_that_the_deployment_names_and_no_other() -> None:
    def arns(action: str, **context: object) -> set[str]:
        statements = role_statements("merge_memories", **context)
        return {flat(arn) for s in statements if action in as_list(s["Action"]) for arn in as_list(s["Resource"])}

    assert arns("bedrock:ApplyGuardrail") == set()
    [guardrail] = arns("bedrock:ApplyGuardrail", guardrailId="abc123:2")
    assert guardrail == "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:guardrail/abc123"
    assert any(arn.endswith("inference-profile/us.anthropic.claude-haiku-5-5") for arn in arns("bedrock:InvokeModel"))
    without = arns("bedrock:InvokeModel", distiller="extractive")
    assert [arn.rpartition("/")[2] for arn in without] == ["amazon.titan-embed-text-v2:0"]
