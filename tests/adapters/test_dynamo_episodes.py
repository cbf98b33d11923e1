"""The episodes port on DynamoDB."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from agent_memory.aws.episodes import DynamoEpisodes
from agent_memory.aws.transactions import Transactions
from agent_memory.domain.errors import CrossTenantError, StoreBusyError
from botocore.exceptions import ClientError
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, RUN, TENANT, a_vector, an_episode


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@pytest.fixture
def episodes(account: AwsAccount) -> DynamoEpisodes:
    return account.services.tenant(TENANT).episodes


def test_an_episode_reads_back_as_it_was_written(episodes: DynamoEpisodes) -> None:
    written = an_episode(user_ref="u-1", confidence=0.1 + 0.2)
    assert episodes.put(written) == "stored"
    read = episodes.get(AGENT, RUN)
    assert read is not None
    assert read.confidence == 0.3
    for name in ("task_vector", "digest_vector"):
        assert float(np.dot(getattr(read, name), getattr(written, name))) > 0.999
    plain = {"task_vector": None, "digest_vector": None, "confidence": 0}
    assert read.model_copy(update=plain) == written.model_copy(update=plain)


def test_a_second_write_changes_nothing(episodes: DynamoEpisodes) -> None:
    episodes.put(an_episode())
    assert episodes.put(an_episode(task="Another task.")) == "duplicate"
    read = episodes.get(AGENT, RUN)
    assert read is not None
    assert read.task == "Move booking K7 to Friday."


@pytest.mark.parametrize("entry", ["u-1", "*"])
def test_a_tombstone_newer_than_the_run_wins(account: AwsAccount, episodes: DynamoEpisodes, entry: str) -> None:
    account.erase(TENANT, entry, before=NOW)
    assert episodes.put(an_episode(user_ref="u-1", ended_at=NOW - 1)) == "erased"
    assert account.episodes() == []
    assert episodes.put(an_episode(user_ref="u-1", ended_at=NOW + 1)) == "stored"


def test_an_erased_user_does_not_ban_the_others(account: AwsAccount, episodes: DynamoEpisodes) -> None:
    account.erase(TENANT, "u-1", before=NOW + DAY)
    assert episodes.put(an_episode(user_ref="u-2")) == "stored"
    assert episodes.put(an_episode(run_id="r-2")) == "stored"


def test_the_view_shows_live_episodes_of_one_agent_only(episodes: DynamoEpisodes) -> None:
    for run_id, changes in {
        "live": {},
        "expired": {"expires_at": NOW},
        "pinned": {"expires_at": None, "decays_at": None, "created_at": NOW + 1},
        "other": {"agent_id": "another-bot"},
    }.items():
        episodes.put(an_episode(run_id=run_id, **changes))
    views = episodes.views(AGENT, now=NOW)
    assert [view.run_id for view in views] == ["pinned", "live"]
    assert views[1].task_vector is not None
    assert views[1].digest == an_episode().digest


def test_every_page_of_the_view_is_read(episodes: DynamoEpisodes) -> None:
    for i in range(60):
        # Three pages of the index: a page ends at a megabyte, and the fields are at their allowed size each.
        episodes.put(an_episode(run_id=f"r-{i}", digest="x" * 40_000))
    assert len(episodes.views(AGENT, now=NOW)) == 60


def test_many_are_read_in_the_order_asked_without_those_that_are_gone(episodes: DynamoEpisodes) -> None:
    for i in range(130):
        episodes.put(an_episode(run_id=f"r-{i}"))
    asked = [(AGENT, f"r-{i}") for i in reversed(range(130))] + [(AGENT, "gone"), (AGENT, "r-1")]
    assert [episode.run_id for episode in episodes.get_many(asked)] == [f"r-{i}" for i in reversed(range(130))]


def test_a_pin_removes_the_dates_and_an_unpin_sets_them(account: AwsAccount, episodes: DynamoEpisodes) -> None:
    episodes.put(an_episode())
    assert episodes.pin(AGENT, RUN, pinned=True, expires_at=None, decays_at=None)
    (item,) = account.episodes()
    assert {"expires_at", "decays_at", "due_shard"} & set(item) == set()
    assert episodes.pin(AGENT, RUN, pinned=False, expires_at=NOW + DAY, decays_at=NOW)
    read = episodes.get(AGENT, RUN)
    assert read is not None
    assert (read.pinned, read.expires_at, read.decays_at) == (False, NOW + DAY, NOW)
    assert "due_shard" in account.episodes()[0]


def test_a_pin_of_a_deleted_episode_does_not_bring_it_back(account: AwsAccount, episodes: DynamoEpisodes) -> None:
    assert not episodes.pin(AGENT, "gone", pinned=True, expires_at=None, decays_at=None)
    assert account.episodes() == []


def test_another_tenant_is_never_written_or_named(episodes: DynamoEpisodes) -> None:
    with pytest.raises(CrossTenantError):
        episodes.put(an_episode(tenant_id="fabrikam"))
    with pytest.raises(CrossTenantError):
        episodes.views("x#y", now=NOW)
    with pytest.raises(CrossTenantError):
        episodes.get("x#y", RUN)


@pytest.mark.parametrize("change", [{"outcome": {"S": "EXCELLENT"}}, {"ended_at": {"M": {}}}, {"task": {"NULL": True}}])
def test_one_item_of_another_release_does_not_take_recall_away(
    account: AwsAccount, episodes: DynamoEpisodes, change: dict[str, Any]
) -> None:
    episodes.put(an_episode(task_vector=a_vector(2)))
    odd = {**account.episodes()[0], "run_id": {"S": "odd"}, "task_vector": {"B": b"\x00"}, **change}
    account.client("dynamodb").put_item(TableName=account.settings.episodes_table, Item=odd)
    views = episodes.views(AGENT, now=NOW)
    assert ([view.run_id for view in views], views.unreadable) == ([RUN], 1)
    many = episodes.get_many([(AGENT, "odd"), (AGENT, RUN), (AGENT, "gone")])
    assert ([episode.run_id for episode in many], many.unreadable) == ([RUN], 1)


class Colliding:
    """The real client, whose first transactions are cancelled with *codes*, one list of reasons each."""

    def __init__(self, client: Any, *codes: list[str]) -> None:
        self._client, self._codes, self.calls = client, list(codes), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def transact_write_items(self, **request: Any) -> Any:
        self.calls += 1
        if self._codes:
            reasons = [{"Code": code} for code in self._codes.pop(0)]
            answer = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
            raise ClientError(answer, "TransactWriteItems")  # type: ignore[arg-type]  # botocore-stubs knows no reasons
        return self._client.transact_write_items(**request)


def _colliding(account: AwsAccount, *codes: list[str]) -> tuple[DynamoEpisodes, Colliding, list[float]]:
    client, pauses = Colliding(account.client("dynamodb"), *codes), list[float]()
    s = account.settings
    store = DynamoEpisodes(
        client,
        table=s.episodes_table,
        ledger_table=s.ledger_table,
        tenant_id=TENANT,
        transactions=lambda c: Transactions(c, pause=pauses.append, chance=lambda: 1.0),
    )
    return store, client, pauses


def test_a_collision_is_tried_again_with_growing_pauses(account: AwsAccount) -> None:
    store, client, pauses = _colliding(account, *[["None", "TransactionConflict"]] * 2, ["ThrottlingError", "None"])
    assert store.put(an_episode()) == "stored"
    assert client.calls == 4
    assert pauses == sorted(pauses)
    assert len(account.episodes()) == 1


def test_endless_collisions_are_worth_another_try_later(account: AwsAccount) -> None:
    store, _, _ = _colliding(account, *[["None", "TransactionConflict"]] * 50)
    with pytest.raises(StoreBusyError):
        store.put(an_episode())


def test_a_failed_condition_beside_a_collision_is_believed(account: AwsAccount) -> None:
    store, _, _ = _colliding(account, ["ConditionalCheckFailed", "TransactionConflict"])
    assert store.put(an_episode()) == "duplicate"
    store, _, _ = _colliding(account, ["ConditionalCheckFailed", "ConditionalCheckFailed"])
    assert store.put(an_episode()) == "erased"
