"""Near-duplicates of a namespace by its index: which are worth a look, and which the rules have kept apart before."""

from collections import Counter, defaultdict
from hashlib import sha256

from agent_memory.domain.agentcore_index import RecordIndex


def twins(index: RecordIndex, *, now: int) -> dict[tuple[str, str], frozenset[str]]:
    """Names of the records of one namespace and strategy that have the same words, by (place, mark); none that is to
    be left alone. The mark is of the very records: another that joins them, or other words, make another mark."""
    said: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name, one in index.entries.items():
        if one.words and (one.kept_until or 0) <= now:
            said[one.place, one.strategy_id, one.words].append(name)
    return {(key[0], _mark(key, names)): frozenset(names) for key, names in said.items() if len(names) > 1}


def _mark(key: tuple[str, str, str], names: list[str]) -> str:
    return sha256("\n".join([*key, *sorted(names)]).encode()).hexdigest()[:32]


def to_be_looked_at(index: RecordIndex, most: int, *, now: int) -> frozenset[str]:
    """Namespaces that hold more than *most* records, or near-duplicates that the rules have not kept apart yet."""
    held = Counter(entry.place for entry in index.entries.values())
    over = {place for place, number in held.items() if number > most}
    return frozenset(over | {place for place, mark in twins(index, now=now) if mark not in index.apart.get(place, ())})
