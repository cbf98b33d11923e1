"""Where the floors of episodes come from: how often a known and a novel task would be answered at each floor.

`python -m benchmarks.calibrate_floors --data FOLDER [--in-process]` prints one table for each form of question. A floor
must hold in a store of five runs and in one of seven hundred, so each question is asked of stores of several sizes:
known with one run of the task in it, novel with none. Every other task chooses the floor, the rest check it.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from agent_memory.domain import lexical
from agent_memory.domain.models import EpisodeView
from agent_memory.domain.plain_text import plain
from agent_memory.domain.ranking import rank
from benchmarks.memories import EpisodeMaker
from benchmarks.seen_before import FORMS, Run, airline_runs, distractors, the_memory
from benchmarks.stack import data_folder, figures, say

SIZES = (5, 25, 100, 600)
FLOORS = tuple(round(floor, 2) for floor in np.arange(0.5, 0.8, 0.02))
COSINES = (0.7, 0.75, 0.8, 0.85, 0.9)
# A wrong memory in the prompt costs more than a missing one.
NOVEL_COST = 2.0


class Best(NamedTuple):
    """The best of one store for one question."""

    form: str
    task: int
    known: bool
    score: float
    cosine: float
    words: float
    strong: bool


def questions(runs: Sequence[Run], retail: Sequence[str], seed: int = 7) -> Iterator[tuple[Run, str, bool, list[str]]]:
    """Question, form, known or not, and the names of the runs in the store."""
    chance = random.Random(seed)
    for run in runs:
        same = [other.name for other in runs if other.task == run.task and other.trial != run.trial]
        others = [other.name for other in runs if other.task != run.task]
        for size in SIZES:
            pool = others if size <= len(others) else [*others, *retail]
            store = chance.sample(pool, min(size, len(pool)))
            for form in FORMS:
                yield run, form, False, store
                yield run, form, True, [*store[1:], chance.choice(same)]


def answered(maker: EpisodeMaker, runs: Sequence[Run], retail: Sequence[tuple[str, str]]) -> Iterator[Best]:
    texts = [(name, [{"role": "user", "content": text}]) for name, text in retail]
    episodes = maker.make([*texts, *((run.name, run.messages) for run in runs)])
    views = {
        name: EpisodeView.model_validate({field: getattr(one, field) for field in EpisodeView.model_fields})
        for name, one in episodes.items()
    }
    for run, form, known, store in questions(runs, [name for name, _ in retail]):
        text = plain(getattr(run, form)).strip()
        ranking = rank(lexical.query(text), maker.embed(text), [views[name] for name in store], model=maker.model)
        top = ranking.candidates[0]
        yield Best(
            form=form,
            task=run.task,
            known=known,
            score=max(c.score for c in ranking.candidates),
            cosine=max(max(c.cosine_task or 0, c.cosine_digest or 0) for c in ranking.candidates),
            words=max(c.lexical for c in ranking.candidates),
            strong=top.strong,
        )


def table(found: Sequence[Best], measure: str, floors: Sequence[float]) -> list[tuple[float, float, float]]:
    """For each floor the share of known and of novel questions that would be answered."""
    rows = []
    for floor in floors:
        shares = [
            float(np.mean([getattr(best, measure) >= floor for best in found if best.known is known]))
            for known in (True, False)
        ]
        rows.append((floor, *shares))
    return rows


def chosen(rows: Sequence[tuple[float, float, float]]) -> float:
    return max(rows, key=lambda row: row[1] - NOVEL_COST * row[2])[0]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", required=True, type=Path)
    arguments.add_argument("--in-process", action="store_true", help="without a stack: the same code in this process")
    given = arguments.parse_args()
    runs, retail = airline_runs(data_folder(given)), distractors(given.data)
    with the_memory(in_process=given.in_process) as (_, maker):
        found = list(answered(maker, runs, retail))
        model = maker.model
    report(found, model)


def report(found: Sequence[Best], model: str) -> None:
    """Print the tables, and the chosen floors on the last line."""
    tasks = sorted({best.task for best in found})
    choosing = set(tasks[::2])
    result: dict[str, float] = {}
    for form in FORMS:
        for measure, floors in (("score", FLOORS), ("cosine", COSINES), ("words", FLOORS)):
            ours = [best for best in found if best.form == form]
            rows = table([best for best in ours if best.task in choosing], measure, floors)
            check = table([best for best in ours if best.task not in choosing], measure, floors)
            result[f"{form}_{measure}"] = chosen(rows)
            say(f"\n{form}, {measure}: floor, known answered, novel answered (check: known, novel)")
            for (floor, known, novel), (_, known_check, novel_check) in zip(rows, check, strict=True):
                say(f"  {floor:.2f}  {known:.2f}  {novel:.2f}  ({known_check:.2f}  {novel_check:.2f})")
    figures(model=model, **result)


if __name__ == "__main__":
    main()
