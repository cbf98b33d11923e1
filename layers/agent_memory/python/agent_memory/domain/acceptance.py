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
from agent_memory.domain.ports import Claims, Consolidation, Ledger, Transcripts, UserRefs
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


def accept(
    event: Mapping[str, object], ids: RunIds, doors: Doors, rules: RetentionRules, *, now: int, last: bool = False
) -> Acceptance:
    """Accept one run-ended event with valid *ids*. What can't be accepted is parked, never raised.

    *last*: nobody will try again, so a transcript that could not be reached is parked as well.
    """
    counts: Counter[str] = Counter()
    user_ref: str | None = None
    try:
        user_ref = _user_ref(event, ids, doors)
        ended = run_ended(event, ids, now=now)
        if retention.born_expired(ended.ended_at, rules, now=now):
            row = ledger_row(ids, ended.ended_at, "", user_ref, RunState.EXPIRED_ON_ARRIVAL, rules, now)
            return Acceptance(decision=_settled(doors.ledger.accept(row), "expired_on_arrival"))
        counts.update(ended.counts)
        claim = _reached(ended, user_ref, doors.claims, counts, last=last)
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


def claim_of(ended: RunEnded, user_ref: str | None, claims: Transcripts, counts: Counter[str]) -> Claim:
    """Return the claim of an event, its transcript read in. Raises TranscriptError or RefusedInputError."""
    messages = ended.messages or ()
    if ended.transcript_uri is not None:
        messages = messages_of(claims.read_transcript(ended.transcript_uri), counts)
    if not messages and not ended.artifacts:
        raise TranscriptError("no_messages")
    shared = ended.model_dump(include=set(Claim.model_fields))
    claim = Claim.model_validate({**shared, "messages": messages, "user_ref": user_ref, "content_sha256": ""})
    return claim.model_copy(update={"content_sha256": content_sha256(claim)})


def _reached(ended: RunEnded, user_ref: str | None, claims: Claims, counts: Counter[str], *, last: bool) -> Claim:
    try:
        return claim_of(ended, user_ref, claims, counts)
    except RetryableError:
        if not last:
            raise
        raise TranscriptError("transcript_unavailable") from None


def content_sha256(claim: Claim) -> str:
    """Return the hash of what a claim says, whatever the order of its fields and however it travelled."""
    content = claim.model_dump(exclude=_NOT_CONTENT)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _accept_claim(claim: Claim, doors: Doors, rules: RetentionRules, *, now: int) -> Acceptance:
    row = ledger_row(claim, claim.ended_at, claim.content_sha256, claim.user_ref, RunState.ACCEPTED, rules, now)
    written = doors.ledger.accept(row)
    if written == "erased":
        return Acceptance(decision="erased")
    attempt = 1
    if written == "duplicate":
        known = _known(claim, doors.ledger)
        if known.content_sha256 not in ("", claim.content_sha256):
            return Acceptance(decision="conflict", attempt=known.attempt, reason="the first content of the run stays")
        at_work = _attempt_at_work(known, claim, doors.ledger)
        if at_work is None:
            return Acceptance(decision="duplicate", attempt=known.attempt)
        attempt = at_work
    started, attempt = start(claim, doors.claims.put_claim(claim), attempt, doors)
    return Acceptance(decision="accepted" if started else "duplicate", attempt=attempt)


def start(run: Claim | LedgerRun, claim_key: str, attempt: int, doors: Doors) -> tuple[bool, int]:
    """Start *attempt* of a run, or the next one when it ended without settling the run. Returns what was started.

    A name of an execution is taken for ever. One that ended (not even parking the run worked, or somebody stopped it)
    while the ledger still says `accepted` would otherwise hold the run back for good.
    """
    if doors.machine.start(_ticket(run, claim_key, attempt)):
        return True, attempt
    if doors.machine.execution(run.tenant_id, run.agent_id, run.run_id, attempt) != "ended":
        return False, attempt
    # Read after the execution was seen to be over: what it wrote is there.
    known = doors.ledger.run(run.agent_id, run.run_id)
    if known is None or known.state is not RunState.ACCEPTED or known.attempt != attempt:
        return False, attempt
    following = doors.ledger.next_attempt(run.agent_id, run.run_id, seen=attempt)
    if following is None:
        return False, attempt
    return doors.machine.start(_ticket(run, claim_key, following)), following


def unread(known: LedgerRun) -> bool:
    """Whether a run was parked at the door, before any content of it could be read."""
    return known.state is RunState.PARKED and not known.content_sha256


def content_of(claim: Claim) -> dict[str, object]:
    """What the ledger row of an unread run does not know yet."""
    return claim.model_dump(include={"content_sha256", "user_ref", "ended_at"})


def _attempt_at_work(known: LedgerRun, claim: Claim, ledger: Ledger) -> int | None:
    """The attempt that a delivery of a known run may have to start again; None when the run is settled."""
    if unread(known):
        # This delivery is the first that can be read.
        return ledger.next_attempt(known.agent_id, known.run_id, seen=known.attempt, content=content_of(claim))
    return known.attempt if known.state is RunState.ACCEPTED else None


def _known(ids: RunIds | Claim, ledger: Ledger) -> LedgerRun:
    known = ledger.run(ids.agent_id, ids.run_id)
    if known is None:
        raise RetryableError(f"the ledger row of run {ids.run_id} went away while it was compared")
    return known


def _ticket(run: Claim | LedgerRun, claim_key: str, attempt: int) -> RunTicket:
    return RunTicket(
        tenant_id=run.tenant_id,
        agent_id=run.agent_id,
        run_id=run.run_id,
        attempt=attempt,
        claim_key=claim_key,
    )


def ledger_row(
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
    row = ledger_row(ids, now, "", user_ref, RunState.PARKED, rules, now).model_copy(update={"reason": reason})
    written = doors.ledger.accept(row)
    if written == "erased":
        return Acceptance(decision="erased")
    known = _known(ids, doors.ledger)
    if written == "duplicate" and not unread(known):
        return Acceptance(decision="duplicate", attempt=known.attempt, reason=reason)
    if known.reason != reason:
        doors.ledger.move(ids.agent_id, ids.run_id, state=RunState.PARKED, attempt=known.attempt, reason=reason)
    uri = parking.pointer_of(event)
    copy = None if uri is None else doors.claims.park_transcript(uri, ids.agent_id, ids.run_id)
    parked = ParkedRun(
        tenant_id=ids.tenant_id,
        agent_id=ids.agent_id,
        run_id=ids.run_id,
        reason=reason,
        step=ACCEPT,
        attempt=known.attempt,
        parked_at=now,
        expires_at=parking.expires_at(rules, reason, uncopied=uri is not None and copy is None, now=now),
        content_key="",
        ended_at=known.ended_at,
        user_ref=user_ref,
    )
    kept = parking.keep(parked, parking.parked_event(event, user_ref, copy), doors.ledger, doors.claims)
    return Acceptance(decision="erased" if kept == "erased" else "parked", reason=reason)
