"""Faults of the field in the night: expired leftovers, edges of retention, missed nights, keys, changed retention."""

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import pytest
from agent_memory.domain import night
from agent_memory.domain.decay import DecayRules, relevance
from agent_memory.domain.grouping import merge_groups, near_duplicates
from agent_memory.domain.lifecycle import PlanSlice, SliceResult
from agent_memory.domain.models import Outcome
from agent_memory.domain.retention import DAY_SECONDS
from agent_memory.wiring_lifecycle import night_services
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, RUN, TENANT, a_retrieved_memory, a_vector, an_episode
from support.lifecycle import a_night_passes, an_old_episode, at, how_it_ended, keep_all, left, the_plan

NIGHT_AT = 1_781_488_800  # 2026-06-15T02:00:00Z
NIGHT = "n-2026-06-15"


def days_before(days: float) -> int:
    return NIGHT_AT - round(days * DAY_SECONDS)


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        at(account, NIGHT_AT)
        yield account


def fresh(run_id: str, **changes: object) -> object:
    return an_episode(
        **{
            "run_id": run_id,
            "created_at": days_before(1),
            "ended_at": days_before(1),
            "expires_at": days_before(-89),
            "decays_at": days_before(-33),
            **changes,
        }
    )


@pytest.mark.case("ec-h01")
def test_what_expired_is_neither_merged_nor_counted_though_it_is_still_there(account: AwsAccount) -> None:
    same = {"task": "The gate code", "digest": "The gate code was changed"}
    due = {"ended_at": days_before(87), "created_at": days_before(87), "decays_at": days_before(3), **same}
    old, edge = (
        an_episode(run_id=run, **{**due, "expires_at": expiry})
        for run, expiry in (("old", NIGHT_AT - 3600), ("edge", NIGHT_AT))
    )
    new = fresh("new", **same, expires_at=NIGHT_AT + 3600 + 80 * DAY_SECONDS)
    none = fresh("none", **same, expires_at=None, decays_at=None, pinned=True)
    keep_all(account, old, edge, new, none)  # type: ignore[arg-type]  # episodes
    a_night_passes(account)
    files = account.services.night_files
    slices = files.get_many(files.keys(f"lifecycle/{NIGHT}/plan/"), PlanSlice)
    assert {item.run_id: item.reason.value for one in slices for item in one.items} == {
        "old": "expired",
        "edge": "expired",
    }
    assert [group for one in slices for group in one.groups] == []
    [tenant] = the_plan(account, NIGHT).tenants
    assert tenant.removed == 0
    assert left(account) == {"new", "none"}


@pytest.mark.case("ec-h04")
def test_a_failed_run_goes_at_the_second_its_days_are_over_and_one_without_a_date_is_kept_and_reported() -> None:
    ends = {"a": 1_780_279_199, "b": 1_780_279_200, "c": 1_780_279_201}
    with an_aws_account(failedRetentionDays="14") as account:
        at(account, NIGHT_AT)
        failed = {"outcome": Outcome.FAILED, "decays_at": days_before(1), "expires_at": days_before(-60)}
        keep_all(account, *(an_episode(run_id=run, ended_at=end, **failed) for run, end in ends.items()), stored=False)
        ahead = {"ended_at": NIGHT_AT + 7200, "created_at": NIGHT_AT + 7200}
        keep_all(account, *(an_episode(run_id=run, **{**failed, **ahead}) for run in ("d", "e")), stored=False)
        key = {"agent_id": {"S": f"{TENANT}#{AGENT}"}, "run_id": {"S": "e"}}
        account.client("dynamodb").update_item(
            TableName=account.settings.episodes_table, Key=key, UpdateExpression="REMOVE ended_at"
        )
        done = a_night_passes(account)
        assert how_it_ended(done) == "completed"
        # Documented: due from ended_at + failedRetentionDays on, that second included.
        assert left(account) == {"c", "d", "e"}
        assert unreadable(account) == 1


def unreadable(account: AwsAccount) -> int:
    files = account.services.night_files
    found = files.get_many(files.keys(f"lifecycle/{NIGHT}/done/look/"), SliceResult)
    return sum(one.counts.get("unreadable", 0) for one in found)


@pytest.mark.case("ec-h04")
def test_a_clock_ahead_makes_nobody_more_relevant_than_now() -> None:
    ahead = relevance(NIGHT_AT + 7200, 0, NIGHT_AT + 7200, DecayRules(), now=NIGHT_AT)
    assert ahead == relevance(NIGHT_AT, 0, None, DecayRules(), now=NIGHT_AT) == 0.75


@pytest.mark.case("ec-h06")
def test_after_missed_nights_the_next_one_covers_all_of_them_once_and_only_success_moves_the_watermark() -> None:
    with an_aws_account() as account:
        last = int(datetime(2026, 6, 12, 2, tzinfo=UTC).timestamp())
        at(account, last)
        assert how_it_ended(a_night_passes(account)) == "completed"
        faded = [
            an_old_episode(f"run-{day}", 0, created_at=due - 35 * DAY_SECONDS, ended_at=due - 35 * DAY_SECONDS,
                           decays_at=due, expires_at=due + 60 * DAY_SECONDS)
            for day, due in ((day, last + day * DAY_SECONDS - 3600) for day in (1, 2, 3))
        ]  # fmt: skip
        keep_all(account, *faded)
        at(account, NIGHT_AT)
        crashed = a_night_passes(account, PruneMemories=lambda event: {})
        assert (how_it_ended(crashed), len(left(account))) == ("failed", 3)
        watermark = night_services().desk.last()
        assert watermark
        assert watermark.now == last
        at(account, NIGHT_AT + 60)
        assert how_it_ended(a_night_passes(account)) == "completed"
        assert left(account) == set()
        tenant = account.services.tenant(TENANT)
        archived = [key for run in tenant.archive.nights() for key in tenant.archive.of_night(run)]
        assert len(archived) == 3


@pytest.mark.case("cf-h05")
def test_the_night_removes_the_very_item_that_recall_returns_and_access_counts(account: AwsAccount) -> None:
    keep_all(account, fresh("e-1"))  # type: ignore[arg-type]  # an episode
    tenant = account.services.tenant(TENANT)
    [view] = tenant.episodes.views(AGENT, now=NIGHT_AT)
    items = [a_retrieved_memory(view.run_id, view.agent_id)]
    tenant.ledger.record_retrieval(context_id="c-1", items=items, at=NIGHT_AT, expires_at=NIGHT_AT + 60)
    assert len(account.episodes()) == 1
    episode = tenant.episodes.get(AGENT, view.run_id)
    assert episode
    assert episode.access_count == 1
    at(account, NIGHT_AT + 60 * DAY_SECONDS)
    a_night_passes(account)
    assert account.episodes() == []


@pytest.mark.case("cf-h05")
def test_a_read_that_is_told_after_the_night_brings_nothing_back(account: AwsAccount) -> None:
    keep_all(account, an_episode(ended_at=days_before(40), decays_at=days_before(6), expires_at=days_before(-50)))
    a_night_passes(account)
    assert account.episodes() == []
    tenant = account.services.tenant(TENANT)
    items = [a_retrieved_memory(RUN)]
    tenant.ledger.record_retrieval(context_id="c-1", items=items, at=NIGHT_AT - 60, expires_at=NIGHT_AT + 60)
    run = ("another", "r-2")
    tenant.ledger.record_use(context_id="c-1", run=run, used=[items[0].memory_id])
    tenant.episode_dates.move(AGENT, RUN, seen=None, decays_at=NIGHT_AT, expires_at=NIGHT_AT)
    assert account.episodes() == []


def settings_change(account: AwsAccount, **changes: object) -> None:
    object.__setattr__(account.services, "settings", account.services.settings.model_copy(update=changes))
    vars(account.services).pop("retention_rules", None)


@pytest.mark.case("cf-h08")
def test_a_shorter_ttl_is_applied_by_an_approved_night_and_never_at_once() -> None:
    created = 1_778_032_800
    with an_aws_account() as account:
        at(account, NIGHT_AT - DAY_SECONDS)
        # Read again and again: only its expiry can take it.
        dates = {"created_at": created, "ended_at": created, "expires_at": 1_785_808_800, "access_count": 50}
        keep_all(account, an_episode(run_id="item", **dates, decays_at=NIGHT_AT + 60 * DAY_SECONDS))
        assert how_it_ended(a_night_passes(account)) == "completed"
        settings_change(account, memory_ttl_days=30)
        # Between the deployment and the night nothing expires.
        assert [view.run_id for view in account.services.tenant(TENANT).episodes.views(AGENT, now=NIGHT_AT)] == ["item"]
        at(account, NIGHT_AT)
        assert how_it_ended(a_night_passes(account)) == "held"
        assert left(account) == {"item"}
        night.approve(NIGHT, night_services().doors, by="dana", now=NIGHT_AT)
        at(account, NIGHT_AT + DAY_SECONDS)
        assert how_it_ended(a_night_passes(account)) == "completed"
        assert left(account) == set()
        assert list(account.services.tenant(TENANT).archive.of_night("n-2026-06-16"))


@pytest.mark.case("cf-h08")
def test_a_longer_ttl_touches_nothing_that_is_stored() -> None:
    with an_aws_account(memoryTtlDays="30") as account:
        at(account, NIGHT_AT)
        keep_all(account, fresh("item", expires_at=days_before(-29), decays_at=days_before(-26)))  # type: ignore[arg-type]  # an episode
        a_night_passes(account)
        settings_change(account, memory_ttl_days=90)
        at(account, NIGHT_AT + DAY_SECONDS)
        before = account.episodes()
        a_night_passes(account)
        night.approve("n-2026-06-16", night_services().doors, by="dana", now=NIGHT_AT + DAY_SECONDS)
        at(account, NIGHT_AT + 2 * DAY_SECONDS)
        assert how_it_ended(a_night_passes(account)) == "completed"
        assert account.episodes() == before


@pytest.mark.case("em-h01")
def test_a_vector_of_zeros_is_like_nothing_and_takes_no_other_memory_with_it() -> None:
    zero = np.zeros(8, dtype=np.float32)
    alike = {"task_vector": a_vector(0), "digest_vector": a_vector(1)}
    said = {"good": "Move a booking", "ok": "Cancel an order", "zero": "Find the depot"}
    texts = {run: {"task": text, "digest": f"{text}, which was done"} for run, text in said.items()}
    episodes = [
        an_episode(run_id="good", **alike, **texts["good"]),
        an_episode(run_id="ok", **alike, **texts["ok"]),
        an_episode(run_id="zero", task_vector=zero, digest_vector=zero, **texts["zero"]),
    ]
    with np.errstate(all="raise"):
        groups = merge_groups(episodes, batch_size=10)
        assert near_duplicates(episodes) == []
    assert [sorted(one.run_id for one in group) for group in groups] == [["good", "ok"]]
