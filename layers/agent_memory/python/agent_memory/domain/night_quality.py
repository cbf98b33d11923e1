"""The two steps of the night that ask regression cases: before anything is merged or removed, and after.

Only tenants in which the night means to change something are asked. Each tenant answers for itself: one that got worse
gets its memories back, the others keep what the night did for them.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from agent_memory.domain.errors import AgentMemoryError, RetryableError
from agent_memory.domain.keys import room_prefix, slice_key
from agent_memory.domain.lifecycle import LifecycleRun, NightTicket, TenantSlice
from agent_memory.domain.lifecycle_ports import NightFiles
from agent_memory.domain.quality import CaseScore, TenantQuality, Verdict, fingerprint, gate, worst
from agent_memory.domain.quality_ports import Regressions
from agent_memory.domain.regressions import RegressionCase

ROOM: Final = "quality"
GATE: Final = "gate"
ROLLBACK: Final = "rollback"
# What a ticket's *quality* says when no tenant was touched: there was nothing to ask about.
UNCHANGED: Final = "unchanged"
NOT_ANSWERED: Final = "not_answered"
_ROUTES: Final = {Verdict.FAIL: "fail", Verdict.NOT_RUN: "not_run"}


class TenantGate(NamedTuple):
    """One tenant's cases, and how they are asked now."""

    regressions: Regressions
    ask: Callable[[Sequence[RegressionCase]], tuple[CaseScore, ...]]


class NightGate(NamedTuple):
    """What the gate touches. *tenant*: the doors of one tenant. *late*: whether the function should come to an end.
    *expires_at*: until when askings are kept (epoch seconds)."""

    files: NightFiles
    tenant: Callable[[str], TenantGate]
    late: Callable[[], bool]
    now: int
    expires_at: int


def ask_before(ticket: NightTicket, doors: NightGate) -> NightTicket:
    """Ask before the night changes anything. Decides `more`, `baselined`, `not_run` (no tenant has a case)."""
    asked = ticket.work is not None and bool(ticket.work.get("cases"))
    left = _left(ticket, doors)
    for place, tenant_id in enumerate(left):
        if place and doors.late():
            return ticket.decided("more", work={"after": left[place - 1], "cases": asked})
        own = doors.tenant(tenant_id)
        scores = _answers(own)
        asked = bool(own.regressions.keep_baseline(ticket.run.run_id, scores, expires_at=doors.expires_at)) or asked
    return ticket.decided("baselined" if asked else "not_run", work=None)


def ask_after(ticket: NightTicket, doors: NightGate) -> NightTicket:
    """Ask again. Decides `more`, `pass`, `not_run`, `fail`; `quality` holds the worst verdict of the night.

    `pass` only says that nothing has to be taken back: `quality` tells whether the cases passed.
    """
    left = _left(ticket, doors)
    for place, tenant_id in enumerate(left):
        if place and doors.late():
            return ticket.decided("more", work={"after": left[place - 1]})
        quality = _gate(tenant_id, ticket.run, doors)
        doors.files.put(slice_key(ticket.run.run_id, ROOM, tenant_id, GATE), quality)
        if quality.verdict is Verdict.FAIL:
            back = TenantSlice(tenant_id=tenant_id)
            doors.files.put(slice_key(ticket.run.run_id, ROLLBACK, tenant_id, back.name), back)
    found = gates(ticket.run.run_id, doors.files)
    verdict = worst(one.verdict for one in found)
    rooms = {**ticket.rooms, ROLLBACK: "some" if verdict is Verdict.FAIL else "none"}
    quality_word = verdict.value.lower() if found else UNCHANGED
    route = _ROUTES.get(verdict, "pass") if found else "pass"
    return ticket.decided(route, work=None, quality=quality_word, rooms=rooms)


def gates(run_id: str, files: NightFiles) -> tuple[TenantQuality, ...]:
    """What the gate said of each tenant of a run, by tenant."""
    found = files.get_many(files.keys(room_prefix(run_id, ROOM)), TenantQuality)
    return tuple(sorted(found, key=lambda one: one.tenant_id))


def touched(ticket: NightTicket, files: NightFiles) -> list[str]:
    """The tenants in which the night means to merge, prune or expire something, in order."""
    prefixes = (ticket.merge_prefix, ticket.prune_prefix, ticket.facts_prefix)
    return sorted({key.removeprefix(prefix).partition("/")[0] for prefix in prefixes for key in files.keys(prefix)})


def _gate(tenant_id: str, run: LifecycleRun, doors: NightGate) -> TenantQuality:
    own = doors.tenant(tenant_id)
    before = own.regressions.baseline(run.run_id) or ()
    after = _answers(own) if before else ()
    quality = gate(tenant_id, run.run_id, before, after, now=doors.now)
    own.regressions.keep_result(quality, expires_at=doors.expires_at)
    return quality


def _answers(own: TenantGate) -> tuple[CaseScore, ...]:
    """The scores of all cases. One tenant's defect stops no other: its cases are not answered, which is not a pass."""
    cases: Sequence[RegressionCase] = ()
    try:
        cases = own.regressions.cases()
        return own.ask(cases)
    except RetryableError:
        raise
    except AgentMemoryError:
        return tuple(
            CaseScore(
                case_id=case.case_id,
                fingerprint=fingerprint(case),
                minimum=case.minimum,
                score=None,
                reason=NOT_ANSWERED,
            )
            for case in cases
        )


def _left(ticket: NightTicket, doors: NightGate) -> list[str]:
    after = str((ticket.work or {}).get("after", ""))
    return [tenant_id for tenant_id in touched(ticket, doors.files) if tenant_id > after]


STEPS: Final[dict[str, Callable[[NightTicket, NightGate], NightTicket]]] = {
    "baseline": ask_before,
    "check": ask_after,
}
