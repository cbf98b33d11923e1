"""The stores of the night: due-index, the desk of nights, agents and holds, dates, the lifecycle's own objects."""

from collections.abc import Iterator

import pytest
from agent_memory.aws.due_index import DynamoDueIndex
from agent_memory.aws.nights import DynamoNightDesk
from agent_memory.domain.errors import CrossTenantError, UnreadableItemError
from agent_memory.domain.keys import agent_key, due_shard
from agent_memory.domain.lifecycle import Plan, TenantSlice
from agent_memory.domain.lifecycle_ports import Approval, LastNight
from agent_memory.wiring_lifecycle import night_services
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, RUN, TENANT, an_episode
from support.nights import NIGHT, a_night


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@pytest.fixture
def desk(account: AwsAccount) -> DynamoNightDesk:
    return night_services().desk


def test_due_keys_come_earliest_first_and_nothing_but_keys(account: AwsAccount) -> None:
    store = account.services.tenant(TENANT).episodes
    for run, due in (("later", NOW + 1), ("second", NOW), ("first", NOW - 5)):
        store.put(an_episode(run_id=run, decays_at=due))
    index: DynamoDueIndex = night_services().due_index
    found = [key for shard in range(4) for key in index.page("episodes", str(shard), upto=NOW, after=None).keys]
    assert {(key.tenant_id, key.place, key.entry) for key in found} == {
        (TENANT, AGENT, "first"),
        (TENANT, AGENT, "second"),
    }
    shard = due_shard(agent_key(TENANT, AGENT), "later", 4)
    assert [key.entry for key in index.page("episodes", shard, upto=NOW + 9, after=None, begin=NOW + 1).keys] == [
        "later"
    ]


def test_a_page_goes_on_after_the_key_that_ended_the_last(account: AwsAccount) -> None:
    store = account.services.tenant(TENANT).episodes
    for number in range(3):
        store.put(an_episode(run_id=f"r-{number}", decays_at=NOW - number))
    found = []
    for shard in range(4):
        after: dict[str, object] | None = None
        while True:
            page = night_services().due_index.page("episodes", str(shard), upto=NOW, after=after)
            if not page.keys:
                break
            key = page.keys[0]
            found.append(key.entry)
            item = next(one for one in account.episodes() if one["run_id"]["S"] == key.entry)
            names = {"agent_id": "S", "run_id": "S", "due_shard": "S"}
            after = {name: item[name][kind] for name, kind in names.items()} | {
                "decays_at": int(item["decays_at"]["N"])
            }
    assert sorted(found) == ["r-0", "r-1", "r-2"]


def test_one_owner_holds_the_lock_until_it_runs_out_or_is_given_back(desk: DynamoNightDesk) -> None:
    assert desk.take("a", night=NIGHT, now=NOW, until=NOW + 60) == (1, NOW)
    assert desk.take("a", night=NIGHT, now=NOW + 5, until=NOW + 65) == (1, NOW)
    assert desk.take("b", night=NIGHT, now=NOW + 60, until=NOW + 99) is None
    assert not desk.release("b")
    assert desk.release("a")
    assert desk.take("b", night=NIGHT, now=NOW + 61, until=NOW + 99) == (2, NOW + 61)
    assert desk.take("c", night="n-2027-01-16", now=NOW + 100, until=NOW + 160) == (1, NOW + 100)


def test_the_watermark_never_goes_back(desk: DynamoNightDesk) -> None:
    assert desk.last() is None
    desk.complete(LastNight(run_id="n-2", now=NOW, settings_hash="s"))
    desk.complete(LastNight(run_id="n-1", now=NOW - 1, settings_hash="s"))
    last = desk.last()
    assert last
    assert last.run_id == "n-2"


def test_how_far_dates_were_rewritten_is_kept(desk: DynamoNightDesk) -> None:
    place = {"shard": 2, "after": {"agent_id": "t#a", "run_id": "r", "due_shard": "2", "decays_at": NOW}}
    last = LastNight(run_id="n-2", now=NOW, settings_hash="old", rewriting="new", rewritten=place)
    desk.complete(last)
    assert desk.last() == last


def test_an_approval_counts_until_it_expires(desk: DynamoNightDesk) -> None:
    approval = Approval(run_id=NIGHT, settings_hash="s", removed={TENANT: 3}, by="dana", at=NOW, expires_at=NOW + DAY)
    desk.approve(approval)
    assert desk.approvals(now=NOW + DAY - 1) == [approval]
    assert desk.approvals(now=NOW + DAY) == []


def test_an_agent_that_stores_while_a_night_ends_is_looked_at_the_next_time(account: AwsAccount) -> None:
    stored = account.services.stored
    stored.note(TENANT, AGENT, now=NOW)
    stored.note("other", AGENT, now=NOW + 5)
    stored.clear(TENANT, AGENT, upto=NOW)
    stored.clear("other", AGENT, upto=NOW)
    stored.clear("unknown", AGENT, upto=NOW)
    assert stored.all() == {("other", AGENT): NOW + 5}


def test_agents_and_holds_are_kept_by_tenant(account: AwsAccount) -> None:
    notes = account.services.tenant(TENANT).agent_notes
    notes.note_agent(AGENT, now=NOW)
    notes.note_agent(AGENT, now=NOW + 1)
    notes.hold("*", now=NOW)
    assert (notes.agents(), notes.holds()) == ([AGENT], {"*"})
    other = account.services.tenant("other").agent_notes
    assert (other.agents(), other.holds()) == ([], frozenset())
    assert (notes.unhold("*"), notes.unhold("*")) == (True, False)
    with pytest.raises(CrossTenantError):
        notes.note_agent("a#b", now=NOW)


def test_a_date_moves_only_while_it_is_the_one_that_was_seen(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    tenant.episodes.put(an_episode(decays_at=NOW))
    dates = tenant.episode_dates
    expiry = NOW + 90 * DAY
    assert dates.move(AGENT, RUN, seen=NOW, decays_at=NOW + 9, expires_at=expiry)
    assert not dates.move(AGENT, RUN, seen=NOW, decays_at=NOW + 5, expires_at=expiry)
    assert not dates.move(AGENT, "gone", seen=NOW, decays_at=NOW + 5, expires_at=expiry)
    tenant.episodes.pin(AGENT, RUN, pinned=True, expires_at=None, decays_at=None)
    assert not dates.move(AGENT, RUN, seen=None, decays_at=NOW + 5, expires_at=expiry)
    assert len(account.episodes()) == 1


def test_counts_leave_out_what_expired_and_know_what_is_new(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    for run, created, expires in (("old", NOW - DAY, NOW), ("live", NOW, NOW + 1), ("new", NOW + 5, NOW + DAY)):
        tenant.episodes.put(an_episode(run_id=run, created_at=created, expires_at=expires))
    assert tenant.episode_dates.live(AGENT, now=NOW) == 2
    assert tenant.episode_dates.stored_since(AGENT, NOW) == 1


def test_files_of_nights_lie_under_their_own_prefix_only(account: AwsAccount) -> None:
    files = account.services.night_files
    files.put("lifecycle/n/rollback/t/all.json", TenantSlice(tenant_id="t"))
    assert files.get("lifecycle/n/rollback/t/all.json", TenantSlice) == TenantSlice(tenant_id="t")
    assert files.get("lifecycle/n/none.json", TenantSlice) is None
    with pytest.raises(UnreadableItemError):
        files.get("lifecycle/n/rollback/t/all.json", Plan)
    for key in ("archive/t/n/x", "lifecycle/../archive/t", "other"):
        with pytest.raises(CrossTenantError):
            files.put(key, Plan(run=a_night()))


def test_what_a_clock_that_was_ahead_left_behind_holds_up_nobody(desk: DynamoNightDesk) -> None:
    year = 365 * DAY
    assert desk.take("ahead", night="n-2028-01-15", now=NOW + year, until=NOW + year + 4_500)
    desk.complete(LastNight(run_id="n-2028-01-15", now=NOW + year, settings_hash="s"))
    assert desk.take("now", night=NIGHT, now=NOW, until=NOW + 4_500) == (1, NOW)
    desk.complete(LastNight(run_id=NIGHT, now=NOW, settings_hash="s"))
    last = desk.last()
    assert last
    assert last.run_id == NIGHT
