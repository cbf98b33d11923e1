"""A quality gate that fails undoes the whole night: what it removed, and what it changed and left where it was."""

from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain.facts import FactState
from agent_memory.domain.keys import slice_key
from agent_memory.domain.lifecycle import TenantSlice
from agent_memory.domain.lifecycle_ports import Approval, LastNight
from agent_memory.domain.models import Outcome
from agent_memory.domain.night_report import NightReport, report_key
from agent_memory.domain.procedure_transitions import pin, retire
from agent_memory.domain.procedures import Procedure, ProcedureState, injectable
from agent_memory.wiring_lifecycle import night_services
from support.aws import AwsAccount, an_aws_account
from support.builders import DAY, NOW, TENANT, LambdaContext
from support.conversations import Said
from support.detectors import KnownWords
from support.fact_runs import DOMAIN, StandInKnowledge, SubjectEmbedder, facts_of, ingest, said_by
from support.lifecycle import an_old_episode as a_lone_one
from support.lifecycle import at, how_it_ended
from support.merges import an_answer, an_old_episode
from support.nights import NIGHT
from support.procedures import PERSON, RULES, a_procedure, an_approved, stored
from support.whole_nights import WORK, a_whole_night

from lambdas.lifecycle_report.handler import handler as lifecycle_report

REFUSED = an_answer(confidence=0.1)
# What a memory that comes back gets on purpose, so that the next night does not take it at once.
LEASE = frozenset({"kept_until", "decays_at", "due_shard", "expires_at"})
DATES = frozenset({"decays_at", "due_shard"})


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account(summariseModelId="scripted") as account:
        vars(account.services)["embedder"] = SubjectEmbedder("depot", "crane", "booking")
        vars(account.services)["detector"] = KnownWords({})
        vars(account.services)["knowledge"] = StandInKnowledge(account)
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        account.services.registry.note(TENANT, now=NOW)
        at(account, NOW)
        yield account


def a_failing_night(account: AwsAccount, *answers: Said, execution: str = "e-1", **tasks: Any) -> str:
    """A whole night whose gate says FAIL; how it ended."""

    def fails(event: dict[str, Any]) -> dict[str, Any]:
        ticket = event["ticket"]
        key = slice_key(NIGHT, "rollback", TENANT, "all")
        account.services.night_files.put(key, TenantSlice(tenant_id=TENANT))
        return {**ticket, "decision": "fail", "quality": "fail", "rooms": {**ticket["rooms"], "rollback": "some"}}

    def reports(event: dict[str, Any]) -> dict[str, Any]:
        return dict(lifecycle_report(event, LambdaContext()))

    done, _ = a_whole_night(
        account, *answers, execution=execution, **{"QualityCheck": fails, "Report": reports, **tasks}
    )
    return how_it_ended(done)


def episodes(account: AwsAccount, left_out: frozenset[str] = frozenset()) -> dict[str, dict[str, Any]]:
    rows = {f"{row['agent_id']['S']}/{row['run_id']['S']}": row for row in account.episodes()}
    return {key: {name: held for name, held in row.items() if name not in left_out} for key, row in rows.items()}


def keep(account: AwsAccount, *found: Any) -> None:
    tenant = account.services.tenant(TENANT)
    for episode in found:
        assert tenant.episodes.put(episode) == "stored"
        tenant.agent_notes.note_agent(episode.agent_id, now=NOW)
        account.services.stored.note(TENANT, episode.agent_id, now=NOW)


def an_unused_procedure(account: AwsAccount, **changes: object) -> Procedure:
    old = NOW - 61 * DAY
    return stored(
        account.services.tenant(TENANT).procedures, an_approved(a_procedure(last_used_at=old, **changes), now=old)
    )


def now_so(account: AwsAccount, procedure: Procedure) -> Procedure:
    found = account.services.tenant(TENANT).procedures.get(procedure.task_type, procedure.procedure_id)
    assert found is not None
    return found


def a_store_of_everything(account: AwsAccount) -> None:
    """What a night merges, collapses, prunes, removes as failed, flags, withdraws and expires."""
    merged = [an_old_episode(number) for number in range(3)]
    lone = a_lone_one("r-5", 60, agent_id="lone", digest="Quite another thing was done.")
    failed = a_lone_one("r-6", 10, agent_id="lone", outcome=Outcome.FAILED)
    twin = {"agent_id": "twins", "expires_at": NOW + 80 * DAY, "decays_at": NOW + 30 * DAY}
    fresh = {"created_at": NOW - 10 * DAY, "ended_at": NOW - 10 * DAY, "task_summary": "", "access_count": 2}
    twins = [an_old_episode(number, **twin, **fresh) for number in (0, 3)]
    keep(account, *merged, lone, failed, *twins)
    an_unused_procedure(account)
    at(account, NOW - 300 * DAY)
    said_by(account.services.tenant(TENANT), "The crane lifts 4 tonnes.", "f-1", "f-2", "f-3")
    ingest("i-1")
    at(account, NOW)


def test_a_failing_gate_leaves_the_store_as_it_was(account: AwsAccount) -> None:
    a_store_of_everything(account)
    tenant = account.services.tenant(TENANT)
    before, exact = episodes(account, LEASE), episodes(account)
    (fact,), (procedure,) = facts_of(tenant), tenant.procedures.offered()
    during: dict[str, Any] = {}

    def looked_at_first(event: dict[str, Any]) -> dict[str, Any]:
        during.update(episodes=episodes(account), facts=facts_of(tenant), procedure=now_so(account, procedure))
        return WORK["RestoreMemories"](event)

    assert a_failing_night(account, RestoreMemories=looked_at_first) == "rolled_back"
    # It had done everything that a night does.
    summary = next(key for key in during["episodes"] if "/m-" in key)
    assert len(during["episodes"]) == 2
    assert during["procedure"].state is ProcedureState.NEEDS_REVIEW
    assert during["facts"][0].state is FactState.RETIRED
    # And nothing of it is left.
    assert episodes(account, LEASE) == before
    survivor = next(key for key in during["episodes"] if key != summary)
    assert during["episodes"][survivor] != exact[survivor]
    # It never left, so it has its very dates too.
    assert episodes(account)[survivor] == exact[survivor]
    assert injectable(now_so(account, procedure), RULES)
    assert now_so(account, procedure).state is procedure.state
    (back,) = facts_of(tenant)
    assert (back.content, back.runs, back.state) == (fact.content, fact.runs, FactState.PROMOTED)


def test_what_was_flagged_is_offered_again_unless_somebody_decided_since(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    flagged, retired, pinned = (an_unused_procedure(account, steps=(f"Do {word}.",)) for word in ("a", "b", "c"))
    procedures = account.services.tenant(TENANT).procedures

    def decided_first(event: dict[str, Any]) -> dict[str, Any]:
        for verdict in (
            retire(now_so(account, retired), PERSON, now=NOW),
            pin(now_so(account, pinned), PERSON, pinned=True, now=NOW),
        ):
            assert verdict.procedure
            assert procedures.save(verdict.procedure)
        return WORK["RestoreMemories"](event)

    capsys.readouterr()
    assert a_failing_night(account, RestoreMemories=decided_first) == "rolled_back"
    states = [now_so(account, one).state for one in (flagged, retired, pinned)]
    assert states == [ProcedureState.APPROVED, ProcedureState.RETIRED, ProcedureState.APPROVED]
    last = now_so(account, flagged).history[-1]
    assert (last.what, last.why, last.kind) == ("given_back", NIGHT, "memory")
    printed = capsys.readouterr().out
    assert '"MemoriesRestored":[2.0]' in printed
    restored = {vars(record)["memory_id"] for record in caplog.records if vars(record).get("action") == "restore"}
    assert restored == {f"{one.task_type}/{one.procedure_id}" for one in (flagged, pinned)}
    report = account.services.night_files.get(report_key(NIGHT), NightReport)
    assert report is not None
    assert report.totals["restored"] == 2
    # For the days after which an unused one is flagged, it is left alone.
    at(account, NOW + DAY)
    a_whole_night(account, execution="e-2")
    assert now_so(account, flagged).state is ProcedureState.APPROVED
    at(account, NOW + 61 * DAY)
    a_whole_night(account, execution="e-3")
    assert now_so(account, flagged).state is ProcedureState.NEEDS_REVIEW


def test_the_mark_of_a_refused_merge_goes_too(account: AwsAccount) -> None:
    keep(account, *(an_old_episode(number) for number in range(3)))
    exact = episodes(account)
    marked: dict[str, Any] = {}

    def looked_at_first(event: dict[str, Any]) -> dict[str, Any]:
        marked.update(episodes(account))
        return WORK["RestoreMemories"](event)

    assert a_failing_night(account, REFUSED, RestoreMemories=looked_at_first) == "rolled_back"
    assert all("review" in row for row in marked.values())
    assert episodes(account) == exact


def test_a_survivor_that_was_read_meanwhile_keeps_its_reads(account: AwsAccount) -> None:
    fresh = {"created_at": NOW - 10 * DAY, "ended_at": NOW - 10 * DAY, "task_summary": "", "decays_at": NOW + 30 * DAY}
    keep(account, *(an_old_episode(number, access_count=2, **fresh) for number in (0, 3)))

    def read_first(event: dict[str, Any]) -> dict[str, Any]:
        (row,) = account.episodes()
        account.client("dynamodb").update_item(
            TableName=account.settings.episodes_table,
            Key={name: row[name] for name in ("agent_id", "run_id")},
            UpdateExpression="ADD access_count :one SET last_access_at = :now",
            ExpressionAttributeValues={":one": {"N": "1"}, ":now": {"N": str(NOW)}},
        )
        return WORK["RestoreMemories"](event)

    a_failing_night(account, RestoreMemories=read_first)
    counts = {row["run_id"]["S"]: int(row["access_count"]["N"]) for row in account.episodes()}
    assert sorted(counts.values()) == [2, 3]
    assert not any("sources" in row for row in account.episodes())


def test_settings_that_a_failing_night_applied_are_applied_again_and_shorten_nothing_meanwhile(
    account: AwsAccount,
) -> None:
    keep(account, an_old_episode(0, expires_at=NOW + 200 * DAY, ended_at=NOW - DAY, created_at=NOW - DAY))
    desk, services = night_services().desk, night_services()
    desk.complete(LastNight(run_id="n-2027-01-14", now=NOW - DAY, settings_hash="others"))
    desk.approve(
        Approval(run_id="n-2027-01-14", settings_hash=services.settings_hash, by="dana", at=NOW, expires_at=NOW + DAY)
    )
    exact = episodes(account, DATES)
    shortened: list[str] = []

    def looked_at_first(event: dict[str, Any]) -> dict[str, Any]:
        shortened.extend(row["expires_at"]["N"] for row in account.episodes())
        return WORK["RestoreMemories"](event)

    assert a_failing_night(account, RestoreMemories=looked_at_first) == "rolled_back"
    assert shortened == [str(NOW + 89 * DAY)]
    assert episodes(account, DATES) == exact
    last = desk.last()
    assert last is not None
    assert (last.settings_hash, last.rewriting) == ("others", services.settings_hash)
    at(account, NOW + DAY)
    done, _ = a_whole_night(account, execution="e-2")
    assert how_it_ended(done) == "completed"
    assert [row["expires_at"]["N"] for row in account.episodes()] == [str(NOW + 89 * DAY)]


KEY_FACT = "Depot K closes at 16:00."
FINDING = {
    "task": "The times of depot K were asked for.",
    "digest": "Depot K",
    "key_findings": (KEY_FACT,),
    "domain": DOMAIN,
    "confidence": 0.9,
}
TAUGHT = an_answer("Depot K closes at 16:00; the times of depot K were asked for.", key_facts=[KEY_FACT])


def test_what_a_merge_taught_is_unlearnt(account: AwsAccount) -> None:
    keep(account, *(an_old_episode(number, **FINDING) for number in range(3)))
    learnt: list[int] = []

    def looked_at_first(event: dict[str, Any]) -> dict[str, Any]:
        learnt.extend(len(fact.runs) for fact in facts_of(account.services.tenant(TENANT)))
        return WORK["RestoreMemories"](event)

    assert a_failing_night(account, TAUGHT, RestoreMemories=looked_at_first) == "rolled_back"
    assert learnt == [3]
    assert [row["fact_id"]["S"] for row in account.facts()] == ["~head"]


def test_a_fact_that_a_merge_made_believed_waits_again_and_what_it_contested_does_not(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    said_by(tenant, "Depot K closes at 18:00.", "x-1", "x-2", "x-3")
    said_by(tenant, KEY_FACT, "y-1", "y-2")
    before = {fact.content: (fact.state, fact.runs) for fact in facts_of(tenant)}
    keep(account, *(an_old_episode(number, **FINDING) for number in range(3)))
    during: dict[str, FactState] = {}

    def looked_at_first(event: dict[str, Any]) -> dict[str, Any]:
        during.update({fact.content: fact.state for fact in facts_of(tenant)})
        return WORK["RestoreMemories"](event)

    a_failing_night(account, TAUGHT, RestoreMemories=looked_at_first)
    assert during == {KEY_FACT: FactState.PROMOTED, "Depot K closes at 18:00.": FactState.SUPERSEDED}
    after = {fact.content: (fact.state, fact.runs) for fact in facts_of(tenant)}
    assert after == before
