"""How a run-ended event becomes a run at work: resolved, pseudonymised, claimed once, started once.

The order of the steps is what makes a crash between any two of them harmless: the ledger row says `accepted` first,
and whoever meets a row that still says so repeats what follows, all of which is written once by name.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

from agent_memory.domain import parking, retention
from agent_memory.domain.errors import RefusedInputError, RetryableError, TranscriptError
from agent_memory.domain.events import RunEnded, RunIds, messages_of, run_ended
from agent_memory.domain.keys import user_identity
from agent_memory.domain.models import Claim, LedgerRun, Model, ParkedRun, RunState, RunTicket
from agent_memory.domain.ports import Claims, Consolidation, Ledger, UserRefs
from agent_memory.domain.retention import RetentionRules

ACCEPT = "Accept"
Decision = Literal["accepted", "duplicate", "conflict", "parked", "expired_on_arrival", "erased"]
# How each decision is counted.
METRICS: Mapping[Decision, str] = {
    "accepted": "RunsAccepted",
    "duplicate": "RunsDuplicate",
    "conflict": "RunsConflict",
    "parked": "RunsParked",
    "expired_on_arrival": "ExpiredOnArrival",
    "erased": "RunsErased",
}
# What a redrive must not put back into work.
_SETTLED = frozenset({RunState.EXPIRED_ON_ARRIVAL, RunState.ERASED})
# Not part of what a run says: when it ended is clamped to the time of delivery.
_NOT_CONTENT = {"content_sha256", "ended_at", "schema_version"}


class Doors(NamedTuple):
    """What accepting a run of one tenant touches."""

    ledger: Ledger
    claims: Claims
    machine: Consolidation
    user_refs: UserRefs


class Acceptance(Model):
    """What became of an event. *reason*: a sentence or code without content. *counts*: what was mended."""

    decision: Decision
    attempt: int = 1
    reason: str | None = None
    counts: Mapping[str, int] = {}


class Redrive(Model):
    """What became of a parked run: `started`, `already_running`, `not_parked`, `parked` (again, see *reason*),
    `taken` (somebody else redrove it at the same time), `stored`, `erased`, `expired_on_arrival`."""

    decision: str
    attempt: int | None = None
    reason: str | None = None


def accept(event: Mapping[str, object], ids: RunIds, doors: Doors, rules: RetentionRules, *, now: int) -> Acceptance:
    """Accept one run-ended event with valid *ids*. What can't be accepted is parked, never raised."""
    counts: Counter[str] = Counter()
    user_ref: str | None = None
    try:
        user_ref = _user_ref(event, ids, doors)
        ended = run_ended(event, ids, now=now)
        if retention.born_expired(ended.ended_at, rules, now=now):
            row = _row(ids, ended.ended_at, "", user_ref, RunState.EXPIRED_ON_ARRIVAL, rules, now)
            return Acceptance(decision=_settled(doors.ledger.accept(row), "expired_on_arrival"))
        counts.update(ended.counts)
        claim = claim_of(ended, user_ref, doors.claims, counts)
    except (RefusedInputError, TranscriptError) as error:
        reason = error.reason if isinstance(error, TranscriptError) else str(error)
        return _park(event, ids, user_ref, reason, doors, rules, now=now)
    accepted = _accept_claim(claim, doors, rules, now=now)
    return accepted.model_copy(update={"counts": {name: n for name, n in counts.items() if n}})


def _user_ref(event: Mapping[str, object], ids: RunIds, doors: Doors) -> str | None:
    detail = event["detail"]
    user_id = user_identity(detail.get("user_id")) if isinstance(detail, Mapping) else None
    return None if user_id is None else doors.user_refs.user_ref(ids.tenant_id, user_id)


def _settled(written: str, decision: Decision) -> Decision:
    return decision if written == "stored" else "erased" if written == "erased" else "duplicate"


def claim_of(ended: RunEnded, user_ref: str | None, claims: Claims, counts: Counter[str]) -> Claim:
    """Return the claim of an event, its transcript read in. Raises TranscriptError or RefusedInputError."""
    messages = ended.messages or ()
    if ended.transcript_uri is not None:
        messages = messages_of(claims.read_transcript(ended.transcript_uri), counts)
    if not messages and not ended.artifacts:
        raise TranscriptError("no_messages")
    shared = ended.model_dump(include=set(Claim.model_fields))
    claim = Claim.model_validate({**shared, "messages": messages, "user_ref": user_ref, "content_sha256": ""})
    return claim.model_copy(update={"content_sha256": content_sha256(claim)})


def content_sha256(claim: Claim) -> str:
    """Return the hash of what a claim says, whatever the order of its fields and however it travelled."""
    content = claim.model_dump(exclude=_NOT_CONTENT)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _accept_claim(claim: Claim, doors: Doors, rules: RetentionRules, *, now: int) -> Acceptance:
    row = _row(claim, claim.ended_at, claim.content_sha256, claim.user_ref, RunState.ACCEPTED, rules, now)
    written = doors.ledger.accept(row)
    if written == "erased":
        return Acceptance(decision="erased")
    attempt = 1
    if written == "duplicate":
        known = _known(claim, doors.ledger)
        if known.content_sha256 not in ("", claim.content_sha256):
            return Acceptance(decision="conflict", attempt=known.attempt, reason="the first content of the run stays")
        at_work = _attempt_at_work(known, doors.ledger)
        if at_work is None:
            return Acceptance(decision="duplicate", attempt=known.attempt)
        attempt = at_work
    started = doors.machine.start(_ticket(claim, doors.claims.put_claim(claim), attempt))
    return Acceptance(decision="accepted" if started else "duplicate", attempt=attempt)


def _attempt_at_work(known: LedgerRun, ledger: Ledger) -> int | None:
    """The attempt that a delivery of a known run may have to start again; None when the run is settled."""
    if known.state is RunState.PARKED and not known.content_sha256:
        # Parked at the door without any content that could be read: this delivery is the first that can.
        return ledger.next_attempt(known.agent_id, known.run_id, seen=known.attempt)
    return known.attempt if known.state is RunState.ACCEPTED else None


def _known(ids: RunIds | Claim, ledger: Ledger) -> LedgerRun:
    known = ledger.run(ids.agent_id, ids.run_id)
    if known is None:
        raise RetryableError(f"the ledger row of run {ids.run_id} went away while it was compared")
    return known


def _ticket(claim: Claim, claim_key: str, attempt: int) -> RunTicket:
    return RunTicket(
        tenant_id=claim.tenant_id,
        agent_id=claim.agent_id,
        run_id=claim.run_id,
        attempt=attempt,
        claim_key=claim_key,
    )


def _row(
    ids: RunIds | Claim,
    ended_at: int,
    content: str,
    user_ref: str | None,
    state: RunState,
    rules: RetentionRules,
    now: int,
) -> LedgerRun:
    return LedgerRun(
        tenant_id=ids.tenant_id,
        agent_id=ids.agent_id,
        run_id=ids.run_id,
        content_sha256=content,
        attempt=1,
        state=state,
        accepted_at=now,
        ended_at=ended_at,
        expires_at=retention.ledger_expires_at(rules, now=now),
        user_ref=user_ref,
    )


def _park(
    event: Mapping[str, object],
    ids: RunIds,
    user_ref: str | None,
    reason: str,
    doors: Doors,
    rules: RetentionRules,
    *,
    now: int,
) -> Acceptance:
    """Keep an event that can't be accepted, unless its run is known already: the first content of a run wins."""
    row = _row(ids, now, "", user_ref, RunState.PARKED, rules, now)
    written = doors.ledger.accept(row)
    if written == "erased":
        return Acceptance(decision="erased")
    known = _known(ids, doors.ledger)
    if written == "duplicate" and (known.state is not RunState.PARKED or known.content_sha256):
        return Acceptance(decision="duplicate", attempt=known.attempt, reason=reason)
    parked = ParkedRun(
        tenant_id=ids.tenant_id,
        agent_id=ids.agent_id,
        run_id=ids.run_id,
        reason=reason,
        step=ACCEPT,
        attempt=known.attempt,
        parked_at=now,
        expires_at=retention.parked_expires_at(rules, now=now),
        content_key="",
        ended_at=known.ended_at,
        user_ref=user_ref,
    )
    kept = parking.keep(parked, parking.parked_event(event, user_ref), doors.ledger, doors.claims)
    return Acceptance(decision="erased" if kept == "erased" else "parked", reason=reason)


def redrive(agent_id: str, run_id: str, doors: Doors, rules: RetentionRules, *, now: int) -> Redrive:
    """Put a parked run back to work under its next attempt. Calling it twice starts it once."""
    parked = doors.ledger.parked_run(agent_id, run_id)
    if parked is None:
        return Redrive(decision="not_parked")
    known = doors.ledger.run(agent_id, run_id)
    if known is not None and known.state in (*_SETTLED, RunState.STORED):
        return Redrive(decision=known.state.value, attempt=known.attempt)
    try:
        claim = _parked_claim(parked, doors, now=now)
    except (RefusedInputError, TranscriptError) as error:
        reason = error.reason if isinstance(error, TranscriptError) else str(error)
        return Redrive(decision="parked", attempt=parked.attempt, reason=reason)
    if retention.born_expired(claim.ended_at, rules, now=now):
        return Redrive(decision="expired_on_arrival", attempt=parked.attempt)
    attempt = _redrive_attempt(claim, parked, known, doors.ledger, rules, now)
    if attempt is None:
        return Redrive(decision="taken")
    started = doors.machine.start(_ticket(claim, doors.claims.put_claim(claim), attempt))
    return Redrive(decision="started" if started else "already_running", attempt=attempt)


def _parked_claim(parked: ParkedRun, doors: Doors, *, now: int) -> Claim:
    content = doors.claims.get_parked(parked.content_key)
    if not isinstance(content, Mapping):
        raise TranscriptError("parked_content_unreadable")
    if content.get("kind") == "claim":
        if content.get("claim") is None:
            raise TranscriptError("claim_missing")
        return _claim(content["claim"])
    ids = RunIds(tenant_id=parked.tenant_id, agent_id=parked.agent_id, run_id=parked.run_id)
    user_ref = content.get("user_ref")
    ended = run_ended(content, ids, now=now)
    return claim_of(ended, user_ref if isinstance(user_ref, str) else None, doors.claims, Counter())


def _claim(content: object) -> Claim:
    try:
        return Claim.model_validate(content)
    except ValueError:
        raise TranscriptError("parked_content_unreadable") from None


def _redrive_attempt(
    claim: Claim, parked: ParkedRun, known: LedgerRun | None, ledger: Ledger, rules: RetentionRules, now: int
) -> int | None:
    if known is None:
        row = _row(claim, claim.ended_at, claim.content_sha256, claim.user_ref, RunState.PARKED, rules, now)
        ledger.accept(row.model_copy(update={"attempt": parked.attempt}))
        return ledger.next_attempt(claim.agent_id, claim.run_id, seen=parked.attempt)
    if known.state is RunState.ACCEPTED and known.attempt > parked.attempt:
        # An earlier redrive raised the attempt and may have died before its start.
        return known.attempt
    return ledger.next_attempt(claim.agent_id, claim.run_id, seen=known.attempt)
