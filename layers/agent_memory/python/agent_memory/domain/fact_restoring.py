"""A fact that comes back from the archive: believed again as far as nothing speaks against it by now."""

from collections.abc import Sequence

from agent_memory.domain.archive import Lease
from agent_memory.domain.fact_matching import matches
from agent_memory.domain.facts import BELIEVED, Fact, FactChange, FactState, Observation
from agent_memory.domain.same_fact import Relation

RESTORED = "restored"


def brought_back(archived: Fact, current: Fact | None, known: Sequence[Fact], lease: Lease, *, complete: bool) -> Fact:
    """The fact as it is to be written. *current*: what stands there now; *known*: all facts of the domain.

    *complete*: all that was said for it came back as well; else it has to be observed anew before it is believed.
    """
    base = archived if current is None else current
    said = (*base.observations, *missing(archived, current))
    if current is not None and not current.expired_away:
        return current.model_copy(update={"kept_until": lease.kept_until, "observations": said})
    state, rivals = _state(archived, known, complete=complete)
    believed = state in BELIEVED
    change = FactChange(at=lease.at, state=state, reason=RESTORED)
    return base.moved(
        change,
        observations=said,
        kept_until=lease.kept_until,
        # The Knowledge Base has to be given it again; who only waits for more observations never was in it.
        promoted_at=lease.at if believed else archived.promoted_at if complete else None,
        ingested_at=None if believed else archived.ingested_at,
        contested_by=rivals if believed else archived.contested_by,
    )


def missing(archived: Fact, current: Fact | None) -> tuple[Observation, ...]:
    """What was said for *archived* and is not there any more."""
    if current is None:
        return ()
    there = {_said(one) for one in current.observations}
    return tuple(one for one in archived.observations if _said(one) not in there)


def _said(one: Observation) -> tuple[object, ...]:
    return one.run, one.source, one.source_hash, one.content


def _state(archived: Fact, known: Sequence[Fact], *, complete: bool) -> tuple[FactState, tuple[str, ...]]:
    before = _before_it_expired(archived)
    if before not in BELIEVED:
        return before, ()
    if not complete:
        return FactState.OBSERVED, ()
    peers = [
        one
        for one in known
        if one.fact_id != archived.fact_id
        and one.state in BELIEVED
        and (one.scope, one.user_ref) == (archived.scope, archived.user_ref)
    ]
    against = [one.fact.fact_id for one in matches(archived.observations, peers, {}) if _denies(one.relation)]
    rivals = tuple(dict.fromkeys((*archived.contested_by, *against)))
    return (FactState.CONTESTED if rivals else FactState.PROMOTED), rivals


def _before_it_expired(archived: Fact) -> FactState:
    """Its state, and of one that was withdrawn by a night the state before that."""
    if not archived.expired_away:
        return archived.state
    return archived.history[-2].state if len(archived.history) > 1 else FactState.OBSERVED


def _denies(relation: Relation) -> bool:
    return relation is Relation.CONTRADICTS
