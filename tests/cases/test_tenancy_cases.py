"""Known faults of tenancy at the door of a recall."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.aws.knowledge import retrieval_filter
from agent_memory.domain.knowledge import KnowledgeQuery, Passages
from support.aws import AwsAccount, an_aws_account
from support.builders import NOW, LambdaContext, an_episode
from support.recalls import FixedEmbedder

from lambdas.bootstrap.handler import handler

NORTHWIND, CONTOSO, BOT = "northwind", "contoso", "bot"
SECRET = "Northwind ships from dock 9"


class AskedKnowledge:
    """A Knowledge Base that notes what it was asked."""

    def __init__(self) -> None:
        self.queries: list[KnowledgeQuery] = []

    def retrieve(self, query: KnowledgeQuery) -> Passages:
        self.queries.append(query)
        return Passages()


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = FixedEmbedder()
        vars(account.services)["knowledge"] = AskedKnowledge()
        account.services.publish = lambda *event: None  # type: ignore[method-assign]  # what would go to the bus
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        episode = an_episode(tenant_id=NORTHWIND, agent_id=BOT, task="secrets", key_findings=(SECRET,))
        account.services.tenant(NORTHWIND).episodes.put(episode)
        yield account


def ask(**question: object) -> dict[str, Any]:
    answer: dict[str, Any] = handler(
        {"agent_id": BOT, "task": "secrets", "budget_ms": 20_000, **question}, LambdaContext()
    )
    return answer


@pytest.mark.case("ti-h05")
def test_a_filter_that_the_caller_brings_changes_nothing(account: AwsAccount) -> None:
    assert SECRET in ask(tenant_id=NORTHWIND)["context"]
    foreign = {"orAll": [{"equals": {"key": "tenant_id", "value": NORTHWIND}}]}
    for domain in (None, "x"):
        named = {} if domain is None else {"domain": domain}
        answer = ask(tenant_id=CONTOSO, filters={"tenant_id": NORTHWIND}, filter=foreign, **named)
        assert SECRET not in json.dumps(answer)
        assert answer.get("items", []) == []
    asked = account.services.knowledge.queries  # type: ignore[attr-defined]  # it is the fixture's
    contosos = [query for query in asked if query.tenant_id != NORTHWIND]
    assert contosos
    for query in contosos:
        assert {"equals": {"key": "tenant_id", "value": CONTOSO}} in retrieval_filter(query)["andAll"]


@pytest.mark.case("ti-h05")
def test_a_domain_that_is_a_condition_is_refused_by_name(account: AwsAccount) -> None:
    answer = ask(tenant_id=CONTOSO, domain='x" OR "1"="1')
    assert answer["error"]["field"] == "domain"


@pytest.mark.case("ti-h01")
@pytest.mark.parametrize("ids", [("acme#eu", BOT), ("acme", "eu#bot"), ("acme%23eu", BOT), ("ac\uff4de", BOT)])
def test_a_separator_in_an_id_is_refused_at_the_door_of_a_recall(account: AwsAccount, ids: tuple[str, str]) -> None:
    tenant_id, agent_id = ids
    answer = ask(tenant_id=tenant_id, agent_id=agent_id)
    assert answer["error"]["field"] in ("tenant_id", "agent_id")
    assert "context" not in answer
