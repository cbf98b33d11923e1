"""What is read of a domain's facts in one piece, and what one write changes of them."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from agent_memory.domain.facts import BELIEVED, WITHDRAWN, Fact, Observation
from agent_memory.domain.models import Model, Vector

ConfirmDecision = Literal[
    "observed", "promoted", "duplicate", "contested", "superseded", "refused", "erased", "not_confirmed"
]


class StoreMarks(Model):
    """What the store keeps beside a fact. *revision*: counts its writes. *published*: its document is written.
    *gone*: it is withdrawn, and the Knowledge Base was seen without it."""

    revision: int = 0
    published: bool = False
    gone: bool = False


class DomainFacts(Model):
    """All facts of a domain as of *version* of its head."""

    domain: str
    version: int = 0
    facts: tuple[Fact, ...] = ()
    marks: Mapping[str, StoreMarks] = {}


class FoundFact(Model):
    """A fact without its observations, how many runs made them, and the vector of its wording (None when it can't be
    compared)."""

    fact: Fact
    marks: StoreMarks
    runs: int = 0
    vector: Vector | None = None
    embedding_model: str | None = None

    @property
    def waits(self) -> bool:
        """Whether it is believed and not yet searchable in the Knowledge Base."""
        return awaits_ingestion(self.fact)


class Confirmed(Model):
    """What became of the candidate at *index* of a run."""

    index: int
    decision: ConfirmDecision
    reason: str
    fact_id: str | None = None


class Receipt(Model):
    """What was decided of a run's candidates so far. *source*: the distillation that they stand in."""

    agent_id: str
    run_id: str
    source: str
    ended_at: int
    expires_at: int
    user_ref: str | None = None
    decided: tuple[Confirmed, ...] = ()
    revision: int = 0

    def of(self, index: int) -> Confirmed | None:
        return next((one for one in self.decided if one.index == index), None)


class NewObservation(NamedTuple):
    """An observation and the fact that it speaks for."""

    fact_id: str
    observation: Observation


class FactWrite(Model):
    """One transaction. *facts*: as they are afterwards. *receipt*: of the run that caused it, None for a person."""

    seen: DomainFacts
    facts: tuple[Fact, ...] = ()
    observations: tuple[NewObservation, ...] = ()
    receipt: Receipt | None = None


def awaits_ingestion(fact: Fact) -> bool:
    """Whether *fact* is believed and not yet searchable in the Knowledge Base."""
    return fact.state in BELIEVED and fact.promoted_at is not None and fact.ingested_at is None


def awaits_removal(fact: Fact, *, gone: bool) -> bool:
    """Whether the Knowledge Base may still hold what is withdrawn."""
    return fact.state in WITHDRAWN and fact.promoted_at is not None and not gone
