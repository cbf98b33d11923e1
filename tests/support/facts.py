"""Builders of candidates and facts. A text's vector says only which subject it is about."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from agent_memory.domain.confirmation import confirm
from agent_memory.domain.facts import Action, Candidate, Decision, Fact, SourceKind
from agent_memory.domain.models import FactScope, Outcome, Vector

MODEL = "local.all-minilm-l6-v2"
NOW = 1_800_000_000


class Gate(NamedTuple):
    """The settings that the gate reads."""

    confirmation_threshold: int = 3
    require_distinct_users: bool = False
    min_fact_confidence: float = 0.7


def about(subject: str) -> Vector:
    """The unit vector of a subject; texts on one subject are as close as can be."""
    seed = int.from_bytes(hashlib.sha256(subject.encode()).digest()[:4], "big")
    vector = np.random.default_rng(seed).normal(size=384).astype(np.float32)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def a_candidate(
    content: str = "Depot K closes at 16:00.", *, run: str = "r-1", subject: str = "depot", **changes: object
) -> Candidate:
    values: dict[str, object] = {
        "tenant_id": "northwind",
        "domain": "depots",
        "agent_id": "claims-bot",
        "run_id": run,
        "position": 0,
        "outcome": Outcome.COMPLETED,
        "content": content,
        "confidence": 0.9,
        "scope": FactScope.DOMAIN,
        "source": SourceKind.USER,
        "vector": about(subject),
        "embedding_model": MODEL,
    }
    return Candidate.model_validate(values | changes)


def after(
    candidates: Iterable[Candidate], known: Sequence[Fact] = (), *, settings: Gate | None = None, now: int = NOW
) -> list[Fact]:
    """The facts once all *candidates* went through the gate, a second apart."""
    return run_through(candidates, known, settings=settings, now=now)[0]


def run_through(
    candidates: Iterable[Candidate], known: Sequence[Fact] = (), *, settings: Gate | None = None, now: int = NOW
) -> tuple[list[Fact], list[Decision]]:
    """The facts, and what was decided for each candidate."""
    facts = {fact.fact_id: fact for fact in known}
    decisions = []
    for second, candidate in enumerate(candidates):
        decision = confirm(candidate, known=list(facts.values()), settings=settings or Gate(), now=now + second)
        decisions.append(decision)
        if decision.action in (Action.OPENED, Action.CONFIRMED):
            assert decision.fact
            facts.update({fact.fact_id: fact for fact in (decision.fact, *decision.others)})
    return list(facts.values()), decisions
