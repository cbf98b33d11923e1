"""Builders for recall: views at a chosen cosine, a store in memory, an embedder with chosen answers."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import numpy as np
from agent_memory.domain.deadlines import Budget
from agent_memory.domain.models import Episode, EpisodeView, Vector
from agent_memory.domain.ports import Read
from agent_memory.domain.recall import Recall, RecallDoors, Recalled
from agent_memory.domain.recall_request import RecallRules, recall_request
from support.builders import AGENT, NOW, TENANT, an_episode

MODEL = "test-model"
QUERY = np.array([1.0, *[0.0] * 7], dtype=np.float32)
CONTEXT_ID = "c-0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"


def at_cosine(cosine: float, dimensions: int = 8) -> Vector:
    """A unit vector at this cosine to QUERY."""
    vector = np.zeros(dimensions, dtype=np.float32)
    vector[0], vector[1] = cosine, (1 - cosine**2) ** 0.5
    return vector


def an_episode_at(cosine: float, **changes: Any) -> Episode:
    """An episode whose two vectors stand at *cosine* to QUERY and whose words say nothing of any task."""
    vector = at_cosine(cosine)
    words = f"zz{changes.get('run_id', 'r')}"
    given = {"task": words, "digest": words, "task_vector": vector, "digest_vector": vector, "embedding_model": MODEL}
    return an_episode(**{**given, **changes})


def view_of(episode: Episode) -> EpisodeView:
    return EpisodeView.model_validate({name: getattr(episode, name) for name in EpisodeView.model_fields})


class HeldEpisodes:
    """Episodes of one tenant in memory. *failing*: by agent, what reading its views raises."""

    def __init__(self, *episodes: Episode, failing: Mapping[str, Exception] | None = None) -> None:
        self.episodes = {(e.agent_id, e.run_id): e for e in episodes}
        self.failing = failing or {}

    def views(self, agent_id: str, *, now: int) -> Read[EpisodeView]:
        if agent_id in self.failing:
            raise self.failing[agent_id]
        return Read(view_of(e) for (agent, _), e in self.episodes.items() if agent == agent_id)

    def get_many(self, keys: Sequence[tuple[str, str]]) -> Read[Episode]:
        return Read(self.episodes[key] for key in keys if key in self.episodes)


class FixedEmbedder:
    """Every text gets the same vector, or the same error."""

    dimensions = 8

    def __init__(self, answer: Vector | Exception = QUERY, model: str = MODEL) -> None:
        self.model = model
        self._answer = answer
        self.texts: list[str] = []

    def embed(self, text: str) -> Vector:
        self.texts.append(text)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


RULES = RecallRules(budget_ms=5_000, max_episodes=3, max_context_tokens=2_000)


def recalled(
    *episodes: Episode,
    store: HeldEpisodes | Exception | Callable[[], HeldEpisodes] | None = None,
    embedder: Any = None,
    publish: Callable[[str, Mapping[str, object]], None] = lambda *_: None,
    rules: RecallRules = RULES,
    **question: Any,
) -> Recalled:
    """Ask for a task that has no word in common with any episode, unless *question* says otherwise."""
    held = store if store is not None else HeldEpisodes(*episodes)
    request = recall_request({"tenant_id": TENANT, "agent_id": AGENT, "task": "kiln upkeep", **question}, rules)

    def opened() -> Any:
        if isinstance(held, Exception):
            raise held
        return held() if callable(held) else held

    doors = RecallDoors(opened, lambda: embedder or FixedEmbedder(), publish)
    budget = Budget(request.budget_ms, monotonic)
    return Recall(request, doors, budget, now=NOW, floor=rules.episode_floor).answer(CONTEXT_ID)


def runs_of(answer: Recalled) -> list[str]:
    return [str(item.provenance["run_id"]) for item in answer.items]
