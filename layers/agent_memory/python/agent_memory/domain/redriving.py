"""Runs that did not become memory go back to work: those that were parked, and those that were not even parked."""

from collections import Counter
from collections.abc import Mapping

from agent_memory.domain import retention
from agent_memory.domain.acceptance import Doors, claim_of, content_of, ledger_row, start, unread
from agent_memory.domain.errors import RefusedInputError, TranscriptError
from agent_memory.domain.events import RunIds, run_ended
from agent_memory.domain.keys import claim_key
from agent_memory.domain.models import Claim, LedgerRun, Model, ParkedRun, RunState
from agent_memory.domain.parking import pointer_of
from agent_memory.domain.ports import Claims, Ledger
from agent_memory.domain.retention import RetentionRules

STUCK = "stuck"
# Between the ledger row and the start of its execution lie some seconds, or the next delivery of the event.
NOT_YET_STUCK_SECONDS = 900
# What a redrive must not put back into work.
_SETTLED = frozenset({RunState.STORED, RunState.EXPIRED_ON_ARRIVAL, RunState.ERASED})


class Redrive(Model):
    """What became of a parked run: `started`, `already_running`, `not_parked`, `parked` (again, see *reason*),
    `taken` (somebody else redrove it at the same time), `stored`, `erased`, `expired_on_arrival`, `lost` (its
    content is gone)."""

    decision: str
    attempt: int | None = None
    reason: str | None = None


def stuck(doors: Doors, rules: RetentionRules, *, now: int) -> list[ParkedRun]:
    """Runs that are accepted, but that no execution works at any more: parking them failed as well."""
    return [_as_parked(run, rules) for run in doors.ledger.at_work() if _is_stuck(run, doors, now)]


def _is_stuck(run: LedgerRun, doors: Doors, now: int) -> bool:
    execution = doors.machine.execution(run.tenant_id, run.agent_id, run.run_id, run.attempt)
    if execution == "running" or (execution == "none" and now < run.accepted_at + NOT_YET_STUCK_SECONDS):
        return False
    # The execution may have ended, and settled the run, after the rows were listed.
    return doors.ledger.run(run.agent_id, run.run_id) == run


def _as_parked(run: LedgerRun, rules: RetentionRules) -> ParkedRun:
    return ParkedRun(
        tenant_id=run.tenant_id,
        agent_id=run.agent_id,
        run_id=run.run_id,
        reason=STUCK,
        step="Consolidation",
        attempt=run.attempt,
        parked_at=run.accepted_at,
        expires_at=retention.transcript_expires_at(run.accepted_at, rules),
        content_key=_claim_key(run),
        ended_at=run.ended_at,
        user_ref=run.user_ref,
    )


def _claim_key(run: LedgerRun) -> str:
    return claim_key(run.tenant_id, run.agent_id, run.run_id, run.content_sha256)


def redrive(agent_id: str, run_id: str, doors: Doors, rules: RetentionRules, *, now: int) -> Redrive:
    """Put a parked or stuck run back to work under its next attempt. Calling it twice starts it once."""
    parked, known = doors.ledger.parked_run(agent_id, run_id), doors.ledger.run(agent_id, run_id)
    if parked is None:
        return _redrive_stuck(known, doors)
    if known is not None and known.state in _SETTLED:
        return Redrive(decision=known.state.value, attempt=known.attempt)
    try:
        claim = _parked_claim(parked, doors, now=now)
    except (RefusedInputError, TranscriptError) as error:
        reason = error.reason if isinstance(error, TranscriptError) else str(error)
        return Redrive(decision="parked", attempt=parked.attempt, reason=reason)
    if retention.born_expired(claim.ended_at, rules, now=now):
        return Redrive(decision="expired_on_arrival", attempt=parked.attempt)
    attempt = _next_attempt(claim, parked, known, doors.ledger, rules, now)
    if attempt is None:
        return Redrive(decision="taken")
    started, attempt = start(claim, doors.claims.put_claim(claim), attempt, doors)
    return Redrive(decision="started" if started else "already_running", attempt=attempt)


def _redrive_stuck(known: LedgerRun | None, doors: Doors) -> Redrive:
    if known is None or known.state is not RunState.ACCEPTED:
        return Redrive(decision="not_parked")
    try:
        claim = doors.claims.get_claim(_claim_key(known))
    except TranscriptError as error:
        return Redrive(decision="lost", attempt=known.attempt, reason=error.reason)
    started, attempt = start(claim, _claim_key(known), known.attempt, doors)
    return Redrive(decision="started" if started else "already_running", attempt=attempt)


def _parked_claim(parked: ParkedRun, doors: Doors, *, now: int) -> Claim:
    content = doors.claims.get_parked(parked.content_key)
    if not isinstance(content, Mapping):
        raise TranscriptError("parked_content_unreadable")
    if content.get("kind") == "no_claim":
        raise TranscriptError("claim_missing")
    if content.get("kind") != "event":
        return _claim(content)
    ids = RunIds(tenant_id=parked.tenant_id, agent_id=parked.agent_id, run_id=parked.run_id)
    user_ref = content.get("user_ref")
    ended = run_ended(content, ids, now=now)
    claims = _WithCopy(doors.claims, pointer_of(content), content.get("transcript_key"))
    return claim_of(ended, user_ref if isinstance(user_ref, str) else None, claims, Counter())


class _WithCopy:
    """Transcripts as uploaded, or as copied when the run was parked and the upload has expired since."""

    def __init__(self, claims: Claims, uri: str | None, copy: object) -> None:
        self._claims = claims
        self._copies = {uri: copy} if isinstance(copy, str) else {}

    def read_transcript(self, s3_uri: str) -> object:
        try:
            return self._claims.read_transcript(s3_uri)
        except TranscriptError as error:
            copy = self._copies.get(s3_uri)
            if error.reason != "transcript_missing" or copy is None:
                raise
        return self._claims.get_parked_transcript(copy)


def _claim(content: object) -> Claim:
    try:
        return Claim.model_validate(content)
    except ValueError:
        raise TranscriptError("parked_content_unreadable") from None


def _next_attempt(
    claim: Claim, parked: ParkedRun, known: LedgerRun | None, ledger: Ledger, rules: RetentionRules, now: int
) -> int | None:
    if known is None:
        row = ledger_row(claim, claim.ended_at, claim.content_sha256, claim.user_ref, RunState.PARKED, rules, now)
        ledger.accept(row.model_copy(update={"attempt": parked.attempt}))
        return ledger.next_attempt(claim.agent_id, claim.run_id, seen=parked.attempt)
    if known.state is RunState.ACCEPTED and known.attempt > parked.attempt:
        # An earlier redrive raised the attempt and may have died before its start.
        return known.attempt
    content = content_of(claim) if unread(known) else None
    return ledger.next_attempt(claim.agent_id, claim.run_id, seen=known.attempt, content=content)
