"""The procedures port on DynamoDB."""

from collections.abc import Iterator

import numpy as np
import pytest
from agent_memory.domain.errors import CrossTenantError, UnreadableItemError
from agent_memory.domain.procedure_transitions import edit, pin, reject, retire
from agent_memory.domain.procedure_upkeep import NightlyProcedures
from agent_memory.domain.procedures import Procedure, ProcedureRules, ProcedureState
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, TENANT
from support.procedures import (
    PERSON,
    RULES,
    STEPS,
    TASK_TYPE,
    a_procedure,
    a_proposal,
    a_result,
    a_wording,
    an_approved,
    some_evidence,
    stored,
)


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


def as_written(procedure: Procedure) -> dict[str, object]:
    return procedure.model_dump(exclude={"task_vector", "vector", "revision"})


def now_in(tenant: TenantServices, procedure: Procedure) -> Procedure:
    found = tenant.procedures.get(procedure.task_type, procedure.procedure_id)
    assert found is not None
    return found


def test_a_procedure_comes_back_as_it_was_written(tenant: TenantServices) -> None:
    procedure = an_approved(a_procedure(pinned=True, warnings=("steps_from_tools",)))
    found = stored(tenant.procedures, procedure)
    assert as_written(found) == as_written(procedure)
    assert found.revision == procedure.revision + 1
    assert found.vector is not None
    assert procedure.vector is not None
    assert np.allclose(found.vector, procedure.vector, atol=0.01)


def test_a_procedure_is_found_by_its_id_alone_and_only_by_its_tenant(account: AwsAccount) -> None:
    procedure = stored(account.services.tenant(TENANT).procedures)
    found = account.services.tenant(TENANT).procedures.find(procedure.procedure_id)
    assert found is not None
    assert as_written(found) == as_written(procedure)
    assert account.services.tenant("contoso").procedures.find(procedure.procedure_id) is None
    assert account.services.tenant(TENANT).procedures.find(f"{procedure.procedure_id}#x") is None
    with pytest.raises(CrossTenantError):
        account.services.tenant("contoso").procedures.save(procedure)


def test_the_head_and_the_runs_that_proposed_are_no_procedures(tenant: TenantServices) -> None:
    procedure = stored(tenant.procedures)
    seen = tenant.procedures.of_task_type(TASK_TYPE)
    assert [one.procedure_id for one in seen.procedures] == [procedure.procedure_id]
    assert seen.version == 1
    assert tenant.procedures.get(TASK_TYPE, "~head") is None
    assert tenant.procedures.get(TASK_TYPE, f"{procedure.procedure_id}#{AGENT}/r-1") is None


def test_two_proposers_that_saw_the_same_do_not_both_open_a_procedure(tenant: TenantServices) -> None:
    seen = tenant.procedures.of_task_type(TASK_TYPE)
    first, second = a_procedure(), a_procedure(steps=(*STEPS, "Say so."))
    changes = [a_proposal(seen, one, some_evidence(one, run)) for one, run in ((first, "r-1"), (second, "r-2"))]
    assert [tenant.procedures.propose(change) for change in changes] == ["written", "conflict"]
    assert len(tenant.procedures.of_task_type(TASK_TYPE).procedures) == 1


def test_a_proposal_over_a_decision_that_it_did_not_see_is_a_conflict(tenant: TenantServices) -> None:
    procedure = stored(tenant.procedures)
    seen = tenant.procedures.of_task_type(TASK_TYPE)
    rejected = reject(procedure, PERSON, now=NOW).procedure
    assert rejected is not None
    assert tenant.procedures.save(rejected)
    more = seen.procedures[0].model_copy(update={"evidence": 2})
    change = a_proposal(seen, more, some_evidence(more, "r-2"), opens=False)
    assert tenant.procedures.propose(change) == "conflict"
    assert now_in(tenant, procedure).state is ProcedureState.REJECTED


def test_a_run_has_one_say_for_a_procedure(tenant: TenantServices) -> None:
    procedure = stored(tenant.procedures)
    seen = tenant.procedures.of_task_type(TASK_TYPE)
    more = procedure.model_copy(update={"evidence": 2})
    again = a_proposal(seen, more, some_evidence(more, "r-1"), opens=False)
    assert tenant.procedures.propose(again) == "duplicate"
    other = a_procedure(steps=("Something else.",))
    assert tenant.procedures.propose(a_proposal(seen, other, some_evidence(other, "r-1"))) == "duplicate"
    proposed = tenant.procedures.proposal_of(AGENT, "r-1")
    assert proposed is not None
    assert proposed.procedure_id == procedure.procedure_id
    assert tenant.procedures.proposal_of(AGENT, "r-2") is None
    assert [one.run_id for one in tenant.procedures.proposed_by(procedure)] == ["r-1"]


@pytest.mark.parametrize("entry", ["*", "u-1"])
def test_nothing_is_proposed_or_counted_for_who_was_erased(
    account: AwsAccount, tenant: TenantServices, entry: str
) -> None:
    approved = stored(tenant.procedures, an_approved(), user_ref="u-1")
    account.erase(TENANT, entry, before=NOW + 1)
    other = a_procedure(steps=("Do it.",))
    seen = tenant.procedures.of_task_type(TASK_TYPE)
    said = some_evidence(other, "r-9", user_ref="u-1")
    change = a_proposal(seen, other, said)
    assert tenant.procedures.propose(change) == "erased"
    assert tenant.procedures.record(a_result("r-9", approved, user_ref="u-1")) == "erased"
    assert now_in(tenant, approved).applied == 0


def test_only_the_first_of_two_decisions_on_the_same_reading_is_written(tenant: TenantServices) -> None:
    procedure = stored(tenant.procedures)
    rejected = reject(procedure, PERSON, now=NOW).procedure
    assert rejected is not None
    assert tenant.procedures.save(an_approved(procedure))
    assert not tenant.procedures.save(rejected)
    assert now_in(tenant, procedure).state is ProcedureState.APPROVED


def test_procedures_are_listed_by_state_longest_unused_first(tenant: TenantServices) -> None:
    for number, last_used_at in enumerate((NOW, NOW - 5, NOW - 3)):
        stored(tenant.procedures, a_procedure(steps=(f"Step {number}.",), last_used_at=last_used_at))
    pending = tenant.procedures.in_state(ProcedureState.PENDING)
    assert [one.last_used_at for one in pending] == [NOW - 5, NOW - 3, NOW]
    retired = retire(pending[0], PERSON, now=NOW).procedure
    assert retired is not None
    assert tenant.procedures.save(retired)
    assert len(tenant.procedures.in_state(ProcedureState.PENDING)) == 2
    assert len(tenant.procedures.in_state(ProcedureState.RETIRED)) == 1


def test_what_is_offered_is_read_by_task_type_or_for_the_whole_tenant(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    drain = stored(tenant.procedures, an_approved())
    refund = stored(tenant.procedures, an_approved(a_procedure(task_type="refund", steps=("Pay it back.",))))
    stored(tenant.procedures, a_procedure(steps=("Not approved.",)))
    assert [one.procedure_id for one in tenant.procedures.offered("refund")] == [refund.procedure_id]
    ids = {one.procedure_id for one in tenant.procedures.offered()}
    assert ids == {drain.procedure_id, refund.procedure_id}
    assert list(account.services.tenant("contoso").procedures.offered()) == []


def test_what_a_task_is_compared_with_comes_from_the_index_and_what_is_near_enough_is_read_whole(
    account: AwsAccount, tenant: TenantServices
) -> None:
    drain = stored(tenant.procedures, an_approved())
    other = stored(tenant.procedures, an_approved(a_procedure(task_type="refund", steps=("Pay.",), task_vector=None)))
    stored(tenant.procedures, a_procedure(steps=("Not approved.",)))
    views = {view.procedure_id: view for view in tenant.procedures.views()}
    assert set(views) == {drain.procedure_id, other.procedure_id}
    view = views[drain.procedure_id]
    assert (view.task_type, view.state, view.embedding_model) == (TASK_TYPE, drain.state, drain.embedding_model)
    assert view.task_vector is not None
    assert drain.task_vector is not None
    assert np.allclose(view.task_vector, drain.task_vector)
    assert views[other.procedure_id].task_vector is None
    keys = [(view.task_type, view.procedure_id) for view in (*views.values(), view)] + [("refund", "p-none")]
    assert {one.procedure_id for one in tenant.procedures.get_many(keys)} == set(views)
    assert list(account.services.tenant("contoso").procedures.views()) == []


def test_a_procedure_of_another_release_is_counted_where_it_is_shown_and_stops_a_proposal(
    account: AwsAccount, tenant: TenantServices
) -> None:
    procedure = stored(tenant.procedures, an_approved())
    account.client("dynamodb").update_item(
        TableName=account.settings.procedures_table,
        Key={"task_key": {"S": f"{TENANT}#{TASK_TYPE}"}, "procedure_id": {"S": procedure.procedure_id}},
        UpdateExpression="SET #steps = :steps",
        ExpressionAttributeNames={"#steps": "steps"},
        ExpressionAttributeValues={":steps": {"N": "3"}},
    )
    assert tenant.procedures.offered().unreadable == 1
    with pytest.raises(UnreadableItemError):
        tenant.procedures.of_task_type(TASK_TYPE)


def test_a_run_counts_once_however_often_it_is_recorded(tenant: TenantServices) -> None:
    approved = stored(tenant.procedures, an_approved())
    result = a_result("r-5", approved, ended_at=NOW + 50)
    assert [tenant.procedures.record(result) for _ in range(3)] == ["recorded", "duplicate", "duplicate"]
    assert tenant.procedures.record(a_result("r-6", now_in(tenant, approved), succeeded=False)) == "recorded"
    found = now_in(tenant, approved)
    assert (found.applied, found.succeeded, found.last_used_at) == (2, 1, NOW + 50)


def test_a_run_that_passed_a_procedure_over_counts_as_that(tenant: TenantServices) -> None:
    approved = stored(tenant.procedures, an_approved())
    assert tenant.procedures.record(a_result("r-5", passed_over=(approved,))) == "recorded"
    assert tenant.procedures.record(a_result("r-5", approved)) == "duplicate"
    found = now_in(tenant, approved)
    assert (found.applied, found.passed_over, found.last_used_at) == (0, 1, approved.last_used_at)


@pytest.mark.parametrize("decide", ["reject", "edit"])
def test_a_result_for_what_was_decided_otherwise_meanwhile_is_not_counted(tenant: TenantServices, decide: str) -> None:
    approved = stored(tenant.procedures, an_approved())
    verdict = (
        reject(approved, PERSON, now=NOW)
        if decide == "reject"
        else edit(
            approved,
            PERSON,
            title="Drain",
            steps=("Do it well.",),
            expected_sha256=approved.steps_sha256,
            now=NOW,
            vector=None,
            embedding_model=None,
        )
    )
    assert verdict.procedure is not None
    assert tenant.procedures.save(verdict.procedure)
    assert tenant.procedures.record(a_result("r-5", approved)) == "moved"
    assert now_in(tenant, approved).applied == 0
    # Nothing of it was written: what the run says of the procedure as it is now can still count.
    assert tenant.procedures.record(a_result("r-5")) == "recorded"


def test_a_result_between_reading_and_deciding_is_not_lost(tenant: TenantServices) -> None:
    approved = stored(tenant.procedures, an_approved())
    pinned = pin(approved, PERSON, pinned=True, now=NOW).procedure
    assert pinned is not None
    assert tenant.procedures.record(a_result("r-5", approved)) == "recorded"
    assert not tenant.procedures.save(pinned)
    assert now_in(tenant, approved).applied == 1


def test_words_that_an_edit_replaces_are_kept_and_no_word_of_them_is_taken_for_a_procedure_or_a_proposal(
    tenant: TenantServices,
) -> None:
    procedures = tenant.procedures
    first = stored(procedures)
    second = first.model_copy(update={"steps": ("Ask first.",)})
    former = a_wording(first)
    assert procedures.save(second, former=former)
    assert not procedures.save(second, former=former)
    found = procedures.get(TASK_TYPE, first.procedure_id)
    assert found is not None
    assert procedures.save(found.model_copy(update={"steps": ("Ask twice.",)}), former=a_wording(found, at=NOW + 1))
    assert [wording.steps for wording in procedures.wordings(found)] == [first.steps, ("Ask first.",)]
    assert [said.run_id for said in procedures.proposed_by(found)] == ["r-1"]
    assert [one.steps for one in procedures.of_task_type(TASK_TYPE).procedures] == [("Ask twice.",)]


def test_the_night_flags_what_nobody_used_for_long_tells_reviewers_and_changes_nothing_twice(
    tenant: TenantServices,
) -> None:
    old = NOW - 60 * DAY
    unused = stored(tenant.procedures, an_approved(a_procedure(last_used_at=old), now=old))
    pinned = stored(
        tenant.procedures, an_approved(a_procedure(steps=("Pin it.",), pinned=True, last_used_at=old), now=old)
    )
    recent = stored(tenant.procedures, an_approved(a_procedure(steps=("Use it.",), last_used_at=old + 1), now=old + 1))
    told: list[object] = []

    def night(rules: ProcedureRules = RULES) -> list[tuple[str, str, str]]:
        procedures = NightlyProcedures(
            tenant.procedures, lambda name, detail: told.append(detail["reason"]), rules, environment="test"
        )
        return [(one.procedure_id, one.decision, one.reason) for one in procedures.flag(now=NOW)]

    assert (night(), night(), told) == ([(unused.procedure_id, "flagged", "stale")], [], ["stale"])
    assert now_in(tenant, unused).state is ProcedureState.NEEDS_REVIEW
    assert {now_in(tenant, one).state for one in (recent, pinned)} == {ProcedureState.APPROVED}


def test_the_night_flags_what_stricter_settings_would_not_offer_any_more(tenant: TenantServices) -> None:
    failing = stored(tenant.procedures, an_approved(a_procedure(applied=10, succeeded=7), now=NOW))
    strict = RULES.model_copy(update={"min_success": 0.8})
    procedures = NightlyProcedures(tenant.procedures, lambda name, detail: None, strict, environment="test")
    assert [(one.procedure_id, one.reason) for one in procedures.flag(now=NOW)] == [
        (failing.procedure_id, "low_success")
    ]
    assert now_in(tenant, failing).state is ProcedureState.NEEDS_REVIEW
