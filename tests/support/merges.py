"""Groups of memories that a night merges, and the models that answer about them."""

import json
from collections.abc import Sequence
from typing import Any

from agent_memory.domain.examining import group_of
from agent_memory.domain.keys import result_key, slice_key
from agent_memory.domain.lifecycle import Action, LifecycleRun, PlanItem, PlanSlice, Reason, SliceResult
from agent_memory.domain.models import Episode
from support.aws import AwsAccount
from support.builders import AGENT, DAY, NOW, TENANT, LambdaContext, a_vector, an_episode
from support.conversations import Said, ScriptedModel
from support.nights import a_night

from lambdas.merge_memories.handler import handler

FINDINGS = (
    "Booking K7 could be moved to Friday without a fee.",
    "Booking K7 could be moved to Monday without a fee.",
    "Moving a booking takes the booking number and the new date.",
)
SUMMARY = (
    "Booking K7 could be moved to Friday and to Monday without a fee; moving takes the booking number and the new date."
)


def an_old_episode(number: int, **changes: object) -> Episode:
    """One of several episodes about the same, so old that its relevance is low."""
    values: dict[str, object] = {
        "run_id": f"r-{number}",
        "task": "Move booking K7.",
        "task_summary": "",
        "digest": FINDINGS[number % len(FINDINGS)],
        "key_findings": (FINDINGS[number % len(FINDINGS)],),
        "task_vector": a_vector(0),
        "digest_vector": a_vector(0, 1),
        "created_at": NOW - (60 - number) * DAY,
        "ended_at": NOW - (60 - number) * DAY,
        "expires_at": NOW + 30 * DAY,
        "decays_at": NOW - DAY,
    }
    return an_episode(**(values | changes))


def planned(
    episodes: Sequence[Episode], action: Any = Action.MERGE, reason: Reason = Reason.LOW_RELEVANCE
) -> PlanSlice:
    """A slice with one group of these."""
    items = [PlanItem(agent_id=one.agent_id, run_id=one.run_id, action=action, reason=reason) for one in episodes]
    return PlanSlice(tenant_id=TENANT, name="0001", groups=(group_of(items, action),))


def an_answer(summary: str = SUMMARY, **changes: object) -> Said:
    return Said(arguments={"summary": summary, "confidence": 0.9, "key_facts": [], **changes})


def merged_by(
    account: AwsAccount, part: PlanSlice, *answers: Said | Exception, run: LifecycleRun | None = None
) -> tuple[SliceResult, ScriptedModel]:
    """Run the function over *part* with a model that gives *answers*; what it reported and the model."""
    model = ScriptedModel(*(answers or (an_answer(),)))
    vars(account.services)["summariser"] = model
    return _called(account, part, run or a_night()), model


def decisions(result: SliceResult) -> dict[str, str]:
    """What became of each memory, by its run."""
    return {one.run_id: one.decision for one in result.done}


def reasons(result: SliceResult) -> set[str]:
    return {one.reason for one in result.done}


def runs_left(account: AwsAccount, agent_id: str = AGENT) -> list[str]:
    return sorted(item["run_id"]["S"] for item in account.episodes() if item["agent_id"]["S"] == f"{TENANT}#{agent_id}")


def merged_without_a_model(account: AwsAccount, part: PlanSlice) -> SliceResult:
    """Run the function over *part* in a deployment that names no model."""
    vars(account.services)["summariser"] = None
    return _called(account, part, a_night())


def _called(account: AwsAccount, part: PlanSlice, run: LifecycleRun) -> SliceResult:
    files = account.services.night_files
    key = slice_key(run.run_id, "merge", part.tenant_id, part.name)
    files.put(key, part)
    context = LambdaContext()
    context.get_remaining_time_in_millis = lambda: 900_000  # type: ignore[method-assign]  # as long as it really has
    assert handler(json.loads(json.dumps({"run": run.model_dump(), "key": key})), context) == {}
    result = files.get(result_key(run.run_id, "merge", part.tenant_id, part.name), SliceResult)
    assert result is not None
    return result
