"""Ranking, near-ties, floors and collapse as rules of values."""

import itertools
import random

import numpy as np
import pytest
from agent_memory.domain.calibration import LOCAL_MODEL, NEVER, Floor, QueryForm, episode_floor, form_of
from agent_memory.domain.errors import ConfigurationError
from agent_memory.domain.lexical import query
from agent_memory.domain.models import Outcome, Vector
from agent_memory.domain.ranking import NEAR_TIE, Candidate, collapse, in_order, passing, rank
from agent_memory.domain.recall_request import recall_rules
from hypothesis import given
from hypothesis import strategies as st
from support.recalls import MODEL, QUERY, an_episode_at, at_cosine, view_of


def candidates(*episodes: object, task: str = "kiln upkeep") -> list:
    return list(rank(query(task), QUERY, [view_of(e) for e in episodes], model=MODEL).candidates)


def test_both_vectors_count() -> None:
    by_task = an_episode_at(0.2, run_id="t", task_vector=at_cosine(0.9))
    by_digest = an_episode_at(0.2, run_id="d", digest_vector=at_cosine(0.9))
    neither = an_episode_at(0.2, run_id="n")
    first, second, third = candidates(by_task, by_digest, neither)
    assert {first.view.run_id, second.view.run_id} == {"t", "d"}
    assert third.view.run_id == "n"
    assert first.score == pytest.approx(second.score)
    assert first.score > third.score + 0.2


def test_one_vector_stands_in_for_the_other_when_it_is_missing() -> None:
    (whole,) = candidates(an_episode_at(0.8))
    (half,) = candidates(an_episode_at(0.8, digest_vector=None))
    assert half.score == pytest.approx(whole.score)


def test_the_score_does_not_depend_on_what_else_is_there() -> None:
    one = an_episode_at(0.8, run_id="one")
    crowd = [an_episode_at(0.1, run_id=f"r{i}") for i in range(200)]
    alone = candidates(one)[0].score
    among = next(c.score for c in candidates(one, *crowd) if c.view.run_id == "one")
    assert among == pytest.approx(alone, abs=1e-6)


def aside(cosine: float, axis: int) -> Vector:
    """A unit vector at *cosine* to QUERY; two of different axes have little in common."""
    vector = np.zeros(8, dtype=np.float32)
    vector[0], vector[axis] = cosine, (1 - cosine**2) ** 0.5
    return vector


def opened_alike(run_id: str, axis: int, opening: float = 0.5) -> object:
    """A run opened somewhat like the question, that went on its own way."""
    return an_episode_at(0, run_id=run_id, task_vector=aside(opening, axis), digest_vector=aside(0.5, axis))


FOUND = opened_alike("found", 2, opening=0.9)
CROWD = [opened_alike(f"crowd{axis}", axis) for axis in range(3, 8)]


def test_a_run_that_was_opened_otherwise_is_found_by_the_run_that_it_goes_on_like() -> None:
    mate = an_episode_at(0, run_id="mate", task_vector=aside(0.1, 1), digest_vector=aside(0.45, 2))
    found = candidates(*CROWD, mate, FOUND)
    assert [c.view.run_id for c in found[:2]] == ["found", "mate"]
    assert found[1].score < found[2].score < found[1].place < found[0].score
    assert not found[1].reaches(Floor(score=found[1].place, cosine=NEVER))


@pytest.mark.parametrize("change", [{"embedding_model": "older-model"}, {"digest_vector": None}])
def test_a_run_whose_digest_cannot_be_compared_keeps_its_own_place(change: dict[str, object]) -> None:
    given = {"task_vector": aside(0.1, 1), "digest_vector": aside(0.45, 2), **change}
    found = candidates(*CROWD, an_episode_at(0, run_id="mate", **given), FOUND)
    assert found[-1].view.run_id == "mate"
    assert found[-1].place == found[-1].score


def test_without_a_vector_of_the_question_words_alone_decide_the_order() -> None:
    text = "replace the thermocouple"
    episodes = [an_episode_at(0.9, run_id=f"r{i}") for i in range(3)]
    episodes.append(an_episode_at(0, run_id="said", task=text, digest=text))
    found = rank(query(text), None, [view_of(e) for e in episodes], model=MODEL).candidates
    assert found[0].view.run_id == "said"
    assert all(c.place == c.score for c in found)


directions = st.lists(st.floats(-1, 1, width=16), min_size=8, max_size=8).filter(lambda v: max(map(abs, v)) > 0.1)


@given(st.lists(st.tuples(directions, directions), min_size=1, max_size=8), st.integers(0, 7))
def test_no_place_is_below_its_score_or_above_the_best_and_no_run_loses_by_being_likelier(
    rows: list, chosen: int
) -> None:
    def unit(values: list[float]) -> Vector:
        vector = np.array(values, dtype=np.float32)
        return np.asarray(vector / np.linalg.norm(vector))

    def ranked(vectors: list) -> dict[str, Candidate]:
        episodes = [
            an_episode_at(0, run_id=f"r{i}", task_vector=t, digest_vector=d) for i, (t, d) in enumerate(vectors)
        ]
        return {c.view.run_id: c for c in candidates(*episodes)}

    vectors = [(unit(t), unit(d)) for t, d in rows]
    before = ranked(vectors)
    best = max(c.score for c in before.values())
    assert all(c.score <= c.place <= best for c in before.values())
    at = chosen % len(vectors)
    vectors[at] = (QUERY, vectors[at][1])
    assert ranked(vectors)[f"r{at}"].place >= before[f"r{at}"].place - 1e-6


def test_a_query_in_a_script_without_spaces_finds_its_words() -> None:
    texts = {"kiln": "窯の温度調整を手伝ってください", "menu": "昼食のメニューを教えてください"}
    found = candidates(
        *(an_episode_at(0.1, run_id=r, task=t, digest=t) for r, t in texts.items()), task="窯の温度が上がらない"
    )
    assert found[0].view.run_id == "kiln"
    assert found[0].lexical > found[1].lexical


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(Outcome), st.integers(0, 3)), min_size=1, max_size=12),
    st.randoms(),
)
def test_the_order_is_total_and_the_same_for_every_permutation(rows: list, rng: random.Random) -> None:
    found = candidates(
        *(
            an_episode_at(c, run_id=f"r{i:02}", outcome=o, ended_at=1_700_000_000 + e)
            for i, (c, o, e) in enumerate(rows)
        )
    )
    shuffled = found[:]
    rng.shuffle(shuffled)
    assert [c.key for c in in_order(shuffled)] == [c.key for c in found]
    assert {c.key for c in found} == {("claims-bot", f"r{i:02}") for i in range(len(rows))}
    for better, worse in itertools.pairwise(found):
        assert better.score >= worse.score - NEAR_TIE


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=8, max_size=8))
def test_no_stored_vector_can_break_the_ranking(components: list[float]) -> None:
    vector = np.array(components, dtype=np.float32)
    found = candidates(
        an_episode_at(0.9, run_id="good"), an_episode_at(0, run_id="odd", task_vector=vector, digest_vector=vector)
    )
    assert all(0 <= c.score <= c.place <= 1.0001 for c in found)
    assert len(found) == 2


def test_near_identical_runs_become_one_with_a_count() -> None:
    text = "reset the second factor of a colleague who lost her phone"
    same = [an_episode_at(0.9, run_id=f"r{i}", task=text, digest=text, ended_at=1_700_000_000 + i) for i in range(4)]
    other = an_episode_at(0.7, run_id="other", task="order paper", digest="order paper")
    shown = collapse(candidates(*same, other), limit=3)
    assert [(s.candidate.view.run_id, s.similar) for s in shown] == [("r3", 4), ("other", 1)]


@pytest.mark.parametrize("change", [{"task": "set the valve of line 7 to 40 percent"}, {"outcome": Outcome.FAILED}])
def test_another_number_or_outcome_is_another_memory(change: dict[str, object]) -> None:
    text = "set the valve of line 7 to 20 percent"
    one = an_episode_at(0.9, run_id="a", task=text, digest=text)
    other = an_episode_at(0.9, run_id="b", **{"task": text, "digest": change.get("task", text), **change})
    assert [s.similar for s in collapse(candidates(one, other), limit=5)] == [1, 1]


def test_a_shared_id_passes_the_floor_and_a_common_one_does_not() -> None:
    rare = candidates(
        *(an_episode_at(0.1, run_id=f"r{i}", task=f"pump P-{i:04}", digest="seal") for i in range(100)),
        task="seal of pump P-0042",
    )
    assert [c.view.run_id for c in rare if c.strong] == ["r42"]
    common = candidates(
        *(an_episode_at(0.1, run_id=f"r{i}", task="pump P-0042", digest="seal") for i in range(100)),
        task="seal of pump P-0042",
    )
    assert not any(c.strong for c in common)


CUSTOMER = an_episode_at(0.3, run_id="customer", task="parcel of C-20917", digest="late")
LIKER = an_episode_at(0.5, run_id="liker")
LIKEST = an_episode_at(0.95, run_id="likest")
FLOOR = Floor(score=0.6, cosine=0.9)


def shown(*episodes: object, form: QueryForm) -> list[str]:
    return [c.view.run_id for c in passing(candidates(*episodes, task="refund to C-20917"), FLOOR, form)]


def test_in_a_task_written_out_an_id_is_not_enough_where_something_else_fits_better_and_not_well_enough() -> None:
    assert shown(CUSTOMER, LIKER, form=QueryForm.STATEMENT) == []
    assert shown(CUSTOMER, LIKER, form=QueryForm.REQUEST) == ["customer"]


def test_an_id_is_enough_where_nothing_fits_better_and_beside_what_fits() -> None:
    assert shown(CUSTOMER, an_episode_at(0.1, run_id="far"), form=QueryForm.STATEMENT) == ["customer"]
    assert shown(CUSTOMER, LIKER, LIKEST, form=QueryForm.STATEMENT) == ["likest", "customer"]


def test_an_id_is_enough_for_a_memory_that_could_only_be_compared_by_its_words() -> None:
    old = an_episode_at(1.0, run_id="old", task="parcel of C-20917", digest="late", embedding_model="older-model")
    assert shown(old, an_episode_at(0.85, run_id="liker"), form=QueryForm.STATEMENT) == ["old"]


def test_floors_belong_to_model_and_form_and_a_setting_overrides_them() -> None:
    assert episode_floor("amazon.titan-embed-text-v2:0", QueryForm.REQUEST) == (NEVER, 0.75)
    assert episode_floor(LOCAL_MODEL, QueryForm.REQUEST) != episode_floor(LOCAL_MODEL, QueryForm.STATEMENT)
    assert episode_floor(LOCAL_MODEL, QueryForm.REQUEST, override=0.4) == (0.4, NEVER)
    assert episode_floor(None, QueryForm.REQUEST).cosine == NEVER
    assert (form_of(5), form_of(200)) == (QueryForm.REQUEST, QueryForm.STATEMENT)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("tiers_by_task_type", {"billing": ["dreams"]}),
        ("tiers_by_task_type", {"billing": "episodic"}),
        ("shared_agents", {"no-tenant": ["other"]}),
        ("shared_agents", {"acme/desk": ["other/agent"]}),
        ("shared_agents", {"acme/desk": [7]}),
    ],
)
def test_a_setting_that_breaks_a_rule_is_the_deployments_fault_and_not_the_callers(setting: str, value: object) -> None:
    given = {"tiers_by_task_type": {}, "shared_agents": {}, setting: value}
    with pytest.raises(ConfigurationError, match="must"):
        recall_rules(budget_ms=1500, max_episodes=3, max_context_tokens=2000, episode_floor=0, **given)  # type: ignore[arg-type] # hostile on purpose
