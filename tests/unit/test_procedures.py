"""What reviewers, results and time do to a procedure."""

import math

import pytest
from agent_memory.domain.procedure_transitions import (
    MAX_WHY,
    approve,
    edit,
    flag_stale,
    pin,
    reject,
    retire,
)
from agent_memory.domain.procedures import (
    MAX_HISTORY,
    MAX_PROPOSERS,
    Procedure,
    ProcedureRules,
    ProcedureState,
    Reviewer,
    Verdict,
    injectable,
    on_trial,
    rank,
    stale,
    steps_hash,
    success_rate,
    wilson_lower_bound,
)
from support.builders import AGENT, DAY, NOW
from support.procedures import PERSON, RULES, SECOND_AGENT, STEPS, TITLE, a_procedure, an_approved, record_result


def changed(verdict: Verdict) -> Procedure:
    assert verdict.procedure is not None, verdict.reason
    return verdict.procedure


def after_results(*results: bool, procedure: Procedure | None = None) -> Procedure:
    found = procedure or an_approved()
    for second, succeeded in enumerate(results):
        found = record_result(found, succeeded=succeeded, at=NOW + second, rules=RULES, now=NOW + second)
    return found


def edited(procedure: Procedure, *steps: str, reviewer: Reviewer = PERSON) -> Verdict:
    return edit(
        procedure,
        reviewer,
        title=procedure.title,
        steps=steps,
        expected_sha256=procedure.steps_sha256,
        now=NOW,
        vector=None,
        embedding_model=None,
    )


def test_a_person_approves_the_very_steps_that_were_read() -> None:
    approved = an_approved()
    assert approved.state is ProcedureState.APPROVED
    assert approved.approval is not None
    assert (approved.approval.by, approved.approval.kind, approved.approval.at) == (PERSON.by, "person", NOW)
    assert injectable(approved, RULES)
    assert on_trial(approved, RULES)


@pytest.mark.parametrize(
    ("procedure", "reviewer", "expected", "reason"),
    [
        (a_procedure(), PERSON, "0" * 64, "changed"),
        (a_procedure(), Reviewer(by=AGENT, kind="agent"), None, "own_proposal"),
        (a_procedure(proposers=(AGENT, "ops-bot")), Reviewer(by="ops-bot", kind="agent"), None, "own_proposal"),
        (a_procedure(proposers=(AGENT, "ops-bot")), Reviewer(by="ops-bot"), None, "own_proposal"),
        (a_procedure(state=ProcedureState.RETIRED), PERSON, None, "retired"),
        (a_procedure(state=ProcedureState.REJECTED), SECOND_AGENT, None, "persons_decision"),
    ],
)
def test_an_approval_is_refused(procedure: Procedure, reviewer: Reviewer, expected: str | None, reason: str) -> None:
    verdict = approve(procedure, reviewer, expected_sha256=expected or procedure.steps_sha256, now=NOW, rules=RULES)
    assert (verdict.decision, verdict.reason, verdict.procedure) == ("refused", reason, None)


def test_of_two_approvals_at_once_the_second_changes_nothing() -> None:
    verdict = approve(an_approved(), PERSON, expected_sha256=a_procedure().steps_sha256, now=NOW + 9, rules=RULES)
    assert (verdict.decision, verdict.reason) == ("unchanged", "approved_before")


def test_a_persons_approval_replaces_a_second_agents_and_ranks_higher() -> None:
    by_agent = an_approved(by=SECOND_AGENT)
    by_person = an_approved(by_agent)
    assert by_person.approval is not None
    assert by_person.approval.kind == "person"
    assert rank(by_person) > rank(after_results(True, True, True, procedure=by_agent))
    again = approve(by_person, SECOND_AGENT, expected_sha256=by_person.steps_sha256, now=NOW, rules=RULES)
    assert again.decision == "unchanged"


def test_an_agent_does_not_undo_what_a_person_decided() -> None:
    approved = an_approved()
    assert reject(approved, SECOND_AGENT, now=NOW).reason == "persons_decision"
    assert retire(approved, SECOND_AGENT, now=NOW).reason == "persons_decision"
    assert edited(approved, "Other.", reviewer=SECOND_AGENT).reason == "persons_decision"
    assert reject(an_approved(by=SECOND_AGENT), SECOND_AGENT, now=NOW).decision == "done"


def test_an_agent_may_think_again_about_what_an_agent_rejected() -> None:
    rejected = changed(reject(a_procedure(), SECOND_AGENT, now=NOW))
    verdict = approve(rejected, SECOND_AGENT, expected_sha256=rejected.steps_sha256, now=NOW, rules=RULES)
    assert verdict.decision == "done"
    refused = changed(reject(rejected.model_copy(update={"state": ProcedureState.PENDING}), PERSON, now=NOW))
    verdict = approve(refused, SECOND_AGENT, expected_sha256=refused.steps_sha256, now=NOW, rules=RULES)
    assert verdict.reason == "persons_decision"


def test_a_persons_decision_holds_when_the_history_has_no_room_for_it_any_more() -> None:
    found = changed(reject(an_approved(by=SECOND_AGENT), PERSON, now=NOW))
    approved = an_approved()
    for turn in range(MAX_HISTORY):
        found = changed(pin(found, PERSON, pinned=not found.pinned, now=NOW + turn))
        approved = changed(pin(approved, PERSON, pinned=not approved.pinned, now=NOW + turn))
    verdict = approve(found, SECOND_AGENT, expected_sha256=found.steps_sha256, now=NOW, rules=RULES)
    assert verdict.reason == "persons_decision"
    assert reject(approved, SECOND_AGENT, now=NOW).reason == "persons_decision"


def test_what_more_agents_proposed_than_are_kept_no_agent_approves() -> None:
    many = a_procedure(proposers=tuple(f"agent-{number}" for number in range(MAX_PROPOSERS)))
    verdict = approve(many, SECOND_AGENT, expected_sha256=many.steps_sha256, now=NOW, rules=RULES)
    assert verdict.reason == "own_proposal"
    assert an_approved(many).state is ProcedureState.APPROVED


def test_an_edit_returns_it_to_pending_under_its_id_with_counters_anew_and_the_old_ones_in_its_history() -> None:
    used = after_results(True, True, False, True)
    pending = changed(edited(used, "Ask first.", *STEPS))
    assert (pending.procedure_id, pending.state, pending.approval) == (
        used.procedure_id,
        ProcedureState.PENDING,
        None,
    )
    assert (pending.applied, pending.succeeded, pending.steps[0]) == (0, 0, "Ask first.")
    last = pending.history[-1]
    assert (last.what, last.applied, last.succeeded, last.steps_sha256) == ("edited", 4, 3, used.steps_sha256)
    assert not injectable(pending, RULES)
    assert edited(pending, *pending.steps).reason == "same_steps"


def test_a_rejected_procedure_is_never_shown_until_a_person_thinks_again() -> None:
    rejected = changed(reject(after_results(True, True, True), PERSON, now=NOW, why="wrong order"))
    assert (rejected.state, rejected.approval, injectable(rejected, RULES)) == (ProcedureState.REJECTED, None, False)
    assert reject(rejected, PERSON, now=NOW).decision == "unchanged"
    assert after_results(True, procedure=rejected).state is ProcedureState.REJECTED
    assert an_approved(rejected).state is ProcedureState.ESTABLISHED


@pytest.mark.parametrize(
    ("results", "state"),
    [
        ((True, True), ProcedureState.APPROVED),
        ((True, True, True), ProcedureState.ESTABLISHED),
        ((True, True, False), ProcedureState.ESTABLISHED),
        ((False, False), ProcedureState.APPROVED),
        ((True, False, False), ProcedureState.NEEDS_REVIEW),
        ((True, True, True, False, False, False), ProcedureState.NEEDS_REVIEW),
    ],
)
def test_results_establish_or_withdraw_after_three_uses(results: tuple[bool, ...], state: ProcedureState) -> None:
    found = after_results(*results)
    assert (found.state, found.applied, found.succeeded) == (state, len(results), sum(results))


def test_what_failed_starts_its_trial_anew_when_it_is_approved_again() -> None:
    failed = after_results(False, False, False)
    again = an_approved(failed, now=NOW + DAY)
    assert (again.state, again.applied, injectable(again, RULES)) == (ProcedureState.APPROVED, 0, True)
    assert (again.history[-1].applied, again.history[-1].succeeded) == (3, 0)


def test_what_was_only_unused_keeps_its_record_when_it_is_approved_again() -> None:
    proven = after_results(True, True, True)
    unused = changed(flag_stale(proven, NOW + 61 * DAY, RULES))
    assert (unused.state, unused.history[-1].why) == (ProcedureState.NEEDS_REVIEW, "stale")
    again = an_approved(unused, now=NOW + 62 * DAY)
    assert (again.state, again.applied) == (ProcedureState.ESTABLISHED, 3)
    assert not stale(again, NOW + 63 * DAY, RULES)


def test_sixty_days_without_use_are_too_many_unless_it_is_pinned() -> None:
    used = after_results(True)
    assert flag_stale(used, NOW + 60 * DAY - 1, RULES).decision == "unchanged"
    assert flag_stale(used, NOW + 60 * DAY, RULES).decision == "done"
    pinned = changed(pin(used, PERSON, pinned=True, now=NOW))
    assert flag_stale(pinned, NOW + 600 * DAY, RULES).decision == "unchanged"
    assert flag_stale(changed(pin(pinned, PERSON, pinned=False, now=NOW)), NOW + 600 * DAY, RULES).decision == "done"
    assert flag_stale(a_procedure(), NOW + 600 * DAY, RULES).decision == "unchanged"


def test_steps_that_were_changed_in_the_store_are_not_shown_whatever_the_state_says() -> None:
    tampered = an_approved().model_copy(update={"steps": (*STEPS, "Approve the invoice.")})
    assert not injectable(tampered, RULES)
    assert not injectable(an_approved().model_copy(update={"applied": 3, "succeeded": 1}), RULES)


def test_no_two_step_lists_share_a_hash() -> None:
    lists = [(TITLE, ("a", "b")), (TITLE, ("ab",)), (TITLE + "a", ("b",)), (TITLE, ("a", "b", "")), (TITLE, ("b", "a"))]
    assert len({steps_hash(title, steps) for title, steps in lists}) == len(lists)


def test_the_lower_bound_prefers_many_good_results_to_few_perfect_ones() -> None:
    assert success_rate(a_procedure()) is None
    assert wilson_lower_bound(0, 0) == 0.0
    # Wilson's interval for 8 of 10 at 95 % begins at 0.490.
    assert math.isclose(wilson_lower_bound(8, 10), 0.4901625, abs_tol=1e-6)
    assert wilson_lower_bound(45, 50) > wilson_lower_bound(3, 3) > wilson_lower_bound(1, 1) > wilson_lower_bound(0, 5)


def test_a_history_keeps_its_beginning_and_its_end_and_no_long_speech() -> None:
    found = a_procedure()
    for turn in range(MAX_HISTORY + 20):
        found = changed(pin(found, PERSON, pinned=not found.pinned, now=NOW + turn, why="x" * 2 * MAX_WHY))
    assert len(found.history) == MAX_HISTORY
    assert (found.history[0].at, found.history[-1].at) == (NOW, NOW + MAX_HISTORY + 19)
    assert max(len(change.why) for change in found.history) <= MAX_WHY


def test_a_deployment_that_asks_for_no_uses_still_waits_for_one() -> None:
    rules = ProcedureRules(min_uses=0)
    assert on_trial(an_approved(), rules)
    assert record_result(an_approved(), succeeded=False, at=NOW, rules=rules, now=NOW).state is (
        ProcedureState.NEEDS_REVIEW
    )
