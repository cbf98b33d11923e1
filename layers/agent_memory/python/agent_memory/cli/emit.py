"""`agent-memory emit`: hands over finished runs from a file and waits until they are memory."""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent_memory.cli.session import Env, FailedError, OutputOption, Session, session_of
from agent_memory.client import Handover, hand_over
from agent_memory.domain.acceptance import claim_of
from agent_memory.domain.errors import AgentMemoryError, RefusedInputError
from agent_memory.domain.events import RunIds, run_ended
from agent_memory.domain.json_text import read_json
from agent_memory.domain.keys import identifier, tenant_identifier, user_identity
from agent_memory.domain.models import LedgerRun, Model, RunState
from agent_memory.domain.transcript_shape import check_transcript

POLL_SECONDS = 0.5
DONE = {RunState.STORED, RunState.PARKED, RunState.EXPIRED_ON_ARRIVAL, RunState.ERASED}
REFUSED, NOT_SENT = "refused", "not_sent"
GOOD = {"sent", RunState.STORED.value}


class Arrival(Model):
    """One handed-over run: where it is now. *state* `sent` when nobody waited, `not_seen` when waiting ended."""

    tenant_id: str
    agent_id: str
    run_id: str
    event_id: str | None = None
    transcript_uri: str | None = None
    state: str = "sent"
    reason: str | None = None
    attempt: int | None = None
    known_before: bool = False


def emit(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(help="A run-ended detail as JSON, several as JSONL, or - for stdin.")],
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Instead of the file's tenant_id.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Instead of the file's agent_id.")] = None,
    run: Annotated[str | None, typer.Option("--run", "-r", help="Instead of the file's run_id (one run only).")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until each run is stored or parked.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds to wait in all.")] = 300,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Hand over the finished runs in FILE; the format is in docs/events.

    Examples: `agent-memory emit run.json --wait`, `cat runs.jsonl | agent-memory emit - --tenant acme`
    """
    details = _overridden(_details(file), {"tenant_id": tenant, "agent_id": agent, "run_id": run})
    _all_readable(details)
    session = session_of(ctx, env, output)
    arrivals = deliver(session, details, wait=wait, timeout=timeout)
    session.screen.answer([arrival.model_dump(mode="json") for arrival in arrivals])
    rows = [(a.tenant_id, a.agent_id, a.run_id, _state(a), a.reason) for a in arrivals]
    session.screen.table(("tenant", "agent", "run", "state", "reason"), rows)
    bad = [a for a in arrivals if a.state not in GOOD]
    if bad:
        raise FailedError(
            f"{len(bad)} of {len(arrivals)} are not memory (see their states; `agent-memory parked list` shows what "
            "waits for you, `agent-memory doctor` what is down)"
        )


def deliver(session: Session, details: Sequence[Mapping[str, object]], *, wait: bool, timeout: float) -> list[Arrival]:
    """Hand over *details* in order, and wait for them together."""
    arrivals = []
    for detail in details:
        before = _row(session, detail) if wait else None
        conflict = before is not None and _conflicts(session, detail, before)
        try:
            arrivals.append(_arrival(detail, hand_over(session.deployment, detail), before is not None, conflict))
        except AgentMemoryError as error:
            if len(details) == 1:
                raise
            # The others of the file still go; this one is named with its reason.
            arrivals.append(_not_sent(detail, error))
    return awaited(session, arrivals, timeout=timeout) if wait else arrivals


def _conflicts(session: Session, detail: Mapping[str, object], row: LedgerRun) -> bool:
    """Whether the run was accepted before with other content: the first stays, this one will be refused."""
    services, ids = (
        session.deployment.services,
        RunIds(tenant_id=row.tenant_id, agent_id=row.agent_id, run_id=row.run_id),
    )
    try:
        user_id = user_identity(detail.get("user_id"))
        user_ref = None if user_id is None else services.user_refs.user_ref(row.tenant_id, user_id)
        ended = run_ended({"detail": detail, "time": session.deployment.now()}, ids, now=session.deployment.now())
        claim = claim_of(ended, user_ref, session.tenant(row.tenant_id).claims, Counter())
    except AgentMemoryError:
        # It can't be compared from here (no permission, a broken detail): the pipeline decides, and says so.
        return False
    return row.content_sha256 not in ("", claim.content_sha256)


def awaited(session: Session, arrivals: list[Arrival], *, timeout: float) -> list[Arrival]:
    """Watch the ledger until every run is settled or *timeout* seconds are over."""
    settled: dict[int, Arrival] = {}
    ends_at = session.deployment.now() + timeout
    with session.screen.working(f"waiting for {len(arrivals)} run(s) to become memory"):
        while len(settled) < len(arrivals):
            for index, arrival in enumerate(arrivals):
                if arrival.state in (REFUSED, NOT_SENT):
                    settled[index] = arrival
                row = None if index in settled else _ledger_row(session, arrival)
                if row is not None and row.state in DONE:
                    settled[index] = _with(arrival, row)
            if len(settled) == len(arrivals) or session.deployment.now() >= ends_at:
                break
            session.deployment.pause(POLL_SECONDS)
    return [settled.get(i) or _unsettled(session, arrival, timeout) for i, arrival in enumerate(arrivals)]


def _unsettled(session: Session, arrival: Arrival, timeout: float) -> Arrival:
    row = _ledger_row(session, arrival)
    if row is not None:
        found = _with(arrival, row)
        return found.model_copy(update={"reason": found.reason or f"still at work after {timeout:.0f} s"})
    reason = f"no ledger row after {timeout:.0f} s: refused (see the refused queue) or still queued"
    return arrival.model_copy(update={"state": "not_seen", "reason": reason})


def _with(arrival: Arrival, row: LedgerRun) -> Arrival:
    return arrival.model_copy(update={"state": row.state.value, "reason": row.reason, "attempt": row.attempt})


def _ledger_row(session: Session, arrival: Arrival) -> LedgerRun | None:
    return session.tenant(arrival.tenant_id).ledger.run(arrival.agent_id, arrival.run_id)


def _row(session: Session, detail: Mapping[str, object]) -> LedgerRun | None:
    tenant_id, agent_id, run_id = (detail.get(name) for name in ("tenant_id", "agent_id", "run_id"))
    if isinstance(tenant_id, str) and isinstance(agent_id, str) and isinstance(run_id, str):
        return session.tenant(tenant_id).ledger.run(agent_id, run_id)
    return None


def _arrival(detail: Mapping[str, object], handover: Handover, known_before: bool, conflict: bool) -> Arrival:
    return Arrival(
        tenant_id=str(detail["tenant_id"]),
        agent_id=str(detail["agent_id"]),
        run_id=handover.run_id,
        event_id=handover.event_id,
        transcript_uri=handover.transcript_uri,
        known_before=known_before,
        state=REFUSED if conflict else "sent",
        reason="the run was accepted before with other content; the first stays" if conflict else None,
    )


def _not_sent(detail: Mapping[str, object], error: AgentMemoryError) -> Arrival:
    return Arrival(
        tenant_id=str(detail["tenant_id"]),
        agent_id=str(detail["agent_id"]),
        run_id=str(detail["run_id"]),
        state=NOT_SENT,
        reason=str(error),
    )


def _state(arrival: Arrival) -> str:
    return (
        f"{arrival.state} (was there before: a second delivery changes nothing)"
        if arrival.known_before
        else arrival.state
    )


def _details(file: str) -> list[dict[str, object]]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RefusedInputError(file, "does not exist") from None
    except (OSError, UnicodeDecodeError):
        raise RefusedInputError(file, "can't be read as UTF-8 text") from None
    try:
        parsed = read_json(text)
        found = parsed if isinstance(parsed, list) else [parsed]
    except ValueError:
        found = _lines(file, text)
    details = [detail for detail in found if isinstance(detail, dict)]
    if not details or len(details) < len(found):
        raise RefusedInputError(file, "must hold a run-ended detail (a JSON object), or one per line")
    return details


def _all_readable(details: Sequence[Mapping[str, object]]) -> None:
    """Refuse the file before anything of it is sent when one of its runs would be refused or parked for its shape."""
    for number, detail in enumerate(details, 1):
        try:
            ids = RunIds(
                tenant_id=tenant_identifier(detail.get("tenant_id")),
                agent_id=identifier(detail.get("agent_id"), "agent_id"),
                run_id=identifier(detail.get("run_id"), "run_id"),
            )
            check_transcript(detail)
            now = int(time.time())
            run_ended({"detail": detail, "time": now}, ids, now=now)
        except RefusedInputError as error:
            where = f"run {number} of {len(details)}: {error.field}" if len(details) > 1 else error.field
            raise RefusedInputError(where, f"{error.rule}; nothing was sent") from None


def _lines(file: str, text: str) -> list[object]:
    details: list[object] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                details.append(read_json(line))
            except ValueError:
                raise RefusedInputError(f"{file}, line {number}", "is not JSON") from None
    return details


def _overridden(details: list[dict[str, object]], instead: Mapping[str, str | None]) -> list[dict[str, object]]:
    if instead["run_id"] and len(details) > 1:
        raise RefusedInputError("--run", f"names one run, but the file holds {len(details)}")
    given = {name: value for name, value in instead.items() if value is not None}
    return [{**detail, **given} for detail in details]
