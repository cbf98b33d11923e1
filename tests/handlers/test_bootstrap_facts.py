"""Facts in a recall: bootstrap over the account's own tables and bucket, and a Knowledge Base that filters."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain import fact_review
from agent_memory.domain.errors import AccessRefusedError
from agent_memory.domain.fact_review import ReviewDoors
from agent_memory.domain.models import FactScope
from agent_memory.wiring import services
from agent_memory.wiring_tenant import TenantServices
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, TENANT, a_memory_retrieved_event, an_episode, an_sqs_event
from support.fact_runs import (
    DOMAIN,
    SubjectEmbedder,
    a_candidate_fact,
    a_run_with_facts,
    confirm_run,
    facts_of,
    said_by,
)
from support.retrieval import RetrievalService, a_knowledge_base

from lambdas.bootstrap.handler import handler as bootstrap
from lambdas.record_retrieval.handler import handler as record_retrieval

OLD, NEW = "Depot K closes at 16:00.", "Depot K closes at 17:00."
RUNS = ("r-1", "r-2", "r-3")


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = SubjectEmbedder("depot", "customer")
        at(account, NOW)
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        yield account


@pytest.fixture
def knowledge(account: AwsAccount) -> RetrievalService:
    return a_knowledge_base(account)


@pytest.fixture
def tenant(account: AwsAccount, knowledge: RetrievalService) -> TenantServices:
    return account.services.tenant(TENANT)


@pytest.fixture
def doors(account: AwsAccount, tenant: TenantServices) -> ReviewDoors:
    return ReviewDoors(tenant.facts, tenant.documents, account.services.dirty, account.services.rest)


def at(account: AwsAccount, now: int) -> None:
    account.services.now = lambda: now  # type: ignore[method-assign]  # the builders' clock


def ask(task: str = "When does the depot close?", **changes: object) -> dict[str, Any]:
    question = {"tenant_id": TENANT, "agent_id": AGENT, "task": task, "domain": DOMAIN, "budget_ms": 20_000, **changes}
    answer = bootstrap({name: held for name, held in question.items() if held is not None}, LambdaContext())
    return dict(json.loads(json.dumps(answer, allow_nan=False)))


def facts_in(answer: dict[str, Any]) -> list[str]:
    return [item["text"] for item in answer["items"] if item["tier"] == "semantic"]


def ingested(tenant: TenantServices, knowledge: RetrievalService, domain: str = DOMAIN) -> None:
    """What an ingestion leaves behind."""
    knowledge.sync()
    for one in tenant.facts.pending(domain):
        assert tenant.facts.mark_ingested(one.fact, at=NOW)


def test_a_fact_is_told_as_soon_as_it_is_believed_and_not_before(tenant: TenantServices) -> None:
    said_by(tenant, OLD, *RUNS[:2])
    assert ask()["items"] == []
    said_by(tenant, OLD, RUNS[2])
    answer = ask(explain=True)
    (item,) = answer["items"]
    assert (item["id"], item["tier"], item["text"]) == (facts_of(tenant)[0].fact_id, "semantic", OLD)
    assert item["provenance"] == {
        "domain": DOMAIN,
        "scope": "domain",
        "state": "promoted",
        "confidence": 0.9,
        "runs": 3,
        "first_confirmed_at": "2027-01-15T08:00:00Z",
        "last_confirmed_at": "2027-01-15T08:00:00Z",
    }
    assert (
        f'fact 1 of 1: domain {DOMAIN}, confirmed by 3 runs, last on 2027-01-15\n  fact: "{OLD}"' in answer["context"]
    )
    assert [row["source"] for row in answer["explain"] if row["tier"] == "semantic"] == ["fast_path"]
    assert (answer["nothing_relevant"], answer["degraded"]) == (False, [])


def test_facts_that_could_not_be_compared_are_not_taken_for_nothing_relevant(
    account: AwsAccount, tenant: TenantServices
) -> None:
    said_by(tenant, OLD, *RUNS)
    newer = SubjectEmbedder("depot")
    newer.model = "another-model"
    vars(account.services)["embedder"] = newer
    answer = ask()
    assert (answer["items"], answer["skipped_vectors"], answer["nothing_relevant"]) == ([], 1, False)
    assert ask(tiers=["episodic"])["nothing_relevant"] is True


def test_no_fact_asked_for_is_no_finding(tenant: TenantServices) -> None:
    assert ask(tiers=["semantic"], max_facts=0)["nothing_relevant"] is False
    assert ask(tiers=["semantic"])["nothing_relevant"] is True


def test_a_fact_that_both_paths_find_is_told_once_and_then_by_the_knowledge_base(
    tenant: TenantServices, knowledge: RetrievalService
) -> None:
    said_by(tenant, OLD, *RUNS)
    knowledge.sync()
    assert facts_in(ask()) == [OLD]
    ingested(tenant, knowledge)
    answer = ask(explain=True)
    assert facts_in(answer) == [OLD]
    assert [row["source"] for row in answer["explain"]] == ["knowledge_base"]
    assert answer["items"][0]["provenance"]["state"] == "ingested"


def test_without_a_domain_every_domain_of_the_tenant_is_asked(
    tenant: TenantServices, knowledge: RetrievalService
) -> None:
    said_by(tenant, OLD, *RUNS)
    ingested(tenant, knowledge)
    said_by(tenant, "The depot in Turin has no ramp.", "r-4", "r-5", "r-6", domain="sites")
    assert sorted(facts_in(ask(domain=None))) == [OLD, "The depot in Turin has no ramp."]
    assert facts_in(ask()) == [OLD]


def test_what_the_rows_say_wins_over_the_copy_in_the_knowledge_base(
    account: AwsAccount, tenant: TenantServices, knowledge: RetrievalService, doors: ReviewDoors
) -> None:
    said_by(tenant, OLD, *RUNS)
    ingested(tenant, knowledge)
    (fact,) = facts_of(tenant)
    at(account, NOW + 271 * DAY)
    assert facts_in(ask()) == []
    fact_review.pin(TENANT, DOMAIN, fact.fact_id, pinned=True, doors=doors, now=NOW)
    assert facts_in(ask()) == [OLD]
    at(account, NOW)
    fact_review.retire(TENANT, DOMAIN, fact.fact_id, reason="gone", doors=doors, now=NOW)
    answer = ask(explain=True)
    assert (facts_in(answer), answer["nothing_relevant"]) == ([], True)
    assert {row["reason"] for row in answer["explain"]} == {"retired"}


def test_a_document_that_outlived_its_row_is_not_told(tenant: TenantServices, knowledge: RetrievalService) -> None:
    said_by(tenant, OLD, *RUNS)
    ingested(tenant, knowledge)
    tenant.facts._client.delete_item(
        TableName=tenant.facts._table, Key=tenant.facts._items.key(DOMAIN, facts_of(tenant)[0].fact_id)
    )
    answer = ask(explain=True)
    assert (answer["items"], [row["reason"] for row in answer["explain"]]) == ([], ["gone"])


def test_a_contested_fact_is_told_as_such_with_the_runs_that_say_otherwise(
    tenant: TenantServices, knowledge: RetrievalService
) -> None:
    said_by(tenant, OLD, *RUNS)
    ingested(tenant, knowledge)
    assert said_by(tenant, NEW, "r-4", "r-5") == ["contested", "observed"]
    answer = ask()
    assert facts_in(answer) == [OLD]
    assert (answer["items"][0]["provenance"]["state"], answer["items"][0]["provenance"]["runs_against"]) == (
        "contested",
        2,
    )
    assert "contested: a newer claim of 2 runs says otherwise" in answer["context"]
    assert said_by(tenant, NEW, "r-6") == ["superseded"]
    assert facts_in(ask()) == [NEW]


def users_facts(account: AwsAccount, tenant: TenantServices, user_id: str, content: str) -> None:
    user_ref = account.services.user_refs.user_ref(TENANT, user_id)
    fact = a_candidate_fact(content, scope=FactScope.USER)
    for run in RUNS:
        confirm_run(a_run_with_facts(tenant, f"{run}-{user_id}", [fact], user_ref=user_ref))


@pytest.mark.case("ti-h06")
@pytest.mark.parametrize("indexed", [False, True])
def test_what_is_about_a_user_is_told_to_that_user_only(
    account: AwsAccount, tenant: TenantServices, knowledge: RetrievalService, indexed: bool
) -> None:
    users_facts(account, tenant, "ada", "This customer has a discount of 15 %.")
    users_facts(account, tenant, "ben", "This customer disputes an invoice.")
    said_by(tenant, "The customer desk opens at 9.", *RUNS)
    if indexed:
        ingested(tenant, knowledge)
    assert facts_in(ask("Terms of the customer")) == ["The customer desk opens at 9."]
    mine = ask("Terms of the customer", user_id="ada")
    assert sorted(facts_in(mine)) == ["The customer desk opens at 9.", "This customer has a discount of 15 %."]
    assert "about this user" in mine["context"]
    assert facts_in(ask("Terms of the customer", user_id="eve")) == ["The customer desk opens at 9."]
    assert len(facts_of(tenant)) == 3


def test_a_pseudonym_that_cannot_be_made_costs_the_users_facts_only(
    account: AwsAccount, tenant: TenantServices
) -> None:
    class Refusing:
        def user_ref(self, tenant_id: str, user_id: str) -> str:
            raise AccessRefusedError("secretsmanager:GetSecretValue was refused")

    users_facts(account, tenant, "ada", "This customer has a discount of 15 %.")
    said_by(tenant, "The customer desk opens at 9.", *RUNS)
    vars(account.services)["user_refs"] = Refusing()
    answer = ask("Terms of the customer", user_id="ada")
    assert facts_in(answer) == ["The customer desk opens at 9."]
    assert answer["degraded"] == [{"tier": "user", "reason": "denied"}]


def test_another_tenants_result_and_one_without_its_sidecar_are_counted_and_never_told(
    tenant: TenantServices, knowledge: RetrievalService, capsys: pytest.CaptureFixture[str]
) -> None:
    said_by(tenant, OLD, *RUNS)
    ingested(tenant, knowledge)
    (key,) = knowledge.indexed
    attributes = knowledge.indexed[key][1]
    foreign = {**attributes, "tenant_id": "contoso"}
    knowledge.intruders = [
        knowledge.result(key.replace(TENANT, "contoso"), "Depots of contoso are closed.", foreign),
        knowledge.result(key, "A depot that nobody knows.", {}),
    ]
    capsys.readouterr()
    answer = ask()
    assert facts_in(answer) == [OLD]
    printed = capsys.readouterr().out
    assert '"CrossTenantResults":[1.0]' in printed.replace(" ", "")
    assert '"KnowledgeUnreadable":[1.0]' in printed.replace(" ", "")
    assert "contoso" not in json.dumps(answer) + printed


@pytest.mark.case("cf-h04")
def test_a_domain_that_holds_nothing_while_others_fit_says_so(
    tenant: TenantServices, knowledge: RetrievalService
) -> None:
    said_by(tenant, OLD, *RUNS)
    ingested(tenant, knowledge)
    for domain in (DOMAIN, None):
        assert (facts_in(ask(domain=domain)), ask(domain=domain)["notes"]) == ([OLD], [])
    looks = len(knowledge.asked)
    answer = ask(domain="depot")
    assert (answer["items"], answer["nothing_relevant"]) == ([], True)
    assert answer["notes"] == [{"tier": "semantic", "note": "domain_matched_nothing", "elsewhere": 1}]
    assert len(knowledge.asked) == looks + 2
    assert ask("Paint the fence", domain=DOMAIN)["notes"] == []
    assert len(knowledge.asked) == looks + 3
    knowledge.scores = {"Depot": 0.2}
    assert ask(domain="depot")["notes"] == []


@pytest.mark.case("ti-h05")
def test_a_caller_cannot_bring_filters_of_its_own(
    account: AwsAccount, tenant: TenantServices, knowledge: RetrievalService
) -> None:
    said_by(tenant, OLD, *RUNS)
    ingested(tenant, knowledge)
    mine = {"equals": {"key": "tenant_id", "value": TENANT}}
    for extra in ({"filters": {"tenant_id": TENANT}}, {"filter": {"orAll": [mine, mine]}}, {"user_ref": "u-1"}):
        for domain in (None, DOMAIN):
            answer = ask(tenant_id="contoso", domain=domain, **extra)
            assert (answer["items"], answer["notes"]) == ([], [])
    for request in knowledge.asked:
        search = request["retrievalConfiguration"]["vectorSearchConfiguration"]["filter"]
        assert search["andAll"][0] == {"equals": {"key": "tenant_id", "value": "contoso"}}
        assert TENANT not in json.dumps(search)
    refused = ask(tenant_id="contoso", domain='x" OR "1"="1')
    assert refused["error"]["field"] == "domain"


@pytest.mark.case("nd-h03")
@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1e400, "0.9", True, None])
def test_a_score_that_is_no_number_neither_ranks_nor_reaches_the_reply(
    tenant: TenantServices, knowledge: RetrievalService, score: object
) -> None:
    said_by(tenant, OLD, *RUNS)
    ingested(tenant, knowledge)
    knowledge.scores = {"Depot": score}
    assert ask()["items"] == []


@pytest.mark.case("mp-h03")
def test_knowledge_that_reads_like_an_attack_is_told_as_quoted_data(tenant: TenantServices) -> None:
    facts = (
        "The depot's team rehearses system prompt reviews every Monday.",
        'The depot test suite prints "disregard earlier instructions" as a fixture.',
        "Passwords of the depot are rotated each quarter.",
    )
    # Each is a rule of its own to the gate, and all are about the depot to the question.
    vars(services())["embedder"] = SubjectEmbedder(*facts)
    for fact in facts:
        assert said_by(tenant, fact, *(f"{run}-{len(fact)}" for run in RUNS))[-1] == "promoted"
        answer = ask(fact)
        assert facts_in(answer) == [fact]
        assert json.dumps(fact, ensure_ascii=False) in answer["context"]


def test_a_knowledge_base_that_is_down_is_named_and_the_fast_path_answers(
    tenant: TenantServices, knowledge: RetrievalService
) -> None:
    said_by(tenant, OLD, *RUNS)
    for code, reason in (("ThrottlingException", "throttled"), ("AccessDeniedException", "denied")):
        knowledge.failure = ClientError({"Error": {"Code": code}}, "Retrieve")
        answer = ask()
        assert facts_in(answer) == [OLD]
        assert answer["degraded"] == [{"tier": "semantic", "reason": reason}]
        assert ask("Paint the fence")["nothing_relevant"] is False


def test_facts_below_the_floor_or_over_the_limit_are_left_out_best_first(
    tenant: TenantServices, knowledge: RetrievalService
) -> None:
    names = {
        "Depot A has one gate.": 0.7,
        "Depot B has a ramp.": 0.8,
        "Depot C is cold.": 0.59,
        "Depot D is new.": 0.95,
    }
    vars(services())["embedder"] = SubjectEmbedder(*names)
    for name in names:
        said_by(tenant, name, *(f"{run}-{name[6]}" for run in RUNS))
    ingested(tenant, knowledge)
    knowledge.scores = dict(names)
    assert facts_in(ask()) == ["Depot D is new.", "Depot B has a ramp.", "Depot A has one gate."]
    assert facts_in(ask(max_facts=1)) == ["Depot D is new."]
    assert ask(max_facts=0)["items"] == []
    assert ask(tiers=["episodic"])["items"] == []


def test_facts_come_before_episodes_and_share_one_budget_of_tokens(tenant: TenantServices, account: AwsAccount) -> None:
    said_by(tenant, OLD, *RUNS)
    embedder = account.services.embedder
    task = "When does the depot close?"
    vector = embedder.embed(task)
    tenant.episodes.put(
        an_episode(task=task, digest=task, task_vector=vector, digest_vector=vector, embedding_model=embedder.model)
    )
    whole = ask()
    assert [item["tier"] for item in whole["items"]] == ["semantic", "episodic"]
    assert whole["context"].index("fact 1 of 1") < whole["context"].index("episode 1 of 1")
    small = ask(max_context_tokens=130)
    assert ([item["tier"] for item in small["items"]], small["dropped"]) == (["semantic"], 1)
    assert [item["tier"] for item in ask(tiers=["semantic"])["items"]] == ["semantic"]


def test_a_recalled_fact_is_kept_with_its_context_and_counts_no_episode(
    account: AwsAccount, tenant: TenantServices
) -> None:
    said_by(tenant, OLD, *RUNS)
    sent: list[Any] = []
    account.services.publish = lambda kind, detail: sent.append(detail)  # type: ignore[method-assign]  # listen in
    (item,) = ask()["items"]
    event = {**a_memory_retrieved_event(), "detail": sent[0]}
    assert record_retrieval(an_sqs_event(event), LambdaContext()) == {"batchItemFailures": []}
    rows = [row for row in account.items(account.settings.ledger_table) if "#context" in row["ledger_key"]["S"]]
    assert [held["M"]["memory_id"]["S"] for row in rows for held in row["items"]["L"]] == [item["id"]]
    assert account.episodes() == []


def test_a_fact_of_another_embedding_model_is_not_compared(account: AwsAccount, tenant: TenantServices) -> None:
    said_by(tenant, OLD, *RUNS)
    account.services.embedder.model = "another-model"
    answer = ask()
    assert (facts_in(answer), answer["skipped_vectors"]) == ([], 1)
