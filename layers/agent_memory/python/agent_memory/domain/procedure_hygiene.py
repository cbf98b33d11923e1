"""What can't be a procedure, whoever proposes it, and what a reviewer is warned of.

Steps tell an agent what to do, so an imperative says nothing against them. What gives an attack away is that it speaks
to the agent about its orders, or that a tool or document said it to the agents that read it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agent_memory.domain.evidence import Evidence
from agent_memory.domain.fact_guards_replaced import content
from agent_memory.domain.fact_guards_text import normalise
from agent_memory.domain.fact_hygiene import quotes_memory, without_quotations
from agent_memory.domain.models import SourceKind
from agent_memory.domain.plain_text import one_line, plain

MAX_TITLE, MAX_STEPS, MAX_STEP, MAX_CHARACTERS = 200, 40, 1_000, 8_000
# Enough of a step's words stand in an order to the agents that read a page: then the step is that order.
SHARED = 0.6

_AGENTS = r"(?:agents?|assistants?|models?|bots?)"
# Said to an agent about what it was told, or to the agents that read a page. "The agent on duty" is a person.
_TO_AGENTS = re.compile(
    r"\b(?:ignore|disregard|forget|override) (?:\w+ ){0,3}(?:previous|prior|above|earlier|your|system|safety) "
    r"(?:\w+ ){0,2}(?:instructions?|rules?|prompts?|guidelines?|guardrails?)\b"
    r"|\b(?:notes?|messages?|instructions?|attention|dear|hey)(?: to| for)?(?: the| all| any)* (?:ai|llm)\b"
    rf"|\b(?:ai|llm) {_AGENTS} (?:must|should|shall|have to|need to)\b"
    rf"|\b(?:attention|dear),? (?:all )?(?:ai )?{_AGENTS}\b"
    r"|\byou are (?:now|an? (?:ai|assistant|agent|language model))\b"
    r"|\b(?:reveal|print|repeat|show|leak|output|send|follow) (?:\w+ ){0,3}(?:system|developer) (?:prompt|message)\b"
    r"|^(?:system|assistant|ai) ?:",
    re.I,
)
# Of these, what no work of any trade says. The rest goes to the reviewer with a warning: "check that you are now
# connected", "update the instructions for the AI gateway".
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override) (?:\w+ ){0,3}(?:previous|prior|above|earlier|your|system|safety) "
    r"(?:\w+ ){0,2}(?:instructions?|prompts?|guidelines?|guardrails?)\b"
    r"|\b(?:ignore|disregard|forget|override) (?:\w+ ){0,3}your (?:\w+ ){0,2}rules?\b"
    rf"|\b(?:notes?|messages?|instructions?|attention|dear|hey)(?: to| for)?(?: the| all| any)* (?:ai|llm)"
    rf"(?: {_AGENTS}\b|s?:)"
    rf"|\b(?:attention|dear),? (?:all )?(?:ai )?{_AGENTS}\b"
    r"|\byou are (?:now (?:an?|the)\b|an? (?:ai|assistant|language model)\b)"
    r"|\b(?:reveal|print|repeat|show|leak|output|send|follow) (?:\w+ ){0,3}(?:system|developer) prompt\b"
    r"|^(?:system|assistant|ai) ?:",
    re.I,
)
# Plausible in a procedure, and what an attacker would want in one.
_DOUBTFUL = re.compile(
    r"\bwithout (?:\w+ ){0,3}(?:review|approval|consent|confirmation|verif\w+|asking|telling|permission)\b"
    r"|\b(?:do not|never) (?:tell|inform|mention|reveal|ask|log|report)\b"
    r"|\b(?:disable|skip|bypass|turn off) (?:\w+ ){0,3}(?:audit\w*|logs?|logging|alarms?|alerts?|checks?|review)\b"
    r"|\b(?:everything|whatever|what) (?:you were told|you are told|the (?:tool|page|document|e-?mail)\b.{0,20} says)\b"
    r"|\b(?:curl|wget)\b.*\| *(?:sudo )?(?:ba|z)?sh\b",
    re.I,
)
_REDACTED = re.compile(r"\[[A-Z][A-Z_]{2,40}\]")
_LIST_MARK = re.compile(r"^\s*(?:step\s*)?\d{1,3}\s*[.):]\s+|^\s*[-*•]\s+", re.I)
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\n+")


class Proposed(NamedTuple):
    """A title and steps as they may be kept: one line each, without list marks. *refusal*: a code, or None.
    *cleared*: a person let them out of quarantine."""

    title: str
    steps: tuple[str, ...]
    refusal: str | None = None
    warnings: tuple[str, ...] = ()
    cleared: bool = False


def cleaned_procedure(title: str, steps: Sequence[str]) -> Proposed:
    """Make a title and steps safe to keep, or say why they can't be kept. Nothing is cut: a part of a procedure is
    another procedure."""
    title, steps = _line(title), tuple(line for step in steps if (line := _line(_LIST_MARK.sub("", step))))
    return Proposed(title, steps, _refusal(title, steps), tuple(_warnings(title, steps)))


def _line(text: str) -> str:
    return one_line(plain(text))


def _refusal(title: str, steps: tuple[str, ...]) -> str | None:
    if not title or not steps:
        return "no_steps" if title else "no_title"
    if len(steps) > MAX_STEPS:
        return "too_many_steps"
    if len(title) > MAX_TITLE or max(map(len, steps)) > MAX_STEP or len(title) + sum(map(len, steps)) > MAX_CHARACTERS:
        return "too_long"
    texts = (title, *steps)
    if any(map(quotes_memory, texts)):
        return "memory_quoted_back"
    return "instruction" if any(_ORDERS.search(_spoken(text)) for text in texts) else None


def _warnings(title: str, steps: Iterable[str]) -> Iterator[str]:
    texts = [_spoken(text) for text in (title, *steps)]
    if any(map(_DOUBTFUL.search, texts)):
        yield "doubtful_step"
    if any(map(_TO_AGENTS.search, texts)):
        yield "speaks_to_agents"
    if any(map(_REDACTED.search, texts)):
        yield "redacted"


def _spoken(text: str) -> str:
    """*text* as it is compared, without what it only quotes."""
    return without_quotations(normalise(text))


def steps_of_tools(steps: Sequence[str], evidence: Evidence) -> int:
    """How many of *steps* stand in what tools or documents said, word for word."""
    sources = (evidence.source_of(step) for step in steps)
    return sum(source is not None and source.kind in _UNTRUSTED for source in sources)


def ordered_by_tools(steps: Sequence[str], evidence: Evidence) -> bool:
    """Whether a step repeats what a tool or document said to the agents that read it, in whatever words."""
    orders = [_stems(order) for order in _orders(evidence)]
    wanted = [stems for step in steps if (stems := _stems(step))]
    return any(len(order & stems) >= SHARED * len(stems) for order in orders for stems in wanted)


def _orders(evidence: Evidence) -> Iterator[str]:
    for text in evidence.said_by(_UNTRUSTED):
        sentences = [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]
        for number, sentence in enumerate(sentences):
            if _TO_AGENTS.search(_spoken(sentence)):
                # "NOTE TO AI AGENTS:" stands before what they are told.
                yield " ".join(sentences[number : number + 3])


def _stems(text: str) -> frozenset[str]:
    return frozenset(token.stem for token in content(text))


_UNTRUSTED = frozenset({SourceKind.TOOL, SourceKind.DOCUMENT})
