"""Runs that could not be processed: kept with their input and reason, countable, redrivable."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from agent_memory.domain import retention
from agent_memory.domain.errors import TranscriptError
from agent_memory.domain.events import without_user_ids
from agent_memory.domain.models import Claim, ParkedRun, RunState, RunTicket
from agent_memory.domain.ports import Claims, Ledger, Written
from agent_memory.domain.retention import RetentionRules

_NOT_A_CODE = re.compile(r"[^A-Za-z0-9_.:]")
MAX_CODE = 64


class Parked(NamedTuple):
    """What became of a run that was to be parked, and why it was."""

    written: Written
    reason: str


def parked_event(event: Mapping[str, object], user_ref: str | None) -> dict[str, object]:
    """What is kept of an event that could not be accepted: all of it, the user as pseudonym only."""
    detail = event.get("detail")
    kept = without_user_ids(detail)
    if isinstance(detail, Mapping) and isinstance(kept, dict) and detail.get("user_id") and user_ref is None:
        # A user that can't be read must not turn into "no user": a redrive refuses this again.
        kept["user_id"] = {"removed": True}
    return {"kind": "event", "time": event.get("time"), "detail": kept, "user_ref": user_ref}


def parked_claim(claim: Claim | None) -> dict[str, object]:
    """What is kept of a run that was accepted but could not be worked off; None: its claim is gone."""
    return {"kind": "claim", "claim": None if claim is None else claim.model_dump()}


def keep(parked: ParkedRun, content: object, ledger: Ledger, claims: Claims) -> Written:
    """Park a run with its *content*; when its user or tenant was erased meanwhile, nothing of it stays."""
    key = claims.park(parked.agent_id, parked.run_id, content)
    written = ledger.park(parked.model_copy(update={"content_key": key}))
    if written == "erased":
        claims.delete_parked(key)
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
    written = keep(parked, parked_claim(_claim(ticket, claims)), ledger, claims)
    state = RunState.ERASED if written == "erased" else RunState.PARKED
    ledger.move(ticket.agent_id, ticket.run_id, state=state, attempt=ticket.attempt, reason=reason)
    return Parked(written, reason)


def failure_code(failure: object) -> str:
    """The name of the error that the machine caught; its cause may quote anything and is not kept."""
    name = failure.get("Error") if isinstance(failure, Mapping) else None
    return _NOT_A_CODE.sub("", name)[:MAX_CODE] or "unknown" if isinstance(name, str) else "unknown"


def _claim(ticket: RunTicket, claims: Claims) -> Claim | None:
    try:
        return claims.get_claim(ticket.claim_key)
    except TranscriptError:
        return None
