"""However deliveries repeat and interleave, counters are the runs that counted; and only what a person read is shown."""

from collections.abc import Mapping

from agent_memory.domain.procedure_transitions import approve, edit, flag_stale, pin, record_result, reject, retire
from agent_memory.domain.procedures import (
    OFFERED,
    Procedure,
    ProcedureRules,
    Reviewer,
    injectable,
    wilson_lower_bound,
)
from agent_memory.wiring_tenant import TenantServices
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.aws import an_aws_account
from support.builders import AGENT, DAY, NOW, TENANT
from support.procedure_runs import a_bus, a_run_of, feed_back
from support.procedures import PERSON, RULES, SECOND_AGENT, a_procedure, a_result, an_approved, stored

EDITS = (("Ask first.",), ("Ask first.", "Then act."), ("Act.",))
acts = st.one_of(
    st.tuples(st.just("approve"), st.sampled_from([PERSON, SECOND_AGENT, Reviewer(by=AGENT, kind="agent")])),
    st.tuples(st.just("approve_blind"), st.just(PERSON)),
    st.tuples(st.just("reject"), st.sampled_from([PERSON, SECOND_AGENT])),
    st.tuples(st.just("retire"), st.just(PERSON)),
    st.tuples(st.just("pin"), st.just(PERSON)),
    st.tuples(st.just("edit"), st.sampled_from(EDITS)),
    st.tuples(st.just("result"), st.booleans()),
    st.tuples(st.just("night"), st.integers(0, 100)),
)


def acted(found: Procedure, act: str, argument: object, at: int) -> Procedure:
    if act == "result":
        return (
            record_result(found, succeeded=bool(argument), at=at, rules=RULES, now=at)
            if found.state in OFFERED
            else found
        )
    if act == "edit" and isinstance(argument, tuple):
        verdict = edit(
            found, PERSON, title=found.title, steps=argument, expected_sha256=found.steps_sha256, now=at,
            vector=None, embedding_model=None,
        )  # fmt: skip
    elif act == "night" and isinstance(argument, int):
        verdict = flag_stale(found, at + argument * DAY, RULES)
    else:
        assert isinstance(argument, Reviewer)
        wanted = found.steps_sha256 if act == "approve" else a_procedure(steps=("Never seen.",)).steps_sha256
        verdict = {
            "approve": lambda: approve(found, argument, expected_sha256=wanted, now=at, rules=RULES),
            "approve_blind": lambda: approve(found, argument, expected_sha256=wanted, now=at, rules=RULES),
            "reject": lambda: reject(found, argument, now=at),
            "retire": lambda: retire(found, argument, now=at),
            "pin": lambda: pin(found, argument, pinned=not found.pinned, now=at),
        }[act]()
    return verdict.procedure or found


@settings(max_examples=150, deadline=None)
@given(st.lists(acts, max_size=25))
def test_only_steps_that_somebody_else_approved_and_nobody_changed_since_are_ever_shown(
    story: list[tuple[str, object]],
) -> None:
    found, approved_words = a_procedure(), ""
    for second, (act, argument) in enumerate(story):
        before = found
        found = acted(found, act, argument, NOW + second)
        if act == "approve" and found is not before:
            assert isinstance(argument, Reviewer)
            assert argument.by != AGENT
            approved_words = found.steps_sha256
        if act in ("reject", "retire", "edit") and found is not before:
            approved_words = ""
        assert 0 <= found.succeeded <= found.applied
        if injectable(found, RULES):
            assert found.steps_sha256 == approved_words
        assert not injectable(found.model_copy(update={"steps": (*found.steps, "And pay.")}), RULES)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 200), st.integers(0, 200))
def test_the_lower_bound_lies_between_nought_and_the_rate_and_grows_with_success(applied: int, succeeded: int) -> None:
    succeeded = min(applied, succeeded)
    bound = wilson_lower_bound(succeeded, applied)
    assert 0 <= bound <= (succeeded / applied if applied else 0) + 1e-12
    assert wilson_lower_bound(succeeded + 1, applied + 1) >= bound - 1e-12
    assert wilson_lower_bound(succeeded, applied + 1) <= bound + 1e-12


deliveries = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(["follow", "fail", "pass_over", "other"])), min_size=1, max_size=16
)


def counted(tenant: TenantServices, procedure: Procedure) -> Procedure:
    found = tenant.procedures.get(procedure.task_type, procedure.procedure_id)
    assert found is not None
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deliveries, st.data())
def test_any_sequence_of_deliveries_and_repetitions_counts_each_run_once(
    sent: list[tuple[int, str]], data: st.DataObject
) -> None:
    """Through the handler and the store: what a run said first holds, whatever is delivered again and when."""
    story = [*sent, *data.draw(st.lists(st.sampled_from(sent), max_size=6))]
    with an_aws_account() as account:
        account.services.now = lambda: NOW  # type: ignore[method-assign]
        a_bus(account)
        tenant = account.services.tenant(TENANT)
        procedure = stored(tenant.procedures, an_approved())
        first: dict[int, str] = {}
        for run, what in story:
            first.setdefault(run, what)
            said = first[run] if what != "other" else "other"
            feed_back(a_run_of(tenant, f"run-{run}", **_claim(procedure, said)))  # type: ignore[arg-type]
        assert _tally(counted(tenant, procedure)) == _expected(first)


def _claim(procedure: Procedure, what: str) -> Mapping[str, object]:
    if what in ("follow", "fail"):
        return {"procedure_id": procedure.procedure_id, "procedure_succeeded": what == "follow"}
    return {"procedure_id": "p-unknown", "procedure_succeeded": True} if what == "other" else {}


def _tally(procedure: Procedure) -> tuple[int, int]:
    return procedure.applied, procedure.succeeded


def _expected(first: Mapping[int, str]) -> tuple[int, int]:
    said = list(first.values())
    return said.count("follow") + said.count("fail"), said.count("follow")


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=4), st.integers(0, 5))
def test_results_that_start_from_one_reading_all_count_and_a_decision_between_them_loses_none(
    order: list[int], again: list[int], decided_after: int
) -> None:
    with an_aws_account() as account:
        tenant = account.services.tenant(TENANT)
        stale_reading = stored(tenant.procedures, an_approved())
        for number, run in enumerate([*order, *again]):
            tenant.procedures.record(a_result(f"run-{run}", stale_reading, succeeded=run % 2 == 0))
            if number == decided_after:
                fresh = counted(tenant, stale_reading)
                pinned = pin(fresh, PERSON, pinned=True, now=NOW).procedure
                assert pinned is not None
                assert tenant.procedures.save(pinned)
                assert not tenant.procedures.save(pinned)
        assert _tally(counted(tenant, stale_reading)) == (6, 3)
        assert counted(tenant, stale_reading).pinned


def test_rules_that_no_deployment_would_set_show_nothing_unapproved() -> None:
    for rules in (ProcedureRules(min_uses=0, min_success=0.0), ProcedureRules(trial_share=0.0)):
        assert not injectable(a_procedure(), rules)
