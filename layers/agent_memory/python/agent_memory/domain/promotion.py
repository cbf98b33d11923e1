"""A believed fact becomes a document that the Knowledge Base can find; a withdrawn one loses it."""

from collections.abc import Iterable

from agent_memory.domain.fact_writes import awaits_ingestion
from agent_memory.domain.facts import WITHDRAWN, Fact
from agent_memory.domain.knowledge import document_of
from agent_memory.domain.knowledge_ports import FactDocuments
from agent_memory.domain.ports import Facts


def concerns_knowledge(facts: Iterable[Fact]) -> bool:
    """Whether the Knowledge Base has to follow a change to *facts*."""
    return any(awaits_ingestion(fact) or (fact.state in WITHDRAWN and fact.promoted_at is not None) for fact in facts)


def publish(fact: Fact, facts: Facts, documents: FactDocuments) -> bool:
    """Write the document of *fact* and note it. False when the fact changed meanwhile: then the next ingestion looks
    at it anew, and its document does not outlast a withdrawal."""
    documents.put(document_of(fact))
    if facts.mark_published(fact):
        return True
    now = next(iter(facts.get_many([(fact.domain, fact.fact_id)])), None)
    if now is None or now.fact.state in WITHDRAWN:
        documents.delete(fact.domain, fact.fact_id)
    return False
