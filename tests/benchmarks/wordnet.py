"""Writes the word relations that the same-fact rule ships, from WordNet's own database files.

`python -m benchmarks.wordnet --dict FOLDER` reads data.noun, data.verb, data.adj, data.adv and index.sense of WordNet 3.1.
The words are written as the stems that the guards compare, so run it again when `stem` changes.
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent_memory.domain import fact_guards_text, fact_guards_wordnet
from agent_memory.domain.fact_guards_lexicon import FUNCTION

TARGET = Path(fact_guards_wordnet.__file__).with_name(fact_guards_wordnet.DATA)
FILES = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
WORD = re.compile(r"[a-z]{2,16}")
# Kinds of noun that facts seldom put in place of each other: beasts, plants, chemistry.
LEFT_OUT = frozenset({"05", "20", "27"})
# What has more kinds than this is too general a word to stand for one of them.
MOST_KINDS = 40
PREFIXES = ("un", "in", "im", "dis", "non", "ir", "il")

Key = tuple[str, str]


class Synset(NamedTuple):
    """One meaning. *pointers*: relation, the other meaning, which word of this one and of that one."""

    words: tuple[str, ...]
    kind: str
    pointers: tuple[tuple[str, Key, int, int], ...]


def synsets(folder: Path) -> dict[Key, Synset]:
    return {key: synset for name in FILES for key, synset in _synsets(folder / f"data.{name}", FILES[name])}


def _synsets(file: Path, part: str) -> Iterator[tuple[Key, Synset]]:
    for line in file.read_text(encoding="ascii").splitlines():
        if line.startswith(" "):
            continue
        cells = line.split(" | ")[0].split()
        count = int(cells[3], 16)
        words = tuple(re.sub(r"\(.*\)", "", word) for word in cells[4 : 4 + 2 * count : 2])
        rest = cells[5 + 2 * count : 5 + 2 * count + 4 * int(cells[4 + 2 * count])]
        pointers = tuple(
            (symbol, (other.replace("s", "a"), offset), int(ends[:2], 16), int(ends[2:], 16))
            for symbol, offset, other, ends in zip(*(rest[n::4] for n in range(4)), strict=True)
        )
        yield (part, cells[0]), Synset(words, cells[1], pointers)


def used(folder: Path) -> set[tuple[str, str]]:
    """Words by part of speech that WordNet's tagged texts use; of all but nouns also those of several meanings."""
    parts = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
    found = set()
    for line in (folder / "index.sense").read_text(encoding="ascii").splitlines():
        sense, _, number, tagged = line.split()
        word, _, rest = sense.partition("%")
        if int(tagged) > 0 or (int(number) > 1 and rest[0] != "1"):
            found.add((parts[rest[0]], word))
    return found


def opposites(known: dict[Key, Synset]) -> list[str]:
    """Pairs of direct antonyms, but for those that a negative prefix tells anyway."""
    pairs = {
        tuple(sorted((synset.words[here - 1], known[other].words[there - 1])))
        for synset in known.values()
        for symbol, other, here, there in synset.pointers
        if symbol == "!"
    }
    plain = [(a, b) for a, b in pairs if WORD.fullmatch(a) and WORD.fullmatch(b) and not {a, b} & FUNCTION]
    stems = {tuple(sorted(map(fact_guards_text.stem, pair))) for pair in plain if not _prefixed(*pair)}
    return sorted(f" {a} ! {b} " for a, b in stems if a != b)


def _prefixed(a: str, b: str) -> bool:
    return any(a == prefix + b or b == prefix + a for prefix in PREFIXES)


def alike(known: dict[Key, Synset], frequent: set[tuple[str, str]]) -> list[str]:
    """Meanings with more than one word, before the colon; what is a kind of it or similar to it after the colon."""
    below: dict[Key, set[str]] = defaultdict(set)
    words = {key: _stems(key[0], synset, frequent) for key, synset in known.items()}
    for key, synset in known.items():
        for symbol, other, _, _ in synset.pointers:
            if symbol == "@" or (symbol == "&" and len(synset.pointers) < len(known[other].pointers)):
                below[other] |= words[key]
    lines = set()
    for key, own in words.items():
        kinds = below[key] - own if len(below[key]) <= MOST_KINDS else set()
        if own and len(own) + len(kinds) > 1:
            lines.add(" " + " ".join([*sorted(own), *([":", *sorted(kinds)] if kinds else [])]) + " ")
    return sorted(lines)


def _stems(part: str, synset: Synset, frequent: set[tuple[str, str]]) -> set[str]:
    if synset.kind in LEFT_OUT:
        return set()
    words = [word for word in synset.words if WORD.fullmatch(word) and (part, word) in frequent]
    return {fact_guards_text.stem(word) for word in words if word not in FUNCTION}


def licence(folder: Path) -> list[str]:
    lines = (folder / "data.adj").read_text(encoding="ascii").splitlines()
    return [line[4:].strip() for line in lines if line.startswith("  ")]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--dict", required=True, type=Path)
    folder = arguments.parse_args().dict
    known = synsets(folder)
    about = ["Derived from WordNet 3.1 by tests/benchmarks/wordnet.py: stems, not words. Changed by nobody's hand.", ""]
    head = [f"# {line}".rstrip() for line in (*about, *licence(folder))]
    lines = [*head, *opposites(known), fact_guards_wordnet.DIVIDE, *alike(known, used(folder))]
    TARGET.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
