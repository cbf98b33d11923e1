"""What a night did, as its report says it: counts, words, scores and ids; nothing that anybody said."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from agent_memory.contract import QUALITY_GATES_FAILED, QUALITY_GATES_FAILED_BEFORE, QUALITY_GATES_NOT_RUN
from agent_memory.domain.keys import night_prefix, plan_key, room_prefix
from agent_memory.domain.lifecycle import ROOMS, LifecycleRun, NightTicket, Plan, SliceResult, TenantPlan
from agent_memory.domain.lifecycle_ports import NightFiles
from agent_memory.domain.models import Model
from agent_memory.domain.night import unfinished, verdict
from agent_memory.domain.night_quality import gates
from agent_memory.domain.procedure_flagging import ROOM as PROCEDURES
from agent_memory.domain.quality import PLACES, CaseResult, TenantQuality, Verdict
from agent_memory.domain.recalled import iso

TOTALS: Final = ("processed", "merged", "created", "pruned", "archived", "kept", "flagged", "restored", "failed")
# Decisions of the steps that are not words of the report themselves. What was gone already is nothing that was done.
_COUNTED_AS: Final = {
    "removed": "pruned",
    "collapsed": "merged",
    "survived": "kept",
    "present": "kept",
    # Facts: withdrawn they wait, archived, for the Knowledge Base to forget them.
    "withdrawn": "archived",
    "withdrawing": "kept",
    "expired": "pruned",
}
NO_GUARDRAIL: Final = "no guardrail is named (guardrailId): summaries were held against their sources by rules alone"
NO_GROUNDING: Final = "the guardrail has no grounding check: summaries were held against their sources by rules alone"


class TenantReport(Model):
    """One tenant's part. *planned*: memories by planned action. *done*: by what came of them (TOTALS).

    *held*: why nothing was merged or removed. *quality*: the gate's verdict; None when the tenant was not touched.
    """

    tenant_id: str
    planned: Mapping[str, int] = {}
    removed: int = 0
    facts: int = 0
    total: int | None = None
    limit: float = 0.0
    held: str | None = None
    done: Mapping[str, int] = {}
    quality: Verdict | None = None
    cases: tuple[CaseResult, ...] = ()


class NightReport(Model):
    """Object `lifecycle/<run>/report.json`. *ended*: planned, completed, held, failed, rolled_back. *at*: epoch
    seconds. *unfinished*: slices without a result, by room.

    *quality*: the worst verdict in lower case, `unchanged` when nothing was touched. *quality_delta*: mean change of
    the scores. *gates*: tenants by verdict. *notes*: what the settings leave out.
    """

    run: LifecycleRun
    ended: str
    at: int
    totals: Mapping[str, int] = {}
    facts_due: int = 0
    unfinished: Mapping[str, int] = {}
    quality: str
    quality_delta: float | None = None
    gates: Mapping[str, int] = {}
    tenants: tuple[TenantReport, ...] = ()
    notes: tuple[str, ...] = ()


def report_key(run_id: str) -> str:
    """S3 key of a run's report; report_text_key: the same for people."""
    return f"{night_prefix(run_id)}report.json"


def report_text_key(run_id: str) -> str:
    """S3 key of a run's report as text."""
    return f"{night_prefix(run_id)}report.txt"


def write_report(ticket: NightTicket, files: NightFiles, *, notes: Iterable[str], now: int) -> NightReport:
    """Compose the report of a run from what its steps left, and keep it. Doing it again replaces it."""
    report = composed(ticket, files, notes=notes, now=now)
    files.put(report_key(ticket.run.run_id), report)
    files.put_text(report_text_key(ticket.run.run_id), "\n".join(lines(report)) + "\n")
    return report


def composed(ticket: NightTicket, files: NightFiles, *, notes: Iterable[str], now: int) -> NightReport:
    """The report of a run."""
    run_id, notes = ticket.run.run_id, tuple(notes)
    plan = files.get(plan_key(run_id), Plan) or Plan(run=ticket.run)
    done = _done(files, run_id)
    asked = {one.tenant_id: one for one in gates(run_id, files)}
    planned = {one.tenant_id: one for one in plan.tenants}
    tenants = [_tenant(name, planned, done, asked) for name in sorted({*planned, *done, *asked})]
    totals: Counter[str] = Counter(dict.fromkeys(TOTALS, 0))
    for tenant in tenants:
        totals.update(tenant.done)
    return NightReport(
        run=ticket.run,
        ended=verdict(ticket, files),
        at=now,
        totals=dict(totals),
        facts_due=plan.facts_due,
        unfinished={} if ticket.run.dry_run else unfinished(ticket.run, files),
        quality=ticket.quality,
        quality_delta=_delta(asked.values()),
        gates=dict(Counter(one.verdict.value for one in asked.values())),
        tenants=tuple(tenants),
        notes=tuple(dict.fromkeys((*notes, *_grounding(files, run_id, told=NO_GUARDRAIL in notes)))),
    )


def _grounding(files: NightFiles, run_id: str, *, told: bool) -> tuple[str, ...]:
    """That a guardrail was asked which does not look at grounding."""
    merges = files.get_many(files.keys(room_prefix(run_id, "done/merge")), SliceResult)
    return (NO_GROUNDING,) if not told and any(one.counts.get("grounding_by_rules_only") for one in merges) else ()


def notes_on(*, model: str, guardrail: str) -> tuple[str, ...]:
    """What the deployment's settings leave out of every night."""
    if not model:
        return ("no model is named (summariseModelId): near-duplicates were collapsed, nothing was summarised",)
    if not guardrail:
        return (NO_GUARDRAIL,)
    return ()


def measured(report: NightReport) -> dict[str, float]:
    """What is measured of every night. A gate that did not run is counted as that, tenant by tenant."""
    counts: dict[str, float] = {f"Memories{name.capitalize()}": report.totals.get(name, 0) for name in TOTALS}
    counts |= {
        QUALITY_GATES_FAILED: report.gates.get(Verdict.FAIL.value, 0),
        QUALITY_GATES_NOT_RUN: report.gates.get(Verdict.NOT_RUN.value, 0),
        QUALITY_GATES_FAILED_BEFORE: report.gates.get(Verdict.FAILED_BEFORE.value, 0),
        "TenantsHeld": sum(tenant.held is not None for tenant in report.tenants),
        "SlicesUnfinished": sum(report.unfinished.values()),
    }
    return counts if report.quality_delta is None else {**counts, "QualityDelta": report.quality_delta}


def _done(files: NightFiles, run_id: str) -> dict[str, Counter[str]]:
    """What came of every memory, by tenant."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for room in (*ROOMS, PROCEDURES):
        for result in files.get_many(files.keys(room_prefix(run_id, f"done/{room}")), SliceResult):
            counts = found[result.tenant_id]
            counts["processed"] += result.counts.get("looked", 0)
            words = (_COUNTED_AS.get(done.decision, done.decision) for done in result.done)
            counts.update(word for word in words if word in TOTALS)
    return dict(found)


def _tenant(
    tenant_id: str,
    planned: Mapping[str, TenantPlan],
    done: Mapping[str, Counter[str]],
    asked: Mapping[str, TenantQuality],
) -> TenantReport:
    plan, quality = planned.get(tenant_id) or TenantPlan(tenant_id=tenant_id), asked.get(tenant_id)
    return TenantReport(
        tenant_id=tenant_id,
        planned=plan.counts,
        removed=plan.removed,
        facts=plan.facts,
        total=plan.total,
        limit=plan.limit,
        held=plan.held,
        done=dict(done.get(tenant_id, {})),
        quality=quality.verdict if quality else None,
        cases=quality.results if quality else (),
    )


def _delta(found: Iterable[TenantQuality]) -> float | None:
    deltas = [case.delta for quality in found for case in quality.results if case.delta is not None]
    return round(sum(deltas) / len(deltas), PLACES) if deltas else None


def lines(report: NightReport) -> Iterator[str]:
    """The report for people, line by line."""
    yield f"night {report.run.run_id}: {report.ended}, reported {iso(report.at)}"
    if not report.run.dry_run:
        yield f"quality gate: {report.quality.upper()}{_signed(', mean delta ', report.quality_delta)}"
    yield ", ".join(f"{report.totals.get(name, 0)} {name}" for name in TOTALS)
    if report.unfinished:
        yield f"not finished: {', '.join(f'{number} of {room}' for room, number in report.unfinished.items())}"
    yield from (f"note: {note}" for note in report.notes)
    for tenant in report.tenants:
        yield ""
        yield from _tenant_lines(tenant)


def _tenant_lines(tenant: TenantReport) -> Iterator[str]:
    yield f"tenant {tenant.tenant_id}"
    yield f"  planned: {_counted(tenant.planned)}"
    if tenant.held:
        yield f"  held back ({tenant.held}): {tenant.removed} would go{_facts(tenant)}; {_limit(tenant)}"
    yield f"  done: {_counted(tenant.done)}"
    if tenant.quality:
        yield f"  quality gate: {tenant.quality.value}"
    for case in tenant.cases:
        scores = f"baseline {_score(case.baseline)}, after {_score(case.after)}{_signed(', delta ', case.delta)}"
        reason = f" ({case.reason})" if case.reason else ""
        yield f"    {case.case_id}: {scores}, minimum {case.minimum:g}: {case.verdict.value}{reason}"


def _facts(tenant: TenantReport) -> str:
    return f", {tenant.facts} of them facts" if tenant.facts else ""


def _limit(tenant: TenantReport) -> str:
    if tenant.total is None:
        return "the decay settings changed"
    return f"at most {tenant.limit:.0f} of {tenant.total} may"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()) if number) or "nothing"


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _signed(before: str, value: float | None) -> str:
    return "" if value is None else f"{before}{value:+.3f}"
