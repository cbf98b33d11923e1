"""What a person does to facts: retire one, settle a contested one, pin one. Reasons and history stay."""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from agent_memory.domain.errors import RefusedInputError, StoreBusyError
from agent_memory.domain.fact_writes import DomainFacts, FactWrite
from agent_memory.domain.facts import BELIEVED, WITHDRAWN, Fact, FactChange, FactState
from agent_memory.domain.knowledge_ports import DirtyDomains, FactDocuments
from agent_memory.domain.plain_text import one_line, shortened
from agent_memory.domain.ports import Facts
from agent_memory.domain.promotion import concerns_knowledge, publish

ROUNDS = 8
LONGEST_REST = 1.0
MAX_REASON = 200
Reviewed = Literal["retired", "settled", "pinned", "unpinned", "unchanged", "not_found", "not_contested", "erased"]


class ReviewDoors(NamedTuple):
    """What a review touches."""

    facts: Facts
    documents: FactDocuments
    dirty: DirtyDomains
    rest: Callable[[float], None]


class Verdict(NamedTuple):
    """What a person decided: the word for it, and the facts as they are then."""

    word: Reviewed
    changed: tuple[Fact, ...] = ()


def retire(tenant_id: str, domain: str, fact_id: str, *, reason: str, doors: ReviewDoors, now: int) -> Reviewed:
    """Withdraw a fact for good: new observations don't bring back what a person retired."""
    said = _said(reason)

    def decide(fact: Fact, _: DomainFacts) -> Verdict:
        if fact.state is FactState.RETIRED and not fact.history[-1].reason.startswith("expired"):
            return Verdict("unchanged")
        return Verdict("retired", (fact.moved(FactChange(at=now, state=FactState.RETIRED, reason=said)),))

    return _reviewed(tenant_id, domain, fact_id, decide, doors, now)


def settle(
    tenant_id: str, domain: str, fact_id: str, *, keep: str, reason: str, doors: ReviewDoors, now: int
) -> Reviewed:
    """End the dispute over the contested fact *fact_id*: *keep* is it, or one of those that contradict it."""
    said = _said(reason)

    def decide(fact: Fact, seen: DomainFacts) -> Verdict:
        if fact.state is not FactState.CONTESTED:
            return Verdict("not_contested")
        rivals = [known for known in seen.facts if known.fact_id in fact.contested_by]
        if keep == fact_id:
            return Verdict("settled", tuple(_kept(fact, rivals, said, now)))
        winner = next((rival for rival in rivals if rival.fact_id == keep), None)
        if winner is None:
            raise RefusedInputError("keep", "must be the contested fact or one that contradicts it")
        return Verdict("settled", tuple(_replaced(fact, winner, rivals, said, now)))

    return _reviewed(tenant_id, domain, fact_id, decide, doors, now)


def pin(tenant_id: str, domain: str, fact_id: str, *, pinned: bool, doors: ReviewDoors, now: int) -> Reviewed:
    """Take away the expiry of a fact, or give it back."""

    def decide(fact: Fact, _: DomainFacts) -> Verdict:
        if fact.pinned is pinned:
            return Verdict("unchanged")
        return Verdict("pinned" if pinned else "unpinned", (fact.model_copy(update={"pinned": pinned}),))

    return _reviewed(tenant_id, domain, fact_id, decide, doors, now)


def _said(reason: str) -> str:
    """A person's reason as the history keeps it; it never equals one of our own codes."""
    text = shortened(one_line(reason), MAX_REASON)
    if not text:
        raise RefusedInputError("reason", "is required")
    return f"person: {text}"


def _kept(fact: Fact, rivals: Iterable[Fact], said: str, now: int) -> Iterable[Fact]:
    state = FactState.PROMOTED if fact.ingested_at is None else FactState.INGESTED
    yield fact.moved(FactChange(at=now, state=state, reason=said), contested_by=())
    yield from _retired(rivals, said, fact.fact_id, now)


def _replaced(fact: Fact, winner: Fact, rivals: Iterable[Fact], said: str, now: int) -> Iterable[Fact]:
    change = FactChange(at=now, state=FactState.SUPERSEDED, reason=said, other=winner.fact_id)
    yield fact.moved(change, superseded_by=winner.fact_id, contested_by=())
    if winner.state not in BELIEVED:
        promotion = FactChange(at=now, state=FactState.PROMOTED, reason=said, other=fact.fact_id)
        yield winner.moved(promotion, promoted_at=now, ingested_at=None, superseded_by=None, contested_by=())
    yield from _retired((rival for rival in rivals if rival is not winner), said, winner.fact_id, now)


def _retired(rivals: Iterable[Fact], said: str, other: str, now: int) -> Iterable[Fact]:
    for rival in rivals:
        if rival.state not in WITHDRAWN:
            yield rival.moved(FactChange(at=now, state=FactState.RETIRED, reason=said, other=other))


def _reviewed(
    tenant_id: str,
    domain: str,
    fact_id: str,
    decide: Callable[[Fact, DomainFacts], Verdict],
    doors: ReviewDoors,
    now: int,
) -> Reviewed:
    for _ in range(ROUNDS):
        seen = doors.facts.domain(domain)
        fact = next((known for known in seen.facts if known.fact_id == fact_id), None)
        if fact is None:
            return "not_found"
        verdict = decide(fact, seen)
        if not verdict.changed:
            return verdict.word
        if concerns_knowledge(verdict.changed):
            doors.dirty.note(tenant_id, domain, now=now)
        written = doors.facts.write(FactWrite(seen=seen, facts=verdict.changed))
        if written == "written":
            for changed in verdict.changed:
                if changed.state is FactState.PROMOTED and changed.promoted_at == now:
                    publish(changed, doors.facts, doors.documents)
            return verdict.word
        doors.rest(LONGEST_REST)
    raise StoreBusyError("the facts of a domain kept changing while one was reviewed")
