"""RecordFeedback and record_retrieval: what runs did with the procedures that they were shown."""

from collections.abc import Iterator

import pytest
from agent_memory.domain.errors import StoreBusyError
from agent_memory.domain.models import Outcome
from agent_memory.domain.procedure_transitions import edit, reject, retire
from agent_memory.domain.procedures import Procedure, ProcedureState, injectable
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account
from support.builders import NOW, TENANT
from support.embedders import HashedEmbedder
from support.procedure_runs import (
    StandInBus,
    a_bus,
    a_run_of,
    feed_back,
    followed,
    let_approve,
    only,
    proposed,
    showing,
)
from support.procedures import PERSON, RULES, a_procedure, an_approved, stored


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = HashedEmbedder()
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # no waiting in tests
        yield account


@pytest.fixture
def bus(account: AwsAccount) -> StandInBus:
    return a_bus(account)


@pytest.fixture
def tenant(account: AwsAccount, bus: StandInBus) -> TenantServices:
    return account.services.tenant(TENANT)


@pytest.fixture
def approved(tenant: TenantServices, bus: StandInBus) -> Procedure:
    proposed(tenant, "r-0")
    found = let_approve(tenant)
    bus.events.clear()
    return found


def counters(tenant: TenantServices) -> tuple[int, int, int, int]:
    found = only(tenant)
    return found.offered, found.applied, found.succeeded, found.passed_over


def test_three_successful_uses_establish_a_procedure_and_its_history_says_so(
    tenant: TenantServices, approved: Procedure
) -> None:
    for run in ("r-1", "r-2", "r-3"):
        assert only(tenant).state is ProcedureState.APPROVED
        assert followed(tenant, approved.procedure_id, run) == "recorded"
    found = only(tenant)
    assert (found.state, counters(tenant)) == (ProcedureState.ESTABLISHED, (0, 3, 3, 0))
    assert [change.what for change in found.history] == ["proposed", "approved", "established"]
    assert injectable(found, RULES)


def test_a_procedure_whose_rate_falls_is_withdrawn_and_its_reviewers_hear_of_it(
    tenant: TenantServices, bus: StandInBus, approved: Procedure
) -> None:
    followed(tenant, approved.procedure_id, "r-1")
    followed(tenant, approved.procedure_id, "r-2", succeeded=False)
    assert bus.events == []
    followed(tenant, approved.procedure_id, "r-3", succeeded=False)
    found = only(tenant)
    assert (found.state, found.history[-1].why) == (ProcedureState.NEEDS_REVIEW, "low_success")
    assert not injectable(found, RULES)
    assert list(tenant.procedures.offered()) == []
    [(_, detail)] = bus.events
    assert (detail["state"], detail["reason"]) == ("needs_review", "low_success")
    # A run that began before it was withdrawn still counts.
    assert followed(tenant, approved.procedure_id, "r-4") == "recorded"
    assert counters(tenant)[1:3] == (4, 2)


def test_a_run_counts_once_delivered_again_and_driven_again(tenant: TenantServices, approved: Procedure) -> None:
    report = {"procedure_id": approved.procedure_id, "procedure_succeeded": True}
    ticket = a_run_of(tenant, "r-1", **report)  # type: ignore[arg-type]
    again = a_run_of(tenant, "r-1", attempt=2, **report)  # type: ignore[arg-type]
    assert [feed_back(one) for one in (ticket, ticket, again)] == ["recorded", "nothing_to_record", "nothing_to_record"]
    assert counters(tenant) == (0, 1, 1, 0)


def test_what_the_counters_ask_for_is_settled_by_a_repetition(
    account: AwsAccount, tenant: TenantServices, bus: StandInBus, approved: Procedure
) -> None:
    for run in ("r-1", "r-2"):
        followed(tenant, approved.procedure_id, run, succeeded=False)
    ticket = a_run_of(tenant, "r-3", procedure_id=approved.procedure_id, procedure_succeeded=False)
    bus.failing.append(StoreBusyError("bus"))
    with pytest.raises(StoreBusyError):
        feed_back(ticket)
    feed_back(ticket)
    assert (only(tenant).state, counters(tenant)[1]) == (ProcedureState.NEEDS_REVIEW, 3)
    assert [detail["state"] for _, detail in bus.events] == ["needs_review"]


def test_what_the_event_does_not_say_the_outcome_may(tenant: TenantServices, approved: Procedure) -> None:
    assert followed(tenant, approved.procedure_id, "r-1", succeeded=None, outcome=Outcome.COMPLETED) == "recorded"
    assert followed(tenant, approved.procedure_id, "r-2", succeeded=None, outcome=Outcome.FAILED) == "recorded"
    assert followed(tenant, approved.procedure_id, "r-3", succeeded=None) == "nothing_to_record"
    assert counters(tenant) == (0, 2, 1, 0)


def test_a_context_counts_as_an_offer_once_and_says_which_steps_it_showed(
    tenant: TenantServices, approved: Procedure
) -> None:
    showing(tenant, approved)
    items = tenant.ledger.context("c-1")
    assert items is not None
    assert tenant.ledger.record_retrieval(context_id="c-1", items=items, at=NOW, expires_at=NOW) == "duplicate"
    assert (counters(tenant), only(tenant).last_offered_at) == ((1, 0, 0, 0), NOW)


def test_a_run_that_was_shown_a_procedure_and_did_not_follow_it_says_something_too(
    tenant: TenantServices, approved: Procedure
) -> None:
    showing(tenant, approved)
    ticket = a_run_of(tenant, "r-1", memory_context_id="c-1")
    assert [feed_back(ticket), feed_back(ticket)] == ["recorded", "nothing_to_record"]
    assert counters(tenant) == (1, 0, 0, 1)


def test_a_run_that_followed_what_it_was_shown_passed_nothing_over(tenant: TenantServices, approved: Procedure) -> None:
    showing(tenant, approved)
    followed(tenant, approved.procedure_id, "r-1", memory_context_id="c-1")
    followed(tenant, approved.procedure_id, "r-2", succeeded=None, memory_context_id="c-1")
    assert counters(tenant) == (1, 1, 1, 0)


def test_a_result_for_what_the_context_did_not_show_is_ignored(tenant: TenantServices, approved: Procedure) -> None:
    showing(tenant)
    assert followed(tenant, approved.procedure_id, "r-1", memory_context_id="c-1") == "nothing_to_record"
    assert counters(tenant) == (0, 0, 0, 0)
    # A context that nobody knows any more can't speak against it.
    assert followed(tenant, approved.procedure_id, "r-2", memory_context_id="c-gone") == "recorded"


def test_a_result_for_older_steps_is_ignored(tenant: TenantServices, approved: Procedure) -> None:
    showing(tenant, approved)
    verdict = edit(
        approved, PERSON, title="Drain", steps=("Ask.",), expected_sha256=approved.steps_sha256, now=NOW,
        vector=None, embedding_model=None,
    )  # fmt: skip
    assert verdict.procedure is not None
    assert not tenant.procedures.save(verdict.procedure)  # the offer came in between
    edited = verdict.procedure.model_copy(update={"revision": only(tenant).revision})
    assert tenant.procedures.save(edited)
    assert followed(tenant, approved.procedure_id, "r-1", memory_context_id="c-1") == "nothing_to_record"
    let_approve(tenant)
    assert followed(tenant, approved.procedure_id, "r-2", memory_context_id="c-1") == "nothing_to_record"
    assert counters(tenant) == (0, 0, 0, 0)
    assert followed(tenant, approved.procedure_id, "r-3") == "recorded"


@pytest.mark.parametrize("decide", [reject, retire])
def test_feedback_for_a_rejected_or_retired_procedure_is_ignored(
    tenant: TenantServices, approved: Procedure, decide: object
) -> None:
    withdrawn = decide(approved, PERSON, now=NOW).procedure  # type: ignore[operator]
    assert tenant.procedures.save(withdrawn)
    assert followed(tenant, approved.procedure_id, "r-1") == "nothing_to_record"
    assert counters(tenant) == (0, 0, 0, 0)


def test_feedback_for_a_pending_an_unknown_or_another_tenants_procedure_is_ignored(
    account: AwsAccount, tenant: TenantServices
) -> None:
    proposed(tenant, "r-0")
    theirs = stored(account.services.tenant("contoso").procedures, an_approved(a_procedure(tenant_id="contoso")))
    for number, named in enumerate((only(tenant).procedure_id, "p-unknown", theirs.procedure_id)):
        assert followed(tenant, named, f"r-{number + 1}") == "nothing_to_record"
    assert counters(tenant) == (0, 0, 0, 0)
    found = account.services.tenant("contoso").procedures.find(theirs.procedure_id)
    assert found is not None
    assert found.applied == 0


def test_a_run_erased_meanwhile_counts_nowhere(
    account: AwsAccount, tenant: TenantServices, approved: Procedure
) -> None:
    account.erase(TENANT, "u-1", before=NOW)
    assert followed(tenant, approved.procedure_id, "r-1", user_ref="u-1") == "nothing_to_record"
    assert counters(tenant) == (0, 0, 0, 0)
