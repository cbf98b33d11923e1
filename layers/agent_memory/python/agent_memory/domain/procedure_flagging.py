"""The night's look at procedures: what fails or is not used any more goes to the reviewers' queue, never away."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from agent_memory.domain.errors import AgentMemoryError, RetryableError
from agent_memory.domain.keys import result_key
from agent_memory.domain.lifecycle import Action, Done, NightTicket, SliceResult
from agent_memory.domain.lifecycle_ports import NightFiles
from agent_memory.domain.models import Model

ROOM = "procedures"


class Flagged(Model):
    """One procedure that a person should look at. *reason*: `stale` or `low_success`. *decision*: `flagged`,
    `kept` when a result or a person was faster, or `restored` when a night was taken back."""

    task_type: str
    procedure_id: str
    decision: str
    reason: str


class ProcedureFlags(Protocol):
    """The procedures of ONE tenant, as the night flags them."""

    def flag(self, *, now: int) -> Sequence[Flagged]:
        """Move what fails its results, or was not used for the deployment's days, to `needs_review`."""

    def give_back(self, run_id: str, *, withdrawn_at: int, now: int) -> Sequence[Flagged]:
        """Take that of the run that began at *withdrawn_at* back, as far as nobody decided since."""


class FlagDoors(NamedTuple):
    """What flagging touches. *tenants*: every tenant there is, in order.
    *late*: whether the function should come to an end."""

    files: NightFiles
    tenants: Callable[[], Sequence[str]]
    flags: Callable[[str], ProcedureFlags]
    late: Callable[[], bool]


def flag_procedures(ticket: NightTicket, doors: FlagDoors) -> tuple[NightTicket, tuple[SliceResult, ...]]:
    """Flag tenant by tenant. Decides `more` (to be called again) or `flagged`; one tenant's defect stops no other."""
    after = str((ticket.work or {}).get("after", ""))
    results: list[SliceResult] = []
    if ticket.run.may_write:
        for tenant_id in (one for one in doors.tenants() if one > after):
            if results and doors.late():
                return ticket.decided("more", work={"after": results[-1].tenant_id}), tuple(results)
            result = _of_tenant(tenant_id, ticket, doors)
            doors.files.put(result_key(ticket.run.run_id, ROOM, tenant_id, "all"), result)
            results.append(result)
    return ticket.decided("flagged", work=None), tuple(results)


def _of_tenant(tenant_id: str, ticket: NightTicket, doors: FlagDoors) -> SliceResult:
    done: list[Done] = []
    failed = 0
    try:
        done = [_done(one) for one in doors.flags(tenant_id).flag(now=ticket.run.now)]
    except RetryableError:
        raise
    except AgentMemoryError:
        failed = 1
    counts = Counter(one.decision for one in done) + Counter(failed=failed)
    return SliceResult(tenant_id=tenant_id, step=ROOM, name="all", done=tuple(done), counts=dict(counts))


def _done(one: Flagged) -> Done:
    return Done(
        agent_id=one.task_type, run_id=one.procedure_id, action=Action.FLAG, decision=one.decision, reason=one.reason
    )
