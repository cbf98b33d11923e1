"""Builders of procedures, reviewers and the runs that propose them or follow them."""

import numpy as np
from agent_memory.domain.keys import procedure_id
from agent_memory.domain.procedure_ports import Procedures, ProposalWrite, RunResult, TaskProcedures
from agent_memory.domain.procedure_transitions import approve, settled
from agent_memory.domain.procedures import Procedure, ProcedureRules, ProposalEvidence, Reviewer, Wording
from support.builders import AGENT, DAY, NOW, TENANT

TASK_TYPE = "drain-node"
TITLE = "Drain a node"
STEPS = ("Cordon the node.", "Evict its pods.", "Check that no pod is left.")
RULES = ProcedureRules()
PERSON = Reviewer(by="r.keller")
SECOND_AGENT = Reviewer(by="review-bot", kind="agent")


def a_procedure(**changes: object) -> Procedure:
    """A pending procedure that one run proposed."""
    steps = changes.get("steps", STEPS)
    values: dict[str, object] = {
        "tenant_id": TENANT,
        "task_type": TASK_TYPE,
        "procedure_id": procedure_id(TENANT, TASK_TYPE, tuple(steps) if isinstance(steps, tuple | list) else ()),
        "title": TITLE,
        "steps": steps,
        "created_at": NOW,
        "proposed_by": (AGENT, "r-1"),
        "proposers": (AGENT,),
        "evidence": 1,
        "last_used_at": NOW,
        "task": "Drain node n-7.",
        "task_vector": np.eye(8, dtype=np.float32)[0],
        "vector": np.eye(8, dtype=np.float32)[1],
        "embedding_model": "test-model",
    }
    return Procedure.model_validate(values | changes)


def an_approved(procedure: Procedure | None = None, *, by: Reviewer = PERSON, now: int = NOW) -> Procedure:
    procedure = procedure or a_procedure()
    verdict = approve(procedure, by, expected_sha256=procedure.steps_sha256, now=now, rules=RULES)
    assert verdict.procedure is not None, verdict.reason
    return verdict.procedure


def record_result(procedure: Procedure, *, succeeded: bool, at: int, rules: ProcedureRules, now: int) -> Procedure:
    """After one run followed it, as the store counts that."""
    counted = procedure.model_copy(
        update={
            "applied": procedure.applied + 1,
            "succeeded": procedure.succeeded + int(succeeded),
            "last_used_at": max(procedure.last_used_at, at),
        }
    )
    return settled(counted, rules, now=now)


def some_evidence(procedure: Procedure, run_id: str = "r-1", **changes: object) -> ProposalEvidence:
    values: dict[str, object] = {
        "agent_id": AGENT,
        "run_id": run_id,
        "proposed_at": NOW,
        "title": procedure.title,
        "steps": procedure.steps,
        "steps_sha256": procedure.steps_sha256,
    }
    return ProposalEvidence.model_validate(values | changes)


def a_wording(procedure: Procedure, *, at: int = NOW) -> Wording:
    """The words of *procedure*, as an edit leaves them behind."""
    return Wording(
        title=procedure.title, steps=procedure.steps, steps_sha256=procedure.steps_sha256, at=at, who=PERSON.by
    )


def a_result(run_id: str, applied: Procedure | None = None, **changes: object) -> RunResult:
    values: dict[str, object] = {
        "agent_id": AGENT,
        "run_id": run_id,
        "ended_at": NOW,
        "expires_at": NOW + 90 * DAY,
        "applied": applied,
        "succeeded": applied is not None,
    }
    return RunResult.model_validate(values | changes)


def a_proposal(
    seen: TaskProcedures, procedure: Procedure, evidence: ProposalEvidence, *, opens: bool = True
) -> ProposalWrite:
    return ProposalWrite(
        seen=seen, procedure=procedure, evidence=evidence, opens=opens, ended_at=NOW, expires_at=NOW + 90 * DAY
    )


def stored(procedures: Procedures, procedure: Procedure | None = None, **evidence: object) -> Procedure:
    """Open *procedure* in the store, whatever its state, and return it as it came back."""
    procedure = procedure or a_procedure()
    seen = procedures.of_task_type(procedure.task_type)
    run = procedure.proposed_by[1]
    if procedures.proposal_of(AGENT, run) is not None:
        run = procedure.procedure_id  # a run proposes once
    said = some_evidence(procedure, **{"run_id": run, **evidence})
    assert procedures.propose(a_proposal(seen, procedure, said)) == "written"
    found = procedures.get(procedure.task_type, procedure.procedure_id)
    assert found is not None
    return found
