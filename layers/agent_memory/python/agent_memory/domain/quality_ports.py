"""What the quality gate keeps of ONE tenant: its regression cases, and what came of asking them."""

from collections.abc import Sequence
from typing import Protocol

from agent_memory.domain.quality import CaseScore, TenantQuality
from agent_memory.domain.regressions import RegressionCase


class Regressions(Protocol):
    """The regression cases of ONE tenant and the askings of its nights. *night*: id of a lifecycle run."""

    def cases(self) -> list[RegressionCase]:
        """Every case by its id, every page."""

    def put(self, case: RegressionCase) -> None:
        """Write a case, over one of the same id."""

    def remove(self, case_id: str) -> bool:
        """Forget a case. False when there was none."""

    def keep_baseline(self, night: str, scores: Sequence[CaseScore], *, expires_at: int) -> tuple[CaseScore, ...]:
        """Keep what was asked before the night and return what is kept: the first asking stays, because a later one
        of the same night would measure what the night has already changed."""

    def baseline(self, night: str) -> tuple[CaseScore, ...] | None: ...

    def keep_result(self, quality: TenantQuality, *, expires_at: int) -> None: ...

    def result(self, night: str) -> TenantQuality | None: ...

    def nights(self) -> list[str]:
        """The nights of which a result is kept, latest first."""
