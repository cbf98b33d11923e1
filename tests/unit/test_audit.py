"""Audit lines: one for each action, by ids and codes."""

import json

from agent_memory.domain.audit import acted, scored
from agent_memory.domain.lifecycle import Action, Done, MemoryGroup, PlanItem, PlanSlice, Reason, SliceResult
from support.builders import AGENT, NOW, TENANT
from support.nights import NIGHT


def an_item(run_id: str, action: Action, reason: Reason, **changes: object) -> PlanItem:
    return PlanItem.model_validate(
        {"agent_id": AGENT, "run_id": run_id, "action": action, "reason": reason, "score": 0.123456, **changes}
    )


def test_every_memory_that_was_looked_at_has_a_line_with_its_score_and_its_reason() -> None:
    grouped = an_item("r-2", Action.MERGE, Reason.LOW_RELEVANCE, group="g-1")
    plan = PlanSlice(
        tenant_id=TENANT,
        name="1",
        items=(an_item("r-1", Action.KEEP, Reason.PINNED),),
        groups=(MemoryGroup(group="g-1", agent_id=AGENT, action=Action.MERGE, items=(grouped,)),),
    )
    first, second = scored(plan, night=NIGHT, at=NOW)
    assert first == {
        "audit": True,
        "action": "score",
        "memory_id": f"{AGENT}/r-1",
        "tenant_id": TENANT,
        "reason": "pinned",
        "at": "2027-01-15T08:00:00Z",
        "night": NIGHT,
        "score": 0.1235,
        "planned": "keep",
    }
    assert (second["memory_id"], second["planned"]) == (f"{AGENT}/r-2", "merge")
    assert json.loads(json.dumps([first, second]))


def test_what_a_step_did_is_logged_by_its_word_and_moves_of_dates_are_not() -> None:
    done = [
        Done(agent_id=AGENT, run_id=f"r-{n}", action=action, decision="done", reason="low_relevance")
        for n, action in enumerate(Action)
    ]
    lines = list(acted(SliceResult(tenant_id=TENANT, step="prune", name="1", done=tuple(done)), night=NIGHT, at=NOW))
    words = dict(zip(Action, ("merge", "merge", "prune", "prune", "prune", None, None, "flag"), strict=True))
    assert [line["action"] for line in lines] == [word for word in words.values() if word]
    assert {line["tenant_id"] for line in lines} == {TENANT}


def test_what_a_rollback_brought_back_is_logged_as_restored() -> None:
    back = Done(agent_id=AGENT, run_id="r-1", action=Action.PRUNE, decision="restored")
    [line] = acted(SliceResult(tenant_id=TENANT, step="rollback", name="all", done=(back,)), night=NIGHT, at=NOW)
    assert (line["action"], line["reason"]) == ("restore", "restored")
