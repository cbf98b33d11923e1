"""The entry that stands for several episodes: composed of what a model summed up and of what needs no model."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from agent_memory.domain.episodes import MAX_DIGEST, MAX_EMBEDDED, MAX_LIST, MAX_TASK, compose_digest, embedded
from agent_memory.domain.examining import NightRules, date_of
from agent_memory.domain.keys import summary_id
from agent_memory.domain.merge_answers import Merger
from agent_memory.domain.models import DistilledBy, Episode, EpisodeKind
from agent_memory.domain.plain_text import one_line, shortened
from agent_memory.domain.ports import Embedder
from agent_memory.domain.retention import DAY_SECONDS


def compose(
    merger: Merger,
    sources: Sequence[Episode],
    embedder: Embedder,
    rules: NightRules,
    *,
    names_unchecked: bool,
    now: int,
) -> Episode:
    """Return the summary of *sources*, which share agent, user, domain and outcome.

    It ends when the last of them ended, so that it ranks where they would; its own age counts from *now*."""
    counts: Counter[str] = Counter()
    sources = sorted(sources, key=lambda one: (one.ended_at, one.run_id))
    newest = sources[-1]
    task = shortened(one_line(newest.task), MAX_TASK)
    summary = Episode(
        tenant_id=newest.tenant_id,
        agent_id=newest.agent_id,
        run_id=summary_id((one.agent_id, one.run_id) for one in sources),
        kind=EpisodeKind.SUMMARY,
        task=task,
        digest=compose_digest(merger.summary, merger.key_facts, MAX_DIGEST),
        task_vector=embedded(task, embedder, counts),
        digest_vector=embedded(compose_digest(merger.summary, merger.key_facts, MAX_EMBEDDED), embedder, counts),
        embedding_model=embedder.model,
        task_summary=merger.summary,
        key_findings=merger.key_facts,
        confidence=merger.confidence,
        distilled_by=DistilledBy.MODEL,
        names_unchecked=names_unchecked or any(one.names_unchecked for one in sources),
        created_at=now,
        ended_at=min(max(one.ended_at for one in sources), now),
        expires_at=now + rules.retention.summary_ttl_days * DAY_SECONDS,
        sources=tuple(sorted(one.run_id for one in sources)),
        oldest_source_at=oldest(sources),
        **_carried_over(sources),
    )
    return summary.model_copy(update={"decays_at": date_of(summary, rules, now=now)})


def _carried_over(sources: Sequence[Episode]) -> dict[str, Any]:
    """What all have in common, and what is counted or listed without a model."""
    newest = sources[-1]
    return {
        "outcome": newest.outcome,
        "domain": newest.domain,
        "user_ref": newest.user_ref,
        "task_type": newest.task_type if len({one.task_type for one in sources}) == 1 else None,
        "tools_used": _union(sources, "tools_used"),
        "reusable_patterns": _union(sources, "reusable_patterns"),
        # What a person let in stays in, in whatever entry stands for it.
        "cleared": tuple(dict.fromkeys(mark for one in sources for mark in one.cleared)),
        "withheld": sum(one.withheld for one in sources),
        "time_taken_steps": round(sum(one.time_taken_steps for one in sources) / len(sources)),
    }


def stands_for(entry: Episode, source: Episode) -> bool:
    """Whether *entry* says of itself that it stands for *source*, and may."""
    same = (entry.tenant_id, entry.agent_id, entry.user_ref) == (source.tenant_id, source.agent_id, source.user_ref)
    return same and source.run_id in entry.sources and entry.merged_into is None


def oldest(sources: Sequence[Episode]) -> int:
    """When the first run ended that any of *sources* stands for."""
    return min(one.ended_at if one.oldest_source_at is None else one.oldest_source_at for one in sources)


def _union(sources: Sequence[Episode], field: str) -> tuple[str, ...]:
    """What the newest say first, each once."""
    found = dict.fromkeys(text for one in reversed(sources) for text in getattr(one, field))
    return tuple(found)[:MAX_LIST]
