"""StoreEpisode, RecordFeedback, ParkRun and record_retrieval, from ticket to rows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain.errors import ModelAnswerError, ModelBusyError
from agent_memory.domain.models import LedgerRun, Outcome, RunState, RunTicket
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account
from support.builders import (
    AGENT,
    DAY,
    NOW,
    RUN,
    TENANT,
    LambdaContext,
    a_claim,
    a_distillation,
    a_ledger_run,
    a_memory_retrieved_event,
    a_parked_run,
    a_retrieved_memory,
    a_ticket,
    an_episode,
    an_sqs_event,
    some_artifacts,
)
from support.embedders import HashedEmbedder
from support.fact_runs import a_candidate_fact

from lambdas.park_run.handler import handler as park_run
from lambdas.record_feedback.handler import handler as record_feedback
from lambdas.record_retrieval.handler import handler as record_retrieval
from lambdas.store_episode.handler import handler as store_episode


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = HashedEmbedder()
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        yield account


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


def scrubbed(tenant: TenantServices, *, attempt: int = 1, scrubbed: bool = True, **claim: object) -> RunTicket:
    """A run that was accepted, distilled and scrubbed, as its ticket."""
    held = a_claim(**claim)
    tenant.ledger.accept(a_ledger_run(user_ref=held.user_ref, ended_at=held.ended_at))
    key = tenant.claims.put_claim(held)
    pointer = tenant.claims.put_distillation(key, attempt, a_distillation(scrubbed=scrubbed))
    return a_ticket(claim_key=key, scrubbed_key=pointer, attempt=attempt)


def decided(handler: Any, ticket: RunTicket, **more: object) -> tuple[object, object]:
    answer = handler({**ticket.model_dump(), **more}, LambdaContext())
    json.dumps(answer)
    return answer["decision"], answer["reason"]


def ledger_run(tenant: TenantServices) -> LedgerRun:
    run = tenant.ledger.run(AGENT, RUN)
    assert run is not None
    return run


def test_a_scrubbed_run_becomes_one_episode_however_often_it_is_stored(
    account: AwsAccount, tenant: TenantServices
) -> None:
    ticket = scrubbed(tenant, user_ref="u-1")
    assert decided(store_episode, ticket) == ("stored", None)
    assert decided(store_episode, ticket) == ("duplicate", None)
    (item,) = account.episodes()
    assert item["user_key"] == {"S": f"{TENANT}#u-1"}
    assert {"due_shard", "decays_at", "schema_version", "expires_at", "created_at"} < set(item)
    assert ledger_run(tenant).state is RunState.STORED


@pytest.mark.parametrize(
    ("outcome", "indexes"), [(Outcome.COMPLETED, [0, 1]), (Outcome.PARTIAL, []), (Outcome.UNKNOWN, [])]
)
def test_a_stored_run_tells_which_facts_may_be_confirmed_and_so_does_a_repetition(
    tenant: TenantServices, outcome: Outcome, indexes: list[int]
) -> None:
    facts = (a_candidate_fact("Depot K closes at 16:00."), a_candidate_fact("Gate 4 is for vans only."))
    held = a_claim()
    tenant.ledger.accept(a_ledger_run(ended_at=held.ended_at))
    key = tenant.claims.put_claim(held)
    made = a_distillation(artifacts=some_artifacts(facts=facts, outcome=outcome))
    ticket = a_ticket(claim_key=key, scrubbed_key=tenant.claims.put_distillation(key, 1, made))
    answers = [json.loads(json.dumps(store_episode(ticket.model_dump(), LambdaContext()))) for _ in range(2)]
    assert [(a["decision"], a["fact_indexes"]) for a in answers] == [("stored", indexes), ("duplicate", indexes)]


def test_text_that_was_not_scrubbed_is_never_stored(account: AwsAccount, tenant: TenantServices) -> None:
    assert decided(store_episode, scrubbed(tenant, scrubbed=False)) == ("parked", "not_scrubbed")
    assert account.episodes() == []


def test_a_run_whose_claim_or_artifacts_are_gone_is_parked(account: AwsAccount, tenant: TenantServices) -> None:
    ticket = scrubbed(tenant)
    gone = f"~runs/{TENANT}/{AGENT}/{RUN}/gone"
    assert decided(store_episode, ticket.model_copy(update={"claim_key": gone})) == ("parked", "claim_missing")
    assert decided(store_episode, ticket.model_copy(update={"scrubbed_key": gone})) == ("parked", "artifacts_missing")
    assert decided(store_episode, ticket.model_copy(update={"scrubbed_key": None})) == ("parked", "not_scrubbed")


def test_a_run_that_expired_meanwhile_is_not_stored(account: AwsAccount, tenant: TenantServices) -> None:
    ticket = scrubbed(tenant, ended_at=NOW - 90 * DAY)
    assert decided(store_episode, ticket) == ("expired_on_arrival", None)
    assert account.episodes() == []
    assert ledger_run(tenant).state is RunState.EXPIRED_ON_ARRIVAL


@pytest.mark.parametrize("entry", ["u-1", "*"])
def test_a_run_erased_in_flight_is_not_stored(account: AwsAccount, tenant: TenantServices, entry: str) -> None:
    ticket = scrubbed(tenant, user_ref="u-1")
    account.erase(TENANT, entry, before=NOW)
    assert decided(store_episode, ticket) == ("erased", None)
    assert account.episodes() == []
    assert ledger_run(tenant).state is RunState.ERASED


def test_a_busy_embedder_is_raised_and_a_bad_answer_is_not(account: AwsAccount, tenant: TenantServices) -> None:
    ticket = scrubbed(tenant)
    vars(account.services)["embedder"] = HashedEmbedder({"K7": ModelBusyError("busy")})
    with pytest.raises(ModelBusyError):
        store_episode(ticket.model_dump(), LambdaContext())
    assert account.episodes() == []
    vars(account.services)["embedder"] = HashedEmbedder({"K7": ModelAnswerError("vector_not_finite")})
    assert decided(store_episode, ticket) == ("stored", None)
    (item,) = account.episodes()
    assert {"task_vector", "digest_vector", "embedding_model"} & set(item) == set()


def test_a_redriven_run_leaves_the_parked_when_it_is_stored(account: AwsAccount, tenant: TenantServices) -> None:
    ticket = scrubbed(tenant)
    assert decided(park_run, ticket, failure={"Error": "ModelBusyError", "Cause": "x"}) == ("parked", "ModelBusyError")
    parked = tenant.ledger.parked_run(AGENT, RUN)
    assert parked is not None
    assert ledger_run(tenant).state is RunState.PARKED
    assert tenant.ledger.next_attempt(AGENT, RUN, seen=1) == 2
    assert decided(store_episode, ticket.model_copy(update={"attempt": 2})) == ("stored", None)
    assert tenant.ledger.parked() == []
    assert account.client("s3").list_objects_v2(Bucket=account.settings.parked_bucket)["KeyCount"] == 0


def test_a_run_is_parked_once_with_its_claim_and_reason(account: AwsAccount, tenant: TenantServices) -> None:
    ticket = scrubbed(tenant, user_ref="u-1").decided("parked", "detector_down")
    for _ in range(2):
        assert decided(park_run, ticket) == ("parked", "detector_down")
    (parked,) = tenant.ledger.parked()
    assert (parked.reason, parked.user_ref, parked.attempt) == ("detector_down", "u-1", 1)
    content = tenant.claims.get_parked(parked.content_key)
    assert isinstance(content, dict)
    assert content["run_id"] == RUN


def test_parking_reads_no_content(account: AwsAccount, tenant: TenantServices, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = scrubbed(tenant)

    def refuse(**_: object) -> object:
        raise AssertionError

    monkeypatch.setattr(account.services.sessions.client(TENANT, "s3"), "get_object", refuse)
    assert decided(park_run, ticket, failure={"Error": "Runtime.OutOfMemory"})[0] == "parked"
    monkeypatch.undo()
    (parked,) = tenant.ledger.parked()
    assert parked.content_key.startswith(f"parked/{TENANT}/{AGENT}/{RUN}/")
    assert tenant.claims.get_parked(parked.content_key) == tenant.claims.get_claim(ticket.claim_key).model_dump(
        mode="json"
    )


def test_a_ticket_that_points_to_another_run_stores_and_parks_nothing_of_it(
    account: AwsAccount, tenant: TenantServices
) -> None:
    ticket = scrubbed(tenant)
    other = ticket.model_copy(update={"run_id": "r-2"})
    tenant.ledger.accept(a_ledger_run(run_id="r-2"))
    assert decided(store_episode, other) == ("parked", "claim_of_another")
    assert decided(record_feedback, other) == ("nothing_to_record", None)
    decided(park_run, other, failure={"Error": "x"})
    (parked,) = tenant.ledger.parked()
    assert tenant.claims.get_parked(parked.content_key) == {"kind": "no_claim"}
    assert account.episodes() == []


def test_a_run_whose_claim_is_gone_is_parked_all_the_same(tenant: TenantServices) -> None:
    tenant.ledger.accept(a_ledger_run())
    assert decided(park_run, a_ticket(), failure={"Error": "a b\nc" * 40}) == ("parked", ("abc" * 40)[:64])
    assert len(tenant.ledger.parked()) == 1


def test_an_attempt_that_was_overtaken_parks_nothing(tenant: TenantServices) -> None:
    ticket = scrubbed(tenant)
    tenant.ledger.next_attempt(AGENT, RUN, seen=1)
    assert decided(park_run, ticket, failure=None) == ("parked", "unknown")
    assert tenant.ledger.parked() == []


def test_an_erased_run_is_not_parked(account: AwsAccount, tenant: TenantServices) -> None:
    ticket = scrubbed(tenant, user_ref="u-1")
    account.erase(TENANT, "u-1", before=NOW)
    decided(park_run, ticket, failure={"Error": "x"})
    assert tenant.ledger.parked() == []
    assert account.client("s3").list_objects_v2(Bucket=account.settings.parked_bucket)["KeyCount"] == 0
    assert ledger_run(tenant).state is RunState.ERASED


def retrieve(*events: object) -> list[str]:
    answer = record_retrieval(an_sqs_event(*events), LambdaContext())
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_what_was_returned_counts_as_access_and_what_was_used_as_use(tenant: TenantServices) -> None:
    tenant.episodes.put(an_episode(run_id="r-0"))
    event = a_memory_retrieved_event([a_retrieved_memory("r-0")])
    assert retrieve(event, event) == []
    ticket = scrubbed(tenant, memory_context_id="c-1", memory_used=(f"{AGENT}/r-0", f"{AGENT}/{RUN}"))
    assert decided(record_feedback, ticket) == ("recorded", None)
    assert decided(record_feedback, ticket) == ("nothing_to_record", None)
    episode = tenant.episodes.get(AGENT, "r-0")
    assert episode is not None
    assert (episode.access_count, episode.use_count, episode.last_access_at) == (1, 1, NOW)


def test_a_run_without_feedback_has_nothing_to_record(tenant: TenantServices) -> None:
    assert decided(record_feedback, scrubbed(tenant)) == ("nothing_to_record", None)
    assert decided(record_feedback, a_ticket(claim_key=f"~runs/{TENANT}/gone")) == ("nothing_to_record", None)


def test_a_retrieval_that_cannot_be_read_fails_alone(tenant: TenantServices) -> None:
    tenant.episodes.put(an_episode())
    good = a_memory_retrieved_event([a_retrieved_memory()], at="2027-01-15T08:00:00Z")
    bad = [
        a_memory_retrieved_event(tenant_id="a#b"),
        a_memory_retrieved_event()
        | {"detail": {"tenant_id": TENANT, "context_id": "c-1", "at": NOW, "items": [{"memory_id": 1}]}},
        "prose",
    ]
    assert retrieve(bad[0], good, *bad[1:]) == ["m-0", "m-2", "m-3"]
    episode = tenant.episodes.get(AGENT, RUN)
    assert episode is not None
    assert episode.access_count == 1


def test_a_parked_row_of_an_earlier_attempt_gives_way(tenant: TenantServices) -> None:
    tenant.ledger.park(a_parked_run(attempt=1))
    ticket = scrubbed(tenant)
    tenant.ledger.next_attempt(AGENT, RUN, seen=1)
    assert decided(park_run, ticket.model_copy(update={"attempt": 2, "reason": "again"}))[0] == "parked"
    assert [(run.attempt, run.reason) for run in tenant.ledger.parked()] == [(2, "again")]
