"""Whether a quote stands in a transcript, typography and white space aside, and who said it."""

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

from agent_memory.contract import MEMORY_TOOLS
from agent_memory.domain.models import SourceKind
from agent_memory.domain.plain_text import plain
from agent_memory.domain.transcripts import Speaker, Transcript

# Shorter quotes stand in every transcript and prove nothing; a CJK character says more than a letter.
LEAST_LETTERS = 6
LEAST_FOREIGN = 2
_TYPOGRAPHY = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}) | {
    ord(dash): "-" for dash in "‐‑‒–—−"
}
# Hosts put the server's name before a tool's: mcp__agent-memory__remember.
TOOL_NAME = re.compile(r"__|[.:/]")
_EDGES = " \t\n\"'.…[]"


def normalised(text: str) -> str:
    """*text* as quotes are compared: compatibility forms, one kind of quote and dash, single spaces, no case."""
    folded = unicodedata.normalize("NFKC", plain(text)).translate(_TYPOGRAPHY).casefold()
    return " ".join(folded.split())


class Source(NamedTuple):
    """Who said a quote. *hash*: of the tool answer or document that holds it, so that it can be known again."""

    kind: SourceKind
    hash: str | None = None


class Evidence:
    """What a run's transcript says, and who said it."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    @cached_property
    def _said(self) -> list[tuple[SourceKind, str]]:
        """Every part of the transcript, in the order in which it answers for a quote.

        What a document says is the document's, also where the message that brought it holds its text. What a user
        says is the user's, whoever repeats it. What a tool said stays the tool's when the agent repeats it.
        """
        parts = [(kind, normalised(text)) for kind, text in _parts(self._transcript) if text]
        return sorted(parts, key=lambda part: _ANSWERS.index(part[0]))

    def said_by(self, kinds: Collection[SourceKind]) -> list[str]:
        """What any of *kinds* said, normalised."""
        return [text for kind, text in self._said if kind in kinds]

    def source_of(self, quote: str) -> Source | None:
        """Who said *quote*, which stands in one turn, call or result; "2" does not stand in "20". None: nobody."""
        wanted = normalised(quote).strip(_EDGES)
        letters = sum(character.isalnum() for character in wanted)
        if letters < (LEAST_LETTERS if wanted.isascii() else LEAST_FOREIGN):
            return None
        start = r"(?<![a-z0-9])" if wanted[:1].isascii() and wanted[:1].isalnum() else ""
        end = r"(?![a-z0-9]|[.,]\d)" if wanted[-1:].isascii() and wanted[-1:].isalnum() else ""
        pattern = re.compile(start + re.escape(wanted) + end)
        for kind, text in self._said:
            if wanted in text and pattern.search(text):
                return Source(kind, _digest(text) if kind in _HASHED else None)
        return None


_ANSWERS = (SourceKind.DOCUMENT, SourceKind.USER, SourceKind.TOOL, SourceKind.AGENT)
_HASHED = frozenset({SourceKind.TOOL, SourceKind.DOCUMENT})
# A role that nobody knows is trusted as little as a document.
_SPEAKERS = {
    Speaker.USER: SourceKind.USER,
    Speaker.ASSISTANT: SourceKind.AGENT,
    Speaker.TOOL: SourceKind.TOOL,
    Speaker.OTHER: SourceKind.DOCUMENT,
}


def _parts(transcript: Transcript) -> Iterator[tuple[SourceKind, str]]:
    for turn in transcript.turns:
        for document in turn.documents:
            yield SourceKind.DOCUMENT, document
        yield _SPEAKERS[turn.speaker], turn.text
        for call in turn.calls:
            # A quote that an agent gives for a fact that it wants remembered must not prove itself.
            if TOOL_NAME.split(call.name)[-1] not in MEMORY_TOOLS:
                yield SourceKind.AGENT, call.arguments
            yield SourceKind.TOOL, call.result or ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
