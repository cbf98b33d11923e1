"""Recall: what earlier runs learnt about a task, found in parallel, inside a time budget, and put into one block.

Whatever can't be read in time is named in `degraded`; a recall answers in every case.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from agent_memory.contract import CROSS_TENANT_RESULTS, MEMORY_RETRIEVED, SCHEMA_VERSION
from agent_memory.domain import lexical
from agent_memory.domain.calibration import Floor, episode_floor, form_of
from agent_memory.domain.deadlines import Budget, Reads, Result, started
from agent_memory.domain.models import Episode, EpisodeView, Model, RetrievedMemory, Vector
from agent_memory.domain.ports import Embedder, Episodes, Read
from agent_memory.domain.procedural_recall import FoundProcedure, ProceduralRecall
from agent_memory.domain.procedures import PROCEDURAL
from agent_memory.domain.quarantine import clean_episode
from agent_memory.domain.ranking import Candidate, Ranking, collapse, passing, rank
from agent_memory.domain.recall_request import RecallRequest, RecallRules
from agent_memory.domain.recalled import RecalledItem, context_of, iso, within_budget
from agent_memory.domain.recalled_episodes import FoundEpisode, explained_episodes, remembered_episode
from agent_memory.domain.semantic_recall import ELSEWHERE, FactDoors, FoundFacts, SemanticRecall
from agent_memory.domain.vectors import unit

if TYPE_CHECKING:  # what writes procedures is not what a recall loads
    from agent_memory.domain.procedure_ports import Procedures

# Shares of the budget by which each step must be over; what is left is for ranking and assembly.
READ_BY, FETCH_BY, RECORD_BY = 0.7, 0.9, 1.0


class RecallDoors(NamedTuple):
    """What a recall touches. Functions, because opening a door may be slow or refused as well.

    *semantic*, *procedural* None: a recall without facts, without procedures.
    """

    episodes: Callable[[], Episodes]
    embedder: Callable[[], Embedder]
    publish: Callable[[str, Mapping[str, object]], None]
    semantic: FactDoors | None = None
    procedural: Callable[[], "Procedures"] | None = None


class Recalled(Model):
    """The answer. *considered*: live episodes ranked. *dropped*: items that the token budget had no room for.

    *unreadable*: stored items left out because of their shape. *nothing_relevant*: memory was read, there was something
    to compare the task with or nothing stored at all, and nothing fits. *notes*: what a caller could misread.
    *cross_tenant*: results of another tenant that the Knowledge Base gave and we dropped; *unreadable_documents*:
    results without the attributes that each of our documents has. *prefetched*: kept for a run that has not started, or
    picked up by one. *withheld*: stored texts that give orders.
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
    prefetched: bool = False

    def counts(self) -> dict[str, int]:
        """What is measured of every recall."""
        return {
            "RecallItems": len(self.items),
            "RecallsEmpty": int(self.nothing_relevant),
            "RecallsDegraded": int(bool(self.degraded)),
            "VectorsSkipped": self.skipped_vectors,
            "ItemsUnreadable": self.unreadable,
            "FactsRecalled": sum(item.tier == "semantic" for item in self.items),
            "ProceduresRecalled": sum(item.tier == PROCEDURAL for item in self.items),
            "TrialsRecalled": sum(item.provenance.get("trial") is True for item in self.items),
            "RecallsPrefetched": int(self.prefetched),
            "KnowledgeUnreadable": self.unreadable_documents,
            "TextsWithheldAtRead": self.withheld,
            CROSS_TENANT_RESULTS: self.cross_tenant,
        }


class _Tiers(NamedTuple):
    """What every tier found. *passing*: episodes that may be shown."""

    ranking: Ranking
    floor: Floor
    passing: Sequence[Candidate]
    episodes: Sequence[FoundEpisode]
    facts: FoundFacts
    procedure: FoundProcedure

    @property
    def fits(self) -> bool:
        return bool(self.passing or self.facts.passing or self.procedure.memories)

    @property
    def skipped_vectors(self) -> int:
        return self.ranking.skipped_vectors + self.facts.skipped_vectors + self.procedure.skipped_vectors

    def explained(self) -> tuple[Mapping[str, object], ...]:
        return (
            *self.procedure.explain,
            *self.facts.explain,
            *explained_episodes(self.ranking, self.floor, self.passing),
        )


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
        tiers = self._tiers(self._semantic(), self._procedural(context_id))
        memories = [
            *tiers.procedure.memories,
            *tiers.facts.memories,
            *(remembered_episode(one) for one in tiers.episodes),
        ]
        kept = within_budget(context_id, memories, self._request.max_context_tokens)
        items = tuple(one.item for one in kept)
        self._record(context_id, items)
        return Recalled(
            context=context_of(context_id, kept),
            items=items,
            degraded=tuple(self._degraded),
            context_id=context_id,
            timings={**self._timings, "total_ms": self._budget.spent_ms},
            nothing_relevant=not tiers.fits and self._compared(tiers),
            considered=len(tiers.ranking.candidates),
            skipped_vectors=tiers.skipped_vectors,
            unreadable=self._unreadable + tiers.procedure.unreadable,
            cross_tenant=tiers.facts.foreign,
            unreadable_documents=tiers.facts.unreadable,
            withheld=self._withheld + tiers.facts.withheld + tiers.procedure.withheld,
            notes=_notes(tiers.facts),
            dropped=len(memories) - len(kept),
            explain=tiers.explained() if self._request.explain else None,
        )

    def _tiers(self, semantic: SemanticRecall | None, procedural: ProceduralRecall | None) -> "_Tiers":
        """What each tier has for the task."""
        views, vector, model = self._read()
        asked = lexical.query(self._request.task)
        ranking = rank(asked, vector, views, model=model)
        form = form_of(len(asked.tokens))
        floor = episode_floor(None if vector is None else model, form, override=self._rules.episode_floor)
        self._timings["rank_ms"] = self._budget.spent_ms
        may_be_shown = passing(ranking.candidates, floor, form)
        episodes = self._fetch(may_be_shown)
        facts = semantic.found(vector, model) if semantic else FoundFacts()
        self._timings["facts_ms"] = self._budget.spent_ms
        procedure = procedural.found(vector, model) if procedural else FoundProcedure()
        self._timings["procedure_ms"] = self._budget.spent_ms
        return _Tiers(ranking, floor, may_be_shown, episodes, facts, procedure)

    def _compared(self, tiers: "_Tiers") -> bool:
        """Whether that nothing passed says something about memory, and not about what kept it from being read."""
        counts = []
        if "episodic" in self._request.tiers and self._request.max_episodes > 0:
            stored = len(tiers.ranking.candidates) + self._unreadable
            counts.append((stored, tiers.ranking.skipped_vectors + self._unreadable))
        if self._wants_facts:
            counts.append((tiers.facts.stored, tiers.facts.skipped_vectors + tiers.facts.unreadable))
        if self._wants_procedure:
            counts.append((tiers.procedure.stored, tiers.procedure.skipped_vectors + tiers.procedure.unreadable))
        compared = all(not stored or passed_over < stored for stored, passed_over in counts)
        return bool(counts) and compared and not self._degraded

    @property
    def _wants_facts(self) -> bool:
        return self._doors.semantic is not None and "semantic" in self._request.tiers and self._request.max_facts > 0

    @property
    def _wants_procedure(self) -> bool:
        return self._doors.procedural is not None and PROCEDURAL in self._request.tiers

    def _semantic(self) -> SemanticRecall | None:
        """The facts, on their way from here on."""
        doors = self._doors.semantic
        if doors is None or not self._wants_facts:
            return None
        return SemanticRecall(self._request, doors, self._reads, now=self._now, rules=self._rules.facts)

    def _procedural(self, context_id: str) -> ProceduralRecall | None:
        """The procedures, on their way as well."""
        door = self._doors.procedural
        if door is None or not self._wants_procedure:
            return None
        draw = self._request.run_id or context_id
        return ProceduralRecall(self._request, door, self._reads, draw=draw, rules=self._rules.procedures)

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

    def _fetch(self, candidates: Sequence[Candidate]) -> list[FoundEpisode]:
        shown = collapse(candidates, limit=self._request.max_episodes)
        if not shown:
            return []
        keys = [one.candidate.key for one in shown]
        read = started(lambda: self._doors.episodes().get_many(keys))
        read_episodes = self._readable(self._reads.result(read, FETCH_BY, tier="episodic"))
        episodes = {(e.agent_id, e.run_id): self._clean(e) for e in read_episodes}
        self._timings["fetch_ms"] = self._budget.spent_ms
        return [FoundEpisode(one, episodes[one.candidate.key]) for one in shown if one.candidate.key in episodes]

    def _clean(self, episode: Episode) -> Episode:
        clean, left_out = clean_episode(episode)
        self._withheld += left_out
        return clean

    def _record(self, context_id: str, items: tuple[RecalledItem, ...]) -> None:
        # What is prefetched counts as read when it is picked up.
        if not items or self._request.prefetch:
            return
        detail = retrieved(self._request, context_id, items, at=self._now)
        self._reads.result(started(lambda: self._doors.publish(MEMORY_RETRIEVED, detail)), RECORD_BY, tier="recording")
        self._timings["record_ms"] = self._budget.spent_ms


# What is kept of a procedure that was shown: where it stands, and in which words it was.
_SHOWN = {"task_type", "steps_sha256"}


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
            **({name: str(item.provenance[name]) for name in _SHOWN} if item.tier == PROCEDURAL else {}),
        ).model_dump(exclude=None if item.tier == PROCEDURAL else _SHOWN)
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
