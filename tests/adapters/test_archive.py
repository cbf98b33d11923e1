"""The archive on S3, and the shelf of episodes that it is filled from and emptied to."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.aws.archive import S3Archive
from agent_memory.aws.episode_shelf import DynamoEpisodeShelf
from agent_memory.domain.archive import ArchiveError, Lease, Snapshot, keep, put_away
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.models import EpisodeKind
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, RUN, TENANT, a_vector, an_episode

NIGHT = "n-2027-01-15"
PLACE = (AGENT, RUN)


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@pytest.fixture
def shelf(account: AwsAccount) -> DynamoEpisodeShelf:
    return account.services.tenant(TENANT).episode_shelf


@pytest.fixture
def archive(account: AwsAccount) -> S3Archive:
    return account.services.tenant(TENANT).archive


def snapshot_of(shelf: DynamoEpisodeShelf, run_id: str = RUN) -> Snapshot:
    snapshot = shelf.snapshot((AGENT, run_id))
    assert snapshot is not None
    return snapshot


def test_what_is_archived_comes_back_byte_for_byte(
    account: AwsAccount, shelf: DynamoEpisodeShelf, archive: S3Archive
) -> None:
    shelf.put(an_episode(user_ref="u-1", task="Zoë’s café \U0001f600 \u2028", confidence=0.1 + 0.2))
    before = account.episodes()
    removed, kept = put_away(PLACE, shelf, archive, night=NIGHT, reason="low_relevance", now=NOW)
    assert (removed, account.episodes()) == ("removed", [])
    assert kept is not None
    assert shelf.put_back(archive.get(kept.key).snapshot) == "restored"
    assert account.episodes() == before
    assert [view.run_id for view in shelf.views(AGENT, now=NOW)] == [RUN]


def test_archiving_again_changes_nothing(account: AwsAccount, shelf: DynamoEpisodeShelf, archive: S3Archive) -> None:
    shelf.put(an_episode())
    first = keep(snapshot_of(shelf), archive, night=NIGHT, reason="low_relevance", now=NOW)
    again = keep(snapshot_of(shelf), archive, night=NIGHT, reason="low_relevance", now=NOW + 60)
    assert again == first
    assert list(archive.of_night(NIGHT)) == [first.key]


def test_two_states_of_a_memory_are_both_kept(shelf: DynamoEpisodeShelf, archive: S3Archive) -> None:
    shelf.put(an_episode())
    early = keep(snapshot_of(shelf), archive, night="n-2027-01-14", reason="low_relevance", now=NOW - DAY)
    shelf.pin(AGENT, RUN, pinned=False, expires_at=NOW + DAY, decays_at=NOW)
    late = keep(snapshot_of(shelf), archive, night=NIGHT, reason="low_relevance", now=NOW)
    assert list(archive.of_memory("episodic", PLACE)) == [late.key, early.key]
    assert archive.nights() == [NIGHT, "n-2027-01-14"]


def test_the_tenth_run_of_a_night_is_later_than_the_second(shelf: DynamoEpisodeShelf, archive: S3Archive) -> None:
    shelf.put(an_episode())
    for night in (f"{NIGHT}.2", f"{NIGHT}.10", NIGHT):
        keep(snapshot_of(shelf), archive, night=night, reason="low_relevance", now=NOW)
    assert archive.nights() == [f"{NIGHT}.10", f"{NIGHT}.2", NIGHT]


def test_no_key_of_the_archive_shows_an_id(shelf: DynamoEpisodeShelf, archive: S3Archive) -> None:
    shelf.put(an_episode(run_id="anna@example.com"))
    kept = keep(snapshot_of(shelf, "anna@example.com"), archive, night=NIGHT, reason="expired", now=NOW)
    assert "anna" not in kept.key


@pytest.mark.parametrize(
    "change",
    [
        {"access_count": 1},
        {"task": "Another task."},
        {"merged_into": "m-1"},
        {"use_count": 3},
        {"task_vector": a_vector(5)},
        {"expires_at": NOW + DAY},
    ],
)
def test_what_changed_since_it_was_archived_stays(
    account: AwsAccount, shelf: DynamoEpisodeShelf, archive: S3Archive, change: dict[str, Any]
) -> None:
    shelf.put(an_episode())
    snapshot = snapshot_of(shelf)
    keep(snapshot, archive, night=NIGHT, reason="low_relevance", now=NOW)
    account.client("dynamodb").put_item(
        TableName=account.settings.episodes_table, Item=shelf._item(an_episode(**change))
    )
    assert shelf.remove(snapshot) == "changed"
    assert len(account.episodes()) == 1


def test_what_was_pinned_meanwhile_stays(shelf: DynamoEpisodeShelf, archive: S3Archive) -> None:
    shelf.put(an_episode())
    snapshot = snapshot_of(shelf)
    shelf.pin(AGENT, RUN, pinned=True, expires_at=None, decays_at=None)
    assert shelf.remove(snapshot) == "pinned"
    assert put_away(PLACE, shelf, archive, night=NIGHT, reason="low_relevance", now=NOW)[0] == "pinned"
    assert shelf.get(AGENT, RUN) is not None


def test_removing_twice_is_harmless(shelf: DynamoEpisodeShelf, archive: S3Archive) -> None:
    shelf.put(an_episode())
    snapshot = snapshot_of(shelf)
    assert [shelf.remove(snapshot), shelf.remove(snapshot)] == ["removed", "gone"]
    assert put_away(PLACE, shelf, archive, night=NIGHT, reason="low_relevance", now=NOW) == ("gone", None)


def test_a_copy_that_is_damaged_removes_nothing(
    account: AwsAccount, shelf: DynamoEpisodeShelf, archive: S3Archive
) -> None:
    shelf.put(an_episode())
    key = archive.put(snapshot_of(shelf), night=NIGHT, reason="low_relevance", at=NOW)
    s3, bucket = account.client("s3"), account.settings.archive_bucket
    whole = gzip.decompress(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    for body in (
        b"",
        whole,
        gzip.compress(whole[:-40]),
        gzip.compress(whole.replace(b"Friday", b"Monday")),
        gzip.compress(b"[" * 100_000),
    ):
        s3.put_object(Bucket=bucket, Key=key, Body=body)
        with pytest.raises(ArchiveError):
            put_away(PLACE, shelf, archive, night=NIGHT, reason="low_relevance", now=NOW)
    s3.delete_object(Bucket=bucket, Key=key)
    with pytest.raises(ArchiveError):
        archive.get(key)
    assert len(account.episodes()) == 1


def test_the_archive_of_another_tenant_is_out_of_reach(
    account: AwsAccount, shelf: DynamoEpisodeShelf, archive: S3Archive
) -> None:
    shelf.put(an_episode())
    snapshot = snapshot_of(shelf)
    key = archive.put(snapshot, night=NIGHT, reason="low_relevance", at=NOW)
    other = account.services.tenant("contoso")
    with pytest.raises(CrossTenantError):
        other.archive.get(key)
    with pytest.raises(CrossTenantError):
        other.archive.put(snapshot, night=NIGHT, reason="low_relevance", at=NOW)
    with pytest.raises(CrossTenantError):
        other.episode_shelf.put_back(snapshot)
    with pytest.raises(CrossTenantError):
        other.episode_shelf.put_back(snapshot.model_copy(update={"tenant_id": "contoso"}))
    # A copy that was moved under another tenant's prefix.
    s3, bucket = account.client("s3"), account.settings.archive_bucket
    stolen = key.replace(f"/{TENANT}/", "/contoso/")
    s3.put_object(Bucket=bucket, Key=stolen, Body=s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    with pytest.raises(CrossTenantError):
        other.archive.get(stolen)
    assert list(other.archive.of_night(NIGHT)) == [stolen]


def test_a_lease_gives_new_dates_and_takes_the_marks_of_the_night_off(shelf: DynamoEpisodeShelf) -> None:
    shelf.put(an_episode(decays_at=NOW, expires_at=NOW + DAY, merged_into="m-1", review="ungrounded"))
    snapshot = snapshot_of(shelf)
    shelf.remove(snapshot)
    lease = Lease(at=NOW, kept_until=NOW + 30 * DAY, expires_at=NOW + 33 * DAY)
    assert shelf.put_back(snapshot, lease) == "restored"
    back = shelf.get(AGENT, RUN)
    assert back is not None
    assert (back.kept_until, back.decays_at, back.expires_at) == (NOW + 30 * DAY, NOW + 30 * DAY, NOW + 33 * DAY)
    assert (back.merged_into, back.review) == (None, None)
    assert shelf.put_back(snapshot, lease) == "present"


@pytest.mark.parametrize("entry", ["u-1", "*"])
def test_what_was_erased_does_not_come_back(account: AwsAccount, shelf: DynamoEpisodeShelf, entry: str) -> None:
    shelf.put(an_episode(user_ref="u-1", ended_at=NOW - 60))
    snapshot = snapshot_of(shelf)
    shelf.remove(snapshot)
    account.erase(TENANT, entry, before=NOW)
    assert shelf.put_back(snapshot) == "erased"
    assert account.episodes() == []


def test_a_summary_goes_with_the_oldest_of_its_sources_when_that_was_erased(
    account: AwsAccount, shelf: DynamoEpisodeShelf
) -> None:
    summary = an_episode(
        run_id="m-1", kind=EpisodeKind.SUMMARY, user_ref="u-1", ended_at=NOW, oldest_source_at=NOW - 9 * DAY
    )
    shelf.put(summary)
    snapshot = snapshot_of(shelf, "m-1")
    shelf.remove(snapshot)
    account.erase(TENANT, "u-1", before=NOW - 5 * DAY)
    assert shelf.put_back(snapshot) == "erased"


def test_a_merge_is_written_with_the_marks_of_all_its_sources_or_not_at_all(shelf: DynamoEpisodeShelf) -> None:
    sources = [an_episode(run_id=f"r-{i}") for i in range(3)]
    for one in sources:
        shelf.put(one)
    summary = an_episode(run_id="m-1", kind=EpisodeKind.SUMMARY, sources=("r-0", "r-1", "r-2"))
    shelf.pin(AGENT, "r-2", pinned=True, expires_at=None, decays_at=None)
    assert shelf.merge(summary, sources) == "changed"
    assert shelf.get(AGENT, "m-1") is None
    shelf.pin(AGENT, "r-2", pinned=False, expires_at=NOW + DAY, decays_at=NOW)
    assert shelf.merge(summary, sources) == "stored"
    assert shelf.merge(summary, sources) == "duplicate"
    marked = [shelf.get(AGENT, one.run_id) for one in sources]
    assert [one.merged_into for one in marked if one] == ["m-1"] * 3
    assert shelf.unmark((AGENT, "r-0"), "m-2") is False
    assert shelf.unmark((AGENT, "r-0"), "m-1") is True
    # Whoever was brought back since can go into the summary that already stands for it.
    assert shelf.merge(summary, sources) == "duplicate"
    again = shelf.get(AGENT, "r-0")
    assert again is not None
    assert again.merged_into == "m-1"


def test_a_source_that_was_read_meanwhile_is_not_merged(account: AwsAccount, shelf: DynamoEpisodeShelf) -> None:
    sources = [an_episode(run_id=f"r-{i}") for i in range(2)]
    for one in sources:
        shelf.put(one)
    account.client("dynamodb").update_item(
        TableName=account.settings.episodes_table,
        Key=shelf._key(AGENT, "r-1"),
        UpdateExpression="ADD access_count :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )
    assert shelf.merge(an_episode(run_id="m-1", kind=EpisodeKind.SUMMARY), sources) == "changed"


def test_a_merge_of_what_was_erased_is_not_written(account: AwsAccount, shelf: DynamoEpisodeShelf) -> None:
    sources = [an_episode(run_id=f"r-{i}", user_ref="u-1") for i in range(2)]
    for one in sources:
        shelf.put(one)
    account.erase(TENANT, "u-1", before=NOW)
    assert shelf.merge(an_episode(run_id="m-1", user_ref="u-1", oldest_source_at=NOW - 60), sources) == "erased"
    assert shelf.get(AGENT, "m-1") is None


def test_the_survivor_of_near_duplicates_lists_them(shelf: DynamoEpisodeShelf) -> None:
    best, twin = an_episode(run_id="r-1", access_count=2), an_episode(run_id="r-2")
    shelf.put(best)
    shelf.put(twin)
    survivor = best.model_copy(update={"sources": ("r-2",), "kept_until": NOW + 9 * DAY, "decays_at": NOW + 9 * DAY})
    assert shelf.collapse(survivor, best, [twin]) == "stored"
    kept, marked = shelf.get(AGENT, "r-1"), shelf.get(AGENT, "r-2")
    assert kept is not None
    assert (kept.sources, kept.kept_until, kept.task) == (("r-2",), NOW + 9 * DAY, best.task)
    assert marked is not None
    assert marked.merged_into == "r-1"
    assert shelf.collapse(survivor, best, [twin]) != "stored"


def test_a_refused_merge_leaves_its_sources_alone_for_a_while(shelf: DynamoEpisodeShelf) -> None:
    shelf.put(an_episode())
    held = {"review": "ungrounded", "kept_until": NOW + 30 * DAY, "decays_at": NOW + 30 * DAY}
    assert shelf.hold_for_review(PLACE, **held) is True  # type: ignore[arg-type]  # one of them is a text
    kept = shelf.get(AGENT, RUN)
    assert kept is not None
    assert {name: getattr(kept, name) for name in held} == held
    shelf.pin(AGENT, RUN, pinned=True, expires_at=None, decays_at=None)
    assert shelf.hold_for_review(PLACE, review="x", kept_until=NOW, decays_at=NOW) is False
    assert shelf.hold_for_review((AGENT, "gone"), review="x", kept_until=NOW, decays_at=NOW) is False


def test_what_the_archive_holds_names_no_user_outside_its_item(
    account: AwsAccount, shelf: DynamoEpisodeShelf, archive: S3Archive
) -> None:
    shelf.put(an_episode(user_ref="u-1"))
    key = archive.put(snapshot_of(shelf), night=NIGHT, reason="expired", at=NOW)
    body = account.client("s3").get_object(Bucket=account.settings.archive_bucket, Key=key)
    assert body["Metadata"] == {}
    content = json.loads(gzip.decompress(body["Body"].read()))
    assert content["snapshot"]["user_refs"] == ["u-1"]
