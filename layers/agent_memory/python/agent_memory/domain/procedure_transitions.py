"""How a procedure changes: what reviewers decide, what results ask for, what the night flags. Pure functions."""

from agent_memory.domain.models import Vector
from agent_memory.domain.plain_text import one_line, plain, shortened
from agent_memory.domain.procedures import (
    GIVEN_BACK,
    MAX_HISTORY,
    MAX_PROPOSERS,
    OFFERED,
    Approval,
    Procedure,
    ProcedureChange,
    ProcedureRules,
    ProcedureState,
    Reviewer,
    Verdict,
    failing,
    moved,
    on_trial,
    stale,
    steps_hash,
)

MAX_WHY = 500


def _change(
    procedure: Procedure, reviewer: Reviewer, now: int, *, what: str, why: str, after: ProcedureState
) -> ProcedureChange:
    why = shortened(one_line(plain(why)), MAX_WHY)
    return ProcedureChange(
        at=now, who=reviewer.by, kind=reviewer.kind, what=what, why=why, before=procedure.state, after=after,
        steps_sha256=procedure.steps_sha256, applied=procedure.applied, succeeded=procedure.succeeded,
        stated=reviewer.stated,
    )  # fmt: skip


def _own_change(procedure: Procedure, now: int, *, what: str, why: str, after: ProcedureState) -> ProcedureChange:
    change = _change(procedure, Reviewer(by="agent-memory"), now, what=what, why=why, after=after)
    return change.model_copy(update={"kind": "memory"})


def _anew(now: int) -> dict[str, object]:
    """Counters of steps that nobody followed yet; the history keeps the old ones."""
    return {"applied": 0, "succeeded": 0, "offered": 0, "passed_over": 0, "last_used_at": now, "last_offered_at": None}


def _refused(reason: str) -> Verdict:
    return Verdict(decision="refused", reason=reason)


def _done(reason: str, procedure: Procedure) -> Verdict:
    return Verdict(decision="done", reason=reason, procedure=procedure)


def approve(
    procedure: Procedure, reviewer: Reviewer, *, expected_sha256: str, now: int, rules: ProcedureRules, why: str = ""
) -> Verdict:
    """Let agents see these very steps. Refused: `changed` (other steps than the reviewer read), `own_proposal`,
    `retired`, `persons_decision` (an agent against a person's rejection).

    A person's approval replaces an agent's. What failed starts its trial anew.
    """
    if expected_sha256 != procedure.steps_sha256:
        return _refused("changed")
    if own_proposal(procedure, reviewer):
        return _refused("own_proposal")
    if procedure.state is ProcedureState.RETIRED:
        return _refused("retired")
    if procedure.state is ProcedureState.REJECTED and overruled(procedure, reviewer):
        return _refused("persons_decision")
    held = procedure.approval
    in_force = procedure.state in OFFERED and held is not None and held.steps_sha256 == expected_sha256
    if in_force and held is not None and (reviewer.kind == "agent" or held.kind == "person"):
        return Verdict(decision="unchanged", reason="approved_before")
    approval = Approval(
        by=reviewer.by, kind=reviewer.kind, at=now, steps_sha256=expected_sha256, stated=reviewer.stated
    )
    failed = failing(procedure, rules)
    proven = not failed and not on_trial(procedure, rules)
    after = ProcedureState.ESTABLISHED if proven else ProcedureState.APPROVED
    updates: dict[str, object] = _anew(now) if failed else {"last_used_at": max(now, procedure.last_used_at)}
    change = _change(procedure, reviewer, now, what="approved", why=why, after=after)
    return _done("approved", moved(procedure, change, approval=approval, **updates))


def reject(procedure: Procedure, reviewer: Reviewer, *, now: int, why: str = "") -> Verdict:
    """Never show it, and take every later proposal that means the same for it. An agent can't overrule a person."""
    if procedure.state is ProcedureState.REJECTED:
        return Verdict(decision="unchanged", reason="rejected_before")
    if overruled(procedure, reviewer):
        return _refused("persons_decision")
    change = _change(procedure, reviewer, now, what="rejected", why=why, after=ProcedureState.REJECTED)
    return _done("rejected", moved(procedure, change, approval=None))


def edit(
    procedure: Procedure,
    reviewer: Reviewer,
    *,
    title: str,
    steps: tuple[str, ...],
    expected_sha256: str,
    now: int,
    vector: Vector | None,
    embedding_model: str | None,
    why: str = "",
) -> Verdict:
    """Give it other words: back to pending, approved by nobody, counters anew. *vector*: of the new title and steps.

    The id stays, so that what proposed the old words still finds it."""
    if expected_sha256 != procedure.steps_sha256:
        return _refused("changed")
    if steps_hash(title, steps) == expected_sha256:
        return Verdict(decision="unchanged", reason="same_steps")
    if overruled(procedure, reviewer):
        return _refused("persons_decision")
    change = _change(procedure, reviewer, now, what="edited", why=why, after=ProcedureState.PENDING)
    words = {"title": title, "steps": steps, "vector": vector, "embedding_model": embedding_model, "approval": None}
    if embedding_model != procedure.embedding_model:
        # Two models are never compared, and one name stands beside both vectors.
        words["task_vector"] = None
    return _done("edited", moved(procedure, change, **words, **_anew(now)))


def retire(procedure: Procedure, reviewer: Reviewer, *, now: int, why: str = "") -> Verdict:
    """Take it out of use for good, with its record kept."""
    if procedure.state is ProcedureState.RETIRED:
        return Verdict(decision="unchanged", reason="retired_before")
    if overruled(procedure, reviewer):
        return _refused("persons_decision")
    change = _change(procedure, reviewer, now, what="retired", why=why, after=ProcedureState.RETIRED)
    return _done("retired", moved(procedure, change, approval=None))


def pin(procedure: Procedure, reviewer: Reviewer, *, pinned: bool, now: int, why: str = "") -> Verdict:
    """Spare it from being flagged for want of use, or no longer."""
    if procedure.pinned == pinned:
        return Verdict(decision="unchanged", reason="pinned_before" if pinned else "not_pinned")
    what = "pinned" if pinned else "unpinned"
    change = _change(procedure, reviewer, now, what=what, why=why, after=procedure.state)
    return _done(what, moved(procedure, change, pinned=pinned))


def overruled(procedure: Procedure, reviewer: Reviewer) -> bool:
    """Whether an agent would undo what a person decided."""
    # Of a full history the entries after the first are gone, and with them maybe a person's decision.
    full = len(procedure.history) >= MAX_HISTORY
    ended = procedure.state in {ProcedureState.REJECTED, ProcedureState.RETIRED}
    decided = (change.kind for change in reversed(procedure.history[int(full) :]) if change.what in _DECISIONS)
    unknown = "person" if full or ended else "agent"
    return reviewer.kind == "agent" and next(decided, unknown) == "person"


def own_proposal(procedure: Procedure, reviewer: Reviewer) -> bool:
    """Whether the reviewer may be one of those that proposed it: more of them than are kept may be anybody."""
    many = len(procedure.proposers) >= MAX_PROPOSERS
    return reviewer.by in {*procedure.proposers, procedure.proposed_by[0]} or (reviewer.kind == "agent" and many)


_DECISIONS = frozenset({"approved", "rejected", "edited", "retired"})


def merge_evidence(procedure: Procedure, agent_id: str) -> Procedure:
    """One more run proposed it. Its agent may not approve it from then on."""
    proposers = tuple(dict.fromkeys((*procedure.proposers, agent_id)))[:MAX_PROPOSERS]
    return procedure.model_copy(update={"evidence": procedure.evidence + 1, "proposers": proposers})


def settled(procedure: Procedure, rules: ProcedureRules, *, now: int) -> Procedure:
    """The procedure in the state that its counters ask for: established, or withdrawn into the review queue."""
    if procedure.state not in OFFERED:
        return procedure
    if failing(procedure, rules):
        return withdraw(procedure, now=now, why="low_success")
    if procedure.state is ProcedureState.APPROVED and not on_trial(procedure, rules):
        after = ProcedureState.ESTABLISHED
        return moved(procedure, _own_change(procedure, now, what="established", why="results", after=after))
    return procedure


def withdraw(procedure: Procedure, *, now: int, why: str) -> Procedure:
    """Out of use until a person looks at it; nothing is deleted. *why*: a code."""
    after = ProcedureState.NEEDS_REVIEW
    return moved(procedure, _own_change(procedure, now, what="withdrawn", why=why, after=after))


def flag_stale(procedure: Procedure, now: int, rules: ProcedureRules) -> Verdict:
    """What the night does: a procedure that nobody used for long goes to the review queue."""
    if not stale(procedure, now, rules):
        return Verdict(decision="unchanged", reason="in_use")
    return _done("stale", withdraw(procedure, now=now, why="stale"))


def give_back(procedure: Procedure, *, withdrawn_at: int, now: int, why: str) -> Procedure | None:
    """The procedure in the state from which the night of *withdrawn_at* took it; None when anybody decided since."""
    last = next((one for one in reversed(procedure.history) if one.before is not one.after), None)
    if procedure.state is not ProcedureState.NEEDS_REVIEW or last is None or last.before not in OFFERED:
        return None
    if last.kind != "memory" or last.at != withdrawn_at:
        return None
    return moved(procedure, _own_change(procedure, now, what=GIVEN_BACK, why=why, after=last.before))
