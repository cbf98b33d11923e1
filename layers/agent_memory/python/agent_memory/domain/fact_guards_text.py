"""Facts as words: one spelling of everything before two facts are compared."""

import re
import unicodedata
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class Relation(StrEnum):
    """How one fact stands to another."""

    SAME = "same"
    CONTRADICTS = "contradicts"
    DIFFERENT = "different"


class Finding(NamedTuple):
    """What one guard objects to. *close*: a judge could see it otherwise."""

    relation: Relation
    reason: str
    close: bool = False


class Token(NamedTuple):
    """One word. *surface* keeps its case; *initial*: it opens a sentence, so its capital says nothing."""

    surface: str
    word: str
    stem: str
    initial: bool


_SPELLINGS = str.maketrans(
    {
        "\u2019": "'",
        "\u2018": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": " - ",
        "\u2212": "-",
        "\u2010": "-",
        "\u2011": "-",
        "\u00d7": "x",
        "\u2044": "/",
    }
)
_CONTRACTIONS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\b(?:can't|cannot|cant)\b", re.I), "can not"),
    (re.compile(r"\bwon't\b", re.I), "will not"),
    (
        re.compile(r"\b(is|are|was|were|do|does|did|has|have|had|must|should|would|could|need|might|ai)n'?t\b", re.I),
        r"\1 not",
    ),
    (re.compile(r"\bno[ -]one\b", re.I), "nobody"),
    (re.compile(r"\b(?:nobody|none|nothing) (?:but|except|other than)\b", re.I), "only"),
    (re.compile(r"\bdegrees? (celsius|fahrenheit|c|f)\b", re.I), lambda match: "\u00b0" + match[1][0]),
    (re.compile(r"(?<=[A-Za-z])'s\b"), ""),
    (re.compile(r"\b([ap])\.\s?m\b\.?", re.I), r"\1m"),
    (re.compile(r"\be-mail", re.I), "email"),
    (re.compile(r"\b(on|off|log|sign)-(line|site|in|out)\b", re.I), r"\1\2"),
)
_WORD = re.compile(r"[^\W_]+(?:[-'][^\W\d_]+)*", re.UNICODE)
_SENTENCE_END = re.compile(r"[.!?:;\"(]\s*$")
_IRREGULAR = {
    "paid": "pay", "sent": "send", "left": "leave", "bought": "buy", "sold": "sell", "made": "make", "took": "take", "taken": "take",
    "went": "go", "gone": "go", "came": "come", "held": "hold", "kept": "keep", "began": "begin", "begun": "begin", "ran": "run",
    "rose": "rise", "risen": "rise", "fell": "fall", "fallen": "fall", "won": "win", "lost": "lose", "gave": "give", "given": "give",
    "got": "get", "written": "write", "wrote": "write", "forbidden": "forbid", "forbade": "forbid", "shrank": "shrink", "grew": "grow",
    "grown": "grow", "broke": "break", "broken": "break", "children": "child", "men": "man", "women": "woman", "people": "person",
    "has": "have", "had": "have", "does": "do", "did": "do", "is": "be", "are": "be", "was": "be", "were": "be", "been": "be",
    "being": "be", "goes": "go", "this": "this", "less": "less", "always": "always", "during": "during", "nothing": "nothing",
    "need": "need", "shed": "shed", "string": "string", "thing": "thing", "spring": "spring", "morning": "morning",
    "evening": "evening", "bring": "bring", "gas": "gas", "bus": "bus", "business": "business", "buying": "buy",
    "paying": "pay", "dying": "die", "lying": "lie", "tied": "tie", "news": "news", "across": "across", "red": "red", "led": "lead",
    "built": "build", "spent": "spend", "met": "meet", "shown": "show", "known": "know", "knew": "know", "chosen": "choose",
    "chose": "choose", "driven": "drive", "drove": "drive", "ridden": "ride", "rode": "ride", "worn": "wear", "thrown": "throw",
    "taught": "teach", "caught": "catch", "lent": "lend", "lay": "lie", "drew": "draw", "drawn": "draw", "eaten": "eat", "ate": "eat",
    "clung": "cling", "leapt": "leap", "upheld": "uphold", "withheld": "withhold", "withdrew": "withdraw", "withdrawn": "withdraw",
    "overturned": "overturn", "fought": "fight", "sought": "seek", "brought": "bring", "thought": "think", "stood": "stand",
    "understood": "understand", "sat": "sit", "slept": "sleep", "spoke": "speak", "spoken": "speak", "stole": "steal",
    "stolen": "steal", "swept": "sweep", "swum": "swim", "swam": "swim", "told": "tell", "tore": "tear", "torn": "tear",
    "woke": "wake", "wrung": "wring", "flew": "fly", "flown": "fly", "froze": "freeze", "frozen": "freeze", "forgot": "forget",
    "forgotten": "forget", "hid": "hide", "hidden": "hide", "sank": "sink", "sunk": "sink", "dealt": "deal", "fed": "feed",
    "felt": "feel", "meant": "mean", "sprang": "spring", "struck": "strike", "swore": "swear", "sworn": "swear", "owed": "owe", "owes": "owe", "owing": "owe",
}  # fmt: skip
_VOWEL = re.compile(r"[aeiouy]")


@lru_cache(maxsize=4096)
def normalise(text: str) -> str:
    """Return *text* in NFKC with one kind of quote, dash and space, and with contractions written out."""
    text = unicodedata.normalize("NFKC", text).translate(_SPELLINGS)
    for pattern, whole in _CONTRACTIONS:
        text = pattern.sub(whole, text)
    return " ".join(text.split())


def folded(text: str) -> str:
    """*text* without the differences that never carry meaning: case, width, spaces, closing full stop."""
    return normalise(text).casefold().rstrip(" .!")


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[Token, ...]:
    """The words of *text*, which may be raw or normalised."""
    text = normalise(text)
    found = []
    for match in _WORD.finditer(text):
        before = text[: match.start()]
        initial = not before.strip(" \"'(-*#") or bool(_SENTENCE_END.search(before))
        word = match.group().casefold()
        found.append(Token(match.group(), word, stem(word), initial))
    return tuple(found)


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """A light English stem: plural, -ing, -ed and a silent e go; other languages mostly stay as they are."""
    if word in _IRREGULAR:
        return _IRREGULAR[word].rstrip("e") if len(_IRREGULAR[word]) > 3 else _IRREGULAR[word]
    if len(word) < 4 or not word.isascii():
        return word
    for suffix, least in (("ing", 3), ("ed", 3)):
        base = word[: -len(suffix)]
        if word.endswith(suffix) and len(base) >= least - 1 and _VOWEL.search(base):
            return _without_double(base)
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "ches", "shes", "xes", "zes")):
        return _silent(word[:-2])
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return _silent(word[:-1])
    return _silent(word)


def _without_double(base: str) -> str:
    if base.endswith("i"):
        return base[:-1] + "y"
    if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz":
        return base[:-1]
    return _silent(base)


def _silent(base: str) -> str:
    return base[:-1] if len(base) > 3 and base.endswith("e") else base
