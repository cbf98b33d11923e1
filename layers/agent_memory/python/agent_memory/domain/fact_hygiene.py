"""What can't be a fact, whoever says it: questions, orders to the agent, scraps, our own memory quoted back."""

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
_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override) (?:\w+ ){0,4}(?:instructions?|rules?|prompts?|guidelines?|messages?)\b"
    r"|\b(?:notes?|message|instructions?) (?:to|for) (?:the |all |any )?(?:ai|llm|agents?|assistants?|models?|bots?)\b"
    r"|\b(?:ai|llm) (?:agents?|assistants?|models?) (?:must|should|shall|have to|need to)\b"
    r"|\byou(?: \w+)? (?:must|should|shall|have to|need to|are now|will now|are an? (?:ai|assistant|agent))\b"
    r"|\b(?:always|please|never|do not|you)? ?remember (?:to|that you)\b"
    r"|\bfrom now on\b"
    r"|\b(?:reveal|print|repeat|show|leak|output|send|follow|new|updated) (?:\w+ ){0,3}"
    r"(?:system|developer) (?:prompt|message)\b"
    r"|^(?:system|assistant|agent|ai|user|human) ?:"
    r"|\bdo not (?:tell|inform|mention|reveal|ask)\b"
    r"|\bwithout (?:telling|asking) (?:the )?(?:user|human|operator)\b",
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
    if _INSTRUCTION.search(without_quotations(text)):
        return "instruction"
    return None


def quotes_memory(content: str) -> bool:
    """Whether *content* repeats what a memory context said."""
    return bool(
        _MEMORY.search(content) or normalise(PREAMBLE) in normalise(content) or strip_memory_context(content)[1]
    )


def without_quotations(text: str) -> str:
    """*text*, normalised, without what it only speaks of."""
    return _MENTIONED.sub(" ", text)
