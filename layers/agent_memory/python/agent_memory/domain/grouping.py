"""Which memories may become one: of one tenant, agent, user and domain, which ended alike and are about the same."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.groundedness import ungrounded
from agent_memory.domain.merge_answers import texts_of
from agent_memory.domain.models import Episode, EpisodeView
from agent_memory.domain.ranking import Said, alike, said_of

# A transaction marks every source of a merge at once and takes 100 actions; some are for the summary and tombstones.
MAX_GROUP = 90
# Mean cosine of tasks and digests from which two episodes are about the same: docs/calibration.md, "Merges". Too low a
# value costs model calls whose answers the checks refuse, too high a value merges less. Other models: not measured.
ABOUT_THE_SAME: Mapping[str, float] = MappingProxyType({"local.all-minilm-l6-v2": 0.8})
_CAUTIOUS = 0.7
_VIEW = tuple(EpisodeView.model_fields)


def near_duplicates(episodes: Iterable[Episode]) -> list[tuple[Episode, ...]]:
    """Groups of two and more that say the same, whoever would read them. The first of each stands for the others: the
    most read, then the newest. Pinned ones are in no group."""
    found: list[list[Episode]] = []
    for members in _apart(episodes):
        led: list[tuple[Said, list[Episode]]] = []
        for one in sorted(members, key=lambda one: (-one.access_count, -one.ended_at, one.run_id)):
            said = said_of(_view(one))
            open_to_it = (group for first, group in led if len(group) < MAX_GROUP and alike(first, said))
            group = next((group for group in open_to_it if says_as_much(group[0], one)), None)
            if group is None:
                led.append((said, [one]))
            else:
                group.append(one)
        found += [group for _, group in led if len(group) > 1]
    return [tuple(group) for group in found]


def says_as_much(kept: Episode, leaving: Episode) -> bool:
    """Whether *kept* says all that *leaving* does, which nobody can read any more once the archive forgot it: likeness
    can't tell that one allows what the other forbids, nor that one knows more than its digest shows."""
    gone, left = ((*texts_of(one), one.digest) for one in (leaving, kept))
    return set(gone) <= set(left) or ungrounded(gone, [left]) is None


def merge_groups(episodes: Iterable[Episode], *, batch_size: int) -> list[tuple[Episode, ...]]:
    """Groups of two to *batch_size* that are about the same, oldest first in each. What is like nothing is in none."""
    most = min(batch_size, MAX_GROUP)
    found: list[tuple[Episode, ...]] = []
    for members in _apart(episodes):
        left = sorted(members, key=lambda one: (one.ended_at, one.run_id))
        while len(left) > 1:
            first, *others = left
            near = sorted(others, key=lambda one: (-likeness(first, one), one.ended_at, one.run_id))
            alike = [one for one in near if likeness(first, one) >= _needed(first)][: most - 1]
            if alike:
                found.append(tuple(sorted((first, *alike), key=lambda one: (one.ended_at, one.run_id))))
            taken = {one.run_id for one in (first, *alike)}
            left = [one for one in others if one.run_id not in taken]
    return found


def mixed(episodes: Sequence[Episode]) -> bool:
    """Whether *episodes* may not become one, whatever they say: tenant, agent, user, domain or outcome differ."""
    return len({_apartness(one) for one in episodes}) != 1


def _apart(episodes: Iterable[Episode]) -> list[list[Episode]]:
    groups: dict[tuple[str, ...], list[Episode]] = {}
    tenants = set()
    for episode in episodes:
        tenants.add(episode.tenant_id)
        if not episode.pinned and episode.merged_into is None:
            groups.setdefault(_apartness(episode), []).append(episode)
    if len(tenants) > 1:
        raise CrossTenantError("memories of two tenants were to be grouped")
    return [groups[key] for key in sorted(groups)]


def _apartness(episode: Episode) -> tuple[str, ...]:
    # What ended in another way is never merged, so that a summary of failures can't read as a success.
    user = episode.user_ref or ""
    return episode.tenant_id, episode.agent_id, user, episode.domain, episode.outcome


def _view(episode: Episode) -> EpisodeView:
    return EpisodeView.model_construct(**{name: getattr(episode, name) for name in _VIEW})


def _needed(episode: Episode) -> float:
    return ABOUT_THE_SAME.get(episode.embedding_model or "", _CAUTIOUS)


def likeness(one: Episode, other: Episode) -> float:
    """Mean cosine of tasks and of digests, -1 where nothing can be compared."""
    if one.embedding_model is None or one.embedding_model != other.embedding_model:
        return -1.0
    pairs = ((one.task_vector, other.task_vector), (one.digest_vector, other.digest_vector))
    cosines = [float(a @ b) for a, b in pairs if a is not None and b is not None and a.shape == b.shape]
    return sum(cosines) / len(cosines) if cosines else -1.0
