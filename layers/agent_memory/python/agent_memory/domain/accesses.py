"""Who read which record, added up over all nights: a cumulative ledger, and how two of them become one.

Each event counts once, however many files or nights show it: the ledger keeps the ids of the events of its window.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pydantic import Field, ValidationError

from agent_memory.domain.cloudtrail import REPORTED, Access, Window
from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.json_text import read_json
from agent_memory.domain.models import Model
from agent_memory.domain.retention import HOUR_SECONDS

# 2: what was used, and how far a reading of logs got. The first is read as it is.
VERSION: Final = 2
# Nights that were missed are made up for as long as the trail's bucket keeps its files.
LONGEST_HOURS: Final = 7 * 24
# A report may speak of reads of a week before it was heard, and every window that holds this moment shows it: its ids
# are kept longer by that week.
_REPORTED_HOURS: Final = LONGEST_HOURS


class LedgerError(AgentMemoryError):
    """The ledger of accesses can't be used; no record may be judged without it."""


class Reads(NamedTuple):
    """How often one record was read, and when last (epoch seconds)."""

    times: int = 0
    last_at: int | None = None


class Reading(Model):
    """How far a run got with the logs of its window. *after*: the last file that is counted in; *done*: all are."""

    run_id: str
    begin: int
    end: int
    after: str = ""
    done: bool = False


class AccessLedger(Model):
    """All accesses ever seen, by memory and record. *read_until*: up to when logs were read. *seen*: ids of the events
    that may be shown again, with their times; *seen_from*: since when none of them is missing there. *used*: how often
    a record helped. *reading*: that of the last run."""

    schema_version: int = VERSION
    read_until: int = 0
    accesses: Mapping[str, Mapping[str, tuple[int, int]]] = {}
    seen: Mapping[str, int] = Field(default={})
    seen_from: int = 0
    used: Mapping[str, Mapping[str, int]] = {}
    reading: Reading | None = None

    def of(self, memory_id: str, *record_ids: str) -> Reads:
        """The reads of a record, under all ids that it ever had."""
        held = self.accesses.get(memory_id, {})
        found = [held[one] for one in dict.fromkeys(record_ids) if one in held]
        return Reads(sum(count for count, _ in found), max((last for _, last in found), default=None))

    def without(self, memory_id: str, record_ids: Iterable[str]) -> "AccessLedger":
        """The ledger without these records: they were erased, or are gone."""
        gone = set(record_ids)
        left = {one: reads for one, reads in self.accesses.get(memory_id, {}).items() if one not in gone}
        used = {one: times for one, times in self.used.get(memory_id, {}).items() if one not in gone}
        changed = {"accesses": {**self.accesses, memory_id: left}, "used": {**self.used, memory_id: used}}
        return self.model_copy(update=changed)


def reading_of(ledger: AccessLedger, run_id: str, *, hours: int, now: int) -> Reading:
    """Where a run's reading begins, or goes on when it had to stop."""
    if ledger.reading and ledger.reading.run_id == run_id:
        return ledger.reading
    window = window_of(ledger, hours=hours, now=now)
    return Reading(run_id=run_id, begin=window.begin, end=window.end)


def window_of(ledger: AccessLedger, *, hours: int, now: int) -> Window:
    """What has to be read tonight: the last *hours*, and what nights that did not run have left. Nothing from before
    the ids that are kept, however many *hours* a deployment asks for of late: it would count again."""
    usual = now - hours * HOUR_SECONDS
    missed = ledger.read_until - (hours - 24) * HOUR_SECONDS if ledger.read_until else usual
    # A clock that was ahead once must not make this night read nothing.
    known = ledger.seen_from if ledger.seen_from <= now else usual
    return Window(max(min(usual, missed), known, now - LONGEST_HOURS * HOUR_SECONDS), now + 1)


def added(
    ledger: AccessLedger, found: Iterable[Access], *, window: Window, now: int, reading: Reading | None = None
) -> AccessLedger:
    """The ledger with what was *found*; adding the same again changes nothing. *reading*: how far its run has got; the
    logs are read up to *window*'s end unless it says that it is not done."""
    seen, accesses = dict(ledger.seen), {name: dict(held) for name, held in ledger.accesses.items()}
    used = {name: dict(held) for name, held in ledger.used.items()}
    for one in found:
        if one.event_id in seen:
            continue
        seen[one.event_id] = one.at
        if one.used:
            helped = used.setdefault(one.memory_id, {})
            helped[one.record_id] = helped.get(one.record_id, 0) + 1
            continue
        held = accesses.setdefault(one.memory_id, {})
        count, last = held.get(one.record_id, (0, 0))
        held[one.record_id] = (count + 1, max(last, min(one.at, now)))
    if reading and not reading.done:
        # Nothing is forgotten before all is read: what comes may show it again.
        whole = {"accesses": accesses, "seen": seen, "used": used, "reading": reading, "schema_version": VERSION}
        return ledger.model_copy(update=whole)
    # A clock that was ahead once must not make later nights skip what they have to read.
    read_until = max(min(ledger.read_until, now), min(window.end, now))
    kept = {event: at for event, at in seen.items() if at >= _oldest(event, window)}
    return AccessLedger(
        read_until=read_until, accesses=accesses, seen=kept, seen_from=window.begin, used=used, reading=reading
    )


def _oldest(event_id: str, window: Window) -> int:
    """Until when an event must be known by its id: what is before a window is never counted by a later one."""
    return window.begin - (_REPORTED_HOURS * HOUR_SECONDS if event_id.startswith(REPORTED) else 0)


def read_ledger(body: bytes | str) -> AccessLedger:
    """A stored ledger; of nothing an empty one. Raises LedgerError with what to do."""
    if not body.strip():
        return AccessLedger()
    try:
        value = read_json(body)
    except (ValueError, RecursionError):
        value = None
    version = value.get("schema_version") if isinstance(value, Mapping) else None
    if isinstance(version, int) and version > VERSION:
        raise LedgerError("the ledger of accesses was written by a newer release: deploy that release again")
    try:
        return AccessLedger.model_validate(value)
    except ValidationError:
        raise LedgerError("the ledger of accesses can't be read") from None
