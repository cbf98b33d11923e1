"""How regression cases are asked: through the tenant's own doors, by the functions that may."""

from collections.abc import Callable

from agent_memory.domain.quality import Asking, QualityDoors
from agent_memory.domain.recall import Recalled
from agent_memory.domain.retention import DAY_SECONDS
from agent_memory.wiring import Services

# A gate is looked at again when somebody asks what a night a while ago has changed.
KEPT_SECONDS = 90 * DAY_SECONDS


def asking_kept_until(own: Services) -> int:
    """When the ledger may forget an asking that is kept now (epoch seconds)."""
    return own.now() + KEPT_SECONDS


def asking(own: Services, tenant_id: str, *, saw: Callable[[Recalled], None]) -> Asking:
    """An asking of one tenant's cases. *saw*: is shown each recall, for what has to be counted."""
    doors = QualityDoors(
        episodes=lambda: own.tenant(tenant_id).episodes,
        facts=lambda: own.tenant(tenant_id).facts,
        knowledge=lambda: own.knowledge,
        procedures=lambda: own.tenant(tenant_id).procedures,
        embedder=lambda: own.embedder,
        judge=own.judge,
        saw=saw,
    )
    return Asking(tenant_id, doors, own.recall_rules, now=own.now(), clock=own.clock)
