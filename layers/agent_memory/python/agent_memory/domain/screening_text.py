"""The readings of a text that a screener looks at: as it stands, and what is hidden, encoded or disguised in it.

Everything here is bounded by the length of the text; nothing is decoded twice in a row.
"""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

from agent_memory.domain.plain_text import plain

# A payload that says something needs this many letters.
LEAST_PAYLOAD = 8
MAX_READ = 8_000
_LOOKALIKES = dict(
    zip(
        "\u0430\u0435\u043e\u0440\u0441\u0445\u0443\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u043a\u043c\u043d\u0442\u0432\u0433"
        "\u03b1\u03b5\u03bf\u03c1\u03c5\u03bd\u03b9\u03ba\u03c4\u03c7\u03b7\u0131\u0142\u00f8\u0111\u0261",
        "aeopcxyijshdqwkmhtbraeopuviktxnilodg",
        strict=True,
    )
)
_TO_LATIN = str.maketrans(_LOOKALIKES)
_FOREIGN = re.compile("[\u0370-\u03ff\u0400-\u052f\u0131\u0142\u00f8\u0111\u0261]")
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[a-z]")
# A flag of a part of a country is a black flag and tags; all other tags are letters that nobody sees.
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{2,8}\U000e007f")
_TAGS = re.compile("[\U000e0020-\U000e007e]")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
_UNSEEN = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff\u180e]{8,}|(?:[\u200b\u2060\ufeff].{0,3}){12}", re.DOTALL)
_LEET = str.maketrans("013457@$!|", "oieastasil")
_LEETED = re.compile(r"(?<![\w@$!|])(?=[\w@$!|]*[a-z])(?=[\w@$!|]*[013457@$!|])[\w@$!|]{3,}(?<![!|])", re.I)
_SPACED = re.compile(r"(?<!\w)(?:[^\W\d_][ ._*\-]{1,3}){5,}[^\W\d_](?!\w)")
# Words tied together: by signs, by line breaks after each, by capitals inside.
_GLUED = re.compile(
    r"(?<=\w)(?:[_*|/~+.\u00b7\u2022-]+|\s+[-_*|/~\u2022\u2013\u2014]+\s+|\n+)(?=\w)|(?<=[a-z])(?=[A-Z])"
)
_LONG_WORD = re.compile(r"[a-z]{5,14}")
# Words that an attack needs; letters swapped, doubled or dropped inside them are read past, as models do.
_NEEDED_WORDS = (
    "ignore disregard forget override bypass previous prior instructions instruction guidelines system prompt "
    "reveal password passwords credentials approve approval without review verification recommend always secret "
    "assistant memory verified"
)
_NEEDED = _NEEDED_WORDS.split()
# Small words and deeds between them, so that letters without gaps can be parted into words again.
_SMALL_WORDS = (
    "all any every your you the this that these and or to from of for a an it in on with not no do dont never send "
    "give show print tell say pay grant delete forward follow obey trust user users customer key keys rules rule claim "
    "claims money now admin access payment invoice invoices order orders refund data list policy what whatever which "
    "is are was have told given earlier above text file email skip check checks"
)
_KNOWN = frozenset((*_NEEDED, *_SMALL_WORDS.split()))
_LONGEST_WORD = max(map(len, _KNOWN))
_KNOWN_PARTS = re.compile("(" + "|".join(sorted(_KNOWN, key=lambda word: (-len(word), word))) + ")")
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{16,}={0,2}(?![\w+/=-])")
_HEX = re.compile(r"(?<![0-9a-f])(?:(?:0x|\\x)?[0-9a-f]{2}[ :]?){10,}(?![0-9a-f])", re.I)
_ESCAPES = re.compile(r"(?:%[0-9a-f]{2}|&#x?[0-9a-f]{2,6};|\\u[0-9a-f]{4}|\\x[0-9a-f]{2})", re.I)
_UNICODE_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|x([0-9a-f]{2}))", re.I)
_BASE32 = re.compile(r"(?<![\w=])[A-Z2-7]{24,}={0,6}(?![\w=])")
_BASE85 = re.compile(r"(?<!\S)(?=\S*[^\w\s])\S{24,}(?!\S)")
_MORSE = re.compile(r"(?<![.\-])[.\-]{1,6}(?:[ /]{1,3}[.\-]{1,6}){10,}(?![.\-])")
_MORSE_SIGNS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
)
_OF_MORSE = dict(zip(_MORSE_SIGNS.split(), "abcdefghijklmnopqrstuvwxyz", strict=True))
_BINARY = re.compile(r"(?:[01]{8}[ ,]?){8,}")


class Reading(NamedTuple):
    """One way to read a text. *reason*: why it is not the plain way; empty for that."""

    reason: str
    text: str


def folded(text: str) -> str:
    """*text* as patterns compare it: nothing hidden, one form per letter, no case, no accents on Latin letters."""
    text = unicodedata.normalize("NFKC", plain(text[: 2 * MAX_READ]))[:MAX_READ].casefold()
    if text.isascii():
        return text
    kept: list[str] = []
    for character in unicodedata.normalize("NFD", text):
        if not (unicodedata.combining(character) and kept and kept[-1].isascii()):
            kept.append(character)
    text = unicodedata.normalize("NFC", "".join(kept)).replace("\u2019", "'").replace("\u2018", "'")
    return _in_one_script(text) if _FOREIGN.search(text) else text


def _in_one_script(text: str) -> str:
    """Look-alike letters of other alphabets as the Latin ones that they pose as; Russian and Greek stay as they are."""
    latin = len(_LATIN.findall(text)) > len(_FOREIGN.findall(text))

    def read(word: re.Match[str]) -> str:
        found = word.group()
        foreign = _FOREIGN.findall(found)
        posing = len(foreign) < len(found) or (latin and all(letter in _LOOKALIKES for letter in found))
        return found.translate(_TO_LATIN) if foreign and posing else found

    return _WORD.sub(read, text)


def readings(text: str) -> Iterator[Reading]:
    """The plain reading of *text*, then each other one that says something."""
    yield Reading("", folded(text))
    if hidden := hidden_letters(text):
        yield Reading("hidden_text", folded(hidden))
    clear = plain(text[:MAX_READ])
    for reading in (*_encoded(clear), *_disguised(clear)):
        if sum(character.isalpha() for character in reading) >= LEAST_PAYLOAD:
            yield Reading("encoded", folded(reading))


def hidden_letters(text: str) -> str:
    """What *text* says in letters that nobody sees (Unicode tags, bytes as variation selectors)."""
    if text.isascii():
        return ""
    tags = "".join(chr(ord(tag) - 0xE0000) for tag in _TAGS.findall(_FLAG.sub("", text)))
    return tags + "".join(map(_selected, _SELECTORS.findall(text)))


def hides_something(text: str) -> bool:
    """Whether *text* carries letters or long runs of signs that nobody sees."""
    unseen = not text.isascii() and _UNSEEN.search(text)
    return len(hidden_letters(text)) >= LEAST_PAYLOAD or bool(unseen)


def _selected(run: str) -> str:
    values = [ord(one) - 0xFE00 if ord(one) < 0xFE10 else ord(one) - 0xE0100 + 16 for one in run]
    return bytes(values).decode("utf-8", "ignore")


def _encoded(text: str) -> Iterator[str]:
    for run in _BASE64.findall(text)[:20]:
        yield _from_base64(run)
    for run in _HEX.findall(text)[:20]:
        yield _readable(bytes.fromhex(re.sub(r"0x|\\x|[ :]", "", run)[: len(run) // 2 * 2]))
    for run in _BINARY.findall(text)[:5]:
        digits = re.sub(r"\D", "", run)
        yield _readable(bytes(int(digits[at : at + 8], 2) for at in range(0, len(digits) - 7, 8)))
    for run in _BASE32.findall(text)[:5]:
        yield _decoded(base64.b32decode, run.rstrip("=")[: len(run.rstrip("=")) // 8 * 8])
    for run in _BASE85.findall(text)[:5]:
        yield _decoded(base64.b85decode, run)
        yield _decoded(base64.a85decode, run.removeprefix("<~").removesuffix("~>"))
    for run in _MORSE.findall(text)[:5]:
        yield " ".join("".join(_OF_MORSE.get(sign, "") for sign in word.split()) for word in run.split("/"))
    if len(_ESCAPES.findall(text)) >= LEAST_PAYLOAD:
        unescaped = html.unescape(unquote(text, errors="ignore"))
        yield _UNICODE_ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), unescaped)


def _decoded(decode: Callable[[str], bytes], run: str) -> str:
    try:
        return _readable(decode(run))
    except (ValueError, binascii.Error):
        return ""


def _from_base64(run: str) -> str:
    whole = run.rstrip("=").replace("-", "+").replace("_", "/")
    # One letter over is no byte; three are two.
    whole = whole[: len(whole) - (len(whole) % 4 == 1)]
    try:
        return _readable(base64.b64decode(whole + "=" * (-len(whole) % 4)))
    except (ValueError, binascii.Error):
        return ""


def _readable(data: bytes) -> str:
    """What *data* says, when it is text for the most part."""
    text = data.decode("utf-8", "ignore")
    said = sum(character.isalpha() or character.isspace() for character in text)
    return text if said >= 0.7 * max(1, len(data)) else ""


def _disguised(text: str) -> Iterator[str]:
    """Letters written as digits, one by one, backwards or thirteen places on."""
    leeted = _LEETED.sub(lambda word: word.group().lower().translate(_LEET), text)
    if leeted != text:
        yield leeted
    if _SPACED.search(text):
        yield _SPACED.sub(lambda run: _closed(run.group()), text)
    if _GLUED.search(text):
        yield _GLUED.sub(" ", text)
    mended = _LONG_WORD.sub(_mended, text.lower())
    if mended != text.lower():
        yield mended
    yield text[::-1]
    yield codecs.decode(text, "rot13")


def _bones(word: str) -> str:
    return word[0] + "".join(sorted(word[1:]))


_BY_BONES = {_bones(word): word for word in _NEEDED}
_ONE_SHORT = {
    _bones(word[:at] + word[at + 1 :]): word for word in _NEEDED if len(word) > 7 for at in range(1, len(word) - 1)
}


def _mended(found: re.Match[str]) -> str:
    word = found.group()
    if word in _NEEDED:
        return word
    meant = _BY_BONES.get(_bones(word)) or _ONE_SHORT.get(_bones(word))
    return meant if meant and abs(len(meant) - len(word)) <= 1 and meant[-1] == word[-1] else word


def _closed(run: str) -> str:
    """Single letters put together; a wider gap than the others parts words. Without such gaps they are found by
    themselves."""
    tied = any(sign in run for sign in "._*-")
    parts = re.split(r" +" if tied else r" {2,}", run)
    return " ".join(_parted(re.sub(r"[ ._*\-]", "", part)) for part in parts)


def _parted(run: str) -> str:
    """The words of *run*, longest known ones first, when most of it is words that an order is made of."""
    if len(run) <= _LONGEST_WORD or run.lower() in _KNOWN:
        return run
    found = [part for part in _KNOWN_PARTS.split(run.lower()) if part]
    known = sum(len(part) for part in found if part in _KNOWN)
    return " ".join(found) if known >= 0.6 * len(run) else run
