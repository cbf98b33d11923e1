"""Audit lines of the night: one for each action on a memory, by ids, codes and times; no content and no user ids.

Handlers log them, `logger.info(line["action"], extra=line)`, so that a log query finds what became of a memory.
"""

from collections.abc import Iterator
from typing import Final

from agent_memory.domain.lifecycle import Action, PlanSlice, SliceResult
from agent_memory.domain.recalled import iso

# The words of the log. What only moved a date or left a memory alone is in the score's line.
WORDS: Final = {
    Action.MERGE: "merge",
    Action.COLLAPSE: "merge",
    Action.PRUNE: "prune",
    Action.EXPIRE: "prune",
    Action.EVICT: "prune",
    Action.FLAG: "flag",
}
RESTORE: Final = "restore"
Line = dict[str, object]


def line(action: str, memory_id: str, *, tenant_id: str, reason: str, at: int, **codes: object) -> Line:
    """One audit line. *at*: epoch seconds; *codes*: further ids, counts or codes."""
    return {
        "audit": True,
        "action": action,
        "memory_id": memory_id,
        "tenant_id": tenant_id,
        "reason": reason,
        "at": iso(at),
        **codes,
    }


def scored(plan: PlanSlice, *, night: str, at: int) -> Iterator[Line]:
    """A line for each memory that was looked at, with its relevance and what is meant to happen to it."""
    for item in (*plan.items, *(one for group in plan.groups for one in group.items)):
        codes = {"night": night, "score": round(item.score, 4), "planned": item.action.value}
        yield line("score", item.memory_id, tenant_id=plan.tenant_id, reason=item.reason.value, at=at, **codes)


def acted(result: SliceResult, *, night: str, at: int) -> Iterator[Line]:
    """A line for each memory that a step merged, removed, flagged or brought back, or tried to."""
    for done in result.done:
        word = RESTORE if result.step == "rollback" else WORDS.get(done.action)
        if word:
            codes = {"night": night, "decision": done.decision}
            reason = done.reason or done.decision
            yield line(word, done.memory_id, tenant_id=result.tenant_id, reason=reason, at=at, **codes)
