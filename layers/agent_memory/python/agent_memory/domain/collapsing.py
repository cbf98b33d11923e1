"""Near-duplicates become one without a model: the best of them stays and lists the others."""

from collections.abc import Sequence

from agent_memory.domain.examining import NightRules, date_of
from agent_memory.domain.models import Episode
from agent_memory.domain.retention import archived_from
from agent_memory.domain.summaries import oldest


def survivor_of(seen: Episode, others: Sequence[Episode], rules: NightRules, *, low: bool, now: int) -> Episode:
    """*seen* as it is when it stands for *others* as well: with their reads, and their runs among its sources.

    *low*: they were due for their low relevance; what stands for several is then kept until it expires."""
    sources = {*seen.sources, *(one.run_id for one in others), *(run for one in others for run in one.sources)}
    reads = [one.last_access_at for one in (seen, *others) if one.last_access_at is not None]
    kept_until = seen.kept_until
    if low and seen.expires_at is not None:
        kept_until = max(archived_from(seen.expires_at, rules.retention), seen.kept_until or 0)
    survivor = seen.model_copy(
        update={
            "sources": tuple(sorted(sources)),
            "oldest_source_at": oldest((seen, *others)),
            "access_count": sum(one.access_count for one in (seen, *others)),
            "last_access_at": max(reads, default=None),
            "kept_until": kept_until,
        }
    )
    return survivor.model_copy(update={"decays_at": date_of(survivor, rules, now=now)})
