"""The confirmation gate: a fact is believed when enough independent runs observed it, in whatever words."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.fact_hygiene import refusal
from agent_memory.domain.fact_matching import Match, matches
from agent_memory.domain.fact_support import SPOKEN, support
from agent_memory.domain.facts import (
    BELIEVED,
    EXPIRED,
    WITHDRAWN,
    Action,
    Candidate,
    ConfirmationSettings,
    Decision,
    Fact,
    FactChange,
    FactState,
    Observation,
)
from agent_memory.domain.keys import fact_id
from agent_memory.domain.models import FactScope, Outcome
from agent_memory.domain.same_fact import Relation
from agent_memory.domain.screening import screen, trust_of

# Why the gate supersedes a fact; a person who settles it gives another reason.
NEWER_CONFIRMED = "newer_fact_confirmed"


def confirm(
    candidate: Candidate,
    *,
    known: Sequence[Fact],
    settings: ConfirmationSettings,
    now: int,
    judgements: Mapping[str, Relation] | None = None,
) -> Decision:
    """Decide what *candidate* does to the facts of its tenant and domain.

    *known*: all of them, withdrawn ones too. *judgements*: a judge's word on close calls, by fact_id.
    """
    reason = _refused(candidate, settings)
    if reason:
        return Decision(action=Action.REFUSED, reason=reason)
    peers = _peers(candidate, known)
    observation = _observation(candidate, now)
    found = matches((observation,), peers, judgements or {})
    close_calls = tuple(match.fact.fact_id for match in found if match.close)
    same = [match for match in found if match.relation is Relation.SAME]
    spoken = _spoken_before(observation, peers, same)
    if spoken:
        return Decision(action=Action.REPEATED, reason="run_counted", fact=spoken, close_calls=close_calls)
    best = max(
        same, key=lambda match: (match.fact.state not in WITHDRAWN, match.cosine, match.fact.fact_id), default=None
    )
    before = best.fact if best else _opened(candidate, now, taken={fact.fact_id for fact in known})
    rivals = [match.fact for match in found if match.relation is Relation.CONTRADICTS]
    seen = _observed(before, observation, now, cleared=candidate.cleared)
    fact, others, promoted = _settled(seen, observation, peers=peers, rivals=rivals, settings=settings, now=now)
    return Decision(
        action=Action.CONFIRMED if best else Action.OPENED,
        reason="same" if best else "new",
        fact=fact,
        observation=observation,
        others=others,
        promoted=promoted,
        close_calls=close_calls,
    )


def _spoken_before(observation: Observation, peers: Sequence[Fact], same: Sequence[Match]) -> Fact | None:
    """The fact for which this run counts already, in whatever words and to whichever of its twins it spoke."""
    repeated = (fact for fact in peers if _repeats(fact, observation))
    counted = (match.fact for match in same if _has_said(match.fact, observation))
    return next(repeated, None) or next(counted, None)


def _refused(candidate: Candidate, settings: ConfirmationSettings) -> str | None:
    if candidate.outcome is not Outcome.COMPLETED:
        return "run_not_completed"
    if not math.isfinite(candidate.confidence) or candidate.confidence < settings.min_fact_confidence:
        return "low_confidence"
    if candidate.scope is FactScope.USER and not candidate.user_ref:
        return "no_user"
    # Whatever comes here without having been screened on its way is screened now.
    if not candidate.cleared and screen(candidate.content, trust_of(candidate.source)).held:
        return "instruction"
    return refusal(candidate.content)


def _peers(candidate: Candidate, known: Iterable[Fact]) -> list[Fact]:
    """The known facts that speak of the same: the domain, or this one user."""
    subject = candidate.user_ref if candidate.scope is FactScope.USER else None
    peers = []
    for fact in known:
        if fact.tenant_id != candidate.tenant_id:
            raise CrossTenantError("a known fact belongs to another tenant")
        if fact.domain == candidate.domain and fact.scope is candidate.scope and fact.user_ref == subject:
            peers.append(fact)
    return peers


def _observation(candidate: Candidate, now: int) -> Observation:
    shared = (
        "agent_id",
        "run_id",
        "user_ref",
        "source",
        "source_hash",
        "content",
        "evidence",
        "confidence",
        "vector",
        "embedding_model",
    )
    return Observation(observed_at=now, **{name: getattr(candidate, name) for name in shared})


def _opened(candidate: Candidate, now: int, taken: Collection[str]) -> Fact:
    position = candidate.position
    while (
        identity := fact_id(candidate.tenant_id, candidate.domain, candidate.agent_id, candidate.run_id, position)
    ) in taken:
        position += 1000  # the run said something else at this position before
    opening = FactChange(
        at=now, state=FactState.OBSERVED, reason="first_observed", agent_id=candidate.agent_id, run_id=candidate.run_id
    )
    return Fact(
        tenant_id=candidate.tenant_id,
        domain=candidate.domain,
        fact_id=identity,
        content=candidate.content,
        scope=candidate.scope,
        user_ref=candidate.user_ref if candidate.scope is FactScope.USER else None,
        confidence=candidate.confidence,
        history=(opening,),
        valid_until=candidate.valid_until,
        cleared=candidate.cleared,
        created_at=now,
        last_confirmed_at=now,
    )


def _repeats(fact: Fact, observation: Observation) -> bool:
    """Whether this very observation is there: a second delivery, however a judge may rule today."""
    unchanged = (observation.run, observation.content, observation.source, observation.source_hash)
    return any((known.run, known.content, known.source, known.source_hash) == unchanged for known in fact.observations)


def _has_said(fact: Fact, observation: Observation) -> bool:
    """Whether the run counts already. A user's or the agent's word still adds to what a document said before."""
    earlier = [known for known in fact.observations if known.run == observation.run]
    if not earlier:
        return False
    if any(known.source in SPOKEN for known in earlier):
        return True
    return observation.source not in SPOKEN and any(known.source_hash == observation.source_hash for known in earlier)


def _observed(fact: Fact, observation: Observation, now: int, *, cleared: bool) -> Fact:
    # The order of arrival must not show: the best confidence, the latest time.
    return fact.model_copy(
        update={
            "observations": (*fact.observations, observation),
            "confidence": max(fact.confidence, observation.confidence),
            "last_confirmed_at": max(fact.last_confirmed_at, now),
            "cleared": fact.cleared or cleared,
        }
    )


def _settled(
    fact: Fact,
    observation: Observation,
    *,
    peers: Sequence[Fact],
    rivals: list[Fact],
    settings: ConfirmationSettings,
    now: int,
) -> tuple[Fact, tuple[Fact, ...], bool]:
    """The fact and those it contradicts, in the states that follow from the new observation."""
    if fact.state in BELIEVED:
        return fact, (), False

    def change(state: FactState, reason: str, other: str | None = None) -> FactChange:
        return FactChange(
            at=now, state=state, reason=reason, agent_id=observation.agent_id, run_id=observation.run_id, other=other
        )

    if not _reaches_threshold(fact, settings):
        objects = [] if fact.state is FactState.RETIRED else [r for r in rivals if _newly_contested(r, fact)]
        contesting = change(FactState.CONTESTED, "contradicted", fact.fact_id)
        return fact, tuple(_contested(rival, fact, contesting) for rival in objects), False
    opposed = _opposed(fact, peers, rivals)
    fact = fact.moved(
        change(FactState.PROMOTED, "confirmed"), promoted_at=now, ingested_at=None, superseded_by=None, contested_by=()
    )
    others = tuple(
        rival.moved(change(FactState.SUPERSEDED, NEWER_CONFIRMED, fact.fact_id), superseded_by=fact.fact_id)
        for rival in opposed
        if rival.state in BELIEVED
    )
    for rival in opposed:
        if rival.state is FactState.OBSERVED:
            fact = _contested(fact, rival, change(FactState.CONTESTED, "contradicted", rival.fact_id))
    return fact, others, True


def _opposed(fact: Fact, peers: Sequence[Fact], rivals: Sequence[Fact]) -> list[Fact]:
    """What *fact* contradicts: earlier wordings of it may contradict what the newest does not."""
    found = [match.fact for match in matches(fact.observations, peers, {}) if match.relation is Relation.CONTRADICTS]
    return list({rival.fact_id: rival for rival in (*found, *rivals) if rival.fact_id != fact.fact_id}.values())


def _newly_contested(rival: Fact, fact: Fact) -> bool:
    return rival.state in BELIEVED and fact.fact_id not in rival.contested_by


def _contested(fact: Fact, rival: Fact, change: FactChange) -> Fact:
    return fact.moved(change, contested_by=(*fact.contested_by, rival.fact_id))


def _reaches_threshold(fact: Fact, settings: ConfirmationSettings) -> bool:
    counted = fact.observations
    if fact.state in WITHDRAWN:
        last = fact.history[-1]
        if fact.state is FactState.RETIRED and last.reason != EXPIRED:
            return False
        # What was withdrawn comes back on new evidence only.
        counted = tuple(observation for observation in counted if observation.observed_at > last.at)
    distinct_users = settings.require_distinct_users and fact.scope is FactScope.DOMAIN
    return support(counted, distinct_users=distinct_users) >= settings.confirmation_threshold
