"""The quality gate as steps of the night: who is asked, who is taken back, and how it goes on when time is short."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from agent_memory.domain.errors import AccessRefusedError, ModelBusyError
from agent_memory.domain.keys import slice_key
from agent_memory.domain.lifecycle import NightTicket, TenantSlice
from agent_memory.domain.night_quality import NightGate, TenantGate, ask_after, ask_before, gates
from agent_memory.domain.quality import CaseScore, TenantQuality, Verdict
from agent_memory.domain.regressions import RegressionCase
from support.builders import DAY, NOW
from support.nights import NIGHT, HeldFiles, a_ticket
from support.regressions import a_case, a_score

Answer = float | Exception | None


class HeldRegressions:
    """Cases and askings of one tenant in memory."""

    def __init__(self, *cases: RegressionCase) -> None:
        self.held = list(cases)
        self.baselines: dict[str, tuple[CaseScore, ...]] = {}
        self.results: dict[str, TenantQuality] = {}

    def cases(self) -> list[RegressionCase]:
        return self.held

    def put(self, case: RegressionCase) -> None:
        self.held.append(case)

    def remove(self, case_id: str) -> bool:
        raise NotImplementedError

    def keep_baseline(self, night: str, scores: Sequence[CaseScore], *, expires_at: int) -> tuple[CaseScore, ...]:
        return self.baselines.setdefault(night, tuple(scores))

    def baseline(self, night: str) -> tuple[CaseScore, ...] | None:
        return self.baselines.get(night)

    def keep_result(self, quality: TenantQuality, *, expires_at: int) -> None:
        self.results[quality.night] = quality

    def result(self, night: str) -> TenantQuality | None:
        return self.results.get(night)

    def nights(self) -> list[str]:
        return sorted(self.results)


class Night:
    """A night in which these tenants have something to prune. *answers*: what each tenant's cases score now."""

    def __init__(self, tenants: Mapping[str, HeldRegressions], answers: Mapping[str, Answer]) -> None:
        self.files = HeldFiles()
        self.tenants = tenants
        self.answers = dict(answers)
        self.asked: list[str] = []
        self.late: Callable[[], bool] = lambda: False
        for tenant_id in tenants:
            self.files.put(slice_key(NIGHT, "prune", tenant_id, "1"), TenantSlice(tenant_id=tenant_id))

    def doors(self) -> NightGate:
        return NightGate(self.files, self._tenant, self.late, now=NOW, expires_at=NOW + DAY)

    def _tenant(self, tenant_id: str) -> TenantGate:
        def ask(cases: Sequence[RegressionCase]) -> tuple[CaseScore, ...]:
            self.asked.append(tenant_id)
            answer = self.answers.get(tenant_id, 0.9)
            if isinstance(answer, Exception):
                raise answer
            return tuple(a_score(case, answer) for case in cases)

        return TenantGate(self.tenants[tenant_id], ask)

    def before(self, ticket: NightTicket | None = None) -> NightTicket:
        return ask_before(ticket or a_ticket(), self.doors())

    def after(self, ticket: NightTicket | None = None) -> NightTicket:
        return ask_after(ticket or a_ticket(), self.doors())


def a_tenant() -> HeldRegressions:
    return HeldRegressions(a_case())


def test_a_tenant_that_got_worse_is_taken_back_and_the_others_keep_their_night() -> None:
    night = Night({"acme": a_tenant(), "globex": a_tenant()}, {})
    assert night.before().decision == "baselined"
    night.answers["globex"] = 0.3
    done = night.after()
    assert (done.decision, done.quality, done.rooms["rollback"]) == ("fail", "fail", "some")
    assert night.files.keys(done.rollback_prefix) == [slice_key(NIGHT, "rollback", "globex", "all")]
    assert {one.tenant_id: one.verdict for one in gates(NIGHT, night.files)} == {
        "acme": Verdict.PASS,
        "globex": Verdict.FAIL,
    }
    assert night.tenants["globex"].results[NIGHT].results[0].delta == -0.6


def test_a_night_that_harmed_nothing_passes() -> None:
    night = Night({"acme": a_tenant()}, {})
    night.before()
    done = night.after()
    assert (done.decision, done.quality, done.rooms["rollback"], done.work) == ("pass", "pass", "none", None)


def test_a_tenant_without_cases_has_not_run_and_is_not_taken_for_passed() -> None:
    night = Night({"acme": HeldRegressions()}, {})
    assert night.before().decision == "not_run"
    done = night.after()
    assert (done.decision, done.quality) == ("not_run", "not_run")
    mixed = Night({"acme": HeldRegressions(), "globex": a_tenant()}, {})
    mixed.before()
    assert mixed.after().quality == "not_run"


def test_a_case_that_failed_before_takes_nothing_back_and_is_not_called_passed() -> None:
    night = Night({"acme": a_tenant()}, {"acme": 0.4})
    night.before()
    done = night.after()
    assert (done.decision, done.quality, night.files.keys(done.rollback_prefix)) == ("pass", "failed_before", [])


def test_only_tenants_that_the_night_touches_are_asked() -> None:
    night = Night({"acme": a_tenant()}, {})
    night.files.put(slice_key(NIGHT, "look", "idle", "1"), TenantSlice(tenant_id="idle"))
    night.files.put(slice_key("n-2027-01-14", "prune", "yesterday", "1"), TenantSlice(tenant_id="yesterday"))
    night.before()
    assert night.asked == ["acme"]


def test_a_night_that_touches_nobody_has_nothing_to_ask_about() -> None:
    night = Night({}, {})
    assert night.before().decision == "not_run"
    done = night.after()
    assert (done.decision, done.quality) == ("pass", "unchanged")


def test_a_function_whose_time_runs_out_goes_on_where_it_was() -> None:
    tenants = {name: a_tenant() for name in ("a", "b", "c")}
    night = Night(tenants, {"b": 0.9})
    night.late = lambda: True
    ticket = a_ticket()
    decisions: list[str] = []
    while not decisions or decisions[-1] == "more":
        ticket = night.before(ticket)
        decisions.append(ticket.decision)
    assert decisions == ["more", "more", "baselined"]
    assert night.asked == ["a", "b", "c"]
    night.answers["a"] = 0.0
    decisions = []
    while not decisions or decisions[-1] == "more":
        ticket = night.after(ticket)
        decisions.append(ticket.decision)
    assert decisions == ["more", "more", "fail"]


def test_a_step_that_is_tried_again_keeps_the_first_baseline() -> None:
    night = Night({"acme": a_tenant()}, {})
    night.before()
    night.answers["acme"] = 0.1
    night.before()
    assert night.after().decision == "fail"


def test_a_model_that_is_busy_makes_the_step_be_tried_again() -> None:
    night = Night({"acme": a_tenant()}, {"acme": ModelBusyError("throttled")})
    with pytest.raises(ModelBusyError):
        night.before()


def test_one_tenants_defect_stops_no_other_and_is_no_pass() -> None:
    night = Night({"acme": a_tenant(), "globex": a_tenant()}, {"acme": AccessRefusedError("no")})
    night.before()
    done = night.after()
    assert done.quality == "not_run"
    verdicts = {one.tenant_id: (one.verdict, [r.reason for r in one.results]) for one in gates(NIGHT, night.files)}
    assert verdicts == {"acme": (Verdict.NOT_RUN, ["not_answered"]), "globex": (Verdict.PASS, [None])}
