"""The night from its lock to its end: who works, by which settings, and what the next one may rely on."""

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from agent_memory.domain.decay import DecayRules
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import night_of, plan_key, room_prefix
from agent_memory.domain.lifecycle import ROOMS, LifecycleRun, LookSlice, NightTicket, Plan, SliceResult
from agent_memory.domain.lifecycle_ports import Approval, LastNight, NightDesk, NightFiles, StoredAgents
from agent_memory.domain.planning import prefixes
from agent_memory.domain.retention import DAY_SECONDS, HOUR_SECONDS, RetentionRules

# An execution ends by its own time limit; what it started in its last minute ends a little later.
LOCK_MARGIN_SECONDS = 900
APPROVAL_DAYS = 7
LASTING = {"memory_ttl_days", "summary_ttl_days", "failed_retention_days", "semantic_ttl_days"}
PLAN_DAYS = 7


class NightDoors(NamedTuple):
    """What the begin and the end of a night touch."""

    desk: NightDesk
    files: NightFiles
    stored: StoredAgents


def settings_hash(decay: DecayRules, retention: RetentionRules) -> str:
    """Of all settings by which the dates of episodes and facts are made (32 hex digits)."""
    lasting = retention.model_dump(include=LASTING)
    text = json.dumps({**decay.model_dump(), **lasting}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def begin(
    owner: str, asked: object, doors: NightDoors, *, settings: str, limit_hours: int, now: int
) -> NightTicket | None:
    """Take the lock and fix what all steps go by. None: another execution is at work.

    *asked*: the execution's input, outside text; `dry_run: true` in it plans and ends.
    """
    dry_run = isinstance(asked, Mapping) and asked.get("dry_run") is True
    until = now + limit_hours * HOUR_SECONDS + LOCK_MARGIN_SECONDS
    night = night_of(now)
    seat = doors.desk.take(owner, night=night, now=now, until=until)
    if seat is None:
        return None
    last = doors.desk.last()
    # Whoever goes back to the settings before has dates by both.
    rewriting = last is not None and (last.settings_hash != settings or last.rewriting not in (None, settings))
    run = LifecycleRun(
        night=night_of(seat.now),
        attempt=seat.attempt,
        owner=owner,
        now=seat.now,
        # A clock that was ahead once must not make the time between nights negative.
        since=min(last.now, seat.now) if last else 0,
        settings_hash=settings,
        rewriting=rewriting,
        changed=rewriting and not _approved(settings, last, doors.desk, now=seat.now),
        dry_run=dry_run,
    )
    rooms = dict.fromkeys(ROOMS, "none")
    return NightTicket(run=run, bucket=doors.files.bucket, rooms=rooms, decision="begun", **prefixes(run.run_id))


def _approved(settings: str, last: LastNight | None, desk: NightDesk, *, now: int) -> bool:
    """Whether a person agreed to these settings: lately, or when the rewriting that is under way began."""
    if last is not None and settings in (last.rewriting, last.settings_hash):
        return True
    return any(approval.settings_hash == settings for approval in desk.approvals(now=now))


def unfinished(run: LifecycleRun, files: NightFiles) -> dict[str, int]:
    """Slices that have no result, by room."""
    left = {}
    for room in ROOMS:
        slices = _names(files, room_prefix(run.run_id, room))
        results = _names(files, room_prefix(run.run_id, f"done/{room}"))
        if slices - results:
            left[room] = len(slices - results)
    return left


def failures(run: LifecycleRun, files: NightFiles) -> int:
    """Memories and facts that a step could not work off, though it ended: no copy could be made or read."""
    results = (key for room in ROOMS for key in files.keys(room_prefix(run.run_id, f"done/{room}")))
    return sum(result.counts.get("failed", 0) for result in files.get_many(results, SliceResult))


def _names(files: NightFiles, prefix: str) -> set[str]:
    return {key.removeprefix(prefix) for key in files.keys(prefix)}


def verdict(ticket: NightTicket, files: NightFiles) -> str:
    """How a night ended: `planned`, `rolled_back`, `failed`, `held` or `completed`."""
    if ticket.run.dry_run:
        return "planned"
    if unfinished(ticket.run, files) or failures(ticket.run, files):
        return "failed"
    if ticket.quality == "fail":
        return "rolled_back"
    plan = files.get(plan_key(ticket.run.run_id), Plan)
    return "held" if ticket.run.changed or (plan and plan.held) else "completed"


def end(ticket: NightTicket, doors: NightDoors) -> NightTicket:
    """Move the watermark if the night did its work, give the lock back, and say how it ended."""
    run, word = ticket.run, verdict(ticket, doors.files)
    if word in ("completed", "held", "rolled_back"):
        # What was held or taken back waits for a person; nights that go on are not late because of that.
        plan = doors.files.get(plan_key(run.run_id), Plan)
        _forget_stored(run, doors, held=frozenset(plan.held if plan else ()))
        doors.desk.complete(_last(run, ticket, doors.desk.last(), taken_back=word == "rolled_back"))
    doors.desk.release(run.owner)
    return ticket.decided(word)


def _forget_stored(run: LifecycleRun, doors: NightDoors, *, held: frozenset[str]) -> None:
    """Agents whose cap was looked at need no look until they store again."""
    for look in doors.files.get_many(doors.files.keys(room_prefix(run.run_id, "look")), LookSlice):
        for agent in look.agents:
            if agent.stored and look.tenant_id not in held:
                doors.stored.clear(look.tenant_id, agent.agent_id, upto=run.now)


def _last(run: LifecycleRun, ticket: NightTicket, before: LastNight | None, *, taken_back: bool) -> LastNight:
    if before is None or not run.rewriting:
        return LastNight(run_id=run.run_id, now=run.now, settings_hash=run.settings_hash)
    if run.changed:
        # Nothing was written by the new settings, and nobody agreed to them yet.
        return before.model_copy(update={"run_id": run.run_id, "now": run.now})
    if taken_back:
        # What the new settings had shortened has its old dates again, so the next night begins where this one did.
        started = before.rewritten if before.rewriting == run.settings_hash else None
        rewriting = {"rewriting": run.settings_hash, "rewritten": started}
        return before.model_copy(update={"run_id": run.run_id, "now": run.now, **rewriting})
    if ticket.rewritten is None:
        return LastNight(run_id=run.run_id, now=run.now, settings_hash=run.settings_hash)
    rewriting = {"rewriting": run.settings_hash, "rewritten": ticket.rewritten}
    return before.model_copy(update={"run_id": run.run_id, "now": run.now, **rewriting})


def approve(run_id: str, doors: NightDoors, *, by: str, now: int) -> Approval:
    """Agree to what the plan of *run_id* holds back; the next run within a week does it. Raises RefusedInputError."""
    plan = doors.files.get(plan_key(run_id), Plan)
    if plan is None:
        raise RefusedInputError("run", "has no plan: agent-memory lifecycle status lists the runs")
    if now - plan.run.now > PLAN_DAYS * DAY_SECONDS:
        raise RefusedInputError("run", f"is older than {PLAN_DAYS} days: make a new plan and look at that")
    if not plan.held and not plan.run.changed:
        raise RefusedInputError("run", "was not held: there is nothing to approve")
    approval = Approval(
        run_id=run_id,
        settings_hash=plan.run.settings_hash,
        removed={tenant.tenant_id: tenant.removed for tenant in plan.tenants if tenant.held},
        by=by,
        at=now,
        expires_at=now + APPROVAL_DAYS * DAY_SECONDS,
    )
    doors.desk.approve(approval)
    return approval
