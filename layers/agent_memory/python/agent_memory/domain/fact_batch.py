"""What one transaction takes along of a run's candidates, and the word for each of them."""

from agent_memory.domain.fact_writes import ConfirmDecision, Confirmed, DomainFacts, NewObservation, awaits_ingestion
from agent_memory.domain.facts import Action, Decision, Fact, FactState

# A transaction takes 100 actions; a candidate may touch its fact, its observation and the facts that it contradicts.
MAX_CHANGES = 80


class Batch:
    """What one transaction is going to change, candidate after candidate."""

    def __init__(self, seen: DomainFacts) -> None:
        self.facts: dict[str, Fact] = {fact.fact_id: fact for fact in seen.facts}
        self.changed: dict[str, Fact] = {}
        self.observations: list[NewObservation] = []
        self.decided: list[Confirmed] = []

    @property
    def full(self) -> bool:
        return len(self.changed) + len(self.observations) >= MAX_CHANGES

    @property
    def promoted(self) -> list[Fact]:
        """What the write made believed, in the state in which it left it."""
        ids = {one.fact_id for one in self.decided if one.decision in ("promoted", "superseded")}
        return [fact for fact in self.changed.values() if fact.fact_id in ids and awaits_ingestion(fact)]

    def add(self, index: int, decision: Confirmed | Decision) -> None:
        if isinstance(decision, Confirmed):
            self.decided.append(decision)
            return
        fact_id = decision.fact.fact_id if decision.fact else None
        if decision.fact and decision.observation:
            changed = {fact.fact_id: fact for fact in (decision.fact, *decision.others)}
            self.facts |= changed
            self.changed |= changed
            self.observations.append(NewObservation(decision.fact.fact_id, decision.observation))
        self.decided.append(Confirmed(index=index, decision=_word(decision), reason=decision.reason, fact_id=fact_id))


def _word(decision: Decision) -> ConfirmDecision:
    """The word that travels on."""
    if decision.action is Action.REFUSED:
        return "refused"
    if decision.action is Action.REPEATED:
        return "duplicate"
    if decision.promoted:
        return "superseded" if any(fact.state is FactState.SUPERSEDED for fact in decision.others) else "promoted"
    return "contested" if decision.others else "observed"
