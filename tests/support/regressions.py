"""Builders of regression cases and of the doors that they are asked through."""

from time import monotonic
from typing import Any, cast

from agent_memory.domain.knowledge_ports import Knowledge
from agent_memory.domain.ports import ChatModel, Embedder, Episodes, Facts
from agent_memory.domain.procedure_ports import Procedures
from agent_memory.domain.quality import Asking, CaseScore, QualityDoors, fingerprint
from agent_memory.domain.recall_request import RecallRules
from agent_memory.domain.regressions import RegressionCase
from support.builders import AGENT, NOW, TENANT
from support.procedure_recalls import HeldProcedures
from support.recalls import RULES, FixedEmbedder, HeldEpisodes


def a_case(**changes: object) -> RegressionCase:
    values: dict[str, object] = {
        "case_id": "move-a-booking",
        "agent_id": AGENT,
        "question": "Move a booking to another day.",
        "criteria": ("Booking K7 could be moved without a fee.",),
        "minimum": 0.7,
    }
    return RegressionCase.model_validate(values | changes)


def a_score(case: RegressionCase, score: float | None, *, reason: str | None = None) -> CaseScore:
    return CaseScore(
        case_id=case.case_id, fingerprint=fingerprint(case), minimum=case.minimum, score=score, reason=reason
    )


class NoFacts:
    """A tenant that has none, and a Knowledge Base that knows none."""

    def domains(self) -> list[str]:
        return []

    def pending(self, domain: str) -> list[object]:
        return []

    def get_many(self, keys: object) -> list[object]:
        return []

    def retrieve(self, query: object) -> Any:
        from agent_memory.domain.knowledge import Passages

        return Passages()


def quality_doors(
    episodes: HeldEpisodes | Exception,
    *,
    embedder: Any = None,
    judge: Any = None,
    facts: Any = None,
    procedures: HeldProcedures | None = None,
    **changes: Any,
) -> QualityDoors:
    def opened() -> Episodes:
        if isinstance(episodes, Exception):
            raise episodes
        return cast("Episodes", episodes)

    held = facts or NoFacts()
    return QualityDoors(
        episodes=opened,
        facts=lambda: cast("Facts", held),
        knowledge=lambda: cast("Knowledge", NoFacts()),
        procedures=lambda: cast("Procedures", procedures or HeldProcedures()),
        embedder=lambda: cast("Embedder", embedder or FixedEmbedder()),
        judge=cast("ChatModel | None", judge),
        **changes,
    )


def asking(doors: QualityDoors, *, rules: RecallRules = RULES, tenant_id: str = TENANT) -> Asking:
    return Asking(tenant_id, doors, rules, now=NOW, clock=monotonic)
