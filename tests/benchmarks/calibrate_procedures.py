"""Where the floor of procedures comes from: how often a run without task type would be told the right one, or a wrong one.

`python -m benchmarks.calibrate_procedures --data FOLDER` needs no stack. A procedure stands for a kind of task and keeps
the task of the run that proposed it; a question is another task. Known: a procedure of its kind is in the store, beside
those of other kinds. Novel: only those of others. Two notions of a kind:

- same task: the runs of one airline task, opened by the user in other words (first) against each other
- same writes: retail tasks (statement) that take the same writing actions, whatever goods and people they are about

The task alone is compared: that is all that is known when a run starts. Every other kind chooses the floor, the rest check.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from agent_memory.domain.models import Vector
from agent_memory.domain.plain_text import plain
from benchmarks.memories import local_models
from benchmarks.seen_before import airline_runs
from benchmarks.stack import data_folder, figures, say

SIZES = (5, 15, 40)
ROUNDS = 3
FLOORS = tuple(round(floor, 2) for floor in np.arange(0.5, 0.96, 0.05))
# To follow the wrong steps costs more than to find one's own.
WRONG_COST = 2.0
READS = ("find_", "get_", "list_", "calculate", "think", "transfer_")


class Asked(NamedTuple):
    """The nearest procedure for one question. *right*: it is of the question's kind."""

    kind: str
    known: bool
    cosine: float
    right: bool


def same_task(folder: Path) -> Mapping[str, list[str]]:
    """First messages by airline task."""
    kinds = defaultdict(list)
    for run in airline_runs(folder):
        kinds[str(run.task)].append(run.first)
    return kinds


def same_writes(folder: Path) -> Mapping[str, list[str]]:
    """Statements by the writing actions of a retail task."""
    kinds = defaultdict(list)
    for row in json.loads((folder / "tau_bench_retail" / "tasks.json").read_text(encoding="utf-8")):
        writes = sorted({name for name in row["gold_actions"] if not name.startswith(READS)})
        if writes:
            kinds["+".join(writes)].append(row["instruction"])
    return {kind: texts for kind, texts in kinds.items() if len(texts) > 1}


def asked(kinds: Mapping[str, Sequence[str]], embed: Mapping[str, Vector], seed: int = 7) -> Iterator[Asked]:
    """Every kind asked for in stores of several sizes, known and novel."""
    chance = random.Random(seed)
    for kind, texts in kinds.items():
        others = [other for other in kinds if other != kind]
        for size in sorted({min(size, len(others)) for size in SIZES}):
            for _ in range(ROUNDS):
                question, told = chance.sample(list(texts), 2)
                store = [(other, chance.choice(list(kinds[other]))) for other in chance.sample(others, size)]
                for known in (True, False):
                    held = [(kind, told), *store[1:]] if known else store
                    best = max(held, key=lambda one: float(np.dot(embed[one[1]], embed[question])))
                    yield Asked(kind, known, float(np.dot(embed[best[1]], embed[question])), best[0] == kind)


def shares(found: Sequence[Asked], floor: float) -> tuple[float, float, float]:
    """Told the right one and a wrong one when there is one of the kind, told a wrong one when there is none."""
    known, novel = ([one for one in found if one.known is known] for known in (True, False))
    right = np.mean([one.right and one.cosine >= floor for one in known])
    wrong = np.mean([not one.right and one.cosine >= floor for one in known])
    return float(right), float(wrong), float(np.mean([one.cosine >= floor for one in novel]))


def chosen(found: Sequence[Asked]) -> float:
    def worth(floor: float) -> float:
        right, wrong, novel = shares(found, floor)
        return right - WRONG_COST * (wrong + novel) / 2

    return max(FLOORS, key=worth)


def report(name: str, found: Sequence[Asked]) -> float:
    """Print the table of one notion of a kind and return the floor that it asks for."""
    kinds = sorted({one.kind for one in found})
    choosing = set(kinds[::2])
    ours = [one for one in found if one.kind in choosing]
    check = [one for one in found if one.kind not in choosing]
    say(f"\n{name}, {len(kinds)} kinds: floor, known right, known wrong, novel wrong (check: the same)")
    for floor in FLOORS:
        say(
            f"  {floor:.2f}  "
            + "  ".join(f"{s:.2f}" for s in shares(ours, floor))
            + "  ("
            + "  ".join(f"{s:.2f}" for s in shares(check, floor))
            + ")"
        )
    return chosen(ours)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", required=True, type=Path)
    folder = data_folder(arguments.parse_args())
    notions = {"same_task": same_task(folder), "same_writes": same_writes(folder)}
    with local_models() as (embedder, _):
        texts = {text for kinds in notions.values() for held in kinds.values() for text in held}
        embed = {text: embedder.embed(plain(text).strip()) for text in sorted(texts)}
        model = embedder.model
    result = {name: report(name, list(asked(kinds, embed))) for name, kinds in notions.items()}
    figures(model=model, **result)


if __name__ == "__main__":
    main()
