"""The facts port on DynamoDB, and documents on S3."""

from collections.abc import Iterator

import numpy as np
import pytest
from agent_memory.aws.facts import DynamoFacts
from agent_memory.contract import FACTS_PARTITION_KEY
from agent_memory.domain.errors import AgentMemoryError, CrossTenantError
from agent_memory.domain.fact_writes import DomainFacts, FactWrite, NewObservation
from agent_memory.domain.facts import Fact, FactChange, FactState, Observation
from agent_memory.domain.knowledge import document_of
from agent_memory.domain.models import SourceKind
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, NOW, TENANT

DOMAIN = "depots"


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


def a_fact(number: int = 0, **changes: object) -> Fact:
    opening = FactChange(at=NOW, state=FactState.OBSERVED, reason="first_observed", agent_id=AGENT, run_id="r-1")
    values: dict[str, object] = {
        "tenant_id": TENANT,
        "domain": DOMAIN,
        "fact_id": f"f-{number:032x}",
        "content": f"Shelf {number} holds bolts.",
        "confidence": 0.8,
        "history": (opening,),
        "created_at": NOW,
        "last_confirmed_at": NOW,
    }
    return Fact.model_validate(values | changes)


def an_observation(run: str = "r-1", content: str = "Shelf 0 holds bolts.", **changes: object) -> Observation:
    values: dict[str, object] = {
        "agent_id": AGENT,
        "run_id": run,
        "source": SourceKind.USER,
        "content": content,
        "evidence": content,
        "confidence": 0.8,
        "vector": np.eye(8, dtype=np.float32)[0],
        "embedding_model": "test-model",
        "observed_at": NOW,
    }
    return Observation.model_validate(values | changes)


def written(facts: DynamoFacts, *new: Fact, observations: tuple[tuple[str, Observation], ...] = ()) -> str:
    change = FactWrite(
        seen=facts.domain(DOMAIN), facts=new, observations=tuple(NewObservation(*one) for one in observations)
    )
    return facts.write(change)


def test_a_fact_comes_back_as_it_was_written_with_what_its_runs_said(tenant: TenantServices) -> None:
    fact, facts = a_fact(valid_until=NOW + 5, contested_by=("f-1",)), tenant.facts
    said = [an_observation(run, user_ref="u-1") for run in ("r-1", "r-2")]
    with_both = tuple((fact.fact_id, one) for one in said)
    assert written(facts, fact.model_copy(update={"observations": tuple(said)}), observations=with_both) == "written"
    (found,) = facts.domain(DOMAIN).facts
    assert found.model_dump(exclude={"observations"}) == fact.model_dump(exclude={"observations"})
    assert found.runs == {(AGENT, "r-1"), (AGENT, "r-2")}
    assert np.allclose(found.observations[0].vector, said[0].vector, atol=0.01)
    alone = facts.get(DOMAIN, fact.fact_id)
    assert alone is not None
    assert alone.runs == found.runs
    assert facts.get(DOMAIN, "f-0") is None
    (kept,) = facts.facts(DOMAIN)
    assert kept.vector is not None
    assert (kept.embedding_model, kept.fact.observations) == ("test-model", ())
    assert facts.domains() == [DOMAIN]


def test_a_write_on_what_was_seen_before_another_one_is_a_conflict(tenant: TenantServices) -> None:
    seen = tenant.facts.domain(DOMAIN)
    assert tenant.facts.write(FactWrite(seen=seen, facts=(a_fact(1),))) == "written"
    assert tenant.facts.write(FactWrite(seen=seen, facts=(a_fact(2),))) == "conflict"
    assert [fact.fact_id for fact in tenant.facts.domain(DOMAIN).facts] == [a_fact(1).fact_id]


def test_a_mark_set_meanwhile_is_not_overwritten(tenant: TenantServices) -> None:
    facts = tenant.facts
    written(facts, a_fact(state=FactState.PROMOTED, promoted_at=NOW))
    seen = facts.domain(DOMAIN)
    assert facts.mark_ingested(seen.facts[0], at=NOW + 1)
    stale = FactWrite(seen=seen, facts=seen.facts)
    assert facts.write(stale) == "conflict"
    (fact,) = facts.domain(DOMAIN).facts
    assert (fact.state, fact.ingested_at) == (FactState.INGESTED, NOW + 1)


def test_marks_are_refused_once_the_fact_is_in_another_state(tenant: TenantServices) -> None:
    facts = tenant.facts
    promoted = a_fact(state=FactState.PROMOTED, promoted_at=NOW)
    written(facts, promoted)
    retired = promoted.moved(FactChange(at=NOW, state=FactState.RETIRED, reason="person: wrong"))
    written(facts, retired)
    assert not facts.mark_published(promoted)
    assert not facts.mark_ingested(promoted, at=NOW)
    assert facts.mark_gone(retired)
    assert facts.pending(DOMAIN) == []
    assert not facts.mark_gone(a_fact(7, state=FactState.RETIRED, promoted_at=NOW))
    assert len(facts.facts(DOMAIN)) == 1


def test_every_page_of_a_large_domain_is_read_and_pending_ones_keep_their_order(tenant: TenantServices) -> None:
    facts = tenant.facts
    for start in range(0, 360, 90):
        new = [
            a_fact(n, content="x" * 3500, state=FactState.PROMOTED, promoted_at=NOW - n)
            for n in range(start, start + 90)
        ]
        assert written(facts, *new) == "written"
    assert len(facts.domain(DOMAIN).facts) == 360
    pending = facts.pending(DOMAIN)
    assert [one.fact.promoted_at for one in pending] == [NOW - n for n in reversed(range(360))]


def test_turns_are_taken_given_back_and_taken_over(tenant: TenantServices) -> None:
    facts = tenant.facts
    assert facts.take_turn(DOMAIN, "a", now=NOW, until=NOW + 5)
    assert not facts.take_turn(DOMAIN, "b", now=NOW, until=NOW + 5)
    assert facts.take_turn(DOMAIN, "b", now=NOW + 6, until=NOW + 11)
    facts.give_turn(DOMAIN, "a")
    assert not facts.take_turn(DOMAIN, "a", now=NOW + 6, until=NOW + 11)
    written(facts, a_fact())
    assert facts.take_turn(DOMAIN, "a", now=NOW + 6, until=NOW + 11)


def test_an_unreadable_fact_stops_confirmation_and_no_reader(account: AwsAccount, tenant: TenantServices) -> None:
    facts = tenant.facts
    written(facts, a_fact(1), a_fact(2))
    row = next(row for row in account.facts() if row["fact_id"]["S"] == a_fact(1).fact_id)
    dynamodb, table = account.client("dynamodb"), account.settings.facts_table
    dynamodb.put_item(TableName=table, Item=row | {"state": {"S": "believed by a later release"}})
    with pytest.raises(AgentMemoryError, match="can't be read"):
        facts.domain(DOMAIN)
    assert [one.fact.fact_id for one in facts.facts(DOMAIN)] == [a_fact(2).fact_id]


def test_another_tenants_fact_is_neither_written_nor_documented(account: AwsAccount, tenant: TenantServices) -> None:
    foreign = a_fact(tenant_id="contoso")
    with pytest.raises(CrossTenantError):
        tenant.facts.write(FactWrite(seen=DomainFacts(domain=DOMAIN), facts=(foreign,)))
    with pytest.raises(CrossTenantError):
        tenant.facts.domain("depots#contoso")
    with pytest.raises(CrossTenantError):
        tenant.documents.put(document_of(foreign))
    with pytest.raises(CrossTenantError):
        tenant.documents.delete("../contoso", foreign.fact_id)
    assert account.facts() == []
    assert all(not row[FACTS_PARTITION_KEY]["S"].startswith("contoso") for row in account.facts())


def test_a_document_has_its_sidecar_first_and_loses_it_last(account: AwsAccount, tenant: TenantServices) -> None:
    order: list[str] = []
    client = tenant.documents._client
    for event in ("PutObject", "DeleteObject"):
        client.meta.events.register(
            f"provide-client-params.s3.{event}", lambda params, **_: order.append(params["Key"])
        )
    fact = a_fact()
    tenant.documents.put(document_of(fact))
    tenant.documents.delete(DOMAIN, fact.fact_id)
    tenant.documents.delete(DOMAIN, fact.fact_id)
    key = document_of(fact).key
    assert order == [f"{key}.metadata.json", key, key, f"{key}.metadata.json"]
    assert account.knowledge() == {}
