"""Faults of the field in what the night does: doubled nights, pages of what failed, approvals that a night outlives."""

from collections.abc import Iterator

import pytest
from agent_memory.domain import night
from agent_memory.domain.fact_review import ReviewDoors, pin, retire
from agent_memory.domain.keys import summary_id
from agent_memory.domain.lifecycle import SliceResult
from agent_memory.domain.models import Outcome
from agent_memory.wiring_lifecycle import night_services
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, TENANT, an_episode
from support.detectors import KnownWords
from support.embedders import HashedEmbedder
from support.fact_runs import DOMAIN, StandInKnowledge, SubjectEmbedder, facts_of, said_by
from support.lifecycle import at, how_it_ended
from support.merges import an_answer, an_old_episode, runs_left
from support.whole_nights import a_whole_night, merging

ANSWER = an_answer("Booking K7 could be moved to Friday and to Monday without a fee.")


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account(summariseModelId="scripted") as account:
        vars(account.services)["embedder"] = HashedEmbedder()
        vars(account.services)["detector"] = KnownWords({})
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        at(account, NOW)
        yield account


def stored(account: AwsAccount, *episodes: object) -> None:
    for episode in episodes:
        account.services.tenant(TENANT).episodes.put(episode)  # type: ignore[arg-type]  # episodes


def of_run(account: AwsAccount, run_id: str, room: str) -> list[SliceResult]:
    files = account.services.night_files
    return list(files.get_many(files.keys(f"lifecycle/{run_id}/done/{room}/"), SliceResult))


@pytest.mark.case("cd-h06")
def test_of_two_nights_at_once_one_works_and_each_pair_is_merged_once(account: AwsAccount) -> None:
    pairs = {"bot-a": ("r-0", "r-1"), "bot-b": ("r-3", "r-4")}
    for agent, runs in pairs.items():
        stored(account, *(an_old_episode(int(run[-1]), agent_id=agent) for run in runs))
    second: list[str] = []

    def delivered_again(event: dict[str, object]) -> dict[str, object]:
        """At 02:05 the scheduler delivers the same trigger once more, while the first is at work."""
        if not second:
            walked, asked = a_whole_night(account, ANSWER, execution="e-2")
            second.append(walked.states[-1])
            assert asked.texts == []
        return merging(event)

    done, model = a_whole_night(account, ANSWER, MergeMemories=delivered_again)
    assert (second, how_it_ended(done)) == (["Busy"], "completed")
    assert len(model.texts) == 2
    for agent, runs in pairs.items():
        assert runs_left(account, agent) == [summary_id((agent, run) for run in runs)]
    # The manual start at 02:27 runs, and finds nothing left to merge.
    again, asked = a_whole_night(account, ANSWER, execution="e-3")
    assert (how_it_ended(again), asked.texts) == ("completed", [])
    assert {agent: len(runs_left(account, agent)) for agent in pairs} == {"bot-a": 1, "bot-b": 1}


@pytest.mark.case("cd-h06")
def test_a_lock_that_a_crash_left_behind_expires(account: AwsAccount) -> None:
    stored(account, an_old_episode(0), an_old_episode(1))

    def crashes(event: dict[str, object]) -> dict[str, object]:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        a_whole_night(account, ANSWER, MergeMemories=crashes, GiveLockBack=crashes, Alarm=crashes)
    busy, asked = a_whole_night(account, ANSWER, execution="e-2")
    assert (busy.states[-1], asked.texts) == ("Busy", [])
    at(account, NOW + DAY)
    done, asked = a_whole_night(account, ANSWER, execution="e-3")
    assert (how_it_ended(done), len(asked.texts)) == ("completed", 1)
    assert runs_left(account) == [summary_id(((AGENT, "r-0"), (AGENT, "r-1")))]


@pytest.mark.case("ps-h02")
def test_failed_episodes_on_three_pages_all_go_in_one_night(account: AwsAccount) -> None:
    pad = "x" * 9000
    failed = {"outcome": Outcome.FAILED, "ended_at": NOW - 40 * DAY, "created_at": NOW - 40 * DAY}
    client, table = account.client("dynamodb"), account.settings.episodes_table
    shelf = account.services.tenant(TENANT).episode_shelf
    for number in range(340):
        episode = an_episode(run_id=f"f{number}", approach_used=pad, decays_at=NOW - 33 * DAY, **failed)
        client.put_item(TableName=table, Item=shelf._item(episode))
    fresh = {"decays_at": NOW + 4 * DAY, "ended_at": NOW - 3 * DAY, "created_at": NOW - 3 * DAY}
    stored(account, an_episode(run_id="keep1", outcome=Outcome.FAILED, **fresh))
    stored(account, an_episode(run_id="keep2", ended_at=NOW - 400 * DAY, decays_at=None, expires_at=None, pinned=True))
    # Nearly the whole store in one night: that waits for a person.
    held, _ = a_whole_night(account)
    assert (how_it_ended(held), len(runs_left(account))) == ("held", 342)
    night.approve("n-2027-01-15", night_services().doors, by="ops", now=NOW)
    at(account, NOW + DAY)
    done, _ = a_whole_night(account, execution="e-2")
    assert how_it_ended(done) == "completed"
    assert runs_left(account) == ["keep1", "keep2"]
    pruned = sum(one.counts.get("removed", 0) for one in of_run(account, "n-2027-01-16", "prune"))
    assert (pruned, pruned + len(runs_left(account))) == (340, 342)


@pytest.mark.case("lr-h03")
def test_a_persons_word_on_a_fact_outlives_the_night(account: AwsAccount) -> None:
    """Of procedures the gate's own tests speak; here is what the night itself could do to a decision of a person."""
    vars(account.services)["embedder"] = SubjectEmbedder("depot", "crane")
    vars(account.services)["knowledge"] = StandInKnowledge(account)
    tenant = account.services.tenant(TENANT)
    said_by(tenant, "Depot K closes at 16:00.", "r-1", "r-2", "r-3")
    said_by(tenant, "The crane lifts 4 tonnes.", "r-4", "r-5", "r-6")
    approved, rejected = facts_of(tenant)
    doors = ReviewDoors(tenant.facts, tenant.documents, account.services.dirty, account.services.rest)
    pin(TENANT, DOMAIN, approved.fact_id, pinned=True, doors=doors, now=NOW)
    retire(TENANT, DOMAIN, rejected.fact_id, reason="wrong", doors=doors, now=NOW)
    at(account, NOW + 400 * DAY)
    a_whole_night(account)
    rows = {row["fact_id"]["S"]: row for row in account.facts() if "#" not in row["fact_id"]["S"]}
    assert approved.fact_id in rows
    assert "decays_at" not in rows[approved.fact_id]
    assert rows[rejected.fact_id]["state"]["S"] == "retired"
    # The same thing said again is linked to what was rejected, and not believed under a new id.
    assert said_by(tenant, "The crane lifts 4 tonnes.", "n-1", "n-2", "n-3") == ["observed"] * 3
    assert len(facts_of(tenant)) == 2


def test_a_mark_whose_entry_is_gone_is_taken_off_and_nothing_is_removed(account: AwsAccount) -> None:
    stored(account, an_old_episode(0, merged_into="m-" + "0" * 32))
    a_whole_night(account)
    assert runs_left(account) == ["r-0"]
    kept = account.services.tenant(TENANT).episodes.get(AGENT, "r-0")
    assert kept is not None
    assert kept.merged_into is None
