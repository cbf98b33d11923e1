"""Ranking of episodes: exact and hybrid over all live views.

The score is absolute: the same number means the same likeness for every query and store, so that it can be held
against a floor. It is a weighted sum of two cosines (task as asked, digest) and of what the words have in common.
docs/calibration.md says what the weights were measured on.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agent_memory.domain.calibration import Floor
from agent_memory.domain.lexical import LexicalMatch, Query, is_id, matches, tokens
from agent_memory.domain.models import EpisodeView, Model, Outcome, Vector

# A question is like the way a run was opened or like what was asked in its course: the better cosine says most.
BETTER_WEIGHT = 0.56
OTHER_WEIGHT = 0.14
LEXICAL_WEIGHT = 0.3
# Measured: a wider group lets recency undo what the score knows (R@10 of opening messages .93, .927 here, .91 at .02).
NEAR_TIE = 0.005
NEAR_IDENTICAL = 0.95
COMMON_WORDS = 0.5


class Candidate(Model):
    """A view and its place in the ranking. Cosines are None where there was nothing to compare."""

    view: EpisodeView
    score: float
    cosine_task: float | None = None
    cosine_digest: float | None = None
    lexical: float
    strong: bool

    @property
    def key(self) -> tuple[str, str]:
        """Names the episode within its tenant."""
        return self.view.agent_id, self.view.run_id

    def passes(self, floor: Floor) -> bool:
        """Whether this may be shown. A strong lexical match (an id, an error code) always may."""
        cosine = max(self.cosine_task or 0.0, self.cosine_digest or 0.0)
        return self.strong or self.score >= floor.score or cosine >= floor.cosine


class Ranking(Model):
    """All candidates, best first. *skipped_vectors*: episodes whose vectors could not be compared."""

    candidates: tuple[Candidate, ...]
    skipped_vectors: int


class Shown(Model):
    """A candidate that stands for *similar* near-identical ones, itself included."""

    candidate: Candidate
    similar: int


def rank(asked: Query, vector: Vector | None, views: Sequence[EpisodeView], *, model: str) -> Ranking:
    """Rank every view. *vector* is None when the task could not be embedded: then words alone decide."""
    by_words = matches(asked, [_text(view) for view in views])
    task = _cosines(vector, [view.task_vector if view.embedding_model == model else None for view in views])
    digest = _cosines(vector, [view.digest_vector if view.embedding_model == model else None for view in views])
    candidates = [
        _candidate(view, words, cosine_task, cosine_digest)
        for view, words, cosine_task, cosine_digest in zip(views, by_words, task, digest, strict=True)
    ]
    skipped = 0 if vector is None else sum(c.cosine_task is None and c.cosine_digest is None for c in candidates)
    return Ranking(candidates=in_order(candidates), skipped_vectors=skipped)


def _text(view: EpisodeView) -> str:
    # The digest opens with the task where the user's first words are the task: counting them twice would be a bias.
    return view.digest if view.digest.startswith(view.task) else f"{view.task}\n{view.digest}"


def _candidate(view: EpisodeView, words: LexicalMatch, task: float | None, digest: float | None) -> Candidate:
    return Candidate.model_construct(
        view=view,
        score=_fused(words.score, task, digest),
        cosine_task=task,
        cosine_digest=digest,
        lexical=words.score,
        strong=words.strong,
    )


def _fused(lexical: float, task: float | None, digest: float | None) -> float:
    cosines = sorted(max(cosine, 0.0) for cosine in (task, digest) if cosine is not None)
    if not cosines:
        return lexical
    # Where one vector is missing the other stands in for it.
    return BETTER_WEIGHT * cosines[-1] + OTHER_WEIGHT * cosines[0] + LEXICAL_WEIGHT * lexical


def _cosines(vector: Vector | None, stored: Sequence[Vector | None]) -> list[float | None]:
    """Cosine of *vector* to each stored vector, None where there is none of the same length with a direction."""
    found: list[float | None] = [None] * len(stored)
    if vector is None:
        return found
    usable = [i for i, held in enumerate(stored) if held is not None and held.shape == vector.shape]
    if not usable:
        return found
    matrix = np.stack([np.asarray(stored[i], dtype=np.float32) for i in usable])
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        cosines = (matrix @ vector) / np.linalg.norm(matrix, axis=1)
    for i, cosine in zip(usable, cosines.tolist(), strict=True):
        if np.isfinite(cosine):
            found[i] = max(-1.0, min(1.0, cosine))
    return found


def in_order(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return *candidates* best first; near-ties prefer COMPLETED, then the newer, then the smaller id.

    Being near is not transitive, so near-ties are taken in groups: the best score left opens a group, and whatever is
    within NEAR_TIE of that score belongs to it. The result does not depend on the order of the input.
    """
    by_score = sorted(candidates, key=lambda c: (-c.score, c.key))
    ordered: list[Candidate] = []
    group: list[Candidate] = []
    for candidate in by_score:
        if group and group[0].score - candidate.score > NEAR_TIE:
            ordered += sorted(group, key=_preference)
            group = []
        group.append(candidate)
    return (*ordered, *sorted(group, key=_preference))


def _preference(candidate: Candidate) -> tuple[bool, int, tuple[str, str]]:
    return candidate.view.outcome is not Outcome.COMPLETED, -candidate.view.ended_at, candidate.key


class Said(NamedTuple):
    """What an episode says, as near-identity compares it."""

    view: EpisodeView
    words: frozenset[str]
    names: frozenset[str]


def collapse(candidates: Sequence[Candidate], *, limit: int) -> tuple[Shown, ...]:
    """Return the first *limit* of *candidates* (best first), each with the number of near-identical ones it covers."""
    kept: list[tuple[Candidate, Said]] = []
    similar: list[int] = []
    for candidate in candidates:
        said = said_of(candidate.view)
        twin = next((i for i, (_, other) in enumerate(kept) if alike(other, said)), None)
        if twin is not None:
            similar[twin] += 1
        elif len(kept) < limit:
            kept.append((candidate, said))
            similar.append(1)
    return tuple(Shown(candidate=c, similar=count) for (c, _), count in zip(kept, similar, strict=True))


def said_of(view: EpisodeView) -> Said:
    """What *view* says, taken apart once for many comparisons."""
    words = frozenset(tokens(_text(view)))
    return Said(view, words, frozenset(word for word in words if is_id(word) or word.isdigit()))


def near_identical_groups(views: Sequence[EpisodeView]) -> list[list[EpisodeView]]:
    """Groups of two and more of *views* whose first each of the others is near-identical to."""
    groups: list[tuple[Said, list[EpisodeView]]] = []
    for said in map(said_of, views):
        twin = next((members for first, members in groups if alike(first, said)), None)
        if twin is None:
            groups.append((said, [said.view]))
        else:
            twin.append(said.view)
    return [members for _, members in groups if len(members) > 1]


def alike(one: Said, other: Said) -> bool:
    """The same outcome, the same numbers and ids; and the same words, or most of them and the same meaning."""
    if one.view.outcome is not other.view.outcome or one.names != other.names:
        return False
    if one.words == other.words:
        return True
    if one.view.embedding_model != other.view.embedding_model:
        return False
    common = len(one.words & other.words) / len(one.words | other.words)
    tasks = _likeness(one.view.task_vector, other.view.task_vector)
    digests = _likeness(one.view.digest_vector, other.view.digest_vector)
    return common >= COMMON_WORDS and min(tasks, digests) >= NEAR_IDENTICAL


def _likeness(one: Vector | None, other: Vector | None) -> float:
    if one is None or other is None or one.shape != other.shape:
        return -1.0
    return float(one @ other)
