"""Guard for the word that stands in the place of another, all else being equal: embeddings hardly see it."""

from agent_memory.domain import fact_guards_lexicon as lexicon
from agent_memory.domain.fact_guards_text import Token, tokens
from agent_memory.domain.fact_guards_units import EVERY, NUMBER_WORDS, UNITS
from agent_memory.domain.fact_guards_wordnet import alike

# Other guards read these, and compare more than the word.
_READ_ELSEWHERE = (
    lexicon.NEGATORS | lexicon.ALL | lexicon.SOME | lexicon.SOMETIMES | lexicon.MOST | lexicon.ONLY
    | lexicon.MUST | lexicon.SHOULD | lexicon.MAY | lexicon.CAN | lexicon.OPTIONAL | EVERY.keys() | UNITS.keys()
)  # fmt: skip


def content(text: str) -> tuple[Token, ...]:
    return tuple(token for token in tokens(text) if token.word not in lexicon.FUNCTION)


def in_other_words(a: str, b: str) -> bool:
    """Whether each says with a word of its own what the other does not say with it."""
    first, second = ({token.stem for token in content(text) if not _read_elsewhere(token)} for text in (a, b))
    return bool(first - second and second - first)


def replaced_unknown(a: str, b: str) -> bool:
    """Whether the facts differ in one word, and nothing is known by which the two words would say the same."""
    pair = _replaced(content(a), content(b))
    if pair is None or any(map(_read_elsewhere, pair)) or _denies(a) != _denies(b):
        return False
    return not alike(pair[0].stem, pair[1].stem)


def _replaced(a: tuple[Token, ...], b: tuple[Token, ...]) -> tuple[Token, Token] | None:
    if len(a) != len(b):
        return None
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if _agreed(x.stem) != _agreed(y.stem)]
    return pairs[0] if len(pairs) == 1 else None


def _agreed(stem: str) -> str:
    return lexicon.SYNONYMS.get(stem, stem)


def _read_elsewhere(token: Token) -> bool:
    word = token.word
    return word in _READ_ELSEWHERE or any(c.isdigit() for c in word) or bool(NUMBER_WORDS.fullmatch(word))


def _denies(text: str) -> bool:
    """A negation on one side only: the guard of polarity has weighed it against the word."""
    return any(token.word in lexicon.NEGATORS for token in tokens(text))
