"""Nobody is believed because they name a tenant."""

import base64
import json
from collections.abc import Callable

import pytest
from agent_memory.domain.callers import Caller, CallerRefusedError, authorised, call_of, caller, principal_of
from agent_memory.domain.errors import RefusedInputError

AGENT = "arn:aws:iam::111122223333:role/agents-acme"


def url_event(tenant: object = "acme", *, arn: object = None, body: str | None = None) -> dict[str, object]:
    """As a function URL with AWS_IAM hands it over (payload format 2.0)."""
    return {
        "version": "2.0",
        "requestContext": {
            "accountId": "111122223333",
            "authentication": None,
            "authorizer": {
                "iam": {
                    "accessKey": "AKIA0000000000000000",
                    "accountId": "111122223333",
                    "callerId": "AROA00000000000000000:i-1",
                    "userArn": arn or "arn:aws:sts::111122223333:assumed-role/agents-acme/i-1",
                    "userId": "AROA00000000000000000:i-1",
                }
            },
        },
        "body": json.dumps({"tenant_id": tenant, "task": "x"}) if body is None else body,
        "isBase64Encoded": False,
    }


def registry(*rows: Caller) -> Callable[[str], Caller | None]:
    return {row.principal: row for row in rows}.get


ACME = registry(Caller(principal=AGENT, tenants=("acme",)))


def test_a_principal_speaks_for_the_tenants_of_its_row() -> None:
    call = authorised(url_event(), "principal", ACME)
    assert (call.principal, call.request["tenant_id"]) == (AGENT, "acme")


@pytest.mark.parametrize("tenant", ["acm", "acme2", "ACME", "other", "acme.", "*"])
def test_it_speaks_for_no_other(tenant: str) -> None:
    with pytest.raises(RefusedInputError):
        authorised(url_event(tenant), "principal", ACME)


def test_an_unknown_caller_and_one_of_another_tenant_read_the_same_answer() -> None:
    answers = set()
    for event in (url_event(arn="arn:aws:iam::111122223333:role/stranger"), url_event("other")):
        with pytest.raises(CallerRefusedError) as refused:
            authorised(event, "principal", ACME)
        answers.add(str(refused.value))
    assert len(answers) == 1


def test_a_direct_call_proves_nothing_and_is_refused() -> None:
    with pytest.raises(CallerRefusedError, match="URL"):
        authorised({"tenant_id": "acme", "task": "x"}, "principal", ACME)


@pytest.mark.parametrize(
    "context",
    [None, {}, {"authorizer": None}, {"authorizer": {"iam": None}}, {"authorizer": {"iam": {"userArn": 1}}}, "text"],
)
def test_a_request_without_a_proven_identity_is_refused(context: object) -> None:
    with pytest.raises(RefusedInputError):
        authorised({**url_event(), "requestContext": context}, "principal", ACME)


def test_a_role_of_the_same_name_in_another_account_is_somebody_else() -> None:
    with pytest.raises(CallerRefusedError):
        authorised(url_event(arn="arn:aws:sts::999999999999:assumed-role/agents-acme/i-1"), "principal", ACME)


def test_only_a_reviewer_reviews() -> None:
    with pytest.raises(CallerRefusedError, match="review"):
        authorised(url_event(), "principal", ACME, to_review=True)
    reviewer = registry(Caller(principal=AGENT, tenants=("acme",), reviewer=True))
    assert authorised(url_event(), "principal", reviewer, to_review=True).principal == AGENT


def test_on_a_platform_the_named_tenant_is_taken_from_either_door() -> None:
    assert authorised({"tenant_id": "any"}, "platform", registry()).principal is None
    assert authorised(url_event("any"), "platform", registry()).request["tenant_id"] == "any"


def test_a_session_is_its_role_and_a_path_does_not_matter() -> None:
    assert principal_of("arn:aws:iam::111122223333:role/team/x/agents-acme") == AGENT
    assert principal_of("arn:aws:sts::111122223333:assumed-role/agents-acme/session") == AGENT
    assert principal_of("arn:aws-cn:iam::111122223333:user/kim") == "arn:aws-cn:iam::111122223333:user/kim"


@pytest.mark.parametrize(
    "arn",
    ["", None, 7, "acme", "arn:aws:iam::1:role/x", "arn:aws:iam::111122223333:root", AGENT + "\n", AGENT + "#b", "*"],
)
def test_what_is_no_principal_is_refused(arn: object) -> None:
    with pytest.raises(RefusedInputError, match="principal"):
        principal_of(arn)


@pytest.mark.parametrize("body", ["", "null", "[]", "{", "7", '"x"', "[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(body: str) -> None:
    with pytest.raises(RefusedInputError, match="body"):
        call_of(url_event(body=body))


def test_a_body_may_come_in_base64() -> None:
    body = base64.b64encode(b'{"tenant_id": "acme"}').decode()
    assert call_of({**url_event(body=body), "isBase64Encoded": True}).request == {"tenant_id": "acme"}


def test_a_row_names_the_field_that_is_wrong() -> None:
    assert caller(AGENT, ["b", "a", "a"]).tenants == ("a", "b")
    for principal, tenants, reviewer, field in (
        ("x", ["a"], False, "principal"),
        (AGENT, "a", False, "tenants"),
        (AGENT, ["registry"], False, "tenants"),
        (AGENT, ["a#b"], False, "tenants"),
        (AGENT, ["a"], "yes", "reviewer"),
    ):
        with pytest.raises(RefusedInputError) as refused:
            caller(principal, tenants, reviewer=reviewer)
        assert refused.value.field == field
