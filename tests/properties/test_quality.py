"""What holds of every case and every memory: scores in [0, 1], gates that never turn a failure into a pass."""

from agent_memory.domain.quality import Verdict, compared, worst
from agent_memory.domain.recalled import RecalledItem
from agent_memory.domain.retrieval_scoring import retrieval_score
from hypothesis import given
from hypothesis import strategies as st
from support.regressions import a_case, a_score

TEXTS = st.text(max_size=60) | st.sampled_from(
    ["The cap is 2x.", "The cap is not 2x (see [1]).", "a.b*c+?", "Ü\u0301 \ud800", "12", "...", "found: ", "Nie! Nie?"]
)
SCORES = st.floats(min_value=0, max_value=1)


@given(
    criteria=st.lists(TEXTS, min_size=1, max_size=3),
    texts=st.lists(TEXTS, max_size=4),
    cosine=st.floats(min_value=-1, max_value=1),
)
def test_a_score_is_a_share_whatever_the_texts_hold(criteria: list[str], texts: list[str], cosine: float) -> None:
    items = [RecalledItem(id=f"a/{n}", tier="episodic", text=t, score=1.0, provenance={}) for n, t in enumerate(texts)]
    assert 0.0 <= retrieval_score(criteria, items, lambda one, other: cosine) <= 1.0


@given(before=SCORES, after=SCORES, minimum=st.floats(min_value=0.001, max_value=1))
def test_a_pass_is_a_score_that_reaches_the_minimum_and_nothing_else(
    before: float, after: float, minimum: float
) -> None:
    case = a_case(minimum=minimum)
    [result] = compared([a_score(case, before)], [a_score(case, after)])
    assert (result.verdict is Verdict.PASS) == (after >= minimum)
    assert result.verdict is not Verdict.NOT_RUN
    if before >= minimum > after:
        assert result.verdict is Verdict.FAIL


@given(st.lists(st.sampled_from(Verdict), max_size=5))
def test_a_gate_passes_only_when_every_case_does_and_there_is_one(verdicts: list[Verdict]) -> None:
    assert (worst(verdicts) is Verdict.PASS) == (bool(verdicts) and set(verdicts) == {Verdict.PASS})
    assert (worst(verdicts) is Verdict.FAIL) == (Verdict.FAIL in verdicts)
