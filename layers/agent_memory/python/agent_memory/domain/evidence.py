"""Whether a quote stands in a transcript, typography and white space aside."""

import re
import unicodedata
from functools import cached_property

from agent_memory.domain.plain_text import plain
from agent_memory.domain.transcripts import Transcript

# Shorter quotes stand in every transcript and prove nothing; a CJK character says more than a letter.
LEAST_LETTERS = 6
LEAST_FOREIGN = 2
_TYPOGRAPHY = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}) | {
    ord(dash): "-" for dash in "‐‑‒–—−"
}
_BETWEEN_TURNS = "\x00"
_EDGES = " \t\n\"'.…[]"


def normalised(text: str) -> str:
    """*text* as quotes are compared: compatibility forms, one kind of quote and dash, single spaces, no case."""
    folded = unicodedata.normalize("NFKC", plain(text)).translate(_TYPOGRAPHY).casefold()
    return " ".join(folded.split())


class Evidence:
    """What a run's transcript says."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    @cached_property
    def _said(self) -> str:
        parts: list[str] = []
        for turn in self._transcript.turns:
            parts.append(turn.text)
            for call in turn.calls:
                parts += (call.arguments, call.result or "")
        return _BETWEEN_TURNS.join(normalised(part) for part in parts if part)

    def holds(self, quote: str) -> bool:
        """Whether *quote* stands in one turn, call or result; "2" does not stand in "20"."""
        wanted = normalised(quote).strip(_EDGES)
        letters = sum(character.isalnum() for character in wanted)
        if letters < (LEAST_LETTERS if wanted.isascii() else LEAST_FOREIGN):
            return False
        start = r"(?<![a-z0-9])" if wanted[:1].isascii() and wanted[:1].isalnum() else ""
        end = r"(?![a-z0-9]|[.,]\d)" if wanted[-1:].isascii() and wanted[-1:].isalnum() else ""
        return re.search(start + re.escape(wanted) + end, self._said) is not None
