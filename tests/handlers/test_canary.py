"""The canary over the real stores and the real bootstrap: quiet where tenants are apart, loud where one row lies wrong."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from agent_memory import contract, wiring_canary
from agent_memory.domain.canary import AGENT, DOMAIN, QUESTIONS, secret_of
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import agent_key
from agent_memory.domain.knowledge import KnowledgeQuery, Passages
from support.aws import ENVIRONMENT, AwsAccount, an_aws_account
from support.builders import NOW, LambdaContext, an_episode
from support.embedders import HashedEmbedder

from lambdas.bootstrap.handler import handler as bootstrap
from lambdas.canary.handler import handler

A, B = contract.CANARY_TENANTS


class Kept:
    """The Knowledge Base, holding nothing until a test says otherwise."""

    def __init__(self) -> None:
        self.passages = Passages()

    def retrieve(self, query: KnowledgeQuery) -> Passages:
        return self.passages


class Door:
    """Bootstrap as the canary reaches it."""

    def ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        answer: dict[str, Any] = bootstrap({**question, "budget_ms": 20_000}, LambdaContext())
        if "error" in answer:
            raise RefusedInputError(answer["error"]["field"], answer["error"]["rule"])
        return answer


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsAccount]:
    with an_aws_account(canaryStorageProbe="false") as account:
        vars(account.services)["embedder"] = HashedEmbedder()
        vars(account.services)["knowledge"] = Kept()
        account.services.publish = lambda *event: None  # type: ignore[method-assign]  # what would go to the bus
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        monkeypatch.setattr(wiring_canary, "_bootstrap", lambda own: Door())
        yield account


@pytest.fixture
def planted(account: AwsAccount) -> AwsAccount:
    for tenant_id in (A, B):
        task, secret = QUESTIONS[tenant_id], secret_of(ENVIRONMENT, tenant_id)
        vector = account.services.embedder.embed(task)
        episode = an_episode(
            tenant_id=tenant_id,
            agent_id=AGENT,
            task=f"{task} I think it is {secret}.",
            digest=task,
            key_findings=(f"The word is {secret}",),
            task_vector=vector,
            digest_vector=vector,
        )
        account.services.tenant(tenant_id).episodes.put(episode)
    return account


def look(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    report: dict[str, Any] = handler({}, LambdaContext())
    return report, capsys.readouterr().out.replace(" ", "")


def test_tenants_that_are_apart_leave_it_quiet(planted: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    report, out = look(capsys)
    assert (report["decision"], report["leaks"], report["blind"]) == ("quiet", [], [])
    assert '"CanaryLeaks":[0' in out
    assert '"CanaryLooked":[1' in out


def test_an_item_copied_under_the_others_key_alarms(planted: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    (stray,) = [i for i in planted.episodes() if i[contract.EPISODES_PARTITION_KEY]["S"] == agent_key(B, AGENT)]
    planted.client("dynamodb").put_item(
        TableName=planted.settings.episodes_table,
        Item={**stray, contract.EPISODES_PARTITION_KEY: {"S": agent_key(A, AGENT)}, "run_id": {"S": "stray"}},
    )
    report, out = look(capsys)
    assert report["decision"] == "leak"
    assert {f"{A}:bootstrap:plain", f"{A}:list:same_names"} <= set(report["leaks"])
    assert '"CanaryLeaks":[0' not in out
    assert secret_of(ENVIRONMENT, B) not in out


def test_a_document_with_somebody_elses_sidecar_alarms(planted: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    vars(planted.services)["knowledge"].passages = Passages(unreadable=1)
    report, _ = look(capsys)
    assert f"{A}:search:all:dropped" in report["leaks"]


def test_without_its_secrets_it_plants_them_and_says_that_it_can_not_see(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    put: list[dict[str, Any]] = []
    events = account.services.sessions.own_client("events")
    events.meta.events.register("provide-client-params.events.PutEvents", lambda params, **_: put.append(params))
    report, out = look(capsys)
    assert (report["decision"], report["planted"]) == ("blind", 2 * account.settings.confirmation_threshold)
    assert '"CanaryLooked":[0' in out
    sources = {entry["Source"] for call in put for entry in call["Entries"]}
    assert sources == {f"agent-memory.client/{tenant_id}" for tenant_id in (A, B)}
    assert all(f'"domain": "{DOMAIN}"' in entry["Detail"] for call in put for entry in call["Entries"])
