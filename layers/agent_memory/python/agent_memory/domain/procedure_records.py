"""Procedures as reviewers see them: everything that is stored of one, and what follows from it."""

from collections.abc import Iterable, Sequence

from agent_memory.domain.language import guess_language
from agent_memory.domain.procedures import (
    OFFERED,
    QUEUED,
    Procedure,
    ProcedureRules,
    ProposalEvidence,
    Wording,
    injectable,
    on_trial,
    rank,
    success_rate,
    wilson_lower_bound,
)

_INTERNAL = {"task_vector", "vector", "schema_version"}


def summary(procedure: Procedure, rules: ProcedureRules) -> dict[str, object]:
    """One line of a list: no steps, no history."""
    rate, approval = success_rate(procedure), procedure.approval
    held = procedure.model_dump(mode="json", exclude={*_INTERNAL, "steps", "history", "task", "proposers"})
    return {
        **held,
        "steps": len(procedure.steps),
        "steps_sha256": procedure.steps_sha256,
        "success_rate": None if rate is None else round(rate, 4),
        "lower_bound": round(wilson_lower_bound(procedure.succeeded, procedure.applied), 4),
        "trial": procedure.state in OFFERED and on_trial(procedure, rules),
        "offered_to_runs": injectable(procedure, rules),
        "approved_by": approval.kind if approval else None,
        "language_unchecked": language_unchecked(procedure),
    }


def language_unchecked(procedure: Procedure) -> bool:
    """Whether its words look like another language than English: doubtful ones are looked for in that alone, so that
    there is no warning then says nothing, and whoever decides must read every step."""
    return guess_language("\n".join([procedure.title, *procedure.steps])) in ("es", "other")


def record(
    procedure: Procedure, rules: ProcedureRules, proposals: Sequence[ProposalEvidence], wordings: Sequence[Wording]
) -> dict[str, object]:
    """All of one: its steps, its history, the runs that proposed it, the words that it had before."""
    held = procedure.model_dump(mode="json", include={"steps", "history", "task", "proposers"})
    return {
        **summary(procedure, rules),
        **held,
        "proposals": [one.model_dump(mode="json") for one in proposals],
        "wordings": [one.model_dump(mode="json") for one in wordings],
    }


def in_review_order(procedures: Iterable[Procedure]) -> list[Procedure]:
    """What waits for a decision first, by the runs behind it; then what only an agent approved; then the rest."""
    return sorted(procedures, key=_urgency)


def _urgency(procedure: Procedure) -> tuple[int, float, int, str]:
    if procedure.state in QUEUED:
        return 0, -procedure.evidence, procedure.created_at, procedure.procedure_id
    by_person, bound, _ = rank(procedure)
    place = 3 if procedure.state not in OFFERED else 2 if by_person else 1
    return place, -bound, procedure.created_at, procedure.procedure_id
