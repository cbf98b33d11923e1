"""What can't be a fact, whoever says it: questions, scraps, our own memory quoted back."""

import re

from agent_memory.domain.fact_guards_text import normalise, tokens
from agent_memory.domain.memory_context import PREAMBLE, strip_memory_context

# A long clause is still a fact; a page is a document.
MAX_CHARACTERS = 4000
_QUESTION = re.compile(
    r"[?\uff1f\u061f]\s*[\"')\]]*$"
    r"|^(?:who|what|when|where|why|how|which) (?:is|are|was|were|do|does|did|can|should|will|much|many)\b",
    re.I,
)
# What stands in quotation marks is spoken of, not said to the agent.
_MENTIONED = re.compile(r"\"[^\"]{1,200}\"|\u00ab[^\u00bb]{1,200}\u00bb|`[^`]{1,200}`")
_MEMORY = re.compile(r"</?agent-memory\b|^\s*(?:episode|fact|procedure) \d+ of \d+:", re.I | re.M)
_UNSEGMENTED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


def refusal(content: str) -> str | None:
    """The reason code for which *content* is no fact, or None."""
    text = normalise(content)
    if not text:
        return "empty"
    if len(content) > MAX_CHARACTERS:
        return "too_long"
    if quotes_memory(content):
        return "memory_quoted_back"
    if len(tokens(text)) < 2 and len(_UNSEGMENTED.findall(text)) < 4:
        return "one_word"
    if _QUESTION.search(text):
        return "question"
    return None


def quotes_memory(content: str) -> bool:
    """Whether *content* repeats what a memory context said."""
    return bool(
        _MEMORY.search(content) or normalise(PREAMBLE) in normalise(content) or strip_memory_context(content)[1]
    )


def without_quotations(text: str) -> str:
    """*text*, normalised, without what it only speaks of."""
    return _MENTIONED.sub(" ", text)
