"""How many independent runs speak for a fact."""

from collections.abc import Mapping, Sequence

from agent_memory.domain.facts import Observation
from agent_memory.domain.models import SourceKind

SPOKEN = frozenset({SourceKind.USER, SourceKind.AGENT})


def support(observations: Sequence[Observation], *, distinct_users: bool) -> int:
    """How many independent runs speak for a fact.

    A run in which a user or the agent said it counts as it is. Runs that only have it from tools and documents
    count as far as each can be given a document of its own.
    """
    spoken = {observation.run for observation in observations if observation.source in SPOKEN}
    documents: dict[tuple[str, str], set[str]] = {}
    for observation in observations:
        if observation.run not in spoken:
            documents.setdefault(observation.run, set()).add(observation.source_hash or "")
    runs = len(spoken) + _matched(documents)
    if not distinct_users:
        return runs
    return min(runs, len({observation.user_ref for observation in observations if observation.user_ref}))


def _matched(documents: Mapping[tuple[str, str], set[str]]) -> int:
    """Size of the largest pairing of runs with documents (augmenting paths)."""
    taken: dict[str, tuple[str, str]] = {}

    def place(run: tuple[str, str], tried: set[str]) -> bool:
        for document in sorted(documents[run] - tried):
            tried.add(document)
            if document not in taken or place(taken[document], tried):
                taken[document] = run
                return True
        return False

    return sum(place(run, set()) for run in sorted(documents))
