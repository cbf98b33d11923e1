"""Runs that could not be processed: kept with their input and reason, countable, redrivable."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent_memory.domain import retention
from agent_memory.domain.errors import TranscriptError
from agent_memory.domain.events import without_user_id
from agent_memory.domain.models import ParkedRun, RunState, RunTicket
from agent_memory.domain.ports import Claims, Ledger, Written
from agent_memory.domain.retention import RetentionRules

_NOT_A_CODE = re.compile(r"[^A-Za-z0-9_.:]")
MAX_CODE = 64
MISSING = "transcript_missing"


class Parked(NamedTuple):
    """What became of a run that was to be parked, and why it was."""

    written: Written
    reason: str


def pointer_of(event: Mapping[str, object]) -> str | None:
    """The address of the transcript that an event points to, unchecked."""
    detail = event.get("detail")
    transcript = detail.get("transcript") if isinstance(detail, Mapping) else None
    uri = transcript.get("s3_uri") if isinstance(transcript, Mapping) else None
    return uri if isinstance(uri, str) and uri.strip() else None


def expires_at(rules: RetentionRules, reason: str, *, uncopied: bool, now: int) -> int:
    """When a run that is parked at the door is given up: not later than the transcript that only it points to.

    One that was not there when the run ended may still come, so it is waited for.
    """
    kept = retention.parked_expires_at(rules, now=now)
    return min(kept, retention.transcript_expires_at(now, rules)) if uncopied and reason != MISSING else kept


def oldest_days(parked: Iterable[ParkedRun], *, now: int) -> float:
    """Since how many days the longest of these waits; 0 when none does. What was given up waits no more."""
    waits = [now - run.parked_at for run in parked if run.expires_at > now]
    return max(waits, default=0) / retention.DAY_SECONDS


def parked_event(
    event: Mapping[str, object], user_ref: str | None, transcript_key: str | None = None
) -> dict[str, object]:
    """What is kept of an event that could not be accepted: all of it, the user as pseudonym only."""
    detail, kept = event.get("detail"), without_user_id(event).get("detail")
    if isinstance(detail, Mapping) and isinstance(kept, dict) and detail.get("user_id") and user_ref is None:
        # A user that can't be read must not turn into "no user": a redrive refuses this again.
        kept["user_id"] = {"removed": True}
    about = {"kind": "event", "time": event.get("time"), "detail": kept, "user_ref": user_ref}
    return about if transcript_key is None else about | {"transcript_key": transcript_key}


def keep(parked: ParkedRun, content: object, ledger: Ledger, claims: Claims) -> Written:
    """Park a run with its *content*; when its user or tenant was erased meanwhile, nothing of it stays."""
    return _kept(parked, claims.park(parked.agent_id, parked.run_id, content), ledger, claims)


def _kept(parked: ParkedRun, key: str, ledger: Ledger, claims: Claims) -> Written:
    written = ledger.park(parked.model_copy(update={"content_key": key}))
    if written == "erased":
        claims.delete_parked(parked.agent_id, parked.run_id)
    return written


def park_run(
    ticket: RunTicket, failure: object, ledger: Ledger, claims: Claims, rules: RetentionRules, *, now: int
) -> Parked:
    """Park a run that consolidation gave up on. *failure*: what the machine caught, if it caught something."""
    known = ledger.run(ticket.agent_id, ticket.run_id)
    reason = ticket.reason or failure_code(failure)
    if known is None or known.attempt != ticket.attempt:
        # A later attempt is at work: parking this one would leave a row that nobody removes.
        return Parked("duplicate", reason)
    parked = ParkedRun(
        tenant_id=ticket.tenant_id,
        agent_id=ticket.agent_id,
        run_id=ticket.run_id,
        reason=reason,
        step=ticket.step or "Consolidation",
        attempt=ticket.attempt,
        parked_at=now,
        expires_at=retention.parked_expires_at(rules, now=now),
        content_key="",
        ended_at=known.ended_at,
        user_ref=known.user_ref,
    )
    written = _kept(parked, _content_key(ticket, claims), ledger, claims)
    state = RunState.ERASED if written == "erased" else RunState.PARKED
    ledger.move(ticket.agent_id, ticket.run_id, state=state, attempt=ticket.attempt, reason=reason)
    return Parked(written, reason)


def failure_code(failure: object) -> str:
    """The name of the error that the machine caught; its cause may quote anything and is not kept."""
    name = failure.get("Error") if isinstance(failure, Mapping) else None
    return _NOT_A_CODE.sub("", name)[:MAX_CODE] or "unknown" if isinstance(name, str) else "unknown"


def _content_key(ticket: RunTicket, claims: Claims) -> str:
    """The claim is copied and not read: it may be larger than what this function has room for."""
    try:
        return claims.park_claim(ticket.claim_key, ticket.agent_id, ticket.run_id)
    except TranscriptError:
        return claims.park(ticket.agent_id, ticket.run_id, {"kind": "no_claim"})
