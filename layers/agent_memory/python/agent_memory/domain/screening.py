"""Screening: whether a text that could reach a memory context gives orders to whoever reads it.

Memory is shown to agents as data. A text that is addressed to the agent, cancels its instructions, changes trust,
steers answers or asks for secrets has no business there: it is quarantined for a person to look at, never lost. How
much it takes depends on who said it. Reasons are codes; the text itself is in none of them.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from agent_memory.domain.models import Model, SourceKind
from agent_memory.domain.screening_languages import foreign_deeds
from agent_memory.domain.screening_mood import (
    gives_order,
    is_conditional,
    is_english,
    is_negated,
    is_ordered,
    sentences,
    speaks_of_prompts,
    speaks_of_security,
    without_mentions,
)
from agent_memory.domain.screening_signs import BALANCED, Sign, compiled, signs
from agent_memory.domain.screening_text import hides_something, readings


class Trust(StrEnum):
    """Who stands behind a text: what users said, what an agent concluded, what tools and documents brought along."""

    USER = "user"
    AGENT = "agent"
    OUTSIDE = "outside"


# Points from which a text is held. A user may ask for a favourite; a web page may not.
HELD_FROM = {Trust.USER: 5, Trust.AGENT: 4, Trust.OUTSIDE: 3}
# Somebody took pains that people should not see it.
HIDING = 3
# A stranger who speaks to agents, about what they keep or answer, and tells them anything.
ORDERED_AGENT = 1
TOLD = frozenset(
    (
        "addressed_to_ai",
        "addressed_to_agents",
        "authority",
        "prompt_structure",
        "hidden_markup",
        "memory_order",
        "standing_order",
    )
)
# What a text may forbid without ordering anything bad.
FORBIDDABLE = frozenset(
    ("exfiltration", "privilege", "persona", "reveal", "tool_order", "memory_order", "safety_off", "trust", "approval")
)
MOST = 10


class Screened(Model):
    """*held*: the text belongs in quarantine. *reasons*: codes, weightiest first. *score*: points, 0 to 10."""

    held: bool
    reasons: tuple[str, ...] = ()
    score: int = 0


def trust_of(source: SourceKind) -> Trust:
    """How far *source* is trusted."""
    return {SourceKind.USER: Trust.USER, SourceKind.AGENT: Trust.AGENT}.get(source, Trust.OUTSIDE)


@lru_cache(maxsize=512)
def screen(text: str, trust: Trust) -> Screened:
    """Judge *text*, said by somebody of *trust*. The same text and trust are always judged the same."""
    points: dict[str, int] = {}
    for reading in readings(text):
        found = _points(reading.text)
        if reading.reason == "hidden_text" and trust is not Trust.OUTSIDE:
            # Hidden letters are never stored: what a person sees of it is judged by itself.
            continue
        if reading.reason:
            # Another reading counts for what only it says.
            if not any(worth >= HIDING and worth > points.get(reason, 0) for reason, worth in found.items()):
                continue
            found[reading.reason] = HIDING
        points = {reason: max(found.get(reason, 0), points.get(reason, 0)) for reason in (*points, *found)}
    if hides_something(text):
        points["hidden_text"] = HIDING
    score = min(MOST, sum(points.values()))
    held = score >= HELD_FROM[trust]
    reasons = tuple(sorted(points, key=lambda reason: (-points[reason], reason)))
    return Screened(held=held, reasons=reasons if held else (), score=score)


def screen_all(texts: Iterable[str], trust: Trust) -> Screened:
    """Judge *texts* that are shown together, each by itself and as one."""
    every = list(texts)
    found = [screen(text, trust) for text in every]
    together = screen("\n".join(every), trust) if len(every) > 1 else Screened(held=False)
    return max((*found, together), key=lambda one: (one.held, one.score), default=Screened(held=False))


def _points(text: str) -> dict[str, int]:
    """The points of one reading (folded), by reason."""
    found: dict[str, int] = {}
    speaks, orders = speaks_of_security(text), False
    said = without_mentions(text)
    unpaired = BALANCED.sub(r"\2", said)
    for fence in signs().fences:
        if compiled(fence).search(unpaired):
            found[fence.reason] = max(found.get(fence.reason, 0), fence.points)
    for sentence in sentences(said):
        for reason, points in _sentence_points(sentence, about_attacks=speaks).items():
            found[reason] = max(found.get(reason, 0), points)
        orders = orders or gives_order(sentence)
    if orders and TOLD & set(found):
        found["ordered"] = ORDERED_AGENT
    if "persona" in found and speaks_of_prompts(text):
        # A recipe gives a model a part to play; it does not give it to the reader.
        found["persona"] -= 2
    return {reason: points for reason, points in found.items() if points > 0}


def _sentence_points(sentence: str, *, about_attacks: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for sign in signs().deeds:
        points = _sign_points(sign, sentence, about_attacks=about_attacks)
        if points > found.get(sign.reason, 0):
            found[sign.reason] = points
    if not is_english(sentence):
        bounded = is_conditional(sentence)
        for reason, points in foreign_deeds(sentence).items():
            worth = points // 3 if about_attacks else points - (bounded and reason == "approval")
            found[reason] = max(found.get(reason, 0), worth)
    return found


def _sign_points(sign: Sign, sentence: str, *, about_attacks: bool) -> int:
    """What *sign* is worth in *sentence*: all of it in an order, a third where it is told of, nothing in a report of
    attacks."""
    best = 0
    for match in compiled(sign).finditer(sentence):
        ordered = is_ordered(sentence, match.start())
        if sign.reason in FORBIDDABLE and is_negated(sentence, match.start()):
            continue
        if sign.ordered and not ordered:
            points = 0 if about_attacks else sign.points // 3
        else:
            points = sign.points - (sign.bounded and is_conditional(sentence))
            points = points // 2 if about_attacks and not ordered else points
        best = max(best, points)
    return best
