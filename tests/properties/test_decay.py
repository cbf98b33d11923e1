"""Relevance and the second at which it falls below the threshold, held together over random settings."""

import pytest
from agent_memory.domain.decay import DecayRules, below_threshold_at, decays_at, relevance
from agent_memory.domain.models import Outcome
from agent_memory.domain.retention import DAY_SECONDS, RetentionRules
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000


@st.composite
def rules(draw: st.DrawFn) -> DecayRules:
    frequency = draw(st.floats(0.0, 0.6))
    recency = draw(st.floats(0.05, 0.95)) * (1 - frequency)
    access = 1 - frequency - recency
    return DecayRules(
        w_recency=recency,
        w_access=access,
        w_frequency=frequency,
        max_access_baseline=draw(st.integers(1, 200)),
        threshold=max(0.01, draw(st.floats(0.02, 0.98)) * (recency + access)),
        prune_days=draw(st.floats(1, 365)),
        calibration=draw(st.sampled_from(["standard", "exact"])),
    )


ages = st.integers(0, 400 * DAY_SECONDS)
counts = st.integers(0, 300)


@given(rules(), ages, ages, counts, st.integers(0, 2_000 * DAY_SECONDS))
def test_relevance_stays_in_bounds_and_never_rises_with_age(
    decay: DecayRules, age: int, unread: int, reads: int, later: int
) -> None:
    ended, accessed = NOW - age, NOW - min(unread, age)
    today = relevance(ended, reads, accessed, decay, now=NOW)
    afterwards = relevance(ended, reads, accessed, decay, now=NOW + later)
    assert 0.0 <= afterwards <= today + 1e-12 <= 1.0 + 1e-12


@given(rules(), ages, ages, counts)
def test_the_stored_second_is_the_first_below_the_threshold(
    decay: DecayRules, age: int, unread: int, reads: int
) -> None:
    ended, accessed = NOW - age, NOW - min(unread, age)
    due = below_threshold_at(ended, reads, accessed, decay, now=NOW)
    if due is None:
        assert relevance(ended, reads, accessed, decay, now=NOW + 36_000 * DAY_SECONDS) >= decay.threshold - 2e-9
        return
    assert relevance(ended, reads, accessed, decay, now=due) < decay.threshold + 1e-12
    # Below at the last access already: then "due at once" says now, whatever now is.
    if relevance(ended, reads, accessed, decay, now=accessed) >= decay.threshold:
        assert relevance(ended, reads, accessed, decay, now=due - 1) >= decay.threshold - 1e-12


@given(rules(), ages, ages, counts, st.integers(1, 50))
def test_a_read_never_brings_the_deadline_forward(
    decay: DecayRules, age: int, unread: int, reads: int, more: int
) -> None:
    ended, accessed = NOW - age, NOW - min(unread, age)
    before = below_threshold_at(ended, reads, accessed, decay, now=NOW)
    after = below_threshold_at(ended, reads + more, NOW, decay, now=NOW)
    assert after is None or (before is not None and after >= before)


@given(rules(), ages, ages, counts, st.integers(1, 50), st.integers(0, 400 * DAY_SECONDS))
def test_relevance_is_monotone_in_access(
    decay: DecayRules, age: int, unread: int, reads: int, more: int, later: int
) -> None:
    ended, accessed, then = NOW - age, NOW - min(unread, age), NOW + later
    before = relevance(ended, reads, accessed, decay, now=then)
    assert relevance(ended, reads + more, accessed, decay, now=then) >= before
    assert relevance(ended, reads, NOW, decay, now=then) >= before - 1e-12


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"w_recency": 0.5}, "must sum to 1, got 1.1"),
        ({"threshold": 0.009}, "at least 0.01 and below w_recency"),
        ({"threshold": 0.75}, "below w_recency .* w_access = 0.75, got 0.75"),
        ({"w_recency": -0.1, "w_access": 0.85}, "w_recency"),
        ({"prune_days": 0}, "prune_days"),
        ({"max_access_baseline": 0}, "max_access_baseline"),
        ({"calibration": "sometimes"}, "calibration"),
        ({"w_frequency": float("nan")}, "w_frequency|sum"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        DecayRules.model_validate(wrong)


@given(rules())
def test_an_unread_memory_lasts_as_many_days_as_the_rules_say(decay: DecayRules) -> None:
    due = below_threshold_at(NOW, 0, None, decay, now=NOW)
    assert due is not None
    assert due - NOW == pytest.approx(decay.unread_days * DAY_SECONDS, abs=1.5)
    if decay.calibration == "exact":
        assert decay.unread_days == pytest.approx(decay.prune_days)


@given(st.integers(0, 10**12), st.one_of(st.none(), st.integers(-(10**12), 10**12)), st.integers(-5, 10**9))
def test_times_out_of_order_never_overflow(ended: int, accessed: int | None, reads: int) -> None:
    due = below_threshold_at(ended, reads, accessed, DecayRules(), now=NOW)
    assert due is None or due >= 0
    assert 0.0 <= relevance(ended, reads, accessed, DecayRules(), now=NOW) <= 1.0


@pytest.mark.parametrize(
    ("reads", "calibration", "days"),
    [(0, "standard", 34.24), (10, "standard", 41.05), (50, "standard", 101.1), (0, "exact", 45.0)],
)
def test_the_days_that_the_readme_promises(reads: int, calibration: str, days: float) -> None:
    due = below_threshold_at(NOW, reads, NOW, DecayRules(calibration=calibration), now=NOW)
    assert due is not None
    assert (due - NOW) / DAY_SECONDS == pytest.approx(days, abs=0.6 if reads == 50 else 0.1)


def test_the_plan_looks_at_an_episode_three_days_before_it_expires() -> None:
    much_read = DecayRules(threshold=0.2)
    expires = NOW + 90 * DAY_SECONDS
    due = decays_at(
        ended_at=NOW,
        outcome=Outcome.COMPLETED,
        expires_at=expires,
        access_count=50,
        decay=much_read,
        retention=RetentionRules(),
        now=NOW,
    )
    assert due == expires - 3 * DAY_SECONDS
