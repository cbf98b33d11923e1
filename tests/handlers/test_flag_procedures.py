"""flag_procedures: goes through every tenant, is called again when it gets late, and never writes in a dry run."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from agent_memory.domain.errors import AgentMemoryError, StoreBusyError
from agent_memory.domain.keys import result_key
from agent_memory.domain.lifecycle import NightTicket, SliceResult
from agent_memory.domain.procedure_flagging import FlagDoors, Flagged, flag_procedures
from agent_memory.domain.procedure_transitions import reject
from support.aws import AwsAccount, an_aws_account
from support.builders import DAY, NOW, TENANT, LambdaContext, a_parked_run
from support.nights import NIGHT, HeldFiles, a_night, a_ticket
from support.procedures import PERSON, a_procedure, an_approved, stored

from lambdas.flag_procedures.handler import handler


class HeldFlags:
    """Procedures of one tenant that need a look, by (task type, id, reason)."""

    def __init__(self, *found: tuple[str, str, str], error: AgentMemoryError | None = None) -> None:
        self.found, self.error = found, error
        self.asked_at: list[int] = []

    def flag(self, *, now: int) -> Sequence[Flagged]:
        self.asked_at.append(now)
        if self.error:
            raise self.error
        return [Flagged(task_type=t, procedure_id=p, decision="flagged", reason=r) for t, p, r in self.found]

    def give_back(self, run_id: str, *, withdrawn_at: int, now: int) -> Sequence[Flagged]:
        return []


def flagged(
    tenants: dict[str, HeldFlags], *, late: Any = lambda: False, ticket: NightTicket | None = None
) -> tuple[NightTicket, dict[str, dict[str, int]], HeldFiles]:
    files = HeldFiles()
    done, results = flag_procedures(
        ticket or a_ticket(), FlagDoors(files, lambda: sorted(tenants), tenants.__getitem__, late)
    )
    return done, {one.tenant_id: dict(one.counts) for one in results}, files


def test_every_tenant_is_looked_at_and_what_came_of_it_is_kept() -> None:
    flags = HeldFlags(("refunds", "p-1", "stale"), ("refunds", "p-2", "low_success"))
    done, counts, files = flagged({"acme": flags, "contoso": HeldFlags()})
    assert (done.decision, counts) == ("flagged", {"acme": {"flagged": 2}, "contoso": {}})
    assert flags.asked_at == [NOW]
    kept = files.get(result_key(NIGHT, "procedures", "acme", "all"), SliceResult)
    assert kept is not None
    assert [(one.run_id, one.reason) for one in kept.done] == [("p-1", "stale"), ("p-2", "low_success")]


def test_when_it_gets_late_it_goes_on_where_it_stopped() -> None:
    tenants: dict[str, HeldFlags] = {name: HeldFlags() for name in ("a", "b", "c")}
    done, counts, _ = flagged(tenants, late=lambda: True)
    assert (done.decision, list(counts)) == ("more", ["a"])
    done, counts, _ = flagged(tenants, ticket=done)
    assert (done.decision, list(counts), done.work) == ("flagged", ["b", "c"], None)


def test_one_tenants_defect_stops_no_other() -> None:
    broken = HeldFlags(error=AgentMemoryError("a procedure can't be read"))
    _, counts, _ = flagged({"a": broken, "b": HeldFlags(("x", "p-1", "stale"))})
    assert counts == {"a": {"failed": 1}, "b": {"flagged": 1}}


def test_a_busy_store_is_raised_for_a_retry() -> None:
    with pytest.raises(StoreBusyError):
        flagged({"a": HeldFlags(error=StoreBusyError("dynamodb:Query failed (ThrottlingException)"))})


@pytest.mark.parametrize("run", [a_night(dry_run=True), a_night(changed=True)])
def test_nothing_is_flagged_while_nothing_may_be_written(run: Any) -> None:
    flags = HeldFlags(("x", "p-1", "stale"))
    done, counts, _ = flagged({"a": flags}, ticket=a_ticket(run))
    assert (done.decision, counts, flags.asked_at) == ("flagged", {}, [])


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


def test_the_function_asks_the_registry_for_its_tenants(account: AwsAccount) -> None:
    for tenant_id in ("northwind", "acme"):
        account.services.registry.note(tenant_id, now=NOW)
    event = {"action": "flag", "ticket": a_ticket().model_dump(mode="json")}
    answer = handler(json.loads(json.dumps(event)), LambdaContext())
    assert answer["decision"] == "flagged"
    assert account.services.registry.all() == ["acme", "northwind"]


@pytest.mark.case("lr-h03")
def test_a_night_withdraws_what_nobody_used_and_leaves_what_a_person_rejected_alone(account: AwsAccount) -> None:
    account.services.registry.note(TENANT, now=NOW)
    procedures = account.services.tenant(TENANT).procedures
    old = NOW - 61 * DAY
    unused = stored(procedures, an_approved(a_procedure(last_used_at=old), now=old))
    used = stored(procedures, an_approved(a_procedure(steps=("Use it.",), last_used_at=NOW), now=NOW))
    refused = reject(a_procedure(steps=("Never.",)), PERSON, now=old).procedure
    assert refused is not None
    refused = stored(procedures, refused)
    event = {"action": "flag", "ticket": a_ticket().model_dump(mode="json")}
    handler(json.loads(json.dumps(event)), LambdaContext())
    found = {one.procedure_id: procedures.get(one.task_type, one.procedure_id) for one in (unused, used, refused)}
    assert {key: str(one.state) for key, one in found.items() if one} == {
        unused.procedure_id: "needs_review",
        used.procedure_id: "approved",
        refused.procedure_id: "rejected",
    }


def test_how_long_the_oldest_parked_run_waits_is_measured_over_all_tenants(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
    waits = {"acme": ((2, 28), (31, -1)), "northwind": ((9, 21), (1, 29)), "contoso": ()}
    for tenant_id, parked in waits.items():
        account.services.registry.note(tenant_id, now=NOW)
        for since, left in parked:
            run = a_parked_run(
                tenant_id=tenant_id, run_id=f"r-{since}", parked_at=NOW - since * DAY, expires_at=NOW + left * DAY
            )
            account.services.tenant(tenant_id).ledger.park(run)
    capsys.readouterr()
    handler({"action": "flag", "ticket": a_ticket().model_dump(mode="json")}, LambdaContext())
    assert '"OldestParkedRunDays":[9.0]' in capsys.readouterr().out
