"""Archive and restore are the identity: item byte for byte, vectors, index attributes."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from agent_memory.aws.snapshots import item_of, item_text
from agent_memory.domain.archive import put_away
from agent_memory.domain.models import DistilledBy, EpisodeKind, Outcome
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.aws import AwsAccount, an_aws_account
from support.builders import DAY, NOW, TENANT, an_episode

NUMBERS = itertools.count()
NIGHT = "n-2027-01-15"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
times = st.integers(NOW - 400 * DAY, NOW + 400 * DAY)
vectors = st.none() | st.lists(st.floats(-1, 1, width=32), min_size=8, max_size=8).filter(any).map(
    lambda values: np.asarray(values, dtype=np.float32)
)
episodes = st.fixed_dictionaries(
    {
        "task": texts,
        "digest": texts,
        "task_summary": texts,
        "key_findings": st.lists(texts, max_size=3).map(tuple),
        "reusable_patterns": st.lists(texts, max_size=3).map(tuple),
        "task_vector": vectors,
        "digest_vector": vectors,
        "embedding_model": st.none() | st.just("test-model"),
        "outcome": st.sampled_from(Outcome),
        "kind": st.sampled_from(EpisodeKind),
        "distilled_by": st.sampled_from(DistilledBy),
        "confidence": st.floats(0, 1),
        "user_ref": st.none() | st.just("u-1"),
        "ended_at": times,
        "expires_at": st.none() | times,
        "decays_at": st.none() | times,
        "last_access_at": st.none() | times,
        "access_count": st.integers(0, 10**6),
        "sources": st.lists(st.sampled_from(["r-1", "r-2"]), max_size=2, unique=True).map(tuple),
        "review": st.none() | st.just("ungrounded"),
        "kept_until": st.none() | times,
    }
)
scalars = st.one_of(
    st.builds(lambda text: {"S": text}, texts),
    st.builds(lambda number: {"N": str(number)}, st.integers(-(10**20), 10**20)),
    st.builds(lambda data: {"B": data}, st.binary(max_size=30)),
    st.builds(lambda flag: {"BOOL": flag}, st.booleans()),
    st.just({"NULL": True}),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(lambda held: {"L": held}, st.lists(inner, max_size=3)),
        st.builds(lambda held: {"M": held}, st.dictionaries(texts, inner, max_size=3)),
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@given(item=st.dictionaries(texts, values, max_size=5))
def test_an_item_is_the_same_after_it_was_text(item: dict[str, Any]) -> None:
    assert item_of(item_text(item)) == item
    assert item_text(dict(reversed(item.items()))) == item_text(item)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=episodes)
def test_what_is_put_away_comes_back_byte_for_byte_with_its_place_in_every_index(
    account: AwsAccount, changes: dict[str, Any]
) -> None:
    agent = f"bot-{next(NUMBERS)}"
    tenant = account.services.tenant(TENANT)
    tenant.episodes.put(an_episode(agent_id=agent, **changes))
    before, views = mine(account, agent), tenant.episodes.views(agent, now=0)
    removed, kept = put_away(
        (agent, "r-1"), tenant.episode_shelf, tenant.archive, night=NIGHT, reason="low_relevance", now=NOW
    )
    assert (removed, mine(account, agent)) == ("removed", [])
    assert kept is not None
    assert tenant.episode_shelf.put_back(tenant.archive.get(kept.key).snapshot) == "restored"
    assert mine(account, agent) == before
    assert [view.model_dump(exclude={"task_vector", "digest_vector"}) for view in views] == [
        view.model_dump(exclude={"task_vector", "digest_vector"}) for view in tenant.episodes.views(agent, now=0)
    ]


def mine(account: AwsAccount, agent: str) -> list[dict[str, Any]]:
    """The raw items of an agent; due_shard, decays_at and user_key among them are what the indexes are made of."""
    return [item for item in account.episodes() if item["agent_id"]["S"] == f"{TENANT}#{agent}"]
