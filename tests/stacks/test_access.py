"""What agents and operators find and may call."""

import json

from agent_memory import contract
from agent_memory.settings import settings_from, settings_from_json
from support.deployments import allow_statements, as_list, flat, functions, resources, templates


def parameters(environment: str) -> dict[str, object]:
    found = resources(templates({"env": environment})["access"], "AWS::SSM::Parameter").values()
    return {p["Properties"]["Name"]: p["Properties"]["Value"] for p in found}


def test_every_name_that_clients_look_up_is_published() -> None:
    assert set(parameters("prod")) == {f"/agent-memory/prod/{name}" for name in contract.PARAMETER_NAMES}


def test_operators_build_the_very_settings_of_the_functions() -> None:
    stored = settings_from_json(flat(parameters("dev")["/agent-memory/dev/operator-settings"]), "dev")
    bootstrap = {key: flat(value) for key, value in functions()["bootstrap"]["Environment"]["Variables"].items()}
    assert stored == settings_from(bootstrap)
    assert stored.consolidation_machine.endswith(":stateMachine:agent-memory-consolidation-dev")


def test_operator_settings_fit_a_standard_parameter() -> None:
    assert len(flat(parameters("staging")["/agent-memory/staging/operator-settings"])) < 4096


def test_operators_speak_for_agents_only() -> None:
    statements = [s for key, s in allow_statements(templates({"env": "prod"})["access"]) if key.startswith("Operator")]
    [events] = [s for s in statements if as_list(s["Action"]) == ["events:PutEvents"]]
    assert events["Condition"] == {"StringLike": {"events:source": "agent-memory.client/*"}}


def test_operators_start_an_ingestion_and_note_what_changed_and_never_ask_the_knowledge_base() -> None:
    statements = [s for key, s in allow_statements(templates({"env": "prod"})["access"]) if key.startswith("Operator")]
    by_actions = {tuple(as_list(s["Action"])): s for s in statements}
    started = [flat(arn) for arn in as_list(by_actions[("states:StartExecution",)]["Resource"])]
    machines = [f"agent-memory-{name}-prod" for name in ("consolidation", "ingestion", "lifecycle")]
    assert [arn.split(":")[-1] for arn in started] == machines
    keys = by_actions[("dynamodb:PutItem",)]["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
    assert keys == ["registry#dirty"]
    # The embedding model alone: a fact that is let out of quarantine is embedded.
    asked = {action for actions in by_actions for action in actions if action.startswith("bedrock:")}
    assert asked == {"bedrock:InvokeModel"}


def test_no_stack_imports_a_value_from_another() -> None:
    for template in templates({"env": "prod"}).values():
        assert "Fn::ImportValue" not in json.dumps(template)
        assert "Outputs" not in template


def test_operators_may_look_at_and_move_dead_letters_and_read_no_other_queue() -> None:
    statements = [s for key, s in allow_statements(templates({"env": "prod"})["access"]) if key.startswith("Operator")]
    reach = {
        action: {flat(arn).rpartition(":")[2] for arn in as_list(s["Resource"])}
        for s in statements
        for action in as_list(s["Action"])
    }
    letters = {"agent-memory-intake-dead-letters-prod", "agent-memory-retrievals-dead-letters-prod"}
    assert reach["sqs:ReceiveMessage"] == reach["sqs:DeleteMessage"] == letters
    assert reach["sqs:SendMessage"] == {"agent-memory-intake-prod", "agent-memory-retrievals-prod"}


def test_operators_may_use_the_key_of_the_buckets_through_s3_alone_and_only_where_there_is_one() -> None:
    arn = "arn:aws:kms:eu-west-1:111122223333:key/12345678-1234-1234-1234-123456789012"
    for context, keys in (({"encryptionKeyArn": arn}, 1), ({}, 0)):
        access = templates({"env": "prod", **context})["access"]
        mine = [one for key, one in allow_statements(access) if key.startswith("Operator")]
        found = [one for one in mine if any(action.startswith("kms:") for action in as_list(one["Action"]))]
        assert len(found) == keys
        for one in found:
            assert set(as_list(one["Action"])) == {"kms:Decrypt", "kms:GenerateDataKey"}
            assert flat(one["Resource"]) == arn
            through = [flat(name) for name in one["Condition"]["StringEquals"]["kms:ViaService"]]
            assert through == [f"{name}.<AWS::Region>.<AWS::URLSuffix>" for name in ("dynamodb", "s3")]


def test_an_agent_may_encrypt_what_it_uploads_and_read_nothing_with_the_key() -> None:
    arn = "arn:aws:kms:eu-west-1:111122223333:key/12345678-1234-1234-1234-123456789012"
    for context, keys in (({"encryptionKeyArn": arn}, 1), ({}, 0)):
        access = templates({"env": "prod", **context})["access"]
        mine = [one for key, one in allow_statements(access) if key.startswith("Agent")]
        found = [one for one in mine if any(action.startswith("kms:") for action in as_list(one["Action"]))]
        assert len(found) == keys
        for one in found:
            assert as_list(one["Action"]) == ["kms:GenerateDataKey"]
            assert flat(one["Resource"]) == arn
            assert flat(one["Condition"]["StringEquals"]["kms:ViaService"]) == "s3.<AWS::Region>.<AWS::URLSuffix>"
            assert one["Condition"]["Null"] == {"aws:PrincipalTag/tenant_id": "false"}
