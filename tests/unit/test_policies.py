"""The evaluator that isolation is proven with must itself say no where IAM does."""

from typing import Any

import pytest
from support.policies import Request, allowed

TABLE = "arn:aws:dynamodb:us-east-1:1:table/episodes"
OWN_KEYS = {
    "Effect": "Allow",
    "Action": ["dynamodb:GetItem", "dynamodb:Query"],
    "Resource": TABLE,
    "Condition": {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["${aws:PrincipalTag/tenant_id}#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    },
}


def read(*keys: str, tenant: str | None = "a", action: str = "dynamodb:GetItem") -> Request:
    context: dict[str, str | tuple[str, ...]] = {}
    if keys:
        context["dynamodb:LeadingKeys"] = keys
    if tenant is not None:
        context["aws:PrincipalTag/tenant_id"] = tenant
    return Request(action=action, resource=TABLE, context=context)


def without_null_check() -> dict[str, Any]:
    condition = {key: value for key, value in OWN_KEYS["Condition"].items() if key != "Null"}  # type: ignore[attr-defined]
    return {**OWN_KEYS, "Condition": condition}


def test_own_keys_are_allowed_and_nothing_is_by_default() -> None:
    assert allowed([OWN_KEYS], read("a#agent"))
    assert not allowed([], read("a#agent"))


@pytest.mark.parametrize("key", ["b#agent", "ab#agent", "A#agent", "#agent", "a", "", "xa#agent"])
def test_another_key_is_refused(key: str) -> None:
    assert not allowed([OWN_KEYS], read(key))


def test_one_foreign_key_among_several_refuses_all() -> None:
    assert allowed([OWN_KEYS], read("a#1", "a#2"))
    assert not allowed([OWN_KEYS], read("a#1", "b#2"))


def test_a_call_without_leading_keys_passes_for_all_values_and_is_stopped_by_the_null_check_alone() -> None:
    assert allowed([without_null_check()], read())
    assert not allowed([OWN_KEYS], read())


def test_a_session_without_the_tag_matches_nothing() -> None:
    assert not allowed([OWN_KEYS], read("a#agent", tenant=None))
    assert not allowed([OWN_KEYS], read("#agent", tenant=None))


def test_a_tag_is_text_and_no_pattern() -> None:
    assert not allowed([OWN_KEYS], read("b#agent", tenant="*"))
    assert not allowed([OWN_KEYS], read("b#agent", tenant="?"))
    assert allowed([OWN_KEYS], read("*#agent", tenant="*"))


def test_a_denial_beats_every_grant() -> None:
    deny = {"Effect": "Deny", "Action": "dynamodb:*", "Resource": "*"}
    assert not allowed([OWN_KEYS, deny], read("a#agent"))


def test_a_negated_operator_holds_when_the_key_is_absent_and_must_differ_from_every_value() -> None:
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Resource": "*",
        "Condition": {"StringNotLike": {"aws:RequestTag/tenant_id": ["registry", "*/*", ""]}},
    }

    def tagged(tag: str) -> Request:
        return Request(action="sts:AssumeRole", resource="r", context={"aws:RequestTag/tenant_id": tag})

    assert allowed([statement], Request(action="sts:AssumeRole", resource="r"))
    assert allowed([statement], tagged("a"))
    assert not any(allowed([statement], tagged(tag)) for tag in ("registry", "a/b", "/", ""))


def test_a_star_in_braces_is_a_star() -> None:
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*${*}*"}
    assert allowed([statement], Request(action="s3:GetObject", resource="arn:aws:s3:::b/a*b"))
    assert not allowed([statement], Request(action="s3:GetObject", resource="arn:aws:s3:::b/ab"))


def test_actions_do_not_depend_on_case_and_resources_do() -> None:
    statement = {"Effect": "Allow", "Action": "S3:getobject", "Resource": "arn:aws:s3:::Bucket/*"}
    assert allowed([statement], Request(action="s3:GetObject", resource="arn:aws:s3:::Bucket/k"))
    assert not allowed([statement], Request(action="s3:GetObject", resource="arn:aws:s3:::bucket/k"))


def test_what_is_not_known_raises() -> None:
    odd = {
        "Effect": "Allow",
        "Action": "*",
        "Resource": "*",
        "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}},
    }
    with pytest.raises(KeyError):
        allowed([odd], read("a#agent"))
    with pytest.raises(NotImplementedError):
        allowed([{"Effect": "Allow", "Action": "*", "Resource": "*", "NotPrincipal": "*"}], read("a#agent"))
