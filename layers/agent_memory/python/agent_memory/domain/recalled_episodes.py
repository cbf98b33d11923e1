"""Episodes as a recall shows and explains them."""

from collections.abc import Sequence
from typing import NamedTuple

from agent_memory.domain.calibration import NEVER, Floor
from agent_memory.domain.models import Episode
from agent_memory.domain.quarantine import episode_trust, shown_id
from agent_memory.domain.ranking import Candidate, Ranking, Shown
from agent_memory.domain.recalled import RecalledItem, Remembered, iso
from agent_memory.domain.reported_speech import labelled

EXPLAINED = 50


class FoundEpisode(NamedTuple):
    """An episode that is shown, with what it stands for."""

    shown: Shown
    episode: Episode


def remembered_episode(found: FoundEpisode) -> Remembered:
    """The episode on its way into the context."""
    episode = found.episode
    others = f", stands for {found.shown.similar} nearly identical runs" if found.shown.similar > 1 else ""
    about = (
        f"run {shown_id(episode.run_id)} of agent {shown_id(episode.agent_id)}, ended {iso(episode.ended_at)}, "
        f"outcome {episode.outcome}{others}"
    )
    return Remembered(kind="episode", about=about, values=_values(episode), item=_item(found))


def _values(episode: Episode) -> list[tuple[str, str]]:
    """What is shown of an episode, label by label."""
    trust = episode_trust(episode)
    return [
        ("task", episode.task),
        labelled("approach", episode.approach_used, trust),
        *(labelled("found", finding, trust) for finding in episode.key_findings),
        *(labelled("worked", pattern, trust) for pattern in episode.reusable_patterns),
    ]


def _item(found: FoundEpisode) -> RecalledItem:
    episode, candidate = found.episode, found.shown.candidate
    lines = [f"{label}: {value}" for label, value in _values(episode) if value.strip()]
    return RecalledItem(
        id=f"{episode.agent_id}/{episode.run_id}",
        tier="episodic",
        text="\n".join((*lines, f"outcome: {episode.outcome}")),
        score=round(float(candidate.score), 4),
        provenance={
            "agent_id": episode.agent_id,
            "run_id": episode.run_id,
            "kind": episode.kind.value,
            "ended_at": iso(episode.ended_at),
            "outcome": episode.outcome.value,
            "distilled_by": episode.distilled_by.value,
            "confidence": float(episode.confidence),
            "names_unchecked": episode.names_unchecked,
            "withheld": episode.withheld,
            "similar": found.shown.similar,
        },
    )


def explained_episodes(ranking: Ranking, floor: Floor, passing: Sequence[Candidate]) -> tuple[dict[str, object], ...]:
    """The best candidates before floor, collapse and budget, with the parts of their scores."""
    passed = {candidate.key for candidate in passing}
    return tuple(
        {
            "id": f"{candidate.view.agent_id}/{candidate.view.run_id}",
            "tier": "episodic",
            "score": _rounded(candidate.score),
            "place": _rounded(candidate.place),
            "cosine_task": _rounded(candidate.cosine_task),
            "cosine_digest": _rounded(candidate.cosine_digest),
            "lexical": _rounded(candidate.lexical),
            "strong": candidate.strong,
            "passes": candidate.key in passed,
            "floor_score": _floor(floor.score),
            "floor_cosine": _floor(floor.cosine),
            "outcome": candidate.view.outcome.value,
        }
        for candidate in ranking.candidates[:EXPLAINED]
    )


def _floor(value: float) -> float | None:
    """A floor that nothing can reach (there is none of this kind) is left out."""
    return None if value >= NEVER else value


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)
