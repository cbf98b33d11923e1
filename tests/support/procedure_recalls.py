"""Builders for the recall of procedures: a store in memory, procedures on trial and proven ones."""

import time
from collections.abc import Sequence
from typing import cast

from agent_memory.domain.deadlines import Budget, Reads
from agent_memory.domain.ports import Read
from agent_memory.domain.procedural_recall import FoundProcedure, ProceduralRecall
from agent_memory.domain.procedure_ports import Procedures
from agent_memory.domain.procedures import Procedure, ProcedureState, ProcedureView
from agent_memory.domain.recall_request import ProcedureRecallRules, recall_request
from support.builders import AGENT, TENANT
from support.procedures import TASK_TYPE, a_procedure, an_approved
from support.recalls import CONTEXT_ID, MODEL, QUERY, RULES


class HeldProcedures:
    """The procedures of a tenant in memory. *failing*: by task type, what reading its procedures raises."""

    def __init__(self, *held: Procedure, seconds: float = 0.0, unreadable: int = 0, **failing: Exception) -> None:
        self.held = held
        self.seconds = seconds
        self.unreadable = unreadable
        self.failing = failing
        self.asked: list[str | None] = []
        self.fetched: list[str] = []

    def views(self) -> Read[ProcedureView]:
        return Read(
            ProcedureView.model_validate({name: getattr(one, name) for name in ProcedureView.model_fields})
            for one in self.offered()
        )

    def get_many(self, keys: Sequence[tuple[str, str]]) -> Read[Procedure]:
        self.fetched += [procedure_id for _, procedure_id in keys]
        found = [one for one in self.held if (one.task_type, one.procedure_id) in keys]
        return Read(found, unreadable=self.unreadable)

    def offered(self, task_type: str | None = None) -> Read[Procedure]:
        self.asked.append(task_type)
        time.sleep(self.seconds)
        if str(task_type) in self.failing:
            raise self.failing[str(task_type)]
        held = [one for one in self.held if task_type in (None, one.task_type)]
        return Read(held, unreadable=self.unreadable)


def proven(applied: int, succeeded: int, **changes: object) -> Procedure:
    counted = {"applied": applied, "succeeded": succeeded, "state": ProcedureState.ESTABLISHED}
    return an_approved(a_procedure(**changes)).model_copy(update=counted)


def trial(applied: int = 0, succeeded: int = 0, **changes: object) -> Procedure:
    return an_approved(a_procedure(**changes)).model_copy(update={"applied": applied, "succeeded": succeeded})


def found(
    *held: Procedure,
    store: HeldProcedures | None = None,
    rules: ProcedureRecallRules | None = None,
    draw: str = CONTEXT_ID,
    milliseconds: int = 5000,
    task_type: str | None = TASK_TYPE,
) -> tuple[FoundProcedure, Reads]:
    procedures = store or HeldProcedures(*held)
    asked = {"tenant_id": TENANT, "agent_id": AGENT, "task": "Drain n-9.", "task_type": task_type}
    request = recall_request(asked, RULES)
    reads = Reads(Budget(milliseconds, time.monotonic))
    given = rules or ProcedureRecallRules(floor=0.75)
    recall = ProceduralRecall(request, lambda: cast("Procedures", procedures), reads, draw=draw, rules=given)
    return recall.found(QUERY, MODEL), reads
