"""The procedure for a task: at most one, approved in the very words that are stored, chosen by what its results say.

With a task type its own procedures are looked at first, then those of the types that the deployment maps to it, in its
order: the most specific type wins. Without one, the procedures whose task is nearest in meaning.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agent_memory.domain.deadlines import Reads, started
from agent_memory.domain.models import Vector
from agent_memory.domain.ports import Read
from agent_memory.domain.procedure_choice import choose
from agent_memory.domain.procedures import (
    PROCEDURAL,
    Procedure,
    ProcedureRules,
    ProcedureView,
    failing,
    injectable,
    on_trial,
    success_rate,
    wilson_lower_bound,
)
from agent_memory.domain.quarantine import GIVES_ORDERS, procedure_gives_orders
from agent_memory.domain.recall_request import ProcedureRecallRules, RecallRequest
from agent_memory.domain.recalled import RecalledItem, Remembered, iso

if TYPE_CHECKING:
    from concurrent.futures import Future

    # what writes procedures is not what a recall loads
    from agent_memory.domain.procedure_ports import Procedures

# Shares of the budget by which it must be known which procedures there are, and by which they must be read.
VIEWS_BY, PROCEDURES_BY = 0.8, 0.9
NOTE = "a starting point to adapt, not a script"


class Considered(NamedTuple):
    """A procedure that was looked at. *likeness*: of its task to this one; 1 where the type was named. *reason*: why it
    is not shown; None: it is."""

    procedure: Procedure
    likeness: float
    reason: str | None


class FoundProcedure(NamedTuple):
    """The answer of the tier: one memory or none; to a run that does not try it, a procedure on trial is as good as
    none. *stored*: everything that could have been compared, if it had been readable. *withheld*: those that give
    orders."""

    memories: tuple[Remembered, ...] = ()
    stored: int = 0
    explain: tuple[Mapping[str, object], ...] = ()
    unreadable: int = 0
    skipped_vectors: int = 0
    withheld: int = 0


class ProceduralRecall:
    """The procedure for one request; the reads begin when it is made.

    *draw*: the run's id or the context's; it decides whether this run tries a procedure on trial.
    """

    def __init__(
        self,
        request: RecallRequest,
        procedures: Callable[[], "Procedures"],
        reads: Reads,
        *,
        draw: str,
        rules: ProcedureRecallRules,
    ) -> None:
        self._task_type = request.task_type
        self._reads = reads
        self._draw = draw
        self._rules = rules
        self._procedures = procedures
        self._rungs = [started(_offered(procedures, task_type)) for task_type in self._ladder()]
        self._views = started(lambda: procedures().views()) if self._task_type is None else None

    def found(self, vector: Vector | None, model: str) -> FoundProcedure:
        """The procedure to show. *vector*: of the task; needed only when no task type was named."""
        if self._views is not None:
            return self._by_meaning(self._views, vector, model)
        rungs = [self._reads.result(rung, PROCEDURES_BY, tier=PROCEDURAL) or Read() for rung in self._rungs]
        unreadable = sum(rung.unreadable for rung in rungs)
        considered = self._considered({id(one): (one, 1.0) for rung in rungs for one in rung})
        return FoundProcedure(
            memories=tuple(self._remembered(one) for one in considered if one.reason is None),
            stored=len(considered) + unreadable,
            explain=tuple(self._explained(one) for one in considered),
            unreadable=unreadable,
            withheld=_withheld(considered),
        )

    def _by_meaning(
        self, started_views: "Future[Read[ProcedureView]]", vector: Vector | None, model: str
    ) -> FoundProcedure:
        """Of all procedures those are read whose task is near enough; the index says which."""
        views = self._reads.result(started_views, VIEWS_BY, tier=PROCEDURAL) or Read()
        alike = [(_cosine(view, vector), view) for view in views if _comparable(view, vector, model)]
        read = self._fetched([view for cosine, view in alike if cosine >= self._rules.floor])
        # What was edited since it stood in the index may be comparable no more.
        held = {id(one): (one, _cosine(one, vector)) for one in read if _comparable(one, vector, model)}
        considered = self._considered(held)
        far = [(cosine, view) for cosine, view in alike if cosine < self._rules.floor]
        far.sort(key=lambda one: (-one[0], one[1].procedure_id))
        return FoundProcedure(
            memories=tuple(self._remembered(one) for one in considered if one.reason is None),
            stored=len(views),
            explain=(
                *(self._explained(one) for one in considered),
                *(_too_far(view, cosine) for cosine, view in far),
            ),
            unreadable=read.unreadable,
            skipped_vectors=len(views) - len(alike) if vector is not None else 0,
            withheld=_withheld(considered),
        )

    def _fetched(self, views: Sequence[ProcedureView]) -> Read[Procedure]:
        if not views:
            return Read()
        keys = [(view.task_type, view.procedure_id) for view in views]
        reading = started(lambda: self._procedures().get_many(keys))
        return self._reads.result(reading, PROCEDURES_BY, tier=PROCEDURAL) or Read()

    def _considered(self, held: Mapping[int, tuple[Procedure, float]]) -> list[Considered]:
        """What was read, with what speaks against each; the one to show comes first."""
        likeness = {place: cosine for place, (_, cosine) in held.items()}
        procedures = [one for one, _ in held.values()]
        fitting = [one for one in procedures if self._objection(one, likeness[id(one)]) is None]
        chosen = self._chosen(fitting, likeness)
        considered = [
            Considered(one, likeness[id(one)], self._objection(one, likeness[id(one)]) or _passed_over(one, chosen))
            for one in procedures
        ]
        return sorted(considered, key=lambda one: (one.reason is not None, -one.likeness, one.procedure.procedure_id))

    def _ladder(self) -> tuple[str, ...]:
        if self._task_type is None:
            return ()
        return tuple(dict.fromkeys((self._task_type, *self._rules.aliases.get(self._task_type, ()))))

    def _objection(self, one: Procedure, likeness: float) -> str | None:
        """Why a procedure must not be shown, whatever else speaks for it."""
        rules = self._rules.rules
        if failing(one, rules):
            return "low_success"
        if not injectable(one, rules):
            return "not_approved"
        if procedure_gives_orders(one):
            return GIVES_ORDERS
        return "below_floor" if self._task_type is None and likeness < self._rules.floor else None

    def _chosen(self, fitting: Sequence[Procedure], likeness: Mapping[int, float]) -> Procedure | None:
        """The first task type, from the most specific or nearest one on, that has a procedure for this run."""
        nearest = sorted(fitting, key=lambda one: (-likeness[id(one)], one.procedure_id))
        for task_type in self._ladder() or dict.fromkeys(one.task_type for one in nearest):
            group = [one for one in fitting if one.task_type == task_type]
            chosen = choose(group, draw=self._draw, rules=self._rules.rules)
            if chosen is not None:
                return chosen
        return None

    def _remembered(self, one: Considered) -> Remembered:
        procedure = one.procedure
        steps = [f"{number}. {step}" for number, step in enumerate(procedure.steps, 1)]
        return Remembered(
            kind="procedure",
            about=_about(procedure, self._rules.rules),
            values=(("title", procedure.title), *(("step", step) for step in steps)),
            item=RecalledItem(
                id=procedure.procedure_id,
                tier=PROCEDURAL,
                text="\n".join((procedure.title, *steps)),
                score=round(one.likeness, 4),
                provenance=self._provenance(procedure),
            ),
        )

    def _provenance(self, procedure: Procedure) -> dict[str, object]:
        rate, approval = success_rate(procedure), procedure.approval
        return {
            "task_type": procedure.task_type,
            "steps_sha256": procedure.steps_sha256,
            "state": procedure.state.value,
            "trial": on_trial(procedure, self._rules.rules),
            "applied": procedure.applied,
            "succeeded": procedure.succeeded,
            "success_rate": None if rate is None else round(rate, 4),
            "lower_bound": round(wilson_lower_bound(procedure.succeeded, procedure.applied), 4),
            "proposed_by_runs": procedure.evidence,
            "approved_by": approval.kind if approval else None,
            "approved_at": iso(approval.at) if approval else None,
            "note": NOTE,
        }

    def _explained(self, one: Considered) -> dict[str, object]:
        procedure = one.procedure
        return {
            "id": procedure.procedure_id,
            "tier": PROCEDURAL,
            "score": round(one.likeness, 4),
            "passes": one.reason is None,
            "reason": one.reason,
            "state": procedure.state.value,
            "task_type": procedure.task_type,
            "trial": on_trial(procedure, self._rules.rules),
            "lower_bound": round(wilson_lower_bound(procedure.succeeded, procedure.applied), 4),
        }


def _offered(procedures: Callable[[], "Procedures"], task_type: str) -> Callable[[], Read[Procedure]]:
    return lambda: procedures().offered(task_type)


def _withheld(considered: Sequence[Considered]) -> int:
    return sum(one.reason == GIVES_ORDERS for one in considered)


def _passed_over(one: Procedure, chosen: Procedure | None) -> str | None:
    if one is chosen:
        return None
    return "not_drawn" if chosen is None else "another_is_shown"


def _too_far(view: ProcedureView, cosine: float) -> dict[str, object]:
    return {
        "id": view.procedure_id,
        "tier": PROCEDURAL,
        "score": round(cosine, 4),
        "passes": False,
        "reason": "below_floor",
        "state": view.state.value,
        "task_type": view.task_type,
    }


def _comparable(one: Procedure | ProcedureView, vector: Vector | None, model: str) -> bool:
    same_space = vector is not None and one.task_vector is not None and one.embedding_model == model
    return same_space and vector is not None and one.task_vector is not None and one.task_vector.shape == vector.shape


def _cosine(one: Procedure | ProcedureView, vector: Vector | None) -> float:
    if vector is None or one.task_vector is None:
        return 0.0
    cosine = float(np.dot(one.task_vector, vector))
    return min(max(cosine, 0.0), 1.0) if np.isfinite(cosine) else 0.0


def _about(procedure: Procedure, rules: ProcedureRules) -> str:
    """What heads a procedure: our own words, numbers, and a task type, which is a checked label."""
    rate, approval = success_rate(procedure), procedure.approval
    results = (
        "not followed yet"
        if rate is None
        else f"followed {_times(procedure.applied)}, succeeded {_times(procedure.succeeded)} ({rate:.0%})"
    )
    trial = f", on trial until {_times(max(1, rules.min_uses))} followed" if on_trial(procedure, rules) else ""
    by = f", approved by {_a(approval.kind)} on {iso(approval.at)[:10]}" if approval else ""
    return f"task type {procedure.task_type}, {results}{trial}{by}; {NOTE}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _a(kind: str) -> str:
    return "an agent" if kind == "agent" else f"a {kind}"
