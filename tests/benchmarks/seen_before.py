"""Have I done this task before? Real runs of an airline agent, each asked for with its own trial left out of the store.

`python -m benchmarks.seen_before --data FOLDER` asks the deployed bootstrap with explain=true; what is held against the
figures is its ranking before floor, collapse and budget. Beside it stands the article's way.

One agent per left-out trial holds the runs of the other trials and 615 retail statements as distractors. A task is asked
for as the user opened the run (first) and as a person wrote it down (statement). For novelty the runs of the task are
really removed, asked for, and put back.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from agent_memory.domain.models import Episode
from benchmarks.baseline.episodic_memory import EpisodicMemoryStore
from benchmarks.memories import DeployedMemory, EpisodeMaker, LocalMemory, Memory, MemoryTable, local_models
from benchmarks.stack import data_folder, figures, say, the_stack

FORMS = ("first", "statement")
STOP = "###STOP###"


class Run(NamedTuple):
    """One run of the data."""

    name: str
    task: int
    trial: int
    first: str
    statement: str
    messages: list[Any]


class Asked(NamedTuple):
    """What came back for one question. *known*: the task's other runs were in the store."""

    run: Run
    form: str
    known: bool
    ranking: list[str]
    best: float
    shown: list[str]


def airline_runs(folder: Path) -> list[Run]:
    """The runs of every trajectory file in *folder*."""
    runs = []
    for file in sorted((folder / "tau_bench_airline").glob("*.json")):
        for row in json.loads(file.read_text(encoding="utf-8")):
            said = [m["content"] for m in row["traj"] if m["role"] == "user" and m.get("content")]
            opening = next(text for text in said if STOP not in text)
            statement = row["info"]["task"]["instruction"]
            name = f"air-{row['task_id']}-{row['trial']}"
            runs.append(Run(name, row["task_id"], row["trial"], opening, statement, row["traj"]))
    return sorted(runs, key=lambda run: (run.trial, run.task))


def distractors(folder: Path) -> list[tuple[str, str]]:
    rows = json.loads((folder / "tau_bench_retail" / "tasks.json").read_text(encoding="utf-8"))
    return [(row["id"], row["instruction"]) for row in rows]


def agent_of(trial: int) -> str:
    return f"without-trial-{trial}"


class Bench:
    """The store, filled, and the questions."""

    def __init__(self, memory: Memory, runs: Sequence[Run], episodes: dict[str, Episode]) -> None:
        self._memory = memory
        self._runs = runs
        self._episodes = episodes
        self.trials = sorted({run.trial for run in runs})

    def fill(self) -> None:
        """One agent per left-out trial; the distractors are older than every run."""
        trial_of = {run.name: run.trial for run in self._runs}
        wanted = [
            episode.model_copy(update={"agent_id": agent_of(trial)})
            for trial in self.trials
            for name, episode in self._episodes.items()
            if trial_of.get(name) != trial
        ]
        self._memory.put(wanted)

    def ask(self) -> list[Asked]:
        """Every question, known and novel. Trials are apart in the store, so they are asked side by side."""
        with ThreadPoolExecutor(len(self.trials)) as pool:
            return [asked for answers in pool.map(self._ask_trial, self.trials) for asked in answers]

    def _ask_trial(self, trial: int) -> list[Asked]:
        agent, answers = agent_of(trial), []
        for run in self._runs:
            if run.trial != trial:
                continue
            answers += [self._asked(agent, run, form, known=True) for form in FORMS]
            others = [other for other in self._runs if other.task == run.task and other.trial != trial]
            self._memory.remove(agent, [other.name for other in others])
            answers += [self._asked(agent, run, form, known=False) for form in FORMS]
            self._memory.put([self._episodes[other.name].model_copy(update={"agent_id": agent}) for other in others])
        say(f"trial {trial} asked")
        return answers

    def _asked(self, agent: str, run: Run, form: str, *, known: bool) -> Asked:
        answer = self._memory.recall(agent, getattr(run, form))
        if answer["degraded"]:
            raise RuntimeError(f"{run.name} was answered in part only: {answer['degraded']}")
        rows = answer["explain"]
        ranking = [row["id"].partition("/")[2] for row in rows]
        shown = [item["provenance"]["run_id"] for item in answer["items"]]
        return Asked(run, form, known, ranking, max(row["score"] for row in rows), shown)


def article(embed: Any, runs: Sequence[Run], episodes: dict[str, Episode]) -> dict[str, float]:
    """hit@1 of the article's way on the same questions. Its table is held in memory: only what it finds is compared."""
    store, trial_of = EpisodicMemoryStore(MemoryTable(), embed), {run.name: run.trial for run in runs}
    trials = sorted(set(trial_of.values()))
    for episode in sorted(episodes.values(), key=lambda one: one.ended_at):
        artifacts = {
            "task_summary": episode.task_summary,
            "key_findings": list(episode.key_findings),
            "outcome": str(episode.outcome),
        }
        for trial in trials:
            if trial_of.get(episode.run_id) != trial:
                store.store(agent_of(trial), episode.run_id, artifacts, episode.ended_at)
    hits = defaultdict(list)
    for run in runs:
        for form in FORMS:
            found = store.retrieve(agent_of(run.trial), getattr(run, form))
            hits[form].append(bool(found) and is_right(found[0][1]["run_id"], run))
    return {f"article_{form}_hit1": share(hits[form]) for form in FORMS}


def is_right(name: str, run: Run) -> bool:
    return name.startswith(f"air-{run.task}-")


def share(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def auroc(known: Sequence[float], novel: Sequence[float]) -> float:
    """How often a known task's best score is above a novel one's; a tie counts half."""
    differences = np.subtract.outer(np.asarray(known), np.asarray(novel))
    return round(float(np.mean(differences > 0) + np.mean(differences == 0) / 2), 4)


def halves(answers: Sequence[Asked]) -> Iterator[tuple[str, list[Asked]]]:
    """Every other task, and the rest: what was chosen on one half is checked on the other."""
    chosen = set(sorted({asked.run.task for asked in answers})[::2])
    yield "every other task", [asked for asked in answers if asked.run.task in chosen]
    yield "the rest", [asked for asked in answers if asked.run.task not in chosen]


def measure(answers: Sequence[Asked]) -> dict[str, float]:
    """The figures of the issue, by the form of the question."""
    result: dict[str, float] = {}
    for form in FORMS:
        known = [asked for asked in answers if asked.form == form and asked.known]
        novel = [asked for asked in answers if asked.form == form and not asked.known]
        right = [[is_right(name, asked.run) for name in asked.ranking[:10]] for asked in known]
        relevant = len({asked.run.trial for asked in known}) - 1
        result[f"{form}_hit1"] = share([row[0] for row in right])
        result[f"{form}_r10"] = share([sum(row) / relevant for row in right])
        result[f"{form}_auroc"] = auroc([asked.best for asked in known], [asked.best for asked in novel])
        result[f"shipped_{form}_known"] = share([any(is_right(n, asked.run) for n in asked.shown) for asked in known])
        result[f"shipped_{form}_novel"] = share([bool(asked.shown) for asked in novel])
    for kind in ("known", "novel"):
        result[f"shipped_{kind}_answered"] = share([result[f"shipped_{form}_{kind}"] for form in FORMS])
    return result


@contextmanager
def the_memory(*, in_process: bool) -> Iterator[tuple[Memory, EpisodeMaker]]:
    if in_process:
        with local_models() as (embedder, detector):
            yield LocalMemory(embedder), EpisodeMaker(embedder, detector)
    else:
        with the_stack() as stack:
            yield DeployedMemory(stack), EpisodeMaker(stack.services.embedder, stack.services.detector)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", required=True, type=Path)
    arguments.add_argument("--in-process", action="store_true", help="without a stack: the same code in this process")
    given = arguments.parse_args()
    folder = data_folder(given)
    runs, retail = airline_runs(folder), distractors(folder)
    if not runs:
        sys.exit("no airline runs in tau_bench_airline under the data folder")
    with the_memory(in_process=given.in_process) as (memory, maker):
        say(f"making episodes of {len(runs)} runs and {len(retail)} statements")
        texts = [(name, [{"role": "user", "content": text}]) for name, text in retail]
        episodes = maker.make([*texts, *((run.name, run.messages) for run in runs)])
        bench = Bench(memory, runs, episodes)
        say("filling the store")
        bench.fill()
        say("asking")
        answers = bench.ask()
        for name, half in halves(answers):
            say(f"{name}: {json.dumps(measure(half))}")
        say("asking the article's way")
        figures(**measure(answers), **article(maker, runs, episodes), runs=len(runs), distractors=len(retail))


if __name__ == "__main__":
    main()
