"""Reported speech: what a source told its reader to do is shown as the source's word, not as something that was found.

A finding states what is so. A text from tools and documents that orders, or speaks to "you", states what somebody
wants; it may be a good rule of a trade or an order that screening did not know. Neither is this memory's own word.
"""

import re

from agent_memory.domain.screening import Trust
from agent_memory.domain.screening_mood import gives_order, sentences
from agent_memory.domain.screening_text import folded

LABEL = "a source said"
# A rule fits in this many characters; a page of orders does not.
LONGEST = 400
_TO_READER = re.compile(r"\b(?:you|your|yours|yourself)\b")


def tells_its_reader(text: str) -> bool:
    """Whether *text* gives an order or speaks to whoever reads it, in English."""
    return any(gives_order(sentence) or _TO_READER.search(sentence) for sentence in sentences(folded(text)))


def labelled(label: str, text: str, trust: Trust) -> tuple[str, str]:
    """*text*, known by runs of *trust*, as it is shown: under *label*, or as the word of a source, cut after 400
    characters."""
    if trust is not Trust.OUTSIDE or not tells_its_reader(text):
        return label, text
    return LABEL, text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
