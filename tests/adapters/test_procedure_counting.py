"""However deliveries repeat and interleave, counters are the runs that counted: through the rules and the store."""

from collections.abc import Mapping

from agent_memory.domain.procedure_feedback import FeedbackDoors, FeedbackRules, record_procedures
from agent_memory.domain.procedure_transitions import pin
from agent_memory.domain.procedures import Procedure
from agent_memory.domain.retention import RetentionRules
from agent_memory.wiring_tenant import TenantServices
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.aws import an_aws_account
from support.builders import NOW, TENANT, a_claim
from support.procedures import PERSON, RULES, a_result, an_approved, stored

FEEDBACK = FeedbackRules(RULES, RetentionRules(), "test")
deliveries = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(["follow", "fail", "pass_over", "other"])), min_size=1, max_size=10
)


def counted(tenant: TenantServices, procedure: Procedure) -> Procedure:
    found = tenant.procedures.get(procedure.task_type, procedure.procedure_id)
    assert found is not None
    return found


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deliveries, st.data())
def test_any_sequence_of_deliveries_and_repetitions_counts_each_run_once(
    sent: list[tuple[int, str]], data: st.DataObject
) -> None:
    """What a run said first holds, whatever is delivered again and when."""
    story = [*sent, *data.draw(st.lists(st.sampled_from(sent), max_size=6))]
    with an_aws_account() as account:
        tenant = account.services.tenant(TENANT)
        doors = FeedbackDoors(tenant.procedures, tenant.ledger, lambda *_: None, lambda _: None)
        procedure = stored(tenant.procedures, an_approved())
        first: dict[int, str] = {}
        for run, what in story:
            said = first.setdefault(run, what)
            record_procedures(a_claim(run_id=f"run-{run}", **_claim(procedure, said)), doors, FEEDBACK, now=NOW)
        assert _tally(counted(tenant, procedure)) == _expected(first)


def _claim(procedure: Procedure, what: str) -> Mapping[str, object]:
    if what in ("follow", "fail"):
        return {"procedure_id": procedure.procedure_id, "procedure_succeeded": what == "follow"}
    return {"procedure_id": "p-unknown", "procedure_succeeded": True} if what == "other" else {}


def _tally(procedure: Procedure) -> tuple[int, int]:
    return procedure.applied, procedure.succeeded


def _expected(first: Mapping[int, str]) -> tuple[int, int]:
    said = list(first.values())
    return said.count("follow") + said.count("fail"), said.count("follow")


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=4), st.integers(0, 5))
def test_results_that_start_from_one_reading_all_count_and_a_decision_between_them_loses_none(
    order: list[int], again: list[int], decided_after: int
) -> None:
    with an_aws_account() as account:
        tenant = account.services.tenant(TENANT)
        stale_reading = stored(tenant.procedures, an_approved())
        for number, run in enumerate([*order, *again]):
            tenant.procedures.record(a_result(f"run-{run}", stale_reading, succeeded=run % 2 == 0))
            if number == decided_after:
                fresh = counted(tenant, stale_reading)
                pinned = pin(fresh, PERSON, pinned=True, now=NOW).procedure
                assert pinned is not None
                assert tenant.procedures.save(pinned)
                assert not tenant.procedures.save(pinned)
        assert _tally(counted(tenant, stale_reading)) == (6, 3)
        assert counted(tenant, stale_reading).pinned
