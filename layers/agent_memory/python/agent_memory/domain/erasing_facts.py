"""A fact without what one person's runs said for it: removed, withdrawn, or kept in the others' words."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from agent_memory.domain.fact_support import support
from agent_memory.domain.fact_writes import StoreMarks
from agent_memory.domain.facts import BELIEVED, ConfirmationSettings, Fact, FactChange, FactState, Observation

ERASED = "erased"
IsTheirs = Callable[[Observation], bool]
IsTheirRun = Callable[[str, str], bool]


class Reduced(NamedTuple):
    """What is left of a fact. *fact* None: nothing. *marks*: as the store is to hold them. *gone*: observations to
    delete. *unpublish*: its document says what it must not say any more."""

    fact: Fact | None
    marks: StoreMarks
    gone: tuple[Observation, ...]
    unpublish: bool


def reduced(
    fact: Fact,
    marks: StoreMarks,
    user_ref: str,
    theirs: IsTheirs,
    their_run: IsTheirRun,
    gate: ConfirmationSettings,
    *,
    now: int,
    reason: str = ERASED,
) -> Reduced | None:
    """Take out of *fact* what *theirs* picks, and *their_run* out of its history. None: the person has no part.

    *reason*: a code for the history."""
    gone = tuple(one for one in fact.observations if theirs(one))
    about = fact.user_ref == user_ref and len(gone) == len(fact.observations)
    kept = tuple(one for one in fact.observations if one not in gone)
    marked = _anonymous(fact, gone, their_run)
    if not gone and not about and marked == fact:
        return None
    published = fact.promoted_at is not None
    if not kept:
        return Reduced(None, marks, gone, unpublish=published)
    left = _in_others_words(marked, kept)
    enough = support(kept, distinct_users=gate.require_distinct_users) >= gate.confirmation_threshold
    if fact.state in BELIEVED and not enough:
        change = FactChange(at=now, state=FactState.OBSERVED, reason=reason)
        left = left.moved(change, promoted_at=None, ingested_at=None)
        return Reduced(left, _without_document(marks), gone, unpublish=published)
    if left.content != fact.content:
        if fact.state in BELIEVED:
            # Other words: a new document, and the Knowledge Base has yet to read it.
            state = fact.state if fact.state is FactState.CONTESTED else FactState.PROMOTED
            change = FactChange(at=now, state=state, reason=reason)
            left = left.moved(change, promoted_at=now, ingested_at=None)
        return Reduced(left, _without_document(marks), gone, unpublish=published)
    return Reduced(left, marks, gone, unpublish=False)


def _without_document(marks: StoreMarks) -> StoreMarks:
    return marks.model_copy(update={"published": False})


def _anonymous(fact: Fact, gone: Sequence[Observation], their_run: IsTheirRun) -> Fact:
    """Without the person's runs in its history, which may have confirmed it or contradicted it."""
    runs = {one.run for one in gone}

    def told(change: FactChange) -> FactChange:
        run = (change.agent_id or "", change.run_id or "")
        theirs = run in runs or their_run(*run)
        return change.model_copy(update={"agent_id": None, "run_id": None}) if theirs else change

    history = tuple(told(change) for change in fact.history)
    return fact if history == fact.history else fact.model_copy(update={"history": history})


def _in_others_words(fact: Fact, kept: tuple[Observation, ...]) -> Fact:
    words = {one.content for one in kept}
    content = fact.content if fact.content in words else kept[0].content
    return fact.model_copy(
        update={
            "content": content,
            "observations": kept,
            "confidence": max(one.confidence for one in kept),
            "last_confirmed_at": max(one.observed_at for one in kept),
        }
    )


def uncontested(
    fact: Fact, gone: Collection[str], marks: Mapping[str, StoreMarks], now: int, *, reason: str = ERASED
) -> Reduced | None:
    """The fact without the contradictions of facts that are gone; None: they did not contradict it."""
    left = tuple(other for other in fact.contested_by if other not in gone)
    if left == fact.contested_by:
        return None
    freed = fact.model_copy(update={"contested_by": left})
    if fact.state is FactState.CONTESTED and not left:
        state = FactState.INGESTED if fact.ingested_at is not None else FactState.PROMOTED
        freed = freed.moved(FactChange(at=now, state=state, reason=reason))
    return Reduced(freed, marks.get(fact.fact_id, StoreMarks()), (), unpublish=False)
