"""Relevance of a memory over time, and in closed form the second at which it falls below the threshold.

Both exponentials share one rate, which is what makes the closed form possible (architecture: the decay deadline).
"""

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from agent_memory.domain.models import Model, Outcome
from agent_memory.domain.retention import DAY_SECONDS, RetentionRules, removal_due_at

NEVER_DAYS = 36_525
LEAST_THRESHOLD = 0.01
_NEGLIGIBLE = 1e-9


class DecayRules(Model):
    """A deployment's decay settings; the weights sum to 1, .01 <= threshold < w_recency + w_access.

    Synth holds a deployment to the same rules; here they hold whatever wrote the environment.
    """

    w_recency: float = Field(default=0.4, ge=0, le=1)
    w_access: float = Field(default=0.35, ge=0, le=1)
    w_frequency: float = Field(default=0.25, ge=0, le=1)
    max_access_baseline: int = Field(default=50, ge=1)
    threshold: float = 0.3
    prune_days: float = Field(default=45, gt=0)
    calibration: Literal["standard", "exact"] = "standard"

    @model_validator(mode="after")
    def _hang_together(self) -> Self:
        total = self.w_recency + self.w_access + self.w_frequency
        if not math.isclose(total, 1, abs_tol=1e-6):
            raise ValueError(f"w_recency + w_access + w_frequency must sum to 1, got {total:g}")
        ceiling = self.w_recency + self.w_access
        # Below .01 rounding decides; from the ceiling on every memory is due when it is written.
        if not LEAST_THRESHOLD <= self.threshold < ceiling:
            rule = f"must be at least {LEAST_THRESHOLD:g} and below w_recency + w_access = {ceiling:g}"
            raise ValueError(f"threshold {rule}, got {self.threshold:g}")
        return self

    @property
    def unread_days(self) -> float:
        """Days after which a memory that nobody reads falls below the threshold."""
        return math.log((self.w_recency + self.w_access) / self.threshold) / self.rate

    @property
    def rate(self) -> float:
        """Decay per day. `exact`: an unread memory lasts prune_days; `standard`: less, see the README."""
        start = self.w_recency + self.w_access if self.calibration == "exact" else 1.0
        return -math.log(self.threshold / start) / self.prune_days

    def frequency(self, access_count: int) -> float:
        """The part of the relevance that does not decay."""
        return self.w_frequency * min(max(access_count, 0) / max(self.max_access_baseline, 1), 1.0)


def _anchors(ended_at: int, last_access_at: int | None, now: int) -> tuple[int, int]:
    created = min(ended_at, now)
    accessed = created if last_access_at is None else min(max(last_access_at, created), now)
    return created, accessed


def relevance(ended_at: int, access_count: int, last_access_at: int | None, rules: DecayRules, *, now: int) -> float:
    """Return the relevance in [0, 1] of a memory at *now*. It ranks; the plan decides by below_threshold_at."""
    created, accessed = _anchors(ended_at, last_access_at, now)
    recency = math.exp(-rules.rate * (now - created) / DAY_SECONDS)
    access = math.exp(-rules.rate * (now - accessed) / DAY_SECONDS)
    score = rules.w_recency * recency + rules.w_access * access + rules.frequency(access_count)
    return min(max(score, 0.0), 1.0)


def below_threshold_at(
    ended_at: int, access_count: int, last_access_at: int | None, rules: DecayRules, *, now: int
) -> int | None:
    """Return the first whole second at which the relevance is below the threshold, seen from *now*.

    *now* itself when it was below from its last access on; None when it never is (or not within a century).
    """
    created, accessed = _anchors(ended_at, last_access_at, now)
    gap = rules.threshold - rules.frequency(access_count)
    if gap <= _NEGLIGIBLE:
        return None
    # Relative to the last access no exponent is ever positive, so nothing overflows.
    start = rules.w_recency * math.exp(-rules.rate * (accessed - created) / DAY_SECONDS) + rules.w_access
    if start < gap:
        return now
    days = math.log(start / gap) / rules.rate
    if days > NEVER_DAYS:
        return None
    return math.floor(accessed + days * DAY_SECONDS) + 1


def decays_at(
    *,
    ended_at: int,
    outcome: Outcome,
    expires_at: int,
    access_count: int = 0,
    last_access_at: int | None = None,
    kept_until: int | None = None,
    decay: DecayRules,
    retention: RetentionRules,
    now: int,
) -> int:
    """Return when the nightly plan must look at an episode that is not pinned: the earliest of its three dates.

    *kept_until*: neither a failure nor a low relevance counts before; the expiry always does.
    """
    expiry = removal_due_at(min(ended_at, now), Outcome.UNKNOWN, expires_at, retention)
    must = removal_due_at(min(ended_at, now), outcome, expires_at, retention)
    fades = below_threshold_at(ended_at, access_count, last_access_at, decay, now=now)
    due = must if fades is None else min(must, fades)
    return min(expiry, max(due, kept_until or due))
