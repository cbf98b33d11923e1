"""What a recall says about itself: what was compared, what was left out, and when "nothing relevant" may be said."""

from typing import Any

import numpy as np
import pytest
from agent_memory.domain.errors import AccessRefusedError, ModelBusyError, RefusedInputError, StoreBusyError
from agent_memory.domain.models import Episode, EpisodeView
from agent_memory.domain.ports import Read
from agent_memory.domain.recall_request import MAX_BUDGET_MS, recall_request, recall_rules
from support.builders import AGENT, TENANT
from support.recalls import RULES, FixedEmbedder, HeldEpisodes, an_episode_at, recalled, runs_of

FAR = 0.05
ASKED = {"tenant_id": TENANT, "agent_id": AGENT, "task": "kiln upkeep"}


class PartlyUnreadable(HeldEpisodes):
    """A store that left out so many views and so many whole episodes."""

    def __init__(self, *episodes: Episode, views: int = 0, wholes: int = 0) -> None:
        super().__init__(*episodes)
        self._views, self._wholes = views, wholes

    def views(self, agent_id: str, *, now: int) -> Read[EpisodeView]:
        return Read(super().views(agent_id, now=now), unreadable=self._views)

    def get_many(self, keys: Any) -> Read[Episode]:
        return Read(super().get_many(keys)[self._wholes :], unreadable=self._wholes)


def test_nothing_relevant_is_said_when_everything_was_compared_and_nothing_fits() -> None:
    assert recalled().nothing_relevant
    assert recalled(an_episode_at(FAR)).nothing_relevant
    one_skipped = recalled(an_episode_at(FAR), an_episode_at(FAR, run_id="r-2", embedding_model="older"))
    assert one_skipped.skipped_vectors == 1
    assert one_skipped.nothing_relevant


@pytest.mark.parametrize(
    "asked",
    [
        {"embedder": FixedEmbedder(AccessRefusedError("denied"))},
        {"embedder": FixedEmbedder(ModelBusyError("throttled"))},
        {"embedder": FixedEmbedder(np.zeros(8, dtype=np.float32))},
        {"embedder": FixedEmbedder(model="another-model")},
        {"store": StoreBusyError("throttled")},
        {"store": PartlyUnreadable(views=3)},
        {"max_episodes": 0},
        {"tiers": ["semantic"]},
        {"tiers": ["procedural"]},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_nothing_relevant_is_never_said_when_nothing_could_be_compared(asked: dict[str, Any]) -> None:
    answer = recalled(an_episode_at(FAR), **asked)
    assert answer.items == ()
    assert not answer.nothing_relevant


def test_memories_without_room_are_dropped_and_not_irrelevant() -> None:
    answer = recalled(an_episode_at(0.95), max_context_tokens=5)
    assert (answer.items, answer.dropped, answer.nothing_relevant) == ((), 1, False)


def test_a_recording_that_fails_says_nothing_about_relevance() -> None:
    def refuse(*_: object) -> None:
        raise AccessRefusedError("events:PutEvents was refused")

    assert recalled(an_episode_at(FAR), publish=refuse).nothing_relevant
    assert recalled(an_episode_at(0.95), publish=refuse).degraded == ({"tier": "recording", "reason": "denied"},)


def test_only_the_tiers_that_were_asked_for_are_read() -> None:
    assert recalled(an_episode_at(0.95), tiers=["procedural", "semantic"]).items == ()
    assert runs_of(recalled(an_episode_at(0.95), tiers=["procedural", "episodic"])) == ["r-1"]
    by_rule = RULES.model_copy(update={"tiers_by_task_type": {"*": ("semantic",), "kiln": ("episodic",)}})
    assert recalled(an_episode_at(0.95), rules=by_rule).items == ()
    assert runs_of(recalled(an_episode_at(0.95), rules=by_rule, task_type="kiln")) == ["r-1"]


def test_what_cannot_be_read_is_counted_and_takes_nothing_else_away() -> None:
    episodes = [an_episode_at(0.95 - i / 10, run_id=f"r-{i}", task=f"words {i}") for i in range(3)]
    answer = recalled(store=PartlyUnreadable(*episodes, views=2, wholes=1))
    assert runs_of(answer) == ["r-1", "r-2"]
    assert (answer.unreadable, answer.degraded) == (3, ())
    assert answer.counts()["ItemsUnreadable"] == 3


def test_a_relevant_memory_that_cannot_be_read_is_not_taken_for_nothing_relevant() -> None:
    answer = recalled(store=PartlyUnreadable(an_episode_at(0.95), wholes=1))
    assert (answer.items, answer.unreadable, answer.nothing_relevant) == ((), 1, False)


def test_a_time_budget_ends_before_the_function_does() -> None:
    with pytest.raises(RefusedInputError, match=f"from 1 to {MAX_BUDGET_MS}"):
        recall_request({**ASKED, "budget_ms": MAX_BUDGET_MS + 1}, RULES)
    assert recall_request({**ASKED, "budget_ms": MAX_BUDGET_MS}, RULES).budget_ms == MAX_BUDGET_MS
    patient = recall_rules(
        budget_ms=120_000,
        max_episodes=3,
        max_context_tokens=2_000,
        episode_floor=0,
        tiers_by_task_type={},
        shared_agents={},
    )
    assert recall_request(ASKED, patient).budget_ms == MAX_BUDGET_MS
