"""Who may decide on procedures, and who hears that there is something to decide."""

import json
from typing import Any

import pytest
from support.deployments import allow_statements, as_list, flat, resources, templates


def one(template: dict[str, Any], kind: str, *, holding: str = "") -> dict[str, Any]:
    [found] = [one for key, one in resources(template, kind).items() if holding in key]
    properties: dict[str, Any] = found["Properties"]
    return properties


def reviewer_statements(environment: str) -> dict[tuple[str, ...], dict[str, Any]]:
    statements = [s for key, s in allow_statements(templates({"env": environment})["access"]) if "Reviewer" in key]
    return {tuple(as_list(s["Action"])): s for s in statements}


@pytest.mark.parametrize("environment", ["dev", "prod", "local"])
def test_the_url_of_the_review_function_asks_for_a_signature(environment: str) -> None:
    urls = resources(templates({"env": environment})["access"], "AWS::Lambda::Url")
    assert any("ReviewProcedure" in key for key in urls)
    for url in urls.values():
        assert url["Properties"]["AuthType"] == "AWS_IAM"
        assert "Cors" not in url["Properties"]


def test_reviewers_may_look_names_up_and_call_the_review_function_and_nothing_else() -> None:
    held = reviewer_statements("prod")
    assert set(held) == {("ssm:GetParametersByPath",), ("lambda:InvokeFunction",), ("lambda:InvokeFunctionUrl",)}
    for action in ("lambda:InvokeFunction", "lambda:InvokeFunctionUrl"):
        [arn] = as_list(held[(action,)]["Resource"])
        assert "ReviewProcedure" in json.dumps(arn)
    signed = held[("lambda:InvokeFunctionUrl",)]["Condition"]
    assert signed == {"StringEquals": {"lambda:FunctionUrlAuthType": "AWS_IAM"}}


def test_where_iam_says_who_calls_nobody_may_bring_a_request_context_of_their_own() -> None:
    assert reviewer_statements("prod")[("lambda:InvokeFunction",)]["Condition"] == {
        "Bool": {"lambda:InvokedViaFunctionUrl": "true"}
    }
    assert "Condition" not in reviewer_statements("dev")[("lambda:InvokeFunction",)]


def test_no_agent_is_granted_the_review_of_what_it_proposes() -> None:
    for room, template in templates({"env": "prod"}).items():
        for holder, statement in allow_statements(template):
            called = json.dumps(statement["Resource"])
            if "lambda:InvokeFunctionUrl" in as_list(statement["Action"]) and "ReviewProcedure" in called:
                assert (room, holder.startswith(("Operator", "Reviewer"))) == ("access", True)


def test_reviewers_are_told_by_mail_in_ids_and_counts() -> None:
    template = templates({"env": "dev", "reviewEmail": "reviews@example.com"})["consolidation"]
    mails = [s["Properties"] for s in resources(template, "AWS::SNS::Subscription").values()]
    assert [(mail["Protocol"], mail["Endpoint"]) for mail in mails] == [("email", "reviews@example.com")]
    rule = one(template, "AWS::Events::Rule", holding="Reviews")
    assert rule["EventPattern"] == {"source": ["agent-memory"], "detail-type": ["Procedure Awaiting Review"]}
    [target] = rule["Targets"]
    paths = set(target["InputTransformer"]["InputPathsMap"].values())
    assert paths == {f"$.detail.{name}" for name in ("tenant_id", "task_type", "state", "evidence", "procedure_id")}
    assert "procedures show" in flat(target["InputTransformer"]["InputTemplate"])
    assert target["DeadLetterConfig"]


def test_without_an_address_nobody_is_subscribed_and_the_topic_refuses_plain_http() -> None:
    template = templates({"env": "dev"})["consolidation"]
    assert not resources(template, "AWS::SNS::Subscription")
    policies = json.dumps([p["Properties"] for p in resources(template, "AWS::SNS::TopicPolicy").values()])
    assert policies.count("aws:SecureTransport") == 2


def test_a_notice_that_is_lost_alarms() -> None:
    template = templates({"env": "prod"})["consolidation"]
    alarm = one(template, "AWS::CloudWatch::Alarm", holding="ReviewNoticesLost")
    assert alarm["AlarmActions"]
    assert alarm["Threshold"] == 1
