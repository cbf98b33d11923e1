"""Outside text made safe to read: what nobody sees is taken out, what can't be encoded is replaced, size is bounded.

All passes are linear in the length of the text, whatever it holds.
"""

import re
import unicodedata

LEFT_OUT = "left out"

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
# Control and bidirectional characters, fillers, tags and the second block of variation selectors: invisible, and
# used to smuggle orders past the reader. A flag of a part of a country (built of tags) becomes a plain flag.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]+"
)
# Persian and Indic spelling and composed emoji need joiners; between Latin letters, or in a row, they only hide.
_STRAY_JOINERS = re.compile("(?:[\u200c\u200d]{2,}|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f]))")
_STRAY_SELECTORS = re.compile("(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]+")
# Normalising is quadratic in a run of combining marks; no script stacks more than this.
MAX_MARKS = 12
_UNBROKEN = re.compile(f"[^\x00-\u02ff]{{{MAX_MARKS + 1},}}")

_DATA_URL = re.compile(
    r"data:([\w.+-]{1,40}/[\w.+-]{1,80})?(?:;[\w.-]{1,40}=[\w.-]{1,40}){0,4};base64,([\w+/=-]*)", re.ASCII
)
_UNBROKEN_DATA = re.compile(r"(?<![\w+/=-])[\w+/=-]{1000,}", re.ASCII)


def plain(text: str) -> str:
    """Return *text* in NFC without hidden characters; halves of a surrogate pair become U+FFFD."""
    if "\x1b" in text:
        text = _TERMINAL_CODES.sub("", text)
    text = _HIDDEN.sub("", text)
    if text.isascii():
        return text
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _STRAY_SELECTORS.sub("", _STRAY_JOINERS.sub("", text))
    return unicodedata.normalize("NFC", _UNBROKEN.sub(_few_marks, text))


def _few_marks(found: re.Match[str]) -> str:
    kept, run = [], 0
    for character in found.group():
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def without_binary(text: str) -> tuple[str, int]:
    """Return *text* with inline binary (data URLs, long unbroken base64) as short markers, and how many there were."""
    text, urls = _DATA_URL.subn(lambda found: marker(found[1] or "data", len(found[2]) * 3 // 4), text)
    text, runs = _UNBROKEN_DATA.subn(lambda found: marker("unbroken data", len(found[0])), text)
    return text, urls + runs


def marker(kind: str, size: int | None) -> str:
    """The note that stands where something was left out: its kind and, when known, its size in bytes."""
    if size is None:
        return f"[{kind} {LEFT_OUT}]"
    return f"[{kind}, {size / 1024:.0f} KB {LEFT_OUT}]" if size >= 1024 else f"[{kind}, {size} bytes {LEFT_OUT}]"


def one_line(text: str) -> str:
    """Return *text* with every run of white space as one space."""
    return " ".join(text.split())


def shortened(text: str, limit: int) -> str:
    """Return *text* in at most *limit* characters: whole words and an ellipsis when it is longer."""
    text = text.strip()
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    # A script without spaces has no word to keep whole.
    words = head.rsplit(None, 1)[0] if len(head.rsplit(None, 1)) > 1 else head
    return (words if len(words) > limit * 3 // 4 else head).rstrip(" ,;:") + "…"


def estimated_tokens(text: str) -> int:
    """A cautious guess at the tokens of *text*: three ASCII characters to one, any other character one."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return ascii_characters // 3 + (len(text) - ascii_characters)
