"""Runs that propose procedures or follow them, taken through the very handlers."""

import json
from collections.abc import Sequence
from typing import Any

from agent_memory.domain.models import CandidateProcedure, RetrievedMemory, RunTicket
from agent_memory.domain.procedure_transitions import approve
from agent_memory.domain.procedures import Procedure, ProcedureRules, Reviewer
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount
from support.builders import NOW, LambdaContext, a_claim, a_distillation, a_ledger_run, a_ticket, some_artifacts
from support.procedures import PERSON, STEPS, TASK_TYPE, TITLE

from lambdas.propose_procedure.handler import handler as propose_procedure
from lambdas.record_feedback.handler import handler as record_feedback


class StandInBus:
    """Keeps what was published; raises *failing* instead, once each."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.failing: list[Exception] = []

    def publish(self, detail_type: str, detail: dict[str, Any]) -> None:
        if self.failing:
            raise self.failing.pop()
        self.events.append((detail_type, json.loads(json.dumps(detail))))


def a_bus(account: AwsAccount) -> StandInBus:
    bus = StandInBus()
    vars(account.services)["bus"] = bus
    return bus


def a_run_of(
    tenant: TenantServices,
    run_id: str,
    *,
    steps: Sequence[str] | None = None,
    title: str = TITLE,
    attempt: int = 1,
    artifacts: dict[str, object] | None = None,
    **claim: object,
) -> RunTicket:
    """A run that was accepted, distilled and scrubbed, as its ticket; with *steps* it proposes a procedure."""
    held = a_claim(**{"run_id": run_id, "task_type": TASK_TYPE, **claim})
    tenant.ledger.accept(
        a_ledger_run(run_id=run_id, agent_id=held.agent_id, user_ref=held.user_ref, ended_at=held.ended_at)
    )
    key = tenant.claims.put_claim(held)
    procedure = None if steps is None else CandidateProcedure(title=title, steps=tuple(steps))
    made = a_distillation(task="Drain node n-7.", artifacts=some_artifacts(procedure=procedure, **artifacts or {}))
    pointer = tenant.claims.put_distillation(key, attempt, made)
    return a_ticket(
        run_id=run_id, agent_id=held.agent_id, claim_key=key, scrubbed_key=pointer, attempt=attempt, decision="stored"
    )


def _answer(handler: Any, ticket: RunTicket) -> dict[str, Any]:
    answer: dict[str, Any] = handler(json.loads(json.dumps(ticket.model_dump())), LambdaContext())
    json.dumps(answer)
    return answer


def propose(ticket: RunTicket) -> tuple[str, str | None]:
    answer = _answer(propose_procedure, ticket)
    return answer["decision"], answer["reason"]


def proposed(tenant: TenantServices, run_id: str, steps: Sequence[str] = STEPS, **claim: object) -> str:
    """The decision when run *run_id* proposes *steps*."""
    return propose(a_run_of(tenant, run_id, steps=steps, **claim))[0]  # type: ignore[arg-type]


def feed_back(ticket: RunTicket) -> str:
    return str(_answer(record_feedback, ticket)["decision"])


def followed(
    tenant: TenantServices, procedure_id: str, run_id: str, *, succeeded: bool | None = True, **claim: object
) -> str:
    """The decision when run *run_id* reports on *procedure_id*."""
    ticket = a_run_of(
        tenant,
        run_id,
        **{"procedure_id": procedure_id, "procedure_succeeded": succeeded, **claim},  # type: ignore[arg-type]
    )
    return feed_back(ticket)


def procedures_of(tenant: TenantServices, task_type: str = TASK_TYPE) -> list[Procedure]:
    return sorted(
        tenant.procedures.of_task_type(task_type).procedures, key=lambda one: (one.created_at, one.procedure_id)
    )


def only(tenant: TenantServices, task_type: str = TASK_TYPE) -> Procedure:
    (procedure,) = procedures_of(tenant, task_type)
    return procedure


def let_approve(tenant: TenantServices, by: Reviewer = PERSON, *, now: int = NOW) -> Procedure:
    """The only procedure, approved."""
    procedure = only(tenant)
    verdict = approve(procedure, by, expected_sha256=procedure.steps_sha256, now=now, rules=ProcedureRules())
    assert verdict.procedure is not None, verdict.reason
    assert tenant.procedures.save(verdict.procedure)
    return only(tenant)


def showing(tenant: TenantServices, *procedures: Procedure, context_id: str = "c-1") -> None:
    """Keep a memory context that showed *procedures*."""
    items = [
        RetrievedMemory(
            memory_id=one.procedure_id, tier="procedural", task_type=one.task_type, steps_sha256=one.steps_sha256
        )
        for one in procedures
    ]
    assert tenant.ledger.record_retrieval(context_id=context_id, items=items, at=NOW, expires_at=NOW + 1) == "stored"
