"""Brings the Knowledge Base to what the stores say: many facts with one job, one job at a time, each fact by its own
document's status. Nothing here is lost by a crash: what is pending stays pending until its document was seen."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent_memory.domain.errors import AgentMemoryError, RetryableError
from agent_memory.domain.fact_writes import FoundFact
from agent_memory.domain.facts import WITHDRAWN
from agent_memory.domain.knowledge import document_of, fact_document_key
from agent_memory.domain.knowledge_ports import DirtyDomains, FactDocuments, IngestionDesk, Knowledge
from agent_memory.domain.models import Model
from agent_memory.domain.ports import Facts
from agent_memory.domain.promotion import publish

# Jobs of one execution: what was pending, what failed, what came meanwhile. The rest waits for the next execution.
MAX_ROUNDS = 3
# StartIngestionJob takes one call in ten seconds.
BUSY_SECONDS, THROTTLED_SECONDS = 15, 12
FIRST_CHECK_SECONDS, LONGEST_CHECK_SECONDS = 2, 30
# About an hour of somebody else's job.
MAX_WAITS = 240
LOCK_SECONDS = 900
# A mark is set before the write that it announces, which a function has a minute for.
MARK_GRACE_SECONDS = 600
INDEXED, GONE = "INDEXED", "NOT_FOUND"
FAILED = frozenset({"FAILED", "PARTIALLY_INDEXED", "METADATA_PARTIALLY_INDEXED", "METADATA_UPDATE_FAILED", "IGNORED"})


class IngestionWork(Model):
    """What travels between the states of the ingestion machine."""

    owner: str
    round: int = 0
    waits: int = 0
    job_id: str | None = None
    job_status: str | None = None
    pending: int = 0
    failed_documents: int = 0
    decision: str = ""
    seconds: int = 0


class IngestionReport(Model):
    """What one step found or did. *oldest_seconds*: how long the oldest fact has waited to be searchable.
    *skipped*: domains that could not be worked on at all."""

    pending: int = 0
    removals: int = 0
    published: int = 0
    oldest_seconds: int = 0
    ingested: int = 0
    failed: int = 0
    removed: int = 0
    left: int = 0
    skipped: int = 0


class TenantDoors(NamedTuple):
    """One tenant's facts and their documents."""

    facts: Facts
    documents: FactDocuments


class IngestionDoors(NamedTuple):
    """What ingestion touches. *tenant*: the doors of a tenant, on its own credentials."""

    dirty: DirtyDomains
    desk: IngestionDesk
    knowledge: Knowledge
    tenant: Callable[[str], TenantDoors]


class _Place(NamedTuple):
    tenant_id: str
    domain: str
    noted_at: int


class Step(NamedTuple):
    """The outcome of one action."""

    work: IngestionWork
    report: IngestionReport = IngestionReport()


def ingest(action: str, work: IngestionWork, doors: IngestionDoors, *, now: int) -> Step:
    """Do one action of the ingestion machine. Raises KeyError for an action that nobody knows."""
    at_work = doors.desk.take(work.owner, now=now, until=now + LOCK_SECONDS)
    if not at_work and action == "collect":
        return Step(work.model_copy(update={"decision": "nothing"}))
    return _ACTIONS[action](work, doors, now)


def _collect(work: IngestionWork, doors: IngestionDoors, now: int) -> Step:
    """Find what is pending; write what was not written yet and delete what is withdrawn, before any job looks."""
    report = _summed(doors, lambda tenant, place: _collected(tenant, place, doors, now))
    waiting = report.pending + report.removals
    updates = {"round": work.round + 1, "waits": 0, "job_id": None, "job_status": None, "pending": waiting}
    if waiting:
        return Step(work.model_copy(update={**updates, "decision": "start"}), report)
    doors.desk.release(work.owner)
    return Step(work.model_copy(update={**updates, "decision": "nothing"}), report)


def _collected(tenant: TenantDoors, place: _Place, doors: IngestionDoors, now: int) -> IngestionReport:
    pending = removals = published = oldest = 0
    found = tenant.facts.pending(place.domain)
    for one in found:
        if one.waits:
            pending += 1
            oldest = max(oldest, now - (one.fact.promoted_at or now))
            published += not one.marks.published and publish(one.fact, tenant.facts, tenant.documents)
        elif one.fact.state in WITHDRAWN:
            removals += 1
            tenant.documents.delete(place.domain, one.fact.fact_id)
    if not found and place.noted_at < now - MARK_GRACE_SECONDS:
        doors.dirty.clear(place.tenant_id, place.domain, seen=place.noted_at)
    return IngestionReport(pending=pending, removals=removals, published=published, oldest_seconds=oldest)


def _start(work: IngestionWork, doors: IngestionDoors, now: int) -> Step:
    token = hashlib.sha256(f"{work.owner}:{work.round}".encode()).hexdigest()
    started = doors.knowledge.start_job(token)
    if started.decision == "started":
        updates = {"decision": "started", "job_id": started.job_id, "waits": 0, "seconds": FIRST_CHECK_SECONDS}
        return Step(work.model_copy(update=updates))
    waits = work.waits + 1
    seconds = BUSY_SECONDS if started.decision == "busy" else THROTTLED_SECONDS
    decision = started.decision if waits <= MAX_WAITS else "gave_up"
    return Step(work.model_copy(update={"decision": decision, "waits": waits, "seconds": seconds}))


def _check(work: IngestionWork, doors: IngestionDoors, now: int) -> Step:
    job = doors.knowledge.job(work.job_id or "")
    updates: dict[str, object] = {"job_status": job.status, "failed_documents": job.failed}
    if not job.over:
        waits = work.waits + 1
        seconds = min(LONGEST_CHECK_SECONDS, FIRST_CHECK_SECONDS * 2**waits)
        return Step(work.model_copy(update={**updates, "decision": "running", "waits": waits, "seconds": seconds}))
    complete = "partial" if job.failed else "complete"
    return Step(work.model_copy(update={**updates, "decision": complete if job.status == "COMPLETE" else "failed"}))


def _settle(work: IngestionWork, doors: IngestionDoors, now: int) -> Step:
    """Mark each fact by its own document, and keep what came of the round."""
    report = _summed(doors, lambda tenant, place: _settled(tenant, place, doors, now))
    again = bool(report.left) and work.job_id is not None and work.round < MAX_ROUNDS
    last = {**report.model_dump(), "at": now, "round": work.round, "job_id": work.job_id, "status": work.job_status}
    doors.desk.keep({**last, "failed_documents": work.failed_documents})
    if not again:
        doors.desk.release(work.owner)
    return Step(work.model_copy(update={"decision": "again" if again else "done"}), report)


def _settled(tenant: TenantDoors, place: _Place, doors: IngestionDoors, now: int) -> IngestionReport:
    ingested = failed = removed = left = oldest = 0
    for one, status in _told(tenant.facts.pending(place.domain), doors.knowledge):
        if one.waits and status == INDEXED and one.marks.published:
            ingested += tenant.facts.mark_ingested(one.fact, at=now)
            continue
        if not one.waits and status == GONE:
            removed += tenant.facts.mark_gone(one.fact)
            continue
        left += 1
        oldest = max(oldest, now - (one.fact.promoted_at or now)) if one.waits else oldest
        if one.waits and status in FAILED:
            failed += 1
            # Written again, so that the next job takes it for changed.
            tenant.documents.put(document_of(one.fact))
    return IngestionReport(ingested=ingested, failed=failed, removed=removed, left=left, oldest_seconds=oldest)


def _summed(doors: IngestionDoors, act: Callable[[TenantDoors, _Place], IngestionReport]) -> IngestionReport:
    """Do *act* in every dirty domain. One tenant's defect stops no other: its domain is skipped, counted, and stays."""
    total: Counter[str] = Counter()
    oldest = 0
    for (tenant_id, domain), noted_at in sorted(doors.dirty.all().items()):
        try:
            found = act(doors.tenant(tenant_id), _Place(tenant_id, domain, noted_at))
        except RetryableError:
            raise
        except AgentMemoryError:
            total["skipped"] += 1
            continue
        total.update(found.model_dump(exclude={"oldest_seconds"}))
        oldest = max(oldest, found.oldest_seconds)
    return IngestionReport.model_validate({**total, "oldest_seconds": oldest})


def _told(found: list[FoundFact], knowledge: Knowledge) -> Iterator[tuple[FoundFact, str]]:
    statuses = knowledge.statuses([fact_document_key(one.fact) for one in found])
    for one in found:
        yield one, statuses[fact_document_key(one.fact)]


_ACTIONS: dict[str, Callable[[IngestionWork, IngestionDoors, int], Step]] = {
    "collect": _collect,
    "start": _start,
    "check": _check,
    "settle": _settle,
}
