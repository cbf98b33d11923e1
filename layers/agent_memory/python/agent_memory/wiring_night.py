"""Which services a function of the night gets: over our own tiers, or over AgentCore where it is deployed for that."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_memory.wiring import Services, services
from agent_memory.wiring_lifecycle import NightServices

if TYPE_CHECKING:
    from agent_memory.domain.agentcore_quality import AgentCoreAsking
    from agent_memory.domain.quality import Asking
    from agent_memory.domain.recall import Recalled
    from agent_memory.wiring_merging import MergeServices

AGENTCORE = "agentcore"


def night_services() -> NightServices:
    """The night's services of this process."""
    own = services()
    if own.settings.night_backend == AGENTCORE:
        return _over_agentcore(own)
    return NightServices(own)


def merge_services() -> "MergeServices":
    """The services of a function that merges, or brings back."""
    from agent_memory.wiring_merging import MergeServices

    own = services()
    if own.settings.night_backend == AGENTCORE:
        return _over_agentcore(own)
    return MergeServices(own)


def asking(own: Services, tenant_id: str, *, saw: "Callable[[Recalled], None]") -> "Asking | AgentCoreAsking":
    """An asking of one tenant's cases. *saw*: is shown each recall, for what has to be counted."""
    if own.settings.night_backend == AGENTCORE:
        from agent_memory.wiring_agentcore import AgentCoreServices

        return AgentCoreServices(own).asking(tenant_id)
    from agent_memory.wiring_quality import asking as asked

    return asked(own, tenant_id, saw=saw)


def _over_agentcore(own: Services) -> "MergeServices":
    from agent_memory.wiring_agentcore import AgentCoreServices

    return AgentCoreServices(own)
