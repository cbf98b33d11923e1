"""The tenant that keeps the list of tenants is nobody's."""

from collections.abc import Callable

import pytest
from agent_memory.client import AgentMemory, hand_over
from agent_memory.contract import REGISTRY_TENANT
from agent_memory.deployment import Deployment
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import run_ids
from agent_memory.domain.recall_request import RecallRules, recall_request
from agent_memory.domain.retrievals import retrieval_of
from agent_memory.settings import Settings
from agent_memory.wiring import Services
from support.builders import NOW, a_detail, a_memory_retrieved_event, an_event

RULES = RecallRules(budget_ms=1500, max_episodes=3, max_context_tokens=2000)
QUESTION = {"tenant_id": REGISTRY_TENANT, "agent_id": "a", "task": "Move K7"}


@pytest.mark.parametrize(
    "door",
    [
        lambda: run_ids(an_event(a_detail(tenant_id=REGISTRY_TENANT))),
        lambda: recall_request(QUESTION, RULES),
        lambda: retrieval_of(a_memory_retrieved_event(tenant_id=REGISTRY_TENANT), now=NOW, context_days=7),
        lambda: AgentMemory(REGISTRY_TENANT, "a", "test"),
        lambda: hand_over(Deployment("test"), a_detail(tenant_id=REGISTRY_TENANT)),
        lambda: Services(Settings.model_construct()).tenant(REGISTRY_TENANT),
    ],
    ids=["run ended", "bootstrap", "memory retrieved", "client", "emit", "tenant's services"],
)
def test_the_reserved_tenant_is_refused_at_every_door(door: Callable[[], object]) -> None:
    with pytest.raises(RefusedInputError, match="tenant_id must not be registry"):
        door()
