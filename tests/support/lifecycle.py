"""A whole night over an account: the machine walked with the real functions; who owns no step here stands in."""

from collections.abc import Callable, Mapping
from typing import Any

from agent_memory.domain.lifecycle import Plan
from agent_memory.domain.models import Episode
from agent_memory.domain.retention import DAY_SECONDS
from support.aws import AwsAccount
from support.builders import NOW, TENANT, LambdaContext, a_vector, an_episode
from support.machines import Walk, definition, walk

from lambdas.decay.handler import handler as decay
from lambdas.examine_memories.handler import handler as examine_memories
from lambdas.prune_memories.handler import handler as prune_memories

MACHINE = definition("lifecycle")
Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


def called(handler: Handler) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda event: handler(event, LambdaContext())


def answers(decision: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda event: {**event["ticket"], "decision": decision}


STEPS: Mapping[str, Any] = {
    **{name: called(decay) for name in ("TakeLock", "Plan", "Weigh", "ReleaseLock", "GiveLockBack")},
    "ExamineMemories": called(examine_memories),
    "ExpireMemories": called(prune_memories),
    "PruneMemories": called(prune_memories),
    "Baseline": answers("not_run"),
    "MergeMemories": lambda event: {},
    "FlagProcedures": answers("flagged"),
    "ExpireOwnFacts": lambda event: {},
    "QualityCheck": answers("not_run"),
    "RestoreMemories": lambda event: {**event, "decision": "restored"},
    "Report": answers("reported"),
    "Publish": lambda event: {},
    "Alarm": lambda event: {},
}


def a_night_passes(account: AwsAccount, *, dry_run: bool = False, **tasks: Any) -> Walk:
    """Walk one night; *tasks* take the place of steps by their state's name."""

    def listing(bucket: str, prefix: str) -> list[str]:
        pages = account.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    return walk(MACHINE, {**STEPS, **tasks}, {"dry_run": dry_run}, listing=listing)


def at(account: AwsAccount, now: int) -> None:
    """Set the clock of the functions."""
    account.services.now = lambda: now  # type: ignore[method-assign]  # the clock moves


def how_it_ended(done: Walk) -> str:
    """The word of the last step that gave one."""
    return str(done.inputs["Publish"][0]["Entries"][0]["Detail"]["decision"])


def the_plan(account: AwsAccount, run_id: str) -> Plan:
    found = account.services.night_files.get(f"lifecycle/{run_id}/plan.json", Plan)
    assert found
    return found


def an_old_episode(run_id: str, days: float, *, alike: int = 0, **changes: object) -> Episode:
    """An episode of a run that ended *days* ago, due by its stored date; *alike* ones point the same way."""
    ended = NOW - round(days * DAY_SECONDS)
    vectors = {} if alike else {"task_vector": a_vector(int(run_id[-1]) % 8), "digest_vector": a_vector(7)}
    return an_episode(
        **{
            "run_id": run_id,
            "task": f"Job {run_id}",
            "digest": f"Job {run_id} was done in its own way.",
            "created_at": ended,
            "ended_at": ended,
            "expires_at": ended + 90 * DAY_SECONDS,
            "decays_at": min(NOW - 1, ended + 34 * DAY_SECONDS),
            **vectors,
            **changes,
        }
    )


def keep_all(account: AwsAccount, *episodes: Episode, stored: bool = True) -> None:
    """Store episodes as StoreEpisode does, agent and registry noted."""
    for episode in episodes:
        tenant = account.services.tenant(episode.tenant_id)
        assert tenant.episodes.put(episode) == "stored"
        tenant.agent_notes.note_agent(episode.agent_id, now=NOW)
        if stored:
            account.services.stored.note(episode.tenant_id, episode.agent_id, now=NOW)


def left(account: AwsAccount, tenant_id: str = TENANT) -> set[str]:
    """The runs whose episodes a tenant still has."""
    return {item["run_id"]["S"] for item in account.episodes() if item["agent_id"]["S"].startswith(f"{tenant_id}#")}
