"""Credentials per tenant: assumed with a session tag, cached, renewed, without personal data in names."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from agent_memory.aws import tenancy
from agent_memory.aws.tenancy import TenantSessions
from support.aws import AwsAccount, an_aws_account

ROLE = "arn:aws:iam::123456789012:role/agent-memory-test-tenant-data"


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@pytest.fixture
def sessions(account: AwsAccount) -> TenantSessions:
    return TenantSessions(role_arn=ROLE)


def assumed(sessions: TenantSessions) -> list[dict[str, Any]]:
    """What every AssumeRole call from now on asks for."""
    asked: list[dict[str, Any]] = []
    sts = sessions.own_client("sts")
    sts.meta.events.register("provide-client-params.sts.AssumeRole", lambda params, **_: asked.append(params))
    return asked


def test_a_tenants_client_carries_its_tag_and_no_personal_data(sessions: TenantSessions) -> None:
    asked = assumed(sessions)
    sessions.client("ann@example.org", "dynamodb").list_tables()
    (request,) = asked
    assert request["RoleArn"] == ROLE
    assert request["Tags"] == [{"Key": "tenant_id", "Value": "ann@example.org"}]
    assert "ann" not in request["RoleSessionName"]


def test_one_tenant_is_assumed_once_for_all_its_services(sessions: TenantSessions) -> None:
    asked = assumed(sessions)
    for _ in range(2):
        sessions.client("bay", "dynamodb").list_tables()
        sessions.client("bay", "s3").list_buckets()
    sessions.client("bay-2", "s3").list_buckets()
    assert [request["Tags"][0]["Value"] for request in asked] == ["bay", "bay-2"]


def test_two_tenants_never_share_credentials(sessions: TenantSessions) -> None:
    keys = {
        tenant: sessions.client(tenant, "s3")._get_credentials().get_frozen_credentials().access_key
        for tenant in ("bay", "bay-2")
    }
    own = sessions.own_client("s3")._get_credentials().get_frozen_credentials().access_key
    assert len({*keys.values(), own}) == 3


def test_credentials_are_renewed_when_they_expire(sessions: TenantSessions) -> None:
    asked = assumed(sessions)
    client = sessions.client("bay", "dynamodb")
    client.list_tables()
    client._get_credentials()._expiry_time = datetime.now(UTC)
    client.list_tables()
    assert len(asked) == 2


def test_the_oldest_tenant_is_forgotten_when_there_are_too_many(
    sessions: TenantSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenancy, "MAX_CACHED_TENANTS", 2)
    first = sessions.client("a", "s3")
    assert sessions.client("a", "s3") is first
    for tenant in ("b", "c"):
        sessions.client(tenant, "s3")
    assert sessions.client("a", "s3") is not first
