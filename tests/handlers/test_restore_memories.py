"""What a night removed comes back: one memory, or all of a run, and no night takes it at once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain.archive import put_away
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.examining import doubles, evicted, judged
from agent_memory.domain.keys import result_key, slice_key
from agent_memory.domain.lifecycle import Action, Reason, SliceResult, TenantSlice
from agent_memory.domain.restoring import restore_memory, restore_run
from agent_memory.wiring_merging import merge_services
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, TENANT, LambdaContext
from support.detectors import KnownWords
from support.embedders import HashedEmbedder
from support.merges import an_old_episode, merged_by, merged_without_a_model, planned, runs_left
from support.nights import NIGHT, a_night

from lambdas.restore_memories.handler import handler


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = HashedEmbedder()
        vars(account.services)["detector"] = KnownWords({})
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        yield account


def stored(account: AwsAccount, count: int = 3, **changes: Any) -> list[Any]:
    episodes = [an_old_episode(number, **changes) for number in range(count)]
    for episode in episodes:
        account.services.tenant(TENANT).episodes.put(episode)
    return episodes


def pruned(account: AwsAccount, *runs: str, reason: str = "low_relevance", now: int = NOW) -> None:
    tenant = account.services.tenant(TENANT)
    for run in runs:
        removed, _ = put_away((AGENT, run), tenant.episode_shelf, tenant.archive, night=NIGHT, reason=reason, now=now)
        assert removed == "removed"


def restored(memory_id: str, now: int = NOW + DAY) -> str:
    own = merge_services()
    return restore_memory(memory_id, own.restore_doors(TENANT), own.restore_rules, now=now).decision


def rolled_back(account: AwsAccount) -> SliceResult:
    run, files = a_night(), account.services.night_files
    key = slice_key(run.run_id, "rollback", TENANT, "all")
    files.put(key, TenantSlice(tenant_id=TENANT))
    answer = handler(json.loads(json.dumps({"run": run.model_dump(), "key": key})), LambdaContext())
    assert answer["decision"] == "restored"
    result = files.get(result_key(run.run_id, "rollback", TENANT, "all"), SliceResult)
    assert result is not None
    return result


def test_a_pruned_memory_comes_back_and_the_next_nights_leave_it_alone(account: AwsAccount) -> None:
    (episode,) = stored(account, 1)
    pruned(account, "r-0")
    assert restored(f"{AGENT}/r-0") == "restored"
    back = account.services.tenant(TENANT).episodes.get(AGENT, "r-0")
    assert back is not None
    assert (back.task, back.key_findings, back.ended_at) == (episode.task, episode.key_findings, episode.ended_at)
    assert back.decays_at == back.kept_until == NOW + 31 * DAY
    assert back.expires_at == NOW + 34 * DAY
    rules = merge_services().rules(a_night())
    for later in (1, 2, 20, 30):
        assert judged(back, rules, now=NOW + later * DAY).action is Action.MOVE_DATE
    assert judged(back, rules, now=NOW + 31 * DAY).reason is Reason.EXPIRES_SOON


def test_a_memory_that_never_left_or_never_was_is_said_to_be_so(account: AwsAccount) -> None:
    stored(account, 1)
    assert restored(f"{AGENT}/r-0") == "not_found"
    assert restored("f-" + "0" * 32) == "not_found"
    pruned(account, "r-0")
    assert [restored(f"{AGENT}/r-0"), restored(f"{AGENT}/r-0")] == ["restored", "present"]


@pytest.mark.parametrize("memory", ["", "r-0", "a/b/c", f"{AGENT}/", "../../x"])
def test_what_is_no_memory_is_refused_by_rule(account: AwsAccount, memory: str) -> None:
    with pytest.raises(RefusedInputError):
        restored(memory)


def test_after_the_days_of_undo_nothing_comes_back(account: AwsAccount) -> None:
    stored(account, 1)
    pruned(account, "r-0")
    assert restored(f"{AGENT}/r-0", now=NOW + 31 * DAY) == "too_old"
    assert restored(f"{AGENT}/r-0", now=NOW + 30 * DAY) == "restored"


@pytest.mark.parametrize("entry", ["u-1", "*"])
def test_a_restore_never_resurrects_what_was_erased(account: AwsAccount, entry: str) -> None:
    stored(account, 2, user_ref="u-1")
    pruned(account, "r-0", "r-1")
    account.erase(TENANT, entry, before=NOW)
    assert restored(f"{AGENT}/r-0") == "erased"
    assert rolled_back(account).counts == {"erased": 2}
    assert account.episodes() == []


def test_a_whole_night_is_taken_back(account: AwsAccount) -> None:
    episodes = stored(account, 3)
    account.services.tenant(TENANT).episodes.put(an_old_episode(7, agent_id=AGENT))
    before = {item["run_id"]["S"]: item["key_findings"] for item in account.episodes()}
    pruned(account, "r-7")
    merged_by(account, planned(episodes))
    assert len(runs_left(account)) == 1
    result = rolled_back(account)
    assert result.counts == {"restored": 4}
    # The summary went with what it stood for, and nothing else is left of the night.
    assert {item["run_id"]["S"]: item["key_findings"] for item in account.episodes()} == before
    assert not any("merged_into" in item for item in account.episodes())
    again = rolled_back(account)
    assert again.counts == {"restored": 4}
    assert {item["run_id"]["S"] for item in account.episodes()} == set(before)


def test_a_rollback_that_is_cut_short_goes_on_where_it_stopped(account: AwsAccount) -> None:
    stored(account, 3)
    pruned(account, "r-0", "r-1", "r-2")
    own, asked = merge_services(), []

    def late() -> bool:
        asked.append(1)
        return len(asked) == 2

    doors = own.restore_doors(TENANT, late)
    first = restore_run(TENANT, NIGHT, doors, own.restore_rules, now=NOW)
    assert (first.finished, len(first.done)) == (False, 1)
    rest = restore_run(TENANT, NIGHT, doors, own.restore_rules, now=NOW, so_far=first)
    assert (rest.finished, rest.counts) == (True, {"restored": 3})
    assert runs_left(account) == ["r-0", "r-1", "r-2"]


def test_a_merge_that_broke_off_is_taken_back_too(account: AwsAccount) -> None:
    episodes = stored(account)
    shelf = account.services.tenant(TENANT).episode_shelf
    remove = shelf.remove
    shelf.remove = lambda snapshot: "pinned"  # type: ignore[method-assign,assignment]  # nothing can be removed
    merged_by(account, planned(episodes))
    shelf.remove = remove  # type: ignore[method-assign]
    assert len(runs_left(account)) == 4
    rolled_back(account)
    assert runs_left(account) == ["r-0", "r-1", "r-2"]
    assert not any("merged_into" in item for item in account.episodes())


def test_near_duplicates_come_back_beside_their_survivor(account: AwsAccount) -> None:
    episodes = [an_old_episode(number) for number in (0, 3)]
    for episode in episodes:
        account.services.tenant(TENANT).episodes.put(episode)
    merged_without_a_model(account, planned(episodes, Action.COLLAPSE))
    assert runs_left(account) == ["r-0"]
    rolled_back(account)
    assert runs_left(account) == ["r-0", "r-3"]


def test_a_twin_that_was_brought_back_is_not_collapsed_again_at_once(account: AwsAccount) -> None:
    episodes = [an_old_episode(number) for number in (0, 3)]
    for episode in episodes:
        account.services.tenant(TENANT).episodes.put(episode)
    merged_without_a_model(account, planned(episodes, Action.COLLAPSE))
    assert restored(f"{AGENT}/r-3", now=NOW) == "restored"
    both = [account.services.tenant(TENANT).episodes.get(AGENT, run) for run in ("r-0", "r-3")]
    rules = merge_services().rules(a_night())
    assert doubles([one for one in both if one], rules, now=NOW + DAY) == ()
    # Nor does the cap of its agent take it, low as its relevance is.
    assert [item.run_id for item in evicted([one for one in both if one], 2, rules, now=NOW + DAY)] == ["r-0"]
    part = planned(episodes, Action.COLLAPSE, Reason.NEAR_DUPLICATE).model_copy(update={"name": "0002"})
    merged_without_a_model(account, part)
    assert runs_left(account) == ["r-0", "r-3"]


def test_copies_of_what_only_expires_are_not_brought_back_by_a_rollback(account: AwsAccount) -> None:
    stored(account, 1)
    pruned(account, "r-0", reason="expires_soon")
    assert rolled_back(account).counts == {}
    assert account.episodes() == []
    # One by one they are.
    assert restored(f"{AGENT}/r-0") == "restored"


def test_one_damaged_copy_costs_itself_and_no_other(account: AwsAccount) -> None:
    stored(account, 3)
    pruned(account, "r-0", "r-1", "r-2")
    key = next(iter(account.services.tenant(TENANT).archive.of_night(NIGHT)))
    account.client("s3").put_object(Bucket=account.settings.archive_bucket, Key=key, Body=b"rubbish")
    assert rolled_back(account).counts == {"failed": 1, "restored": 2}
    assert len(runs_left(account)) == 2


def test_another_tenant_is_not_touched(account: AwsAccount) -> None:
    stored(account, 1)
    pruned(account, "r-0")
    own = merge_services()
    back = restore_run("contoso", NIGHT, own.restore_doors("contoso"), own.restore_rules, now=NOW)
    assert (back.finished, back.done) == (True, ())
    assert account.episodes() == []


def test_a_restored_source_goes_into_the_summary_that_stands_for_it_again(account: AwsAccount) -> None:
    episodes = stored(account)
    merged_by(account, planned(episodes))
    assert restored(f"{AGENT}/r-1") == "restored"
    assert len(runs_left(account)) == 2
    back = account.services.tenant(TENANT).episodes.get(AGENT, "r-1")
    assert back is not None
    assert back.merged_into is None


def test_a_memory_comes_back_from_a_whole_copy_when_a_later_one_is_damaged(account: AwsAccount) -> None:
    stored(account, 1)
    archive, shelf = account.services.tenant(TENANT).archive, account.services.tenant(TENANT).episode_shelf
    snapshot = shelf.snapshot((AGENT, "r-0"))
    assert snapshot
    archive.put(snapshot, night="n-2027-01-14", reason="low_relevance", at=NOW - DAY)
    pruned(account, "r-0")
    key = next(iter(archive.of_memory("episodic", (AGENT, "r-0"))))
    account.client("s3").put_object(Bucket=account.settings.archive_bucket, Key=key, Body=b"rubbish")
    assert restored(f"{AGENT}/r-0") == "restored"
    assert runs_left(account) == ["r-0"]


def test_a_memory_of_which_only_damaged_copies_are_left_is_said_to_have_failed(account: AwsAccount) -> None:
    stored(account, 1)
    pruned(account, "r-0")
    key = next(iter(account.services.tenant(TENANT).archive.of_night(NIGHT)))
    account.client("s3").put_object(Bucket=account.settings.archive_bucket, Key=key, Body=b"rubbish")
    assert restored(f"{AGENT}/r-0") == "failed"
