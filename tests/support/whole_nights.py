"""Whole nights in which every memory is really merged, expired, taken back."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from support.aws import AwsAccount
from support.builders import LambdaContext
from support.conversations import Said, ScriptedModel
from support.lifecycle import a_night_passes, called
from support.machines import CONTEXT, Walk
from support.merges import an_answer

from lambdas.expire_facts.handler import handler as expire_facts
from lambdas.flag_procedures.handler import handler as flag_procedures
from lambdas.merge_memories.handler import handler as merge_memories
from lambdas.restore_memories.handler import handler as restore_memories


class LongContext(LambdaContext):
    """A function that has just begun its quarter of an hour."""

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


def merging(event: dict[str, Any]) -> dict[str, Any]:
    """The step MergeMemories."""
    return merge_memories(event, LongContext())


WORK: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "MergeMemories": merging,
    "FlagProcedures": called(flag_procedures),
    "ExpireOwnFacts": called(expire_facts),
    "RestoreMemories": called(restore_memories),
}


def a_whole_night(
    account: AwsAccount,
    *answers: Said | Exception,
    execution: str = "e-1",
    model: ScriptedModel | None = None,
    **tasks: Any,
) -> tuple[Walk, ScriptedModel]:
    """Walk a night with *model*, or one that gives *answers* (the last one again and again)."""
    model = model or ScriptedModel(*(answers or (an_answer(),)))
    before = vars(account.services).get("summariser")
    vars(account.services)["summariser"] = model
    try:
        with patch.dict(CONTEXT["Execution"], Name=execution):
            return a_night_passes(account, **{**WORK, **tasks}), model
    finally:
        vars(account.services)["summariser"] = before
