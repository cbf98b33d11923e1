"""Recall: what earlier runs learnt about a task, found in parallel, inside a time budget, and put into one block.

Whatever can't be read in time is named in `degraded`; a recall answers in every case.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic import Field

from agent_memory.contract import CROSS_TENANT_RESULTS, MEMORY_RETRIEVED, SCHEMA_VERSION
from agent_memory.domain import lexical
from agent_memory.domain.calibration import NEVER, Floor, episode_floor, form_of
from agent_memory.domain.deadlines import Budget, Reads, Result, started
from agent_memory.domain.models import Episode, EpisodeView, Model, RetrievedMemory, Vector
from agent_memory.domain.ports import Embedder, Episodes, Read
from agent_memory.domain.quarantine import clean_episode, shown_id
from agent_memory.domain.ranking import Candidate, Ranking, Shown, collapse, rank
from agent_memory.domain.recall_request import DEPLOYED_TIERS, RecallRequest, RecallRules
from agent_memory.domain.recalled import RecalledItem, Remembered, context_of, iso, within_budget
from agent_memory.domain.semantic_recall import ELSEWHERE, FactDoors, FoundFacts, SemanticRecall
from agent_memory.domain.vectors import unit

EXPLAINED = 50
# Shares of the budget by which each step must be over; what is left is for ranking and assembly.
READ_BY, FETCH_BY, RECORD_BY = 0.7, 0.9, 1.0


class RecallDoors(NamedTuple):
    """What a recall touches. Functions, because opening a door may be slow or refused as well.

    *semantic* None: a recall of episodes only.
    """

    episodes: Callable[[], Episodes]
    embedder: Callable[[], Embedder]
    publish: Callable[[str, Mapping[str, object]], None]
    semantic: FactDoors | None = None


class Recalled(Model):
    """The answer. *considered*: live episodes ranked. *dropped*: items that the token budget had no room for.

    *unreadable*: stored items left out because of their shape. *nothing_relevant*: memory was read, there was something
    to compare the task with or nothing stored at all, and nothing fits. *notes*: what a caller could misread.
    *cross_tenant*: results of another tenant that the Knowledge Base gave and we dropped; *unreadable_documents*:
    results without the attributes that each of our documents has. *withheld*: stored texts that give orders.
    """

    context: str = ""
    items: tuple[RecalledItem, ...] = ()
    degraded: tuple[Mapping[str, str], ...] = ()
    context_id: str
    timings: Mapping[str, int] = {}
    nothing_relevant: bool = False
    considered: int = 0
    skipped_vectors: int = 0
    unreadable: int = 0
    cross_tenant: int = Field(default=0, exclude=True)
    unreadable_documents: int = Field(default=0, exclude=True)
    withheld: int = Field(default=0, exclude=True)
    notes: tuple[Mapping[str, object], ...] = ()
    dropped: int = 0
    explain: tuple[Mapping[str, object], ...] | None = None

    def counts(self) -> dict[str, int]:
        """What is measured of every recall."""
        return {
            "RecallItems": len(self.items),
            "RecallsEmpty": int(self.nothing_relevant),
            "RecallsDegraded": int(bool(self.degraded)),
            "VectorsSkipped": self.skipped_vectors,
            "ItemsUnreadable": self.unreadable,
            "FactsRecalled": sum(item.tier == "semantic" for item in self.items),
            "KnowledgeUnreadable": self.unreadable_documents,
            "TextsWithheldAtRead": self.withheld,
            CROSS_TENANT_RESULTS: self.cross_tenant,
        }


class _Found(NamedTuple):
    shown: Shown
    episode: Episode


class Recall:
    """One recall under way."""

    def __init__(
        self, request: RecallRequest, doors: RecallDoors, budget: Budget, *, now: int, rules: RecallRules
    ) -> None:
        self._request = request
        self._doors = doors
        self._budget = budget
        self._now = now
        self._rules = rules
        self._reads = Reads(budget)
        self._degraded = self._reads.degraded
        self._timings: dict[str, int] = {}
        self._unreadable = 0
        self._withheld = 0

    def answer(self, context_id: str) -> Recalled:
        """Read, rank, choose, assemble, and tell the bus what was returned."""
        self._degraded += [
            {"tier": tier, "reason": "not_deployed"} for tier in self._request.tiers if tier not in DEPLOYED_TIERS
        ]
        semantic = self._semantic()
        views, vector, model = self._read()
        asked = lexical.query(self._request.task)
        ranking = rank(asked, vector, views, model=model)
        form = form_of(len(asked.tokens))
        floor = episode_floor(None if vector is None else model, form, override=self._rules.episode_floor)
        self._timings["rank_ms"] = self._budget.spent_ms
        passing = [candidate for candidate in ranking.candidates if candidate.passes(floor)]
        found = self._fetch(passing)
        facts = semantic.found(vector, model) if semantic else FoundFacts()
        self._timings["facts_ms"] = self._budget.spent_ms
        memories = [*facts.memories, *(_remembered(one) for one in found)]
        kept = within_budget(context_id, memories, self._request.max_context_tokens)
        items = tuple(one.item for one in kept)
        self._record(context_id, items)
        return Recalled(
            context=context_of(context_id, kept),
            items=items,
            degraded=tuple(self._degraded),
            context_id=context_id,
            timings={**self._timings, "total_ms": self._budget.spent_ms},
            nothing_relevant=not passing and not facts.passing and self._compared(ranking, facts if semantic else None),
            considered=len(views),
            skipped_vectors=ranking.skipped_vectors + facts.skipped_vectors,
            unreadable=self._unreadable,
            cross_tenant=facts.foreign,
            unreadable_documents=facts.unreadable,
            withheld=self._withheld + facts.withheld,
            notes=_notes(facts),
            dropped=len(memories) - len(kept),
            explain=(*facts.explain, *_explained(ranking, floor)) if self._request.explain else None,
        )

    def _compared(self, ranking: Ranking, facts: FoundFacts | None) -> bool:
        """Whether that nothing passed says something about memory, and not about what kept it from being read."""
        tiers = [] if facts is None else [(facts.stored, facts.skipped_vectors + facts.unreadable)]
        if "episodic" in self._request.tiers and self._request.max_episodes > 0:
            stored = len(ranking.candidates) + self._unreadable
            tiers.append((stored, ranking.skipped_vectors + self._unreadable))
        compared = all(not stored or passed_over < stored for stored, passed_over in tiers)
        return bool(tiers) and compared and not self._degraded

    def _semantic(self) -> SemanticRecall | None:
        """The facts, on their way from here on."""
        doors = self._doors.semantic
        if doors is None or "semantic" not in self._request.tiers or not self._request.max_facts:
            return None
        return SemanticRecall(self._request, doors, self._reads, now=self._now, rules=self._rules.facts)

    def _read(self) -> tuple[list[EpisodeView], Vector | None, str]:
        agents = self._request.agents if "episodic" in self._request.tiers else ()
        reads = {agent: started(self._views_of(agent)) for agent in agents}
        embedding = started(self._embedded)
        views: list[EpisodeView] = []
        for read in reads.values():
            found = self._reads.result(read, READ_BY, tier="episodic")
            views += self._readable(found)
        self._timings["episodes_ms"] = self._budget.spent_ms
        vector, model = self._reads.result(embedding, READ_BY, tier="embedding") or (None, "")
        self._timings["embedding_ms"] = self._budget.spent_ms
        return [view for view in views if view.expires_at is None or view.expires_at > self._now], vector, model

    def _readable(self, found: Read[Result] | None) -> list[Result]:
        if found is None:
            return []
        self._unreadable += found.unreadable
        return found

    def _views_of(self, agent_id: str) -> Callable[[], Read[EpisodeView]]:
        return lambda: self._doors.episodes().views(agent_id, now=self._now)

    def _embedded(self) -> tuple[Vector, str]:
        embedder = self._doors.embedder()
        # Checked again here: a vector without direction would make every cosine a lie.
        return unit(embedder.embed(self._request.task)), embedder.model

    def _fetch(self, passing: list[Candidate]) -> list[_Found]:
        shown = collapse(passing, limit=self._request.max_episodes)
        if not shown:
            return []
        keys = [one.candidate.key for one in shown]
        read = started(lambda: self._doors.episodes().get_many(keys))
        read_episodes = self._readable(self._reads.result(read, FETCH_BY, tier="episodic"))
        episodes = {(e.agent_id, e.run_id): self._clean(e) for e in read_episodes}
        self._timings["fetch_ms"] = self._budget.spent_ms
        return [_Found(one, episodes[one.candidate.key]) for one in shown if one.candidate.key in episodes]

    def _clean(self, episode: Episode) -> Episode:
        clean, left_out = clean_episode(episode)
        self._withheld += left_out
        return clean

    def _record(self, context_id: str, items: tuple[RecalledItem, ...]) -> None:
        if not items:
            return
        detail = retrieved(self._request, context_id, items, at=self._now)
        self._reads.result(started(lambda: self._doors.publish(MEMORY_RETRIEVED, detail)), RECORD_BY, tier="recording")
        self._timings["record_ms"] = self._budget.spent_ms


def _remembered(found: _Found) -> Remembered:
    episode = found.episode
    others = f", stands for {found.shown.similar} nearly identical runs" if found.shown.similar > 1 else ""
    about = (
        f"run {shown_id(episode.run_id)} of agent {shown_id(episode.agent_id)}, ended {iso(episode.ended_at)}, "
        f"outcome {episode.outcome}{others}"
    )
    return Remembered(kind="episode", about=about, values=_values(episode), item=_item(found))


def _values(episode: Episode) -> list[tuple[str, str]]:
    """What is shown of an episode, label by label."""
    return [
        ("task", episode.task),
        ("approach", episode.approach_used),
        *(("found", finding) for finding in episode.key_findings),
        *(("worked", pattern) for pattern in episode.reusable_patterns),
    ]


def _item(found: _Found) -> RecalledItem:
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


def retrieved(
    request: RecallRequest, context_id: str, items: tuple[RecalledItem, ...], *, at: int
) -> dict[str, object]:
    """The detail of Memory Retrieved: ids only."""
    kept = [
        RetrievedMemory(
            memory_id=item.id,
            tier=item.tier,
            agent_id=str(item.provenance.get("agent_id", "")),
            run_id=str(item.provenance.get("run_id", "")),
        ).model_dump()
        for item in items
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "tenant_id": request.tenant_id,
        "agent_id": request.agent_id,
        "context_id": context_id,
        "at": iso(at),
        "items": kept,
    }


def _notes(facts: FoundFacts) -> tuple[dict[str, object], ...]:
    return ({"tier": "semantic", "note": ELSEWHERE, "elsewhere": facts.elsewhere},) if facts.elsewhere else ()


def _explained(ranking: Ranking, floor: Floor) -> tuple[dict[str, object], ...]:
    """The best candidates before floor, collapse and budget, with the parts of their scores."""
    return tuple(
        {
            "id": f"{candidate.view.agent_id}/{candidate.view.run_id}",
            "tier": "episodic",
            "score": _rounded(candidate.score),
            "cosine_task": _rounded(candidate.cosine_task),
            "cosine_digest": _rounded(candidate.cosine_digest),
            "lexical": _rounded(candidate.lexical),
            "strong": candidate.strong,
            "passes": candidate.passes(floor),
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
