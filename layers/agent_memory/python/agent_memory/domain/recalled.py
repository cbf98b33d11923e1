"""What a recall returns, and how memories of all tiers share one context and its token budget."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from agent_memory.domain.memory_context import item_lines, memory_context
from agent_memory.domain.models import Model
from agent_memory.domain.plain_text import estimated_tokens


class RecalledItem(Model):
    """One memory as it is returned. *text* is as stored; only the memory context quotes it."""

    id: str
    tier: str
    text: str
    score: float
    provenance: Mapping[str, object]


class Remembered(NamedTuple):
    """A memory on its way into the context. *kind* and *about* head it, in our own words and ids; *values* are quoted.

    *kind*: `fact`, `episode`; the pattern that strips contexts from transcripts knows these words.
    """

    kind: str
    about: str
    values: Sequence[tuple[str, str]]
    item: RecalledItem


def context_of(context_id: str, memories: Sequence[Remembered]) -> str:
    """The memory context of *memories*, in this order; each kind is counted for itself."""
    totals, places = Counter(one.kind for one in memories), Counter[str]()
    items = []
    for one in memories:
        places[one.kind] += 1
        heading = f"{one.kind} {places[one.kind]} of {totals[one.kind]}: {one.about}"
        items.append(item_lines(heading, one.values))
    return memory_context(context_id, items)


def within_budget(context_id: str, memories: Iterable[Remembered], tokens: int) -> list[Remembered]:
    """Return those of *memories* that fit into *tokens* together with the fence, first come; whole items only."""
    kept: list[Remembered] = []
    for one in memories:
        if estimated_tokens(context_of(context_id, [*kept, one])) <= tokens:
            kept.append(one)
    return kept


def iso(seconds: int) -> str:
    """An epoch time as ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
