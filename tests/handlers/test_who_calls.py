"""Who calls: with callerAuth=principal a tenant is not believed because a caller names it.

The request contexts are recorded ones: the laptop's emulator has no IAM that could prove a caller.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain.callers import Caller
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, NOW, TENANT, LambdaContext, an_episode
from support.doors import over_url
from support.recalls import FixedEmbedder

from lambdas.bootstrap.handler import handler as bootstrap
from lambdas.review_procedure.handler import handler as review

ROLE = "arn:aws:iam::123456789012:role/support-desk"
SESSION = "arn:aws:sts::123456789012:assumed-role/support-desk/i-0123"
STRANGER = "arn:aws:sts::123456789012:assumed-role/somebody-else/i-0123"
LOOK_ALIKE = "arn:aws:sts::999999999999:assumed-role/support-desk/i-0123"
SECRET = "Gate code of bay 4 is amber"


@pytest.fixture
def account(request: pytest.FixtureRequest) -> Iterator[AwsAccount]:
    with an_aws_account(**getattr(request, "param", {"callerAuth": "principal"})) as account:
        vars(account.services)["embedder"] = FixedEmbedder()
        account.services.publish = lambda *event: None  # type: ignore[method-assign]  # what would go to the bus
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        account.services.tenant(TENANT).episodes.put(an_episode(key_findings=(SECRET,)))
        account.services.callers.allow(Caller(principal=ROLE, tenants=(TENANT,)), before=None, now=NOW)
        yield account


trusting = pytest.mark.parametrize("account", [{"callerAuth": "platform"}], indirect=True)


def question(**changes: object) -> dict[str, Any]:
    asked = {"tenant_id": TENANT, "agent_id": AGENT, "task": an_episode().task, "budget_ms": 20_000}
    return {**asked, "tiers": ["episodic"], **changes}


def ask(arn: str | None, **changes: object) -> tuple[int, dict[str, Any]]:
    answer: dict[str, Any] = bootstrap(over_url(question(**changes), arn), LambdaContext())
    assert answer["headers"]["content-type"] == "application/json"
    return answer["statusCode"], json.loads(answer["body"])


def test_a_principal_that_was_allowed_recalls_for_its_tenant(account: AwsAccount) -> None:
    status, answer = ask(SESSION)
    assert status == 200
    assert SECRET in answer["context"]


@pytest.mark.parametrize("arn", [STRANGER, LOOK_ALIKE])
def test_a_principal_that_nobody_allowed_gets_nothing(account: AwsAccount, arn: str) -> None:
    status, answer = ask(arn)
    assert (status, answer["error"]["field"]) == (403, "caller")
    assert SECRET not in json.dumps(answer)


def test_a_tenant_that_exists_and_one_that_does_not_are_refused_in_the_same_words(account: AwsAccount) -> None:
    account.services.registry.note("globex", now=NOW)
    known, unknown = ask(SESSION, tenant_id="globex"), ask(SESSION, tenant_id="nobody-at-all")
    assert known == unknown
    assert ask(STRANGER, tenant_id=TENANT) == known


@pytest.mark.parametrize(
    "tenant", [f"{TENANT}#x", f"{TENANT}%23", "..", "", None, 7, [TENANT], "registry", f"{TENANT} "]
)
def test_what_is_no_tenant_is_a_bad_request_and_no_way_in(account: AwsAccount, tenant: object) -> None:
    status, answer = ask(SESSION, tenant_id=tenant)
    assert status in (400, 403)
    assert "context" not in answer


@pytest.mark.parametrize("body", ["", "[]", "null", "{", "\ud800", "[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_bad_request(account: AwsAccount, body: str) -> None:
    assert bootstrap(over_url(body, SESSION), LambdaContext())["statusCode"] == 400


def test_a_direct_invocation_is_refused_whatever_it_says_of_itself(account: AwsAccount) -> None:
    answer = bootstrap(question(principal=ROLE, arn=SESSION), LambdaContext())
    assert answer["error"]["field"] == "caller"
    assert "signed" in answer["error"]["rule"]


def test_a_context_that_names_nobody_is_refused(account: AwsAccount) -> None:
    assert ask(None)[0] == 400
    assert ask("arn:aws:iam::123456789012:root")[0] == 400


def test_what_was_taken_back_is_gone_where_nothing_is_remembered(account: AwsAccount) -> None:
    account.services.callers.revoke(ROLE)
    assert ask(SESSION)[0] == 403


def test_who_may_recall_may_not_review(account: AwsAccount) -> None:
    body = {"action": "list", "tenant_id": TENANT}
    answer = review(over_url(body, SESSION), LambdaContext())
    assert answer["statusCode"] == 403
    assert "--reviewer" in answer["body"]


def test_a_prefetched_context_is_picked_up_only_by_who_speaks_for_its_tenant(account: AwsAccount) -> None:
    status, kept = ask(SESSION, prefetch=True)
    assert (status, kept["prefetched"]) == (200, True)
    assert ask(STRANGER, context_id=kept["context_id"])[0] == 403
    assert ask(SESSION, context_id=kept["context_id"])[0] == 200


def test_refusals_are_counted_apart_and_logged_without_a_name(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    ask(STRANGER)
    out = capsys.readouterr().out
    assert '"CallersRefused":[1' in out.replace(" ", "")
    assert "somebody-else" not in out


@trusting
def test_a_trusting_deployment_believes_whoever_may_call_it(account: AwsAccount) -> None:
    assert SECRET in bootstrap(question(), LambdaContext())["context"]
    assert ask(STRANGER)[0] == 200
