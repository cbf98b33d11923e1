"""Facts without what a merge taught them: for a night whose summaries are put away again.

What runs said themselves stays; a fact that only the merge had opened goes, one that it made believed waits again, and
what it contested or superseded is believed as before."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from agent_memory.domain.confirmation import NEWER_CONFIRMED
from agent_memory.domain.erasing_facts import Reduced, reduced, uncontested
from agent_memory.domain.errors import StoreBusyError
from agent_memory.domain.fact_writes import DomainFacts, Receipt, StoreMarks
from agent_memory.domain.facts import BELIEVED, ConfirmationSettings, Fact, FactChange, FactState, Observation
from agent_memory.domain.knowledge_ports import DirtyDomains, FactDocuments
from agent_memory.domain.merge_facts import entry_of
from agent_memory.domain.models import Episode, SourceKind

ROUNDS: Final = 12
LONGEST_REST: Final = 1.0
TAKEN_BACK: Final = "merge_taken_back"
LEARNT: Final = frozenset({"observed", "promoted", "contested", "superseded"})


class ReducibleFacts(Protocol):
    """The facts of ONE tenant, where observations may be deleted together with what they made of their facts."""

    def domain(self, domain: str) -> DomainFacts: ...

    def receipt(self, agent_id: str, run_id: str) -> Receipt | None: ...

    def reduce(self, seen: DomainFacts, changes: Sequence[tuple[Fact, Reduced]]) -> bool:
        """Write what is left of facts and delete what is gone, together. False when the domain changed since."""


class UnlearnDoors(NamedTuple):
    """What forgetting a merge touches. *rest*: waits for a random part of so many seconds."""

    facts: ReducibleFacts
    documents: FactDocuments
    dirty: DirtyDomains
    gate: ConfirmationSettings
    rest: Callable[[float], None]


def unlearn(summary: Episode, sources: Sequence[Episode], doors: UnlearnDoors, *, now: int) -> tuple[str, ...]:
    """Take out of the facts what *summary* said for *sources*; the ids of the facts that changed. Safe to repeat."""
    changed: set[str] = set()
    for source in sources:
        receipt = doors.facts.receipt(source.agent_id, entry_of(summary, source))
        learnt = {one.fact_id for one in receipt.decided if one.decision in LEARNT} if receipt else set()
        if learnt:
            changed |= _forgotten(source, frozenset(filter(None, learnt)), summary.created_at, doors, now)
    return tuple(sorted(changed))


def _forgotten(source: Episode, learnt: frozenset[str], since: int, doors: UnlearnDoors, now: int) -> set[str]:
    changed: set[str] = set()

    def taught(one: Observation) -> bool:
        by_merge = one.source is SourceKind.DOCUMENT and one.source_hash is None and one.observed_at >= since
        return by_merge and one.run == (source.agent_id, source.run_id)

    for _ in range(ROUNDS):
        seen = doors.facts.domain(source.domain)
        found = list(_changes(seen, learnt, taught, doors.gate, now))
        if not found:
            return changed
        doors.dirty.note(source.tenant_id, source.domain, now=now)
        if doors.facts.reduce(seen, found):
            changed |= {fact.fact_id for fact, _ in found}
            for fact, change in found:
                if change.unpublish:
                    doors.documents.delete(fact.domain, fact.fact_id)
        else:
            doors.rest(LONGEST_REST)
    raise StoreBusyError("the facts of a domain kept changing while a merge was taken back")


def _changes(
    seen: DomainFacts,
    learnt: frozenset[str],
    taught: Callable[[Observation], bool],
    gate: ConfirmationSettings,
    now: int,
) -> Iterator[tuple[Fact, Reduced]]:
    gone, doubted = set[str](), set[str]()
    for fact in seen.facts:
        if fact.fact_id not in learnt:
            continue
        marks = seen.marks.get(fact.fact_id, StoreMarks())
        left = reduced(fact, marks, "", taught, _of_nobody, gate, now=now, reason=TAKEN_BACK)
        if left is not None:
            yield fact, left
        if left is not None and left.fact is None:
            gone.add(fact.fact_id)
        elif (fact if left is None or left.fact is None else left.fact).state not in BELIEVED:
            doubted.add(fact.fact_id)
    for fact in seen.facts:
        freed = _back(fact, gone, doubted, seen, now) or uncontested(fact, gone, seen.marks, now, reason=TAKEN_BACK)
        if fact.fact_id not in learnt and freed is not None:
            yield fact, freed


def _back(fact: Fact, gone: set[str], doubted: set[str], seen: DomainFacts, now: int) -> Reduced | None:
    """A fact that one of these had superseded: believed or contested as before, and to be ingested anew."""
    by_the_gate = bool(fact.history) and fact.history[-1].reason == NEWER_CONFIRMED
    if fact.state is not FactState.SUPERSEDED or fact.superseded_by not in gone | doubted or not by_the_gate:
        return None
    rivals = tuple(one for one in fact.contested_by if one not in gone)
    contested = len(fact.history) > 1 and fact.history[-2].state is FactState.CONTESTED and rivals
    state = FactState.CONTESTED if contested else FactState.PROMOTED
    change = FactChange(at=now, state=state, reason=TAKEN_BACK, other=fact.superseded_by)
    held = rivals if contested else ()
    back = fact.moved(change, superseded_by=None, contested_by=held, promoted_at=now, ingested_at=None)
    return Reduced(back, seen.marks.get(fact.fact_id, StoreMarks()), (), unpublish=False)


def _of_nobody(agent_id: str, run_id: str) -> bool:
    return False
