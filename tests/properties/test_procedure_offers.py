"""What runs are offered: trials for their share of the runs, and never what is not approved in the very words stored."""

from typing import Any

import pytest
from agent_memory.domain.procedure_choice import choose, drawn
from agent_memory.domain.procedure_transitions import approve, edit, pin, reject, retire, withdraw
from agent_memory.domain.procedures import Procedure, ProcedureRules, ProcedureState, injectable
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import NOW
from support.procedure_recalls import found
from support.procedures import PERSON, RULES, SECOND_AGENT, a_procedure, an_approved, record_result

RUNS = 2_000
WORDS = st.sampled_from(["Cordon the node.", "Evict its pods.", "Delete the cluster.", "Check."])
STEPS = st.lists(WORDS, min_size=1, max_size=3).map(tuple)
REVIEWERS = st.sampled_from([PERSON, SECOND_AGENT])
DEEDS = st.one_of(
    st.tuples(st.sampled_from(["approve", "approve_what_was", "reject", "retire", "withdraw", "pin"]), REVIEWERS),
    st.tuples(st.just("edit"), STEPS),
    st.tuples(st.just("result"), st.booleans()),
    st.tuples(st.just("tamper"), STEPS),
)


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 1), st.text(min_size=1, max_size=20))
def test_a_trial_is_offered_to_its_share_of_the_runs_and_always_to_the_same(share: float, salt: str) -> None:
    rules, trial = ProcedureRules(trial_share=share), an_approved()
    offered = [choose([trial], draw=f"{salt}-{run}", rules=rules) is not None for run in range(RUNS)]
    # Four standard deviations of a share of so many runs.
    assert sum(offered) / RUNS == pytest.approx(share, abs=4 * (0.25 / RUNS) ** 0.5)
    assert [choose([trial], draw=f"{salt}-{run}", rules=rules) is not None for run in range(RUNS)] == offered


@given(st.text(), st.text())
def test_a_draw_is_a_share(procedure_id: str, draw: str) -> None:
    assert 0 <= drawn(procedure_id, draw) < 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6), st.text())
def test_whoever_is_chosen_was_there_and_is_the_same_in_any_order(results: list[tuple[int, int]], draw: str) -> None:
    group = [
        an_approved(a_procedure(title=f"Title {n}", steps=(f"Step {n}.",))).model_copy(
            update={"applied": max(pair), "succeeded": min(pair)}
        )
        for n, pair in enumerate(results)
    ]
    chosen = choose(group, draw=draw, rules=RULES)
    assert (chosen is None) == (not group)
    assert chosen is choose(list(reversed(group)), draw=draw, rules=RULES)


def done(procedure: Procedure, deed: tuple[str, Any], read: Procedure) -> Procedure:
    """The procedure after one deed; *read*: as a reviewer may have read it some deeds ago."""
    what, given = deed
    if what == "approve":
        verdict = approve(procedure, given, expected_sha256=procedure.steps_sha256, now=NOW, rules=RULES)
    elif what == "approve_what_was":
        verdict = approve(procedure, given, expected_sha256=read.steps_sha256, now=NOW, rules=RULES)
    elif what == "reject":
        verdict = reject(procedure, given, now=NOW)
    elif what == "retire":
        verdict = retire(procedure, given, now=NOW)
    elif what == "pin":
        verdict = pin(procedure, given, pinned=not procedure.pinned, now=NOW)
    elif what == "edit":
        sha = procedure.steps_sha256
        words = {"title": "Drain a node", "steps": given, "vector": None, "embedding_model": None}
        verdict = edit(procedure, PERSON, expected_sha256=sha, now=NOW, **words)
    elif what == "withdraw":
        return withdraw(procedure, now=NOW, why="low_success") if injectable(procedure, RULES) else procedure
    elif what == "tamper":
        return procedure.model_copy(update={"steps": given})
    else:
        return record_result(procedure, succeeded=given, at=NOW, rules=RULES, now=NOW)
    return verdict.procedure or procedure


@settings(deadline=None)
@given(st.lists(DEEDS, max_size=12))
def test_nothing_is_shown_unless_somebody_approved_the_very_words_that_are_stored(deeds: list[tuple[str, Any]]) -> None:
    procedure = read = a_procedure()
    approved: set[str] = set()
    for number, deed in enumerate(deeds):
        before = procedure
        procedure = done(procedure, deed, read)
        if deed[0].startswith("approve") and procedure.approval not in (None, before.approval):
            approved.add(procedure.steps_sha256)
        if number % 3 == 0:
            read = procedure
        answer, _ = found(procedure)
        if answer.memories:
            shown = answer.memories[0].item.provenance["steps_sha256"]
            assert shown == procedure.steps_sha256
            assert shown in approved
            assert procedure.state in (ProcedureState.APPROVED, ProcedureState.ESTABLISHED)
            assert procedure.applied < 3 or procedure.succeeded / procedure.applied >= 0.6
