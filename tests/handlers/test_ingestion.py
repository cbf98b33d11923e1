"""ingestion, step by step as its machine calls it, over the account's tables and bucket."""

from collections.abc import Iterator

import pytest
from agent_memory.contract import PENDING_KEY
from agent_memory.domain import fact_review
from agent_memory.domain.errors import AccessRefusedError
from agent_memory.domain.fact_review import ReviewDoors
from agent_memory.domain.fact_writes import FoundFact
from agent_memory.domain.facts import FactState
from agent_memory.wiring_tenant import TenantServices
from aws_lambda_powertools.utilities.typing import LambdaContext
from support.aws import AwsAccount, an_aws_account
from support.builders import NOW, TENANT
from support.fact_runs import (
    DOMAIN,
    StandInKnowledge,
    SubjectEmbedder,
    a_run_with_facts,
    confirm_run,
    document_names,
    facts_of,
    ingest,
    said_by,
)

from lambdas.ingestion.handler import handler as ingestion

RULES = [f"Rule {letter} is in force." for letter in "ABCDE"]


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account(confirmationThreshold="1") as account:
        vars(account.services)["embedder"] = SubjectEmbedder()
        vars(account.services)["knowledge"] = StandInKnowledge(account)
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        yield account


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


@pytest.fixture
def knowledge(account: AwsAccount) -> StandInKnowledge:
    found = vars(account.services)["knowledge"]
    assert isinstance(found, StandInKnowledge)
    return found


def later(account: AwsAccount, seconds: int) -> None:
    account.services.now = lambda: NOW + seconds  # type: ignore[method-assign]  # the clock moves


def test_all_that_is_pending_goes_with_one_job(tenant: TenantServices, knowledge: StandInKnowledge) -> None:
    confirm_run(a_run_with_facts(tenant, "r-1", RULES[:3]))
    confirm_run(a_run_with_facts(tenant, "r-2", RULES[3:], domain="other"))
    assert ingest() == ["start", "started", "complete", "done"]
    assert len(knowledge.jobs) == 1
    assert len(knowledge.indexed) == 5
    facts = facts_of(tenant) + facts_of(tenant, "other")
    assert {fact.state for fact in facts} == {FactState.INGESTED}
    assert tenant.facts.pending(DOMAIN) == []
    assert ingest("execution-2") == ["nothing"]


def test_a_job_that_is_running_and_throttling_make_it_wait_and_come_back(
    tenant: TenantServices, knowledge: StandInKnowledge
) -> None:
    said_by(tenant, RULES[0], "r-1")
    knowledge.busy, knowledge.throttled, knowledge.checks_left = 2, 1, 2
    words = ingest()
    assert words == ["start", "throttled", "busy", "busy", "started", "running", "running", "complete", "done"]
    assert len(knowledge.jobs) == 1


def test_a_fact_promoted_during_a_job_is_picked_up_by_the_next(
    tenant: TenantServices, knowledge: StandInKnowledge
) -> None:
    said_by(tenant, RULES[0], "r-1")
    knowledge.during = [lambda: said_by(tenant, RULES[1], "r-2")]
    assert ingest() == ["start", "started", "complete", "again", "start", "started", "complete", "done"]
    assert len(knowledge.jobs) == 2
    assert {fact.state for fact in facts_of(tenant)} == {FactState.INGESTED}


def test_documents_that_failed_stay_pending_and_are_tried_by_the_next_job(
    account: AwsAccount, tenant: TenantServices, knowledge: StandInKnowledge
) -> None:
    confirm_run(a_run_with_facts(tenant, "r-1", RULES))
    knowledge.failing = {"Rule B": 1, "Rule D": 9}
    assert ingest()[:4] == ["start", "started", "partial", "again"]
    assert len(knowledge.jobs) == 3
    waiting = [one.fact.content for one in tenant.facts.pending(DOMAIN)]
    assert waiting == ["Rule D is in force."]
    report = account.services.ingestion_desk.report()
    assert report is not None
    assert (report["failed"], report["left"], report["round"]) == (1, 1, 3)
    assert {fact.content: fact.state for fact in facts_of(tenant)}[RULES[3]] is FactState.PROMOTED


def test_a_withdrawn_fact_leaves_bucket_and_knowledge_base_before_it_is_off_the_list(
    account: AwsAccount, tenant: TenantServices, knowledge: StandInKnowledge
) -> None:
    said_by(tenant, RULES[0], "r-1")
    ingest()
    (fact,) = facts_of(tenant)
    own = account.services
    doors = ReviewDoors(tenant.facts, tenant.documents, own.dirty, own.rest)
    assert (
        fact_review.retire(TENANT, DOMAIN, fact.fact_id, reason="no longer so", doors=doors, now=NOW + 5) == "retired"
    )
    assert [one.waits for one in tenant.facts.pending(DOMAIN)] == [False]
    assert ingest("execution-2") == ["start", "started", "complete", "done"]
    assert document_names(account) == []
    assert knowledge.indexed == {}
    assert tenant.facts.pending(DOMAIN) == []
    assert all(PENDING_KEY not in row for row in account.facts())
    (fact,) = facts_of(tenant)
    assert [change.state for change in fact.history] == ["observed", "promoted", "ingested", "retired"]


def test_a_document_that_a_crash_left_unwritten_is_written_before_the_job(
    account: AwsAccount, tenant: TenantServices, knowledge: StandInKnowledge
) -> None:
    put = tenant.documents.put
    tenant.documents.put = lambda document: None  # type: ignore[method-assign]  # the writes never reached the bucket
    mark = tenant.facts.mark_published
    tenant.facts.mark_published = lambda fact: False  # type: ignore[method-assign]  # nor were they noted
    said_by(tenant, RULES[0], "r-1")
    tenant.documents.put, tenant.facts.mark_published = put, mark  # type: ignore[method-assign]  # all is well again
    assert account.knowledge() == {}
    assert ingest()[-1] == "done"
    assert len(knowledge.indexed) == 1


def test_only_one_execution_works_at_a_time_and_a_dead_one_is_taken_over(
    account: AwsAccount, tenant: TenantServices
) -> None:
    said_by(tenant, RULES[0], "r-1")
    first = ingestion({"action": "collect", "work": {"owner": "first"}}, LambdaContext())
    assert first["decision"] == "start"
    assert ingest("second") == ["nothing"]
    later(account, 1000)
    assert ingest("second") == ["start", "started", "complete", "done"]


def test_the_mark_of_a_domain_goes_only_when_nothing_can_be_on_its_way(
    account: AwsAccount, tenant: TenantServices
) -> None:
    said_by(tenant, RULES[0], "r-1")
    ingest()
    assert ingest("execution-2") == ["nothing"]
    assert list(account.services.dirty.all()) == [(TENANT, DOMAIN)]
    later(account, 700)
    assert ingest("execution-3") == ["nothing"]
    assert account.services.dirty.all() == {}


def test_the_age_of_the_oldest_waiting_fact_is_measured(
    account: AwsAccount, tenant: TenantServices, capsys: pytest.CaptureFixture[str]
) -> None:
    said_by(tenant, RULES[0], "r-1")
    later(account, 4000)
    ingestion({"action": "collect", "work": {"owner": "first"}}, LambdaContext())
    assert '"OldestPendingFactSeconds":[4000.0]' in capsys.readouterr().out


def test_one_tenants_defect_stops_no_other(account: AwsAccount, tenant: TenantServices) -> None:
    said_by(tenant, RULES[0], "r-1")
    account.services.dirty.note("contoso", "depots", now=NOW)

    def refused(domain: str) -> list[FoundFact]:
        raise AccessRefusedError("dynamodb:Query was refused")

    account.services.tenant("contoso").facts.pending = refused  # type: ignore[method-assign]  # as IAM would
    assert ingest() == ["start", "started", "complete", "done"]
    report = account.services.ingestion_desk.report()
    assert report is not None
    assert (report["ingested"], report["skipped"]) == (1, 1)
    assert ("contoso", "depots") in account.services.dirty.all()
