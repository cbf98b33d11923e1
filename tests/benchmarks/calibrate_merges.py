"""Where the likeness comes from at which a night may make one summary of several memories.

`python -m benchmarks.calibrate_merges --data FOLDER` needs no stack. Memories are the airline runs, as the extractive
distiller leaves them. Two belong together when they are runs of one task. At each threshold the night's own grouping is
asked, and its groups are held against the tasks:

- precision: pairs in one group that are of one task, among all pairs in one group
- recall: pairs of one task that are in one group, among all pairs of one task
- mixed: groups that hold runs of more than one task

What the night is given was chosen by low relevance, not by task, so stores are drawn at random: of 10, 30 and all runs of
the half. Every other task chooses the threshold, the rest check it.
"""

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from agent_memory.domain import grouping
from agent_memory.domain.models import Episode, Outcome
from benchmarks.memories import EpisodeMaker, local_models
from benchmarks.seen_before import Run, airline_runs
from benchmarks.stack import data_folder, figures, say

SIZES = (10, 30, 1000)
ROUNDS = 20
BATCH = 10
THRESHOLDS = tuple(round(float(one), 2) for one in np.arange(0.4, 0.96, 0.05))
# A pair that does not belong together costs a model call, and a summary of two things if its checks are deceived; one
# that is missed only goes by itself. F-beta below 1 weighs precision higher (van Rijsbergen, 1979).
BETA = 0.5


class Grouped(NamedTuple):
    """Pairs over all stores. *right*: in one group and of one task. *groups*, *mixed*: how many there were."""

    right: int
    together: int
    belong: int
    groups: int
    mixed: int

    @property
    def precision(self) -> float:
        return self.right / self.together if self.together else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.belong if self.belong else 0.0

    @property
    def worth(self) -> float:
        both = BETA**2 * self.precision + self.recall
        return (1 + BETA**2) * self.precision * self.recall / both if both else 0.0


def stores(episodes: Sequence[Episode], seed: int = 7) -> Iterator[list[Episode]]:
    chance = random.Random(seed)
    for size in SIZES:
        for _ in range(ROUNDS if size < len(episodes) else 1):
            yield chance.sample(list(episodes), min(size, len(episodes)))


def grouped(episodes: Sequence[Episode], tasks: Mapping[str, int], threshold: float) -> Grouped:
    right = together = belong = groups = mixed = 0
    with patch.object(grouping, "ABOUT_THE_SAME", {episodes[0].embedding_model: threshold}):
        for store in stores(episodes):
            belong += sum(tasks[one.run_id] == tasks[other.run_id] for one, other in combinations(store, 2))
            for group in grouping.merge_groups(store, batch_size=BATCH):
                pairs = [tasks[one.run_id] == tasks[other.run_id] for one, other in combinations(group, 2)]
                right, together = right + sum(pairs), together + len(pairs)
                groups, mixed = groups + 1, mixed + (not all(pairs))
    return Grouped(right, together, belong, groups, mixed)


def table(halves: Sequence[Sequence[Episode]], tasks: Mapping[str, int]) -> dict[float, tuple[Grouped, ...]]:
    say("threshold: precision, recall, mixed groups of all (check: the same)")
    found = {}
    for threshold in THRESHOLDS:
        found[threshold] = tuple(grouped(half, tasks, threshold) for half in halves)
        shown = [
            f"{one.precision:.2f}  {one.recall:.2f}  {one.mixed:4d} of {one.groups:4d}" for one in found[threshold]
        ]
        say(f"  {threshold:.2f}  {shown[0]}  ({shown[1]})")
    return found


def the_episodes(runs: Sequence[Run]) -> tuple[dict[str, Episode], str]:
    with local_models() as (embedder, detector):
        made = EpisodeMaker(embedder, detector).make([(run.name, run.messages) for run in runs])
        # How a run ended keeps it apart from others; here only the likeness is asked.
        return {
            name: one.model_copy(update={"outcome": Outcome.COMPLETED}) for name, one in made.items()
        }, embedder.model


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", required=True, type=Path)
    runs = airline_runs(data_folder(arguments.parse_args()))
    episodes, model = the_episodes(runs)
    tasks = {run.name: run.task for run in runs}
    order = sorted(set(tasks.values()))
    halves = [[episodes[name] for name, task in tasks.items() if task in set(order[start::2])] for start in (0, 1)]
    found = table(halves, tasks)
    chosen = max(THRESHOLDS, key=lambda one: found[one][0].worth)
    ours, check = found[chosen]
    figures(
        model=model,
        threshold=chosen,
        precision=round(ours.precision, 3),
        recall=round(ours.recall, 3),
        check_precision=round(check.precision, 3),
        check_recall=round(check.recall, 3),
        in_use=grouping.ABOUT_THE_SAME.get(model),
    )


if __name__ == "__main__":
    main()
