"""Facts that nobody confirms any more: archived, withdrawn from S3 and the Knowledge Base, and only then removed.

The rows of a fact go when the Knowledge Base was seen without it, which the next ingestion tells; until then it stands
withdrawn and is due again the next night."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from agent_memory.domain.archive import Archive, ArchiveError, Shelf, keep, put_away
from agent_memory.domain.errors import AgentMemoryError, RetryableError, StoreBusyError
from agent_memory.domain.examining import EVERY_AGENT
from agent_memory.domain.fact_writes import FactWrite, FoundFact, awaits_removal
from agent_memory.domain.facts import EXPIRED, WITHDRAWN, Fact, FactChange, FactState
from agent_memory.domain.keys import result_key
from agent_memory.domain.knowledge_ports import DirtyDomains, FactDocuments
from agent_memory.domain.lifecycle import Action, Done, FactSlice, LifecycleRun, SliceResult, TenantPlan
from agent_memory.domain.lifecycle_ports import NightFiles, TenantNotes
from agent_memory.domain.ports import Facts
from agent_memory.domain.weighing import tenant_key

ROOM = "facts"
ROUNDS = 8
LONGEST_REST = 1.0


class FactShelf(Facts, Shelf, Protocol):
    """The facts of ONE tenant, on credentials that may remove them."""

    def move(self, place: tuple[str, str], decays_at: int | None) -> bool:
        """Set the date at which a night looks at a fact; None: no night has to. False when the fact is gone."""


class ExpiryDoors(NamedTuple):
    """What expiring facts of one tenant touches. *rest*: waits for a random part of so many seconds."""

    files: NightFiles
    facts: FactShelf
    documents: FactDocuments
    archive: Archive
    dirty: DirtyDomains
    notes: TenantNotes
    rest: Callable[[float], None]


def expire_facts(run: LifecycleRun, part: FactSlice, doors: ExpiryDoors, *, ttl_days: int) -> SliceResult:
    """Work off a slice of due facts and keep what came of each. Raises to be called again."""
    held = _held(run, part.tenant_id, doors)
    places = [(domain, fact_id) for domain, fact_id in part.facts]
    found = {(one.fact.domain, one.fact.fact_id): one for one in doors.facts.get_many(places)}
    done = []
    for place in places:
        one = found.get(place)
        if one is None:
            decision, reason = "gone", "gone"
        elif held:
            decision, reason = "kept", held
        else:
            decision, reason = _settled(one, run, part.tenant_id, doors, ttl_days)
        done.append(Done(agent_id=place[0], run_id=place[1], action=Action.EXPIRE, decision=decision, reason=reason))
    counts = Counter(one.decision for one in done)
    result = SliceResult(tenant_id=part.tenant_id, step=ROOM, name=part.name, done=tuple(done), counts=dict(counts))
    doors.files.put(result_key(run.run_id, ROOM, part.tenant_id, part.name), result)
    return result


def _held(run: LifecycleRun, tenant_id: str, doors: ExpiryDoors) -> str:
    """Why no fact of the tenant may go tonight; empty when they may."""
    if EVERY_AGENT in doors.notes.holds():
        return "on_hold"
    if not run.may_write:
        return "changed_settings"
    plan = doors.files.get(tenant_key(run.run_id, tenant_id), TenantPlan)
    return (plan.held or "") if plan else ""


def _settled(one: FoundFact, run: LifecycleRun, tenant_id: str, doors: ExpiryDoors, ttl_days: int) -> tuple[str, str]:
    place = (one.fact.domain, one.fact.fact_id)
    due = one.fact.due_at(ttl_days)
    if due is None or due > run.now:
        doors.facts.move(place, due)
        return "moved", "not_due"
    try:
        if one.fact.state not in WITHDRAWN and one.fact.promoted_at is not None:
            return _withdrawn(one.fact, run, tenant_id, doors, ttl_days)
        if awaits_removal(one.fact, gone=one.marks.gone):
            # Whoever lost the mark of its domain would never be looked for again.
            doors.dirty.note(tenant_id, one.fact.domain, now=run.now)
            return "withdrawing", "in_knowledge_base"
        removed, _ = put_away(place, doors.facts, doors.archive, night=run.run_id, reason=EXPIRED, now=run.now)
    except RetryableError:
        raise
    except ArchiveError:
        return "failed", "archive"
    except AgentMemoryError:
        return "failed", "unreadable"
    return ("kept", removed) if removed in ("changed", "pinned") else ("expired", removed)


def _withdrawn(fact: Fact, run: LifecycleRun, tenant_id: str, doors: ExpiryDoors, ttl_days: int) -> tuple[str, str]:
    """Archive it as it was believed, then take its belief and its document away."""
    place = (fact.domain, fact.fact_id)
    snapshot = doors.facts.snapshot(place)
    if snapshot is None:
        return "gone", "gone"
    keep(snapshot, doors.archive, night=run.run_id, reason=EXPIRED, now=run.now)
    for _ in range(ROUNDS):
        seen = doors.facts.domain(fact.domain)
        now_so = next((known for known in seen.facts if known.fact_id == fact.fact_id), None)
        if now_so is None:
            return "gone", "gone"
        due = now_so.due_at(ttl_days)
        if now_so.state in WITHDRAWN or due is None or due > run.now:
            return "kept", "changed"
        doors.dirty.note(tenant_id, fact.domain, now=run.now)
        change = FactChange(at=run.now, state=FactState.RETIRED, reason=EXPIRED)
        if doors.facts.write(FactWrite(seen=seen, facts=(now_so.moved(change),))) == "written":
            doors.documents.delete(fact.domain, fact.fact_id)
            return "withdrawn", EXPIRED
        doors.rest(LONGEST_REST)
    raise StoreBusyError("the facts of a domain kept changing while one expired")
