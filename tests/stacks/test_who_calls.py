"""Who may call, by policy: agents as the tenant that they are tagged with, and nobody past a signed URL in prod."""

from collections.abc import Mapping
from typing import Any

import pytest
from agent_memory import contract
from support.deployments import resources, statements, templates
from support.policies import Request
from support.reach import may, principals

BUS = "arn:<AWS::Partition>:events:<AWS::Region>:<AWS::AccountId>:event-bus/agent-memory-prod"
UPLOADS = "arn:<AWS::Partition>:s3:::agent-memory-transcripts-prod-<AWS::AccountId>"
DOORS = ("Bootstrap", "ReviewReviewProcedure")
NOT_TENANTS = ("registry", "a/b", "", "*", "a*", "?", "~runs", *contract.CANARY_TENANTS, None)


def tagged(tenant: str | None, **more: str) -> dict[str, str | tuple[str, ...]]:
    return {**({} if tenant is None else {"aws:PrincipalTag/tenant_id": tenant}), **more}


def may_put_event(tenant: str | None, source: str) -> bool:
    context = tagged(tenant, **{"events:source": source})
    return may("agent", Request(action="events:PutEvents", resource=BUS, context=context))


def may_upload(tenant: str | None, key: str) -> bool:
    return may("agent", Request(action="s3:PutObject", resource=f"{UPLOADS}/{key}", context=tagged(tenant)))


def test_an_agent_puts_events_and_transcripts_as_the_tenant_that_it_is_tagged_with() -> None:
    assert may_put_event("acme", "agent-memory.client/acme")
    assert may_upload("acme", "acme/agent/run/upload.json.gz")


@pytest.mark.parametrize("other", ["acme-2", "acme2", "acm", "globex", "*", "ACME"])
def test_an_agent_puts_nothing_as_another_tenant(other: str) -> None:
    assert not may_put_event("acme", f"agent-memory.client/{other}")
    assert not may_upload("acme", f"{other}/agent/run/upload.json.gz")
    assert not may_put_event("acme", "agent-memory")


def test_an_agent_reaches_no_file_that_the_pipeline_made() -> None:
    assert not may_upload("acme", "~runs/acme/agent/run/claim.json")
    for tag in NOT_TENANTS:
        assert not may_put_event(tag, f"agent-memory.client/{tag or ''}"), tag
        assert not may_upload(tag, f"{tag or ''}/agent/run/upload.json.gz"), tag


def functions_behind(principal: str, **context: str) -> set[str]:
    """The doors that *principal* may call with lambda:InvokeFunction."""
    named = {
        resource
        for one in principals()[principal]
        for resource in one["Resource"]
        if any(door in resource for door in DOORS)
    }
    return {
        arn for arn in named if may(principal, Request(action="lambda:InvokeFunction", resource=arn, context=context))
    }


def test_in_prod_nobody_calls_a_door_past_its_signed_url() -> None:
    for principal in principals():
        assert not functions_behind(principal), principal


@pytest.mark.parametrize("principal", ["agent", "operator"])
def test_a_signed_call_of_the_url_has_both_permissions_that_it_needs(principal: str) -> None:
    through = functions_behind(principal, **{"lambda:InvokedViaFunctionUrl": "true"})
    assert len(through) == (2 if principal == "operator" else 1)
    for arn in through:
        for auth, expected in (("AWS_IAM", True), ("NONE", False)):
            context: dict[str, str | tuple[str, ...]] = {"lambda:FunctionUrlAuthType": auth}
            request = Request(action="lambda:InvokeFunctionUrl", resource=arn, context=context)
            assert may(principal, request) is expected


@pytest.mark.parametrize("environment", ["dev", "staging", "prod", "local"])
def test_every_url_asks_iam_and_no_resource_policy_opens_one(environment: str) -> None:
    found = 0
    for template in templates({"env": environment}).values():
        for url in resources(template, "AWS::Lambda::Url").values():
            assert url["Properties"]["AuthType"] == "AWS_IAM"
            found += 1
        for permission in resources(template, "AWS::Lambda::Permission").values():
            assert permission["Properties"]["Action"] == "lambda:InvokeFunction"
            assert permission["Properties"]["Principal"] != "*"
    assert found == 2


@pytest.mark.parametrize(("environment", "read"), [("prod", True), ("staging", True), ("dev", False)])
def test_doors_read_the_registry_of_callers_where_callers_are_proven(environment: str, read: bool) -> None:
    access = templates({"env": environment})["access"]
    own = [one for holder, one in statements(access) if not holder.startswith("Operator")]
    keys = [registry_of(one) for one in own if "dynamodb:GetItem" in one["Action"]]
    assert (["registry#callers"] in keys) is read


def registry_of(statement: Mapping[str, Any]) -> object:
    condition = statement.get("Condition", {}).get("ForAllValues:StringEquals", {})
    return condition.get("dynamodb:LeadingKeys")
