"""The report of a night: counts of what its steps left, words, scores, ids; and what is measured of it."""

import json

import pytest
from agent_memory.domain.keys import plan_key, result_key, slice_key
from agent_memory.domain.lifecycle import (
    Action,
    Done,
    Plan,
    PlanSlice,
    SliceResult,
    TenantPlan,
    TenantSlice,
    latest_first,
)
from agent_memory.domain.night_report import (
    NO_GROUNDING,
    NO_GUARDRAIL,
    NightReport,
    composed,
    lines,
    measured,
    notes_on,
    report_key,
    report_text_key,
    write_report,
)
from agent_memory.domain.quality import gate
from support.builders import AGENT, NOW
from support.nights import NIGHT, HeldFiles, a_night, a_ticket
from support.regressions import a_case, a_score

CASE = a_case()


def did(files: HeldFiles, room: str, tenant_id: str, *done: tuple[Action, str], name: str = "1", **counts: int) -> None:
    """One slice of a room and what came of it."""
    outcomes = [
        Done(agent_id=AGENT, run_id=f"r-{n}", action=action, decision=decision)
        for n, (action, decision) in enumerate(done)
    ]
    files.put(slice_key(NIGHT, room, tenant_id, name), PlanSlice(tenant_id=tenant_id, name=name))
    result = SliceResult(tenant_id=tenant_id, step=room, name=name, done=tuple(outcomes), counts=counts)
    files.put(result_key(NIGHT, room, tenant_id, name), result)


def a_whole_night() -> HeldFiles:
    files = HeldFiles()
    plan = Plan(
        run=a_night(),
        tenants=(
            TenantPlan(tenant_id="acme", counts={"merge": 3, "groups": 1, "prune": 2, "move_date": 4}, removed=5),
            TenantPlan(tenant_id="globex", removed=40, total=100, limit=20.0, held="blast_radius"),
        ),
        facts_due=1,
    )
    files.put(plan_key(NIGHT), plan)
    did(files, "look", "acme", looked=9)
    did(
        files,
        "merge",
        "acme",
        (Action.MERGE, "created"),
        (Action.MERGE, "merged"),
        (Action.COLLAPSE, "survived"),
        (Action.COLLAPSE, "collapsed"),
        (Action.FLAG, "flagged"),
        (Action.MERGE, "gone"),
    )
    did(files, "prune", "acme", (Action.PRUNE, "removed"), (Action.EVICT, "removed"), (Action.PRUNE, "kept"))
    did(files, "expire", "acme", (Action.EXPIRE, "archived"), (Action.EXPIRE, "failed"))
    quality = gate("acme", NIGHT, [a_score(CASE, 0.9)], [a_score(CASE, 0.85)], now=NOW)
    files.put(slice_key(NIGHT, "quality", "acme", "gate"), quality)
    return files


def reported(files: HeldFiles, **changes: object) -> NightReport:
    return composed(a_ticket(quality="pass", **changes), files, notes=(), now=NOW + 60)


def test_everything_the_steps_left_is_counted_once_under_its_word() -> None:
    report = reported(a_whole_night())
    assert report.totals == {
        "processed": 9,
        "merged": 2,
        "created": 1,
        "pruned": 2,
        "archived": 1,
        "kept": 2,
        "flagged": 1,
        "restored": 0,
        "failed": 1,
    }
    acme, globex = report.tenants
    assert (acme.planned["prune"], acme.done["merged"], acme.quality) == (2, 2, "PASS")
    assert (globex.held, globex.removed, globex.limit, globex.quality) == ("blast_radius", 40, 20.0, None)


def test_a_night_that_held_a_tenant_back_says_so() -> None:
    assert reported(a_whole_night()).ended == "held"


def test_a_slice_without_a_result_is_named_as_unfinished_and_the_night_as_failed() -> None:
    files = a_whole_night()
    files.put(slice_key(NIGHT, "prune", "acme", "2"), PlanSlice(tenant_id="acme", name="2"))
    report = reported(files)
    assert (report.ended, report.unfinished) == ("failed", {"prune": 1})
    assert measured(report)["SlicesUnfinished"] == 1
    assert "not finished: 1 of prune" in "\n".join(lines(report))


def test_what_a_rollback_brought_back_is_counted_as_restored() -> None:
    files = a_whole_night()
    files.put(slice_key(NIGHT, "rollback", "acme", "all"), TenantSlice(tenant_id="acme"))
    restored = [(Action.PRUNE, "restored"), (Action.MERGE, "restored"), (Action.PRUNE, "present")]
    did(files, "rollback", "acme", *restored, name="all")
    report = composed(a_ticket(quality="fail"), files, notes=(), now=NOW)
    assert (report.ended, report.totals["restored"], report.totals["kept"]) == ("rolled_back", 2, 3)


def test_the_gate_is_in_the_report_case_by_case_and_measured() -> None:
    files = a_whole_night()
    for tenant, before, after in (("globex", 0.9, 0.1), ("initech", None, None), ("umbrella", 0.2, 0.2)):
        scores = [] if before is None else [a_score(CASE, before)], [] if after is None else [a_score(CASE, after)]
        files.put(slice_key(NIGHT, "quality", tenant, "gate"), gate(tenant, NIGHT, *scores, now=NOW))
    report = reported(files)
    assert report.gates == {"PASS": 1, "FAIL": 1, "NOT_RUN": 1, "FAILED_BEFORE": 1}
    assert report.quality_delta == round((-0.05 - 0.8 + 0.0) / 3, 4)
    found = measured(report)
    names = ("QualityGatesFailed", "QualityGatesNotRun", "QualityGatesFailedBefore", "TenantsHeld", "MemoriesMerged")
    assert [found[name] for name in names] == [1, 1, 1, 1, 2]
    assert found["QualityDelta"] == report.quality_delta


def test_a_night_in_which_nothing_was_compared_measures_no_delta() -> None:
    assert "QualityDelta" not in measured(composed(a_ticket(), HeldFiles(), notes=(), now=NOW))


def test_a_dry_run_is_reported_as_a_plan() -> None:
    files = a_whole_night()
    report = composed(a_ticket(a_night(dry_run=True)), files, notes=(), now=NOW)
    assert (report.ended, report.unfinished) == ("planned", {})


def test_the_report_is_kept_for_programs_and_for_people() -> None:
    files = a_whole_night()
    report = write_report(a_ticket(quality="pass"), files, notes=("no guardrail",), now=NOW)
    assert files.get(report_key(NIGHT), NightReport) == report
    text = files.objects[report_text_key(NIGHT)]
    for line in (
        f"night {NIGHT}: held, reported 2027-01-15T08:00:00Z",
        "quality gate: PASS, mean delta -0.050",
        "note: no guardrail",
        "tenant acme",
        "  planned: 1 groups, 3 merge, 4 move_date, 2 prune",
        "    move-a-booking: baseline 0.900, after 0.850, delta -0.050, minimum 0.7: PASS",
        "  held back (blast_radius): 40 would go; at most 20 of 100 may",
    ):
        assert line in text.splitlines()
    assert json.loads(files.objects[report_key(NIGHT)])["totals"]["merged"] == 2


def test_what_the_settings_leave_out_is_noted() -> None:
    assert "summariseModelId" in notes_on(model="", guardrail="")[0]
    assert "guardrailId" in notes_on(model="m", guardrail="")[0]
    assert notes_on(model="m", guardrail="g") == ()


@pytest.mark.parametrize(
    ("counts", "notes", "said"),
    [
        ({"grounding_by_rules_only": 1}, (), (NO_GROUNDING,)),
        ({"grounding_checked": 1}, (), ()),
        ({"grounding_by_rules_only": 1}, (NO_GUARDRAIL,), (NO_GUARDRAIL,)),
    ],
)
def test_a_guardrail_that_does_not_look_at_grounding_is_noted(
    counts: dict[str, int], notes: tuple[str, ...], said: tuple[str, ...]
) -> None:
    files = HeldFiles()
    result = SliceResult(tenant_id="acme", step="merge", name="0001", counts=counts)
    files.put(result_key(NIGHT, "merge", "acme", "0001"), result)
    assert composed(a_ticket(), files, notes=notes, now=NOW).notes == said


def test_facts_and_procedures_are_in_the_totals() -> None:
    files = HeldFiles()
    for room, words in {"facts": ("withdrawn", "withdrawing", "expired"), "procedures": ("flagged",)}.items():
        done = tuple(
            Done(agent_id="depots", run_id=f"x-{word}", action=Action.FLAG, decision=word, reason="expired")
            for word in words
        )
        files.put(
            result_key(NIGHT, room, "acme", "0001"), SliceResult(tenant_id="acme", step=room, name="0001", done=done)
        )
    totals = composed(a_ticket(), files, notes=(), now=NOW).totals
    assert {name: number for name, number in totals.items() if number} == {
        "archived": 1,
        "kept": 1,
        "pruned": 1,
        "flagged": 1,
    }


def test_runs_are_told_apart_from_other_names_and_the_tenth_of_a_night_is_later_than_the_second() -> None:
    names = ["n-2027-01-15", "n-2027-01-15.10", "n-2027-01-15.2", "n-2026-12-31", "odd", "n-2027-01-15.x", "../n"]
    assert latest_first(names) == ["n-2027-01-15.10", "n-2027-01-15.2", "n-2027-01-15", "n-2026-12-31"]
