"""The night from lock to end over an account: plan, examination, blast radius, removal, and what goes wrong in it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from agent_memory.domain import night
from agent_memory.domain.errors import AgentMemoryError, RefusedInputError, StoreBusyError
from agent_memory.domain.lifecycle import Action, PlanSlice, Reason, SliceResult
from agent_memory.domain.lifecycle_ports import LastNight
from agent_memory.domain.models import Episode, Outcome
from agent_memory.domain.retention import DAY_SECONDS
from agent_memory.wiring_lifecycle import night_services
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, NOW, TENANT, LambdaContext, a_retrieved_memory, an_episode
from support.lifecycle import STEPS, a_night_passes, an_old_episode, at, how_it_ended, keep_all, left, the_plan
from support.machines import TaskFailed

from lambdas.prune_memories.handler import handler as prune_memories

NIGHT = "n-2027-01-15"
FRESH = [f"fresh-{number}" for number in range(9)]


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account(dueShards="2") as account:
        at(account, NOW)
        yield account


def archived(account: AwsAccount, tenant_id: str = TENANT) -> int:
    return len(list(account.services.tenant(tenant_id).archive.of_night(NIGHT)))


def planned(account: AwsAccount, run_id: str = NIGHT) -> dict[str, tuple[Action, Reason]]:
    files = account.services.night_files
    slices = files.get_many(files.keys(f"lifecycle/{run_id}/plan/"), PlanSlice)
    items = [item for one in slices for item in (*one.items, *(i for group in one.groups for i in group.items))]
    return {item.run_id: (item.action, item.reason) for item in items}


def date_of(account: AwsAccount, run_id: str) -> int | None:
    episode = account.services.tenant(TENANT).episodes.get(AGENT, run_id)
    assert episode
    return episode.decays_at


def test_a_night_removes_what_faded_and_leaves_the_rest(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40), an_old_episode("fresh-1", 2))
    done = a_night_passes(account)
    assert (done.status, how_it_ended(done)) == ("SUCCEEDED", "completed")
    assert left(account) == {"fresh-1"}
    assert archived(account) == 1
    assert planned(account) == {"faded-1": (Action.PRUNE, Reason.LOW_RELEVANCE)}


def test_a_dry_run_changes_nothing_and_leaves_its_plan(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40), an_old_episode("early-2", 2))
    before = account.episodes()
    done = a_night_passes(account, dry_run=True)
    assert (done.status, how_it_ended(done)) == ("SUCCEEDED", "planned")
    assert (account.episodes(), archived(account)) == (before, 0)
    [tenant] = the_plan(account, NIGHT).tenants
    assert (tenant.tenant_id, tenant.counts, tenant.removed) == (TENANT, {"prune": 1}, 1)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert left(account) == {"early-2"}


def test_a_memory_that_was_read_meanwhile_gets_its_date_and_stays(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("read-1", 35))
    ledger = account.services.tenant(TENANT).ledger
    ledger.record_retrieval(context_id="c-1", items=[a_retrieved_memory("read-1")], at=NOW - 60, expires_at=NOW + 60)
    assert date_of(account, "read-1") == NOW - DAY_SECONDS
    a_night_passes(account)
    moved = date_of(account, "read-1")
    assert moved is not None
    assert NOW < moved < NOW + 60 * DAY_SECONDS
    # It is not looked at again before.
    at(account, NOW + DAY_SECONDS)
    assert "ExamineMemories" not in a_night_passes(account).inputs


def test_a_failed_run_goes_after_its_days_and_not_a_second_before(account: AwsAccount) -> None:
    on_time = an_old_episode("failed-1", 7, outcome=Outcome.FAILED, decays_at=NOW - 9)
    early = an_old_episode("failed-2", 7 - 1 / DAY_SECONDS, outcome=Outcome.FAILED, decays_at=NOW - 9)
    keep_all(account, on_time, early)
    a_night_passes(account)
    assert left(account) == {"failed-2"}
    assert date_of(account, "failed-2") == NOW + 1


def test_what_expires_soon_is_archived_before_ttl_takes_it_and_removed_if_ttl_is_late(account: AwsAccount) -> None:
    episode = an_old_episode("soon-1", 88)
    keep_all(account, episode, *(an_old_episode(run, 1) for run in FRESH))
    a_night_passes(account)
    assert (archived(account), "soon-1" in left(account)) == (1, True)
    assert date_of(account, "soon-1") == episode.expires_at
    at(account, NOW + DAY_SECONDS)
    assert "ExpireMemories" not in a_night_passes(account).inputs
    at(account, NOW + 3 * DAY_SECONDS)
    a_night_passes(account)
    assert "soon-1" not in left(account)
    assert list(account.services.tenant(TENANT).archive.of_night("n-2027-01-18"))


def test_a_pinned_memory_is_never_touched(account: AwsAccount) -> None:
    pinned = an_old_episode("pinned-1", 400, pinned=True, expires_at=None)
    keep_all(account, pinned)
    a_night_passes(account)
    assert left(account) == {"pinned-1"}
    assert date_of(account, "pinned-1") is None


def test_a_memory_that_is_pinned_between_plan_and_removal_stays(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40), an_old_episode("faded-2", 40))

    def pins_first(event: dict[str, object]) -> dict[str, object]:
        tenant = account.services.tenant(TENANT)
        tenant.episodes.pin(AGENT, "faded-1", pinned=True, expires_at=None, decays_at=None)
        return prune_memories(event, LambdaContext())

    done = a_night_passes(account, PruneMemories=pins_first)
    assert (how_it_ended(done), left(account)) == ("completed", {"faded-1"})


def test_a_memory_that_is_read_between_plan_and_removal_stays(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 35))

    def reads_first(event: dict[str, object]) -> dict[str, object]:
        items = [a_retrieved_memory("faded-1")]
        tenant = account.services.tenant(TENANT)
        tenant.ledger.record_retrieval(context_id="c-1", items=items, at=NOW, expires_at=NOW + 60)
        return prune_memories(event, LambdaContext())

    a_night_passes(account, PruneMemories=reads_first)
    assert left(account) == {"faded-1"}


def test_agents_on_hold_are_left_alone(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40), an_old_episode("faded-2", 40, agent_id="other-bot"))
    notes = account.services.tenant(TENANT).agent_notes
    notes.hold(AGENT, now=NOW)
    a_night_passes(account)
    assert left(account) == {"faded-1"}
    assert planned(account)["faded-1"] == (Action.KEEP, Reason.ON_HOLD)
    assert notes.unhold(AGENT)
    at(account, NOW + DAY_SECONDS)
    a_night_passes(account)
    assert left(account) == set()


def test_what_expires_on_hold_is_archived_because_ttl_knows_no_holds(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("soon-1", 88))
    account.services.tenant(TENANT).agent_notes.hold("*", now=NOW)
    a_night_passes(account)
    assert (archived(account), left(account)) == (1, {"soon-1"})
    at(account, NOW + 3 * DAY_SECONDS)
    a_night_passes(account)
    assert left(account) == {"soon-1"}


def test_beyond_the_cap_the_least_relevant_go_and_the_pinned_stay(account: AwsAccount) -> None:
    settings_change(account, max_episodes_per_agent=3)
    old = [an_old_episode(f"run-{days}", days, decays_at=NOW + 9 * DAY_SECONDS) for days in (1, 2, 3, 4, 5)]
    keep_all(account, *old, an_old_episode("pinned-6", 30, pinned=True, expires_at=None, decays_at=None))
    done = a_night_passes(account)
    assert how_it_ended(done) == "completed"
    assert left(account) == {"run-1", "run-2", "pinned-6"}
    assert planned(account)["run-5"] == (Action.EVICT, Reason.OVER_THE_CAP)
    # Nobody stored anything since: nobody looks.
    at(account, NOW + DAY_SECONDS)
    assert "ExamineMemories" not in a_night_passes(account).inputs


def test_near_duplicates_of_an_agent_that_stored_are_planned_to_become_one(account: AwsAccount) -> None:
    twins = [an_old_episode(f"twin-{n}", n, task="Job", digest="Job done", alike=1) for n in (1, 2)]
    of_another = an_old_episode("twin-3", 3, task="Job", digest="Job done", alike=1, user_ref="u-" + "0" * 32)
    keep_all(account, *twins, of_another)
    a_night_passes(account)
    assert planned(account) == dict.fromkeys(("twin-1", "twin-2"), (Action.COLLAPSE, Reason.NEAR_DUPLICATE))


def test_an_archive_that_can_not_be_written_keeps_the_memory(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40))
    tenant = account.services.tenant(TENANT)

    def refuses(*_: object, **__: object) -> str:
        raise StoreBusyError("s3:PutObject failed (SlowDown)")

    tenant.archive.put = refuses  # type: ignore[method-assign]  # the bucket is down
    failing = a_night_passes(account, PruneMemories=as_a_task(prune_memories))
    assert (failing.status, how_it_ended(failing), left(account)) == ("FAILED", "failed", {"faded-1"})
    del vars(tenant.archive)["put"]
    at(account, NOW + DAY_SECONDS)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert left(account) == set()


def as_a_task(handler: object) -> object:
    def task(event: dict[str, object]) -> object:
        try:
            return handler(event, LambdaContext())  # type: ignore[operator]  # a handler
        except StoreBusyError as error:
            raise TaskFailed(type(error).__name__) from error

    return task


def crowd(account: AwsAccount, *, faded: int, fresh: int, tenant_id: str = TENANT) -> None:
    for number in range(faded):
        keep_all(account, an_old_episode(f"faded-{number}", 40, tenant_id=tenant_id), stored=False)
    for number in range(fresh):
        episode = an_old_episode(f"fresh-{number}", 1, tenant_id=tenant_id, decays_at=NOW + DAY_SECONDS)
        keep_all(account, episode, stored=False)


def test_a_night_that_would_remove_too_much_of_a_tenant_leaves_it_alone_and_says_so(account: AwsAccount) -> None:
    crowd(account, faded=24, fresh=36)
    crowd(account, faded=1, fresh=1, tenant_id="other")
    done = a_night_passes(account)
    assert (done.status, how_it_ended(done)) == ("FAILED", "held")
    assert "Alarm" in done.states
    assert len(left(account)) == 60
    assert left(account, "other") == {"fresh-0"}
    plan = the_plan(account, NIGHT)
    [held] = [tenant for tenant in plan.tenants if tenant.held]
    assert (held.tenant_id, held.held, held.removed, held.total, held.limit) == (TENANT, "blast_radius", 24, 60, 12.0)


def test_what_a_person_approved_is_done_the_next_night_and_no_more_than_that(account: AwsAccount) -> None:
    crowd(account, faded=24, fresh=36)
    a_night_passes(account)
    approval = night.approve(NIGHT, night_services().doors, by="dana", now=NOW)
    assert approval.removed == {TENANT: 24}
    at(account, NOW + DAY_SECONDS // 2)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert len(left(account)) == 36


def test_twelve_of_sixty_may_go_unasked(account: AwsAccount) -> None:
    crowd(account, faded=12, fresh=48)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert len(left(account)) == 48


def test_tenants_with_few_memories_are_not_held_to_the_blast_radius(account: AwsAccount) -> None:
    crowd(account, faded=20, fresh=20)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert len(left(account)) == 20


def test_of_a_tenant_that_is_held_what_expires_is_archived_all_the_same(account: AwsAccount) -> None:
    crowd(account, faded=24, fresh=36)
    keep_all(account, an_old_episode("soon-1", 88), stored=False)
    a_night_passes(account)
    assert archived(account) == 1
    assert "soon-1" in left(account)


def test_a_plan_that_was_not_held_or_is_not_there_can_not_be_approved(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40))
    a_night_passes(account)
    doors = night_services().doors
    with pytest.raises(RefusedInputError, match="not held"):
        night.approve(NIGHT, doors, by="dana", now=NOW)
    with pytest.raises(RefusedInputError, match="no plan"):
        night.approve("n-2026-01-01", doors, by="dana", now=NOW)
    with pytest.raises(RefusedInputError, match="older"):
        night.approve(NIGHT, doors, by="dana", now=NOW + 8 * DAY_SECONDS)


def settings_change(account: AwsAccount, **changes: object) -> None:
    object.__setattr__(account.services, "settings", account.services.settings.model_copy(update=changes))
    for rules in ("decay_rules", "retention_rules"):
        vars(account.services).pop(rules, None)


def test_changed_decay_settings_wait_for_a_person_and_write_nothing_before(account: AwsAccount) -> None:
    keep_all(account, an_episode(run_id="young-1", ended_at=NOW - 20 * DAY_SECONDS, decays_at=NOW + 14 * DAY_SECONDS))
    assert how_it_ended(a_night_passes(account)) == "completed"
    settings_change(account, prune_days=20)
    at(account, NOW + DAY_SECONDS)
    before = account.episodes()
    waiting = a_night_passes(account)
    assert (waiting.status, how_it_ended(waiting), account.episodes()) == ("FAILED", "held", before)
    plan = the_plan(account, "n-2027-01-16")
    assert [(tenant.held, tenant.removed) for tenant in plan.tenants] == [("changed_settings", 1)]
    night.approve("n-2027-01-16", night_services().doors, by="dana", now=NOW + DAY_SECONDS)
    at(account, NOW + 2 * DAY_SECONDS)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert left(account) == set()
    last = night_services().desk.last()
    assert last
    assert last.settings_hash == night_services().settings_hash


def test_dates_are_rewritten_in_bounded_slices_night_after_night(
    account: AwsAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [f"run-{number}" for number in range(6)]
    keep_all(account, *(an_episode(run_id=run, decays_at=NOW + 34 * DAY_SECONDS) for run in runs), stored=False)
    a_night_passes(account)
    settings_change(account, prune_days=20)
    at(account, NOW + DAY_SECONDS)
    a_night_passes(account)
    night.approve("n-2027-01-16", night_services().doors, by="dana", now=NOW + DAY_SECONDS)
    monkeypatch.setattr("agent_memory.domain.planning.REWRITTEN_A_NIGHT", 2)
    index = type(night_services().due_index)
    page = index.page

    def small(self: object, *arguments: object, **words: object) -> object:
        found = page(self, *arguments, **words)  # type: ignore[arg-type]  # passed on
        if len(found.keys) < 2:
            return found
        key = found.keys[0]
        held = account.services.tenant(TENANT).episodes.get(key.place, key.entry)
        assert held
        raw = next(item for item in account.episodes() if item["run_id"]["S"] == key.entry)
        after = {"agent_id": raw["agent_id"]["S"], "run_id": key.entry, "due_shard": raw["due_shard"]["S"]}
        return found._replace(keys=found.keys[:1], after={**after, "decays_at": held.decays_at})

    monkeypatch.setattr(index, "page", small)
    moved = []
    for days in range(2, 8):
        at(account, NOW + days * DAY_SECONDS)
        assert how_it_ended(a_night_passes(account)) == "completed"
        moved.append(sum((date_of(account, run) or 0) < NOW + 20 * DAY_SECONDS for run in runs))
        last = night_services().desk.last()
        assert last
        if last.rewriting is None:
            break
    assert moved[0] < moved[-1] == 6
    assert last.settings_hash == night_services().settings_hash


def test_two_nights_at_once_one_works_and_the_other_ends_well(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40))
    desk = night_services().desk
    assert desk.take("another", night=NIGHT, now=NOW, until=NOW + 4500)
    done = a_night_passes(account)
    assert (done.status, done.states[-1], left(account)) == ("SUCCEEDED", "Busy", {"faded-1"})
    assert not desk.release("e-1")


def test_a_lock_that_nobody_gave_back_runs_out(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40))
    assert night_services().desk.take("killed", night=NIGHT, now=NOW, until=NOW + 4500)
    at(account, NOW + 4501)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert left(account) == set()


def test_a_second_run_of_a_night_is_named_and_counted(account: AwsAccount) -> None:
    first, second = a_night_passes(account), a_night_passes(account)
    assert (how_it_ended(first), how_it_ended(second)) == ("completed", "completed")
    # The walk's executions have one name, which is one owner: another one counts.
    desk = night_services().desk
    assert [desk.take(owner, night=NIGHT, now=NOW, until=NOW - 1) for owner in ("b", "b", "c")] == [
        (2, NOW), (2, NOW), (3, NOW),
    ]  # fmt: skip


def test_an_execution_that_is_stopped_half_way_loses_nothing_and_the_next_night_ends_it(account: AwsAccount) -> None:
    crowd(account, faded=9, fresh=60)
    killed = iter(range(3))

    def dies(event: dict[str, object]) -> dict[str, object]:
        files = night_services().own.night_files
        part = files.get(str(event["key"]), PlanSlice)
        assert part
        files.put(str(event["key"]), part.model_copy(update={"items": part.items[:4]}))
        prune_memories(event, LambdaContext())
        files.put(str(event["key"]), part)
        next(killed)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        a_night_passes(account, PruneMemories=dies)
    assert len(left(account)) == 65
    at(account, NOW + DAY_SECONDS)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert len(left(account)) == 60
    tenant = account.services.tenant(TENANT)
    kept = {
        tenant.archive.get(key).snapshot.place[1] for n in tenant.archive.nights() for key in tenant.archive.of_night(n)
    }
    assert kept == {f"faded-{number}" for number in range(9)}


def test_a_night_ends_completed_only_when_every_slice_has_its_result(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40))
    done = a_night_passes(account, PruneMemories=lambda event: {})
    assert (done.status, how_it_ended(done)) == ("FAILED", "failed")
    assert night_services().desk.last() is None


def test_what_one_tenant_says_is_in_no_slice(account: AwsAccount) -> None:
    secret = "The gate code is 4711"
    keep_all(account, an_old_episode("faded-1", 40, task=secret, digest=secret, user_ref="u-" + "a" * 32))
    done = a_night_passes(account)
    s3, bucket = account.client("s3"), account.settings.archive_bucket
    listed = s3.list_objects_v2(Bucket=bucket, Prefix="lifecycle/")["Contents"]
    bodies = [s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read().decode() for found in listed]
    assert bodies
    for text in (*bodies, str(done.inputs)):
        assert "4711" not in text
        assert "u-aaaa" not in text


def test_an_approval_is_used_up_by_the_night_that_does_it(account: AwsAccount) -> None:
    crowd(account, faded=24, fresh=76)
    a_night_passes(account)
    night.approve(NIGHT, night_services().doors, by="dana", now=NOW)
    at(account, NOW + DAY_SECONDS)
    assert how_it_ended(a_night_passes(account)) == "completed"
    late = NOW + 2 * DAY_SECONDS
    more = [an_old_episode(f"later-{n}", 40, agent_id=f"z-{n}") for n in range(24)]
    keep_all(account, *more, stored=False)
    at(account, late)
    assert how_it_ended(a_night_passes(account)) == "held"
    assert {one.run_id for one in more} <= left(account)


def test_what_a_shorter_ttl_lets_expire_soon_expires_then_and_only_when_a_person_agreed(account: AwsAccount) -> None:
    dates = {"ended_at": NOW - 28 * DAY_SECONDS, "created_at": NOW - 28 * DAY_SECONDS, "access_count": 50}
    keep_all(
        account, an_episode(run_id="r-1", **dates, expires_at=NOW + 62 * DAY_SECONDS, decays_at=NOW + 2 * DAY_SECONDS)
    )
    assert how_it_ended(a_night_passes(account)) == "completed"
    settings_change(account, memory_ttl_days=30)
    at(account, NOW + DAY_SECONDS)
    assert how_it_ended(a_night_passes(account)) == "held"
    assert expiry_of(account, "r-1") == NOW + 62 * DAY_SECONDS
    night.approve("n-2027-01-16", night_services().doors, by="dana", now=NOW + DAY_SECONDS)
    at(account, NOW + 2 * DAY_SECONDS - 3_600)
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert (expiry_of(account, "r-1"), date_of(account, "r-1")) == (NOW + 2 * DAY_SECONDS,) * 2
    assert list(account.services.tenant(TENANT).archive.of_night("n-2027-01-17"))


def expiry_of(account: AwsAccount, run_id: str) -> int | None:
    episode = account.services.tenant(TENANT).episodes.get(AGENT, run_id)
    assert episode
    return episode.expires_at


@pytest.mark.parametrize("step", ["ExamineMemories", "PruneMemories"])
def test_settings_that_change_while_a_night_runs_remove_nothing_and_wait_for_a_person(
    account: AwsAccount, step: str
) -> None:
    keep_all(account, an_old_episode("faded-1", 40))

    def deployed(event: dict[str, Any]) -> dict[str, Any]:
        settings_change(account, prune_days=20)
        try:
            return dict(STEPS[step](event))
        except AgentMemoryError as error:
            raise TaskFailed(type(error).__name__) from error

    assert how_it_ended(a_night_passes(account, **{step: deployed})) == "failed"
    assert left(account) == {"faded-1"}


def test_rewriting_that_stopped_at_a_date_that_is_past_goes_on_from_what_is_not_due(account: AwsAccount) -> None:
    place = {"agent_id": f"{TENANT}#{AGENT}", "run_id": "gone", "due_shard": "1", "decays_at": NOW - DAY_SECONDS}
    services = night_services()
    services.desk.complete(
        LastNight(
            run_id="n-2027-01-01",
            now=NOW - 14 * DAY_SECONDS,
            settings_hash="before",
            rewriting=services.settings_hash,
            rewritten={"shard": 1, "after": place},
        )
    )
    asked = []
    page = services.due_index.page

    def seen(source: str, shard: str, **words: Any) -> Any:
        asked.append((source, shard, words["begin"], words["after"]))
        return page(source, shard, **words)  # type: ignore[arg-type]  # passed on

    vars(services)["due_index"] = SimpleNamespace(page=seen)
    with patch("lambdas.decay.handler.night_services", lambda: services):
        assert how_it_ended(a_night_passes(account)) == "completed"
    # DynamoDB refuses a query that begins before its own range; the emulators do not.
    begun = [(source, shard, after) for source, shard, begin, after in asked if begin]
    assert begun[0] == ("episodes", "1", None)
    assert [source for source, *_ in begun[1:]] == ["facts", "facts"]


def test_what_can_not_be_read_is_archived_as_it_lies_before_ttl_takes_it(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("odd-1", 88), an_old_episode("faded-2", 40))
    key = {"agent_id": {"S": f"{TENANT}#{AGENT}"}, "run_id": {"S": "odd-1"}}
    account.client("dynamodb").update_item(
        TableName=account.settings.episodes_table, Key=key, UpdateExpression="REMOVE ended_at"
    )
    assert how_it_ended(a_night_passes(account)) == "completed"
    assert left(account) == {"odd-1"}
    archive = account.services.tenant(TENANT).archive
    assert [archive.get(one).reason for one in archive.of_memory("episodic", (AGENT, "odd-1"))] == ["unreadable"]


def test_what_a_try_removed_that_could_not_tell_is_counted_as_removed(account: AwsAccount) -> None:
    keep_all(account, an_old_episode("faded-1", 40), an_old_episode("faded-2", 40))

    def twice(event: dict[str, Any]) -> dict[str, Any]:
        prune_memories(event, LambdaContext())
        return dict(prune_memories(event, LambdaContext()))

    a_night_passes(account, PruneMemories=twice)
    files = account.services.night_files
    [result] = files.get_many(files.keys(f"lifecycle/{NIGHT}/done/prune/"), SliceResult)
    assert result.counts == {"removed": 2}


def test_evictions_beyond_what_the_very_agent_stored_count(account: AwsAccount) -> None:
    settings_change(account, max_episodes_per_agent=5)
    for agent, stored in (("a-1", 2), ("b-1", 8)):
        old = [fresh_one(n, agent, NOW - 3 * DAY_SECONDS) for n in range(10 - stored)]
        keep_all(account, *old, *(fresh_one(n + 10, agent, NOW) for n in range(stored)))
    services = night_services()
    services.desk.complete(
        LastNight(run_id="n-2027-01-14", now=NOW - DAY_SECONDS, settings_hash=services.settings_hash)
    )
    a_night_passes(account, dry_run=True)
    [tenant] = the_plan(account, NIGHT).tenants
    assert (tenant.counts["evict"], tenant.removed) == (10, 3)


def fresh_one(number: int, agent: str, created: int) -> Episode:
    dates = {"created_at": created, "ended_at": created, "expires_at": NOW + 80 * DAY_SECONDS}
    words = {"task": f"Job {agent} {number}", "digest": f"Job {agent} {number}"}
    return an_episode(run_id=f"r-{number}", agent_id=agent, **dates, **words, decays_at=NOW + 30 * DAY_SECONDS)


def test_every_memory_that_is_judged_has_its_line_in_the_audit(
    account: AwsAccount, caplog: pytest.LogCaptureFixture
) -> None:
    keep_all(account, an_old_episode("faded-1", 40), an_old_episode("read-2", 40, access_count=50))
    a_night_passes(account)
    lines = [vars(record) for record in caplog.records if record.message == "score"]
    assert {line["memory_id"]: line["planned"] for line in lines} == {
        f"{AGENT}/faded-1": "prune",
        f"{AGENT}/read-2": "move_date",
    }
    assert set(planned(account)) == {"faded-1"}
