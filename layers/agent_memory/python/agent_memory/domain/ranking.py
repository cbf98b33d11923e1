"""Ranking of episodes: exact and hybrid over all live views.

The score is absolute: the same number means the same likeness for every query and store, so that it can be held
against a floor. It is a weighted sum of two cosines (task as asked, digest) and of what the words have in common.
The order goes by the place: the score, or what a much better run that is like it lends. docs/calibration.md says what
both were measured on.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agent_memory.domain.calibration import Floor, QueryForm
from agent_memory.domain.lexical import Query, is_id, matches, tokens
from agent_memory.domain.models import EpisodeView, Model, Outcome, Vector

# A question is like the way a run was opened or like what was asked in its course: the better cosine says most.
BETTER_WEIGHT = 0.56
OTHER_WEIGHT = 0.14
LEXICAL_WEIGHT = 0.3
# Measured: a wider group lets recency undo what the score knows (R@10 of opening messages .93, .927 here, .91 at .02).
NEAR_TIE = 0.005
# How many of the best lend their place; the figures are the same for 1, 3 and 10.
LEADERS = 3
NEAR_IDENTICAL = 0.95
COMMON_WORDS = 0.5


class Candidate(Model):
    """A view and its *place* in the ranking, at least its *score*. Cosines are None where nothing could be compared."""

    view: EpisodeView
    score: float
    place: float
    cosine_task: float | None = None
    cosine_digest: float | None = None
    lexical: float
    strong: bool

    @property
    def key(self) -> tuple[str, str]:
        """Names the episode within its tenant."""
        return self.view.agent_id, self.view.run_id

    @property
    def compared(self) -> bool:
        """Whether there was a vector to compare the task with."""
        return self.cosine_task is not None or self.cosine_digest is not None

    def reaches(self, floor: Floor) -> bool:
        """Whether this is like enough what was asked as a whole."""
        cosine = max(self.cosine_task or 0.0, self.cosine_digest or 0.0)
        return self.score >= floor.score or cosine >= floor.cosine


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
    tasks = _Stored([view.task_vector if view.embedding_model == model else None for view in views], vector)
    digests = _Stored([view.digest_vector if view.embedding_model == model else None for view in views], vector)
    task, digest = _numbers(tasks.cosines(vector)), _numbers(digests.cosines(vector))
    scores = [_fused(words.score, *cosines) for words, *cosines in zip(by_words, task, digest, strict=True)]
    places = _places(scores, digests, [(view.agent_id, view.run_id) for view in views])
    candidates = [
        Candidate.model_construct(
            view=view,
            score=score,
            place=place,
            cosine_task=cosine_task,
            cosine_digest=cosine_digest,
            lexical=words.score,
            strong=words.strong,
        )
        for view, words, cosine_task, cosine_digest, score, place in zip(
            views, by_words, task, digest, scores, places, strict=True
        )
    ]
    skipped = 0 if vector is None else sum(not candidate.compared for candidate in candidates)
    return Ranking(candidates=in_order(candidates), skipped_vectors=skipped)


def passing(candidates: Sequence[Candidate], floor: Floor, form: QueryForm) -> tuple[Candidate, ...]:
    """Return those of *candidates* that may be shown: what reaches the floor, and what shares an id of the question.

    In a task written out an id is one detail of many, such as the customer's number. Where nothing reaches the floor,
    it lets a memory pass only when none without the id fits better: else all that is shared is whom it was about.
    """
    reaching = {candidate.key for candidate in candidates if candidate.reaches(floor)}
    strong = [candidate for candidate in candidates if candidate.strong]
    if form is QueryForm.STATEMENT and not reaching:
        best = max((candidate.score for candidate in candidates if not candidate.strong), default=0.0)
        strong = [candidate for candidate in strong if candidate.score >= best or not candidate.compared]
    shown = reaching | {candidate.key for candidate in strong}
    return tuple(candidate for candidate in candidates if candidate.key in shown)


def _text(view: EpisodeView) -> str:
    # The digest opens with the task where the user's first words are the task: counting them twice would be a bias.
    return view.digest if view.digest.startswith(view.task) else f"{view.task}\n{view.digest}"


def _fused(lexical: float, task: float | None, digest: float | None) -> float:
    cosines = sorted(max(cosine, 0.0) for cosine in (task, digest) if cosine is not None)
    if not cosines:
        return lexical
    # Where one vector is missing the other stands in for it.
    return BETTER_WEIGHT * cosines[-1] + OTHER_WEIGHT * cosines[0] + LEXICAL_WEIGHT * lexical


class _Stored:
    """Stored vectors, stacked once for several comparisons; those of another length than *like* are left out."""

    def __init__(self, vectors: Sequence[Vector | None], like: Vector | None) -> None:
        self.vectors = [v if v is not None and like is not None and v.shape == like.shape else None for v in vectors]
        self._rows = [i for i, held in enumerate(self.vectors) if held is not None]
        held = [np.asarray(v, dtype=np.float32) for v in self.vectors if v is not None]
        self._matrix = np.stack(held) if held else np.empty((0, 0), dtype=np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            self._lengths = np.linalg.norm(self._matrix, axis=1)

    def cosines(self, vector: Vector | None) -> Vector:
        """Cosine of the unit *vector* to each, NaN where there is nothing to compare or no direction."""
        found = np.full(len(self.vectors), np.nan, dtype=np.float32)
        if vector is not None and self._rows:
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                cosines = (self._matrix @ vector) / self._lengths
            found[self._rows] = np.where(np.isfinite(cosines), np.clip(cosines, -1.0, 1.0), np.nan)
        return found


def _numbers(cosines: Vector) -> list[float | None]:
    return [None if math.isnan(cosine) else cosine for cosine in cosines.tolist()]


def _places(scores: Sequence[float], digests: _Stored, keys: Sequence[tuple[str, str]]) -> list[float]:
    """What each run is ordered by: its score, or more where its digest is like that of one of the best.

    Each of the LEADERS lends its score times the cosine of the two digests, less a near-tie, so that what is lent never
    passes for the leader's own. Runs of one task open in different words and go on alike: where one is found by how it
    was opened, this finds the others (the cluster hypothesis, van Rijsbergen 1979; scores spread over near documents,
    Diaz, "Regularizing ad hoc retrieval scores", CIKM 2005). No place is above the best score or below a run's own.
    """
    places = np.array(scores, dtype=np.float64)
    for leader in sorted(range(len(scores)), key=lambda i: (-scores[i], keys[i]))[:LEADERS]:
        lent = scores[leader] * digests.cosines(digests.vectors[leader]).astype(np.float64) - NEAR_TIE
        places = np.fmax(places, lent)  # where there is no cosine, the score stands
    return [float(place) for place in places]


def in_order(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return *candidates* best place first; near-ties prefer COMPLETED, then the newer, then the smaller id.

    Being near is not transitive, so near-ties are taken in groups: the best place left opens a group, and whatever is
    next and within NEAR_TIE of it, by place and by score, belongs to it. The order of the input changes nothing.
    """
    by_place = sorted(candidates, key=lambda c: (-c.place, -c.score, c.key))
    ordered: list[Candidate] = []
    group: list[Candidate] = []
    for candidate in by_place:
        if group and max(group[0].place - candidate.place, abs(group[0].score - candidate.score)) > NEAR_TIE:
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
