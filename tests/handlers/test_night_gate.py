"""The gate and the report of a night as functions, on the real adapters."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain.keys import plan_key, result_key, slice_key
from agent_memory.domain.lifecycle import Action, Done, NightTicket, Plan, PlanSlice, SliceResult, TenantPlan
from agent_memory.domain.night_report import NightReport, report_key
from agent_memory.domain.recall import Recalled
from agent_memory.wiring_quality import asking
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, NOW, TENANT, LambdaContext
from support.nights import NIGHT, a_night, a_ticket
from support.procedures import a_procedure, an_approved, stored
from support.recalls import FixedEmbedder, an_episode_at, at_cosine
from support.regressions import a_case
from support.retrieval import a_knowledge_base

from lambdas.lifecycle_report.handler import handler as lifecycle_report
from lambdas.quality_check.handler import handler as quality_check


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = FixedEmbedder()
        a_knowledge_base(account)
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        yield account


@pytest.fixture
def night(account: AwsAccount) -> AwsAccount:
    """A night that means to prune the only memory of a tenant."""
    assert account.services.tenant(TENANT).episodes.put(an_episode_at(0.95)) == "stored"
    plan = Plan(run=a_night(), tenants=(TenantPlan(tenant_id=TENANT, counts={"prune": 1}, removed=1),))
    files = account.services.night_files
    files.put(plan_key(NIGHT), plan)
    files.put(slice_key(NIGHT, "prune", TENANT, "1"), PlanSlice(tenant_id=TENANT, name="1"))
    return account


def test_a_case_is_asked_of_the_tenant_s_own_procedures_too(account: AwsAccount) -> None:
    for tenant_id in (TENANT, "contoso"):
        approved = an_approved(a_procedure(tenant_id=tenant_id, title=tenant_id, task_vector=at_cosine(0.95)))
        stored(account.services.tenant(tenant_id).procedures, approved)
    seen: list[Recalled] = []
    asking(account.services, TENANT, saw=seen.append).scores([a_case()])
    assert [item.text.splitlines()[0] for found in seen for item in found.items] == [TENANT]


def step(action: str, ticket: NightTicket | None = None) -> NightTicket:
    event = {"action": action, "ticket": (ticket or a_ticket()).model_dump(mode="json")}
    return NightTicket.model_validate(json.loads(json.dumps(quality_check(event, LambdaContext()))))


def reported(ticket: NightTicket) -> dict[str, Any]:
    return dict(lifecycle_report({"action": "report", "ticket": ticket.model_dump(mode="json")}, LambdaContext()))


def pruned(account: AwsAccount) -> None:
    """What the prune step does, and the result that it leaves."""
    account.client("dynamodb").delete_item(
        TableName=account.settings.episodes_table,
        Key={"agent_id": {"S": f"{TENANT}#{AGENT}"}, "run_id": {"S": "r-1"}},
    )
    done = (Done(agent_id=AGENT, run_id="r-1", action=Action.PRUNE, decision="removed"),)
    result = SliceResult(tenant_id=TENANT, step="prune", name="1", done=done)
    account.services.night_files.put(result_key(NIGHT, "prune", TENANT, "1"), result)


def test_a_night_that_loses_what_a_case_needs_fails_the_gate_and_is_to_be_rolled_back(night: AwsAccount) -> None:
    own = night.services.tenant(TENANT).regressions
    own.put(a_case())
    assert step("baseline").decision == "baselined"
    pruned(night)
    done = step("check")
    assert (done.decision, done.quality, done.rooms["rollback"]) == ("fail", "fail", "some")
    assert night.services.night_files.keys(done.rollback_prefix) == [slice_key(NIGHT, "rollback", TENANT, "all")]
    kept = own.result(NIGHT)
    assert kept is not None
    assert [(r.baseline, r.after, r.delta, r.verdict.value) for r in kept.results] == [(1.0, 0.0, -1.0, "FAIL")]


def test_a_night_that_keeps_what_the_cases_need_passes(night: AwsAccount) -> None:
    night.services.tenant(TENANT).regressions.put(a_case())
    step("baseline")
    assert step("check").quality == "pass"


def test_the_gate_of_a_tenant_without_cases_has_not_run_and_that_is_measured(
    night: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    assert step("baseline").decision == "not_run"
    ticket = step("check")
    assert (ticket.decision, ticket.quality) == ("not_run", "not_run")
    pruned(night)
    capsys.readouterr()
    assert reported(ticket)["decision"] == "reported"
    printed = capsys.readouterr().out
    assert '"QualityGatesNotRun":[1.0]' in printed
    assert '"MemoriesPruned":[1.0]' in printed
    report = night.services.night_files.get(report_key(NIGHT), NightReport)
    assert report is not None
    assert (report.ended, report.quality, report.totals["pruned"]) == ("completed", "not_run", 1)


def test_a_step_whose_time_is_short_answers_that_there_is_more(
    night: AwsAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = PlanSlice(tenant_id="zeta", name="1")
    night.services.night_files.put(slice_key(NIGHT, "prune", "zeta", "1"), other)
    for tenant in (TENANT, "zeta"):
        night.services.tenant(tenant).regressions.put(a_case())
    monkeypatch.setattr(LambdaContext, "get_remaining_time_in_millis", lambda _: 1_000)
    first = step("baseline")
    assert (first.decision, first.work) == ("more", {"after": TENANT, "cases": True})
    assert step("baseline", first).decision == "baselined"


def test_nothing_that_a_case_or_a_memory_says_is_logged_or_kept_with_the_night(
    night: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    case = a_case(
        case_id="c-1", question="Where is the amber ledger?", criteria=("The amber ledger is in vault nine.",)
    )
    night.services.tenant(TENANT).regressions.put(case)
    step("baseline")
    ticket = step("check")
    reported(ticket)
    printed = capsys.readouterr().out
    s3, bucket = night.client("s3"), night.settings.archive_bucket
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert any(key.endswith("report.txt") for key in keys)
    stored = " ".join(s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys)
    for word in ("amber", "vault", "booking", "Booking"):
        assert word not in printed
        assert word not in stored
