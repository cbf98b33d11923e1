"""Whatever happens to a procedure, in whatever order: only what somebody else approved is shown."""

from agent_memory.domain.procedure_transitions import approve, edit, flag_stale, pin, reject, retire
from agent_memory.domain.procedures import (
    OFFERED,
    Procedure,
    ProcedureRules,
    Reviewer,
    injectable,
    wilson_lower_bound,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import AGENT, DAY, NOW
from support.procedures import PERSON, RULES, SECOND_AGENT, a_procedure, record_result

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


def test_rules_that_no_deployment_would_set_show_nothing_unapproved() -> None:
    for rules in (ProcedureRules(min_uses=0, min_success=0.0), ProcedureRules(trial_share=0.0)):
        assert not injectable(a_procedure(), rules)
