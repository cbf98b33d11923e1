"""Does the gate tell the same fact in other words from one that contradicts it?

`python -m benchmarks.confirm --data FOLDER` needs no stack: the laptop's embedding model and the guards. Public pairs from
FOLDER/paraphrase (SICK: entailed and related >= 4.5 is the same, CONTRADICTION is one; MRPC as labelled) and our own
pairs. Beside it stands plain cosine at the recall that the gate reaches on the same pairs.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from agent_memory.domain.same_fact import Relation, same_fact, thresholds_of
from benchmarks.stack import data_folder, figures, say

MODEL = "local.all-minilm-l6-v2"
OWN_PAIRS = Path(__file__).parent / "data" / "fact_pairs.json"
EMBED = (
    "import json, sys; from pathlib import Path; from local.embedder import MiniLm; model = MiniLm(Path(sys.argv[1]))\n"
    "json.dump([model.embed(text) for text in json.load(sys.stdin)], sys.stdout)"
)


class Pair(NamedTuple):
    """Two texts and whether they state the same fact."""

    a: str
    b: str
    same: bool


def sick_pairs(folder: Path) -> list[Pair]:
    return [pair for name in ("train", "trial") for pair in _sick(folder / "paraphrase" / f"SICK_{name}.txt")]


def _sick(file: Path) -> Iterator[Pair]:
    for line in file.read_text(encoding="utf-8-sig").splitlines():
        cells = line.split("\t")
        if len(cells) < 5 or not cells[0].strip().isdigit():
            continue
        judgement, related = cells[4].strip(), float(cells[3])
        if judgement == "CONTRADICTION" or (judgement == "ENTAILMENT" and related >= 4.5):
            yield Pair(cells[1], cells[2], judgement == "ENTAILMENT")


def mrpc_pairs(folder: Path) -> list[Pair]:
    file = folder / "paraphrase" / "msr-para-val.tsv"
    rows = (line.split("\t") for line in file.read_text(encoding="utf-8-sig").splitlines())
    return [Pair(row[3], row[4], row[0] == "1") for row in rows if len(row) >= 5 and row[0] in ("0", "1")]


def own_pairs() -> list[Pair]:
    rows = json.loads(OWN_PAIRS.read_text(encoding="utf-8"))
    return [Pair(row["a"], row["b"], row["same"]) for row in rows]


def vectors(texts: Sequence[str]) -> dict[str, np.ndarray]:
    """The unit vectors of *texts*, from the laptop's model in its own environment."""
    from local.layout import AI_VENV, ROOT, python_of
    from local.models import tokenizer_path

    command = [str(python_of(AI_VENV)), "-c", EMBED, str(tokenizer_path())]
    done = subprocess.run(command, cwd=ROOT, input=json.dumps(texts), capture_output=True, text=True, check=True)
    return dict(zip(texts, np.array(json.loads(done.stdout), dtype=np.float32), strict=True))


class Outcome(NamedTuple):
    """Shares of the pairs that are merged: by the gate, and by cosine at the same recall."""

    recall: float
    merged: float
    naive_merged: float
    contested: float


def measure(pairs: Sequence[Pair], cosine: Callable[[Pair], float]) -> Outcome:
    thresholds = thresholds_of(MODEL)
    cosines = {pair: cosine(pair) for pair in pairs}
    relations = {
        pair: same_fact(pair.a, pair.b, cosine=cosines[pair], thresholds=thresholds).relation for pair in pairs
    }
    same, other = [p for p in pairs if p.same], [p for p in pairs if not p.same]
    recall = _share(same, lambda pair: relations[pair] is Relation.SAME)
    ranked = sorted((cosines[pair] for pair in same), reverse=True)
    naive = ranked[max(round(recall * len(same)), 1) - 1]
    return Outcome(
        recall,
        _share(other, lambda pair: relations[pair] is Relation.SAME),
        _share(other, lambda pair: cosines[pair] >= naive),
        _share(other, lambda pair: relations[pair] is Relation.CONTRADICTS),
    )


def _share(pairs: Sequence[Pair], holds: Callable[[Pair], bool]) -> float:
    return round(sum(map(holds, pairs)) / max(len(pairs), 1), 4)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", required=True, type=Path)
    folder = data_folder(arguments.parse_args())
    sets = {"sick": sick_pairs(folder), "mrpc": mrpc_pairs(folder), "own": own_pairs()}
    texts = sorted({text for pairs in sets.values() for pair in pairs for text in (pair.a, pair.b)})
    say(f"embedding {len(texts)} texts")
    embedded = vectors(texts)
    found = {name: measure(pairs, lambda p: float(embedded[p.a] @ embedded[p.b])) for name, pairs in sets.items()}
    for name, outcome in found.items():
        say(f"{name}: {len(sets[name])} pairs, {outcome}")
    figures(
        sick_same_recall=found["sick"].recall,
        sick_contradictions_merged=found["sick"].merged,
        own_same_recall=found["own"].recall,
        own_contradictions_merged=found["own"].merged,
        naive_contradictions_merged=found["sick"].naive_merged,
        own_naive_contradictions_merged=found["own"].naive_merged,
        mrpc_same_recall=found["mrpc"].recall,
        mrpc_different_merged=found["mrpc"].merged,
        mrpc_naive_different_merged=found["mrpc"].naive_merged,
        own_pairs=len(sets["own"]),
    )


if __name__ == "__main__":
    main()
