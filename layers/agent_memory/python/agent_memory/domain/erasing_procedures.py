"""A procedure without the runs of one person: removed when nobody else proposed it, else kept in others' words."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from agent_memory.domain.procedures import (
    Procedure,
    ProcedureChange,
    ProcedureState,
    ProposalEvidence,
    Wording,
    moved,
    steps_hash,
)

ERASED = "erased"


class ReducedProcedure(NamedTuple):
    """What is left. *procedure* None: nothing, all rows of it go. *wordings*: hashes of former words that go."""

    procedure: Procedure | None
    gone: tuple[ProposalEvidence, ...]
    wordings: tuple[str, ...]


def reduced(
    procedure: Procedure,
    evidence: Sequence[ProposalEvidence],
    wordings: Sequence[Wording],
    theirs: Callable[[ProposalEvidence], bool],
    their_run: Callable[[str, str], bool],
    *,
    now: int,
) -> ReducedProcedure | None:
    """Take the proposals that *theirs* picks out of *procedure*; None: the person has no part in it."""
    gone = tuple(one for one in evidence if theirs(one))
    named = {change.who for change in procedure.history if change.kind == "run" and their_run(*_run_of(change.who))}
    if not gone and not named:
        return None
    kept = [one for one in evidence if one not in gone]
    if gone and not kept:
        return ReducedProcedure(None, gone, tuple(one.steps_sha256 for one in wordings))
    theirs_alone = {one.steps_sha256 for one in gone} - {one.steps_sha256 for one in kept}
    former = tuple(one.steps_sha256 for one in wordings if one.steps_sha256 in theirs_alone)
    left = _anonymous(procedure, {(one.agent_id, one.run_id) for one in gone}, named, kept)
    left = left.model_copy(update={"evidence": max(0, procedure.evidence - len(gone))})
    if procedure.steps_sha256 in theirs_alone:
        left = _reworded(left, kept, now)
    return ReducedProcedure(left, gone, former)


def _run_of(who: str) -> tuple[str, str]:
    agent, _, run = who.partition("/")
    return agent, run


def _anonymous(
    procedure: Procedure, runs: Collection[tuple[str, str]], named: Collection[str], kept: Sequence[ProposalEvidence]
) -> Procedure:
    names = {f"{agent}/{run}" for agent, run in runs} | set(named)
    history = tuple(
        change.model_copy(update={"who": ERASED, "why": ""}) if change.who in names else change
        for change in procedure.history
    )
    updates: dict[str, object] = {"history": history}
    if procedure.proposed_by in runs:
        # The task stands in the words of the run that proposed it first.
        first = kept[0]
        updates |= {"proposed_by": (first.agent_id, first.run_id), "task": "", "task_vector": None}
    return procedure.model_copy(update=updates)


def _reworded(procedure: Procedure, kept: Sequence[ProposalEvidence], now: int) -> Procedure:
    """In the words of the oldest proposal that is left; other steps than those that somebody approved."""
    words = next((one for one in kept if one.steps), None)
    title, steps = (words.title, words.steps) if words else ("", ())
    after = ProcedureState.PENDING if words else ProcedureState.RETIRED
    change = ProcedureChange(
        at=now, who="agent-memory", kind="memory", what="edit", why=ERASED, before=procedure.state, after=after,
        steps_sha256=steps_hash(title, steps), applied=procedure.applied, succeeded=procedure.succeeded,
    )  # fmt: skip
    anew = {"applied": 0, "succeeded": 0, "offered": 0, "passed_over": 0, "last_used_at": now, "last_offered_at": None}
    return moved(procedure, change, title=title, steps=steps, approval=None, vector=None, cleared_sha256=None, **anew)
