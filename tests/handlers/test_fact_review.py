"""What a person does to facts, on the account's own table."""

from collections.abc import Iterator

import pytest
from agent_memory.contract import DECAYS_AT
from agent_memory.domain import fact_review
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.fact_review import ReviewDoors
from agent_memory.domain.facts import Fact, FactState
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account
from support.builders import NOW, TENANT
from support.fact_runs import DOMAIN, SubjectEmbedder, document_names, facts_of, said_by

OLD, NEW = "Depot K closes at 16:00.", "Depot K closes at 17:00."


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = SubjectEmbedder("depot")
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        yield account


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


@pytest.fixture
def doors(account: AwsAccount, tenant: TenantServices) -> ReviewDoors:
    return ReviewDoors(tenant.facts, tenant.documents, account.services.dirty, account.services.rest)


@pytest.fixture
def contested(tenant: TenantServices) -> tuple[Fact, Fact]:
    """A believed fact and one that contradicts it."""
    said_by(tenant, OLD, "r-1", "r-2", "r-3")
    assert said_by(tenant, NEW, "r-4") == ["contested"]
    old, new = facts_of(tenant)
    return old, new


def test_a_person_settles_for_the_older_fact_and_the_newer_one_stays_away(
    tenant: TenantServices, doors: ReviewDoors, contested: tuple[Fact, Fact]
) -> None:
    old, new = contested
    settled = fact_review.settle(
        TENANT, DOMAIN, old.fact_id, keep=old.fact_id, reason="I called them", doors=doors, now=NOW + 1
    )
    assert settled == "settled"
    old, new = facts_of(tenant)
    assert (old.state, old.contested_by, new.state) == (FactState.PROMOTED, (), FactState.RETIRED)
    assert old.history[-1].reason == new.history[-1].reason == "person: I called them"
    said_by(tenant, NEW, "r-5", "r-6", "r-7")
    old, new = facts_of(tenant)
    assert (old.state, new.state) == (FactState.PROMOTED, FactState.RETIRED)


def test_a_person_settles_for_the_newer_fact_before_three_runs_did(
    account: AwsAccount, tenant: TenantServices, doors: ReviewDoors, contested: tuple[Fact, Fact]
) -> None:
    old, new = contested
    fact_review.settle(TENANT, DOMAIN, old.fact_id, keep=new.fact_id, reason="moved", doors=doors, now=NOW + 1)
    old, new = facts_of(tenant)
    assert (old.state, old.superseded_by, new.state) == (FactState.SUPERSEDED, new.fact_id, FactState.PROMOTED)
    assert f"{new.fact_id}.txt" in document_names(account)
    assert {one.fact.fact_id: one.waits for one in tenant.facts.pending(DOMAIN)} == {
        old.fact_id: False,
        new.fact_id: True,
    }


def test_what_is_not_in_dispute_is_not_settled(
    doors: ReviewDoors, tenant: TenantServices, contested: tuple[Fact, Fact]
) -> None:
    old, new = contested
    for fact_id, word in ((new.fact_id, "not_contested"), ("f-0", "not_found")):
        found = fact_review.settle(TENANT, DOMAIN, fact_id, keep=fact_id, reason="x", doors=doors, now=NOW)
        assert found == word
    with pytest.raises(RefusedInputError, match="keep"):
        fact_review.settle(TENANT, DOMAIN, old.fact_id, keep="f-0", reason="x", doors=doors, now=NOW)
    with pytest.raises(RefusedInputError, match="reason"):
        fact_review.retire(TENANT, DOMAIN, old.fact_id, reason=" \n", doors=doors, now=NOW)


def test_a_pin_takes_the_expiry_away_and_gives_it_back(
    account: AwsAccount, tenant: TenantServices, doors: ReviewDoors
) -> None:
    said_by(tenant, OLD, "r-1")
    (fact,) = facts_of(tenant)

    def due() -> bool:
        return any(DECAYS_AT in row for row in account.facts())

    assert due()
    assert fact_review.pin(TENANT, DOMAIN, fact.fact_id, pinned=True, doors=doors, now=NOW) == "pinned"
    assert not due()
    assert fact_review.pin(TENANT, DOMAIN, fact.fact_id, pinned=True, doors=doors, now=NOW) == "unchanged"
    said_by(tenant, OLD, "r-2")
    assert not due()
    assert fact_review.pin(TENANT, DOMAIN, fact.fact_id, pinned=False, doors=doors, now=NOW) == "unpinned"
    assert due()


def test_a_retired_fact_does_not_come_back_by_being_said_again(tenant: TenantServices, doors: ReviewDoors) -> None:
    said_by(tenant, OLD, "r-1", "r-2", "r-3")
    (fact,) = facts_of(tenant)
    retire = lambda now: fact_review.retire(TENANT, DOMAIN, fact.fact_id, reason="wrong", doors=doors, now=now)  # noqa: E731 - said twice
    assert (retire(NOW + 1), retire(NOW + 2)) == ("retired", "unchanged")
    said_by(tenant, OLD, "r-4", "r-5", "r-6", "r-7")
    (fact,) = facts_of(tenant)
    assert fact.state is FactState.RETIRED
