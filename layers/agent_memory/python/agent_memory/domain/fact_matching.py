"""How what a run says stands to the facts that are known."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from agent_memory.domain.facts import Fact, Observation
from agent_memory.domain.same_fact import Relation, Verdict, same_fact, thresholds_of


class Match(NamedTuple):
    """How the candidate, or a fact, stands to a known fact."""

    fact: Fact
    relation: Relation
    cosine: float
    close: bool


def matches(
    observations: Sequence[Observation], peers: Sequence[Fact], judgements: Mapping[str, Relation]
) -> list[Match]:
    """Every known fact that is the same as what *observations* say, or contradicts it."""
    wordings = [(fact, known) for fact in peers for known in _wordings(fact.observations)]
    found: dict[str, list[tuple[Verdict, float]]] = {}
    facts = {fact.fact_id: fact for fact in peers}
    for own in _wordings(observations):
        comparable = [(fact, known) for fact, known in wordings if known.embedding_model == own.embedding_model]
        if not comparable:
            continue
        cosines = np.stack([known.vector for _, known in comparable]) @ own.vector
        thresholds = thresholds_of(own.embedding_model)
        for index in np.flatnonzero(cosines >= thresholds.related):
            fact, known = comparable[index]
            cosine = float(cosines[index])
            verdict = same_fact(known.content, own.content, cosine=cosine, thresholds=thresholds)
            found.setdefault(fact.fact_id, []).append((verdict, cosine))
    joined = (
        _joined(facts[identity], verdicts, judgements.get(identity)) for identity, verdicts in sorted(found.items())
    )
    return [match for match in joined if match.relation is not Relation.DIFFERENT or match.close]


def _joined(fact: Fact, verdicts: list[tuple[Verdict, float]], judgement: Relation | None) -> Match:
    """One relation from the comparison with each wording: an objection outweighs likeness, likeness distance."""
    cosine = max(cosine for _, cosine in verdicts)
    if judgement is not None:
        return Match(fact, judgement, cosine, close=False)
    relations = {verdict.relation for verdict, _ in verdicts}
    relation = next(r for r in (Relation.CONTRADICTS, Relation.SAME, Relation.DIFFERENT) if r in relations)
    return Match(fact, relation, cosine, close=any(v.close_call for v, _ in verdicts if v.relation is relation))


def _wordings(observations: Sequence[Observation]) -> list[Observation]:
    """One observation per wording."""
    return list(
        {(observation.content, observation.embedding_model): observation for observation in observations}.values()
    )
