"""What people and pipelines do with regression cases from outside: add one, ask them now.

A case is scrubbed before it is stored, and its user_id becomes a pseudonym, as everywhere else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import identifier, tenant_identifier, user_identity
from agent_memory.domain.quality import CaseScore
from agent_memory.domain.quality_ports import Regressions
from agent_memory.domain.regressions import MAX_CASES, RegressionCase, regression_case

Answer = dict[str, Any]


class DeskDoors(NamedTuple):
    """One tenant's cases. *scrub*: texts without personal data, in their order. *user_ref*: a user's pseudonym."""

    regressions: Regressions
    ask: Callable[[Sequence[RegressionCase]], tuple[CaseScore, ...]]
    scrub: Callable[[Sequence[str]], Sequence[str]]
    user_ref: Callable[[str], str]


def attend(event: object, doors: Callable[[str], DeskDoors], *, now: int) -> Answer:
    """Do what *event* asks: {action: add, tenant_id, case} or {action: ask, tenant_id, case_id?}.

    Raises RefusedInputError naming the field and the rule.
    """
    if not isinstance(event, Mapping):
        raise RefusedInputError("input", "must be a JSON object")
    tenant_id = tenant_identifier(event.get("tenant_id"))
    action = event.get("action")
    if action == "add":
        return _add(event.get("case"), doors(tenant_id), now)
    if action == "ask":
        return _ask(event.get("case_id"), doors(tenant_id))
    raise RefusedInputError("action", "must be add or ask")


def _add(given: object, own: DeskDoors, now: int) -> Answer:
    user_id = user_identity(given.get("user_id")) if isinstance(given, Mapping) else None
    regression_case(given, now=now)  # nobody is named for a case that is refused
    case = regression_case(given, now=now, user_ref=None if user_id is None else own.user_ref(user_id))
    known = {one.case_id for one in own.regressions.cases()}
    if case.case_id not in known and len(known) >= MAX_CASES:
        rule = f"is one too many: a tenant has at most {MAX_CASES}; remove one with agent-memory regress remove"
        raise RefusedInputError("case_id", rule)
    clean = case.said_with(own.scrub(case.texts()))
    own.regressions.put(clean)
    return {"case": clean.model_dump(mode="json"), "scrubbed": clean != case, "replaced": case.case_id in known}


def _ask(case_id: object, own: DeskDoors) -> Answer:
    wanted = None if case_id is None else identifier(case_id, "case_id")
    cases = [case for case in own.regressions.cases() if wanted in (None, case.case_id)]
    if wanted and not cases:
        raise RefusedInputError("case_id", "is no case of this tenant: agent-memory regress list shows them")
    scores = own.ask(cases)
    return {"cases": [{**one.model_dump(mode="json"), "verdict": one.verdict.value} for one in scores]}
