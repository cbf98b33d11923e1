"""What the night means to do with each memory that it looks at: by its recomputed date, never by the stored one alone.

Pure rules. Whoever acts on them asks them again right before, because a memory may be read or pinned in between.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from agent_memory.domain.decay import DecayRules, below_threshold_at, decays_at, relevance
from agent_memory.domain.grouping import merge_groups, near_duplicates
from agent_memory.domain.lifecycle import Action, MemoryGroup, PlanItem, Reason
from agent_memory.domain.models import Episode, EpisodeKind, Outcome
from agent_memory.domain.retention import DAY_SECONDS, RetentionRules, archived_from

EVERY_AGENT = "*"
SCORE_PLACES = 6


class NightRules(NamedTuple):
    """What a deployment says about its nights. *merges*: there is a model to write summaries. *shortens*: the settings
    changed, so what is stored may have to expire earlier than it says."""

    decay: DecayRules
    retention: RetentionRules
    max_episodes: int = 500
    batch_size: int = 10
    merges: bool = False
    shortens: bool = False


def began_at(episode: Episode) -> int:
    """From when its age counts: the end of its run, and for a summary the time at which it was written."""
    return episode.created_at if episode.kind is EpisodeKind.SUMMARY else episode.ended_at


def expiry_of(episode: Episode, rules: NightRules) -> int | None:
    """When it expires: settings that changed may shorten what is stored, never lengthen it."""
    if episode.expires_at is None or not rules.shortens:
        # Not from the settings alone: who came back or lost its pin was given a later expiry on purpose.
        return episode.expires_at
    retention = rules.retention
    days = retention.summary_ttl_days if episode.kind is EpisodeKind.SUMMARY else retention.memory_ttl_days
    return min(episode.expires_at, max(began_at(episode) + days * DAY_SECONDS, episode.kept_until or 0))


def score_of(episode: Episode, rules: DecayRules, *, now: int) -> float:
    """Its relevance in [0, 1], as the plan shows it."""
    found = relevance(began_at(episode), episode.access_count, episode.last_access_at, rules, now=now)
    return round(found, SCORE_PLACES)


def date_of(episode: Episode, rules: NightRules, *, now: int) -> int | None:
    """When the night must look at it (again); None when it never must."""
    expiry = expiry_of(episode, rules)
    if episode.pinned or expiry is None:
        return None
    return decays_at(
        ended_at=began_at(episode),
        outcome=episode.outcome,
        expires_at=expiry,
        access_count=episode.access_count,
        last_access_at=episode.last_access_at,
        kept_until=episode.kept_until,
        decay=rules.decay,
        retention=rules.retention,
        now=now,
    )


def judged(episode: Episode, rules: NightRules, *, now: int, holds: Collection[str] = ()) -> PlanItem:
    """What is to happen to one episode, seen by itself: `prune` for a low relevance, before anybody grouped it."""
    expiry = expiry_of(episode, rules)
    action, reason = _verdict(episode, expiry, rules, now, holds)
    due = date_of(episode, rules, now=now)
    return PlanItem(
        agent_id=episode.agent_id,
        run_id=episode.run_id,
        action=action,
        reason=reason,
        score=score_of(episode, rules.decay, now=now),
        decays_at=due,
        expires_at=expiry,
        counts=_counts(episode, reason, expiry, now),
    )


def _verdict(
    episode: Episode, expiry: int | None, rules: NightRules, now: int, holds: Collection[str]
) -> tuple[Action, Reason]:
    if episode.pinned:
        return Action.MOVE_DATE, Reason.PINNED
    held = EVERY_AGENT in holds or episode.agent_id in holds
    if expiry is not None and now < expiry and archived_from(expiry, rules.retention) <= now:
        # TTL knows no holds, so a copy is made in any case.
        return Action.EXPIRE, Reason.EXPIRES_SOON
    if held:
        return Action.KEEP, Reason.ON_HOLD
    if expiry is not None and expiry <= now:
        return Action.EXPIRE, Reason.EXPIRED
    if episode.merged_into:
        return Action.PRUNE, Reason.MERGED
    if episode.kept_until is not None and now < episode.kept_until:
        return Action.MOVE_DATE, Reason.UNDER_REVIEW if episode.review else Reason.NOT_DUE
    if episode.outcome is Outcome.FAILED and _failed_long_ago(episode, rules.retention, now):
        return Action.PRUNE, Reason.FAILED_RUN
    fades = below_threshold_at(began_at(episode), episode.access_count, episode.last_access_at, rules.decay, now=now)
    if fades is None or fades > now:
        return Action.MOVE_DATE, Reason.NOT_DUE
    return Action.PRUNE, Reason.LOW_RELEVANCE


def _failed_long_ago(episode: Episode, rules: RetentionRules, now: int) -> bool:
    return min(began_at(episode), now) + rules.failed_retention_days * DAY_SECONDS <= now


def _counts(episode: Episode, reason: Reason, expiry: int | None, now: int) -> bool:
    """Whether its removal is the night's own doing: TTL takes what expires as it was stored, and a merged one is
    represented."""
    dead = episode.expires_at is not None and episode.expires_at <= now
    soon = reason is Reason.EXPIRES_SOON and expiry == episode.expires_at
    return not dead and not soon and reason is not Reason.MERGED


def grouped(
    items: Sequence[PlanItem], episodes: Iterable[Episode], rules: NightRules
) -> tuple[tuple[PlanItem, ...], tuple[MemoryGroup, ...]]:
    """Put those of low relevance into groups that become one; what is like no other is pruned.

    Without a model only near-duplicates become one."""
    low = {(item.agent_id, item.run_id): item for item in items if item.reason is Reason.LOW_RELEVANCE}
    members = [episode for episode in episodes if (episode.agent_id, episode.run_id) in low]
    found = merge_groups(members, batch_size=rules.batch_size) if rules.merges else near_duplicates(members)
    action: Literal[Action.MERGE, Action.COLLAPSE] = Action.MERGE if rules.merges else Action.COLLAPSE
    groups = tuple(group_of([low[one.agent_id, one.run_id] for one in members], action) for members in found)
    taken = {(item.agent_id, item.run_id) for group in groups for item in group.items}
    return tuple(item for item in items if (item.agent_id, item.run_id) not in taken), groups


def group_of(items: Sequence[PlanItem], action: Literal[Action.MERGE, Action.COLLAPSE]) -> MemoryGroup:
    """The group of *items* in their order, named by its members."""
    named = "\n".join(sorted(item.memory_id for item in items))
    name = "g-" + hashlib.sha256(named.encode()).hexdigest()[:32]
    members = tuple(item.model_copy(update={"action": action, "group": name}) for item in items)
    return MemoryGroup(group=name, agent_id=items[0].agent_id, action=action, items=members)


def evicted(episodes: Iterable[Episode], over: int, rules: NightRules, *, now: int) -> tuple[PlanItem, ...]:
    """The *over* least relevant of an agent's *episodes*, the older first among equals; never what is pinned or was
    brought back lately."""
    open_to_it = (one for one in episodes if not one.pinned and not brought_back(one, now=now))
    ranked = sorted(open_to_it, key=lambda one: (score_of(one, rules.decay, now=now), began_at(one), one.run_id))
    return tuple(
        judged(one, rules, now=now).model_copy(update={"action": Action.EVICT, "reason": Reason.OVER_THE_CAP})
        for one in ranked[: max(over, 0)]
    )


def brought_back(episode: Episode, *, now: int) -> bool:
    """Whether somebody brought it back lately: until its date it stays beside what is like it. What stands for others
    has such a date as well and may stand for more."""
    return episode.kept_until is not None and now < episode.kept_until and not episode.sources


def kept_apart(episodes: Iterable[Episode], groups: Iterable[MemoryGroup], *, now: int) -> frozenset[str]:
    """Those of near-identical *episodes* that the rules put into none of *groups*, though nothing was in the way."""
    taken = {item.run_id for group in groups for item in group.items}
    open_to_it = (one for one in episodes if one.merged_into is None and not brought_back(one, now=now))
    return frozenset(one.run_id for one in open_to_it if one.run_id not in taken)


def doubles(episodes: Iterable[Episode], rules: NightRules, *, now: int) -> tuple[MemoryGroup, ...]:
    """Groups of near-duplicates among *episodes*, each to become its first; those on their way out are in none."""
    settled = [one for one in episodes if one.merged_into is None and not brought_back(one, now=now)]
    groups = []
    for members in near_duplicates(settled):
        items = [
            judged(one, rules, now=now).model_copy(update={"reason": Reason.NEAR_DUPLICATE, "counts": True})
            for one in members
        ]
        groups.append(group_of(items, Action.COLLAPSE))
    return tuple(groups)
