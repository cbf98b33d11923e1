"""Working memory: which messages of a long run stay as they are, and which give way to one summary.

Rules over positions, so that they hold for every framework's messages. System messages, pinned ones (the task) and the
newest stay; a call and its results stay or go together; an older summary always goes into the newer one.
"""

import re
from collections.abc import Collection, Sequence

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.models import Model

TRIGGER, KEEP, CEILING = 30, 15, 40
MAX_SUMMARY_TOKENS = 2_000
MAX_SHOWN_TOKENS = 4_000
# A task and a summary stay beside the newest, so a smaller distance would compress at every step.
LEAST_DISTANCE = 3
LEAST_SUMMARY_TOKENS = 50
# With a limit in tokens, what could go must be worth a call of the summariser.
LEAST_SHARE = 0.25
# What every message costs beside its words, on most wires.
MESSAGE_TOKENS = 4
_HEADING = re.compile(r"\[Working-memory summary of \d+ earlier messages\]")


class Held(Model):
    """One message as working memory sees it.

    *role*: system, user, assistant, tool, or whatever else. *calls*: ids of the tools it asks for, unreadable requests
    included. *answers*: id of the call that it answers. *stands_for*: how many messages a summary replaced; 0: it is
    none. *tokens*: an estimate, of the text and the arguments of calls.
    """

    role: str
    calls: tuple[str, ...] = ()
    answers: str | None = None
    stands_for: int = 0
    tokens: int = 0


class CompressionRules(Model):
    """When a run is compressed and to what. Counts are of messages, system messages included.

    *trigger*: from so many on. *keep*: newest messages, without system messages, that stay word for word. *ceiling*:
    from so many on the oldest go even when nothing can summarise them. *trigger_tokens*: the same by the size of the
    whole list; its ceiling stands to it as *ceiling* to *trigger*. *max_shown_tokens*: what the summariser reads.
    """

    trigger: int = TRIGGER
    keep: int = KEEP
    ceiling: int = CEILING
    trigger_tokens: int | None = None
    max_summary_tokens: int = MAX_SUMMARY_TOKENS
    max_shown_tokens: int = MAX_SHOWN_TOKENS


class Cut(Model):
    """What goes: *removed*, ascending positions; the summary takes the place of *anchor*, one of them."""

    removed: tuple[int, ...]
    anchor: int


def heading(count: int) -> str:
    """First line of a summary that stands for *count* messages."""
    return f"[Working-memory summary of {count} earlier messages]"


def is_summary(text: str) -> bool:
    """Whether a message is a summary of ours: a record of the run, not something that its user said."""
    return _HEADING.match(text.lstrip()) is not None


def compression_rules(**given: int | None) -> CompressionRules:
    """Return checked rules. Raises RefusedInputError naming the field."""
    unknown = sorted(set(given) - set(CompressionRules.model_fields))
    if unknown:
        raise RefusedInputError(unknown[0], f"is no setting; there are {', '.join(CompressionRules.model_fields)}")
    for name, value in given.items():
        if value is None and name == "trigger_tokens":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise RefusedInputError(name, "must be a whole number from 1 on")
    rules = CompressionRules.model_validate(given)
    if rules.keep > rules.trigger - LEAST_DISTANCE:
        raise RefusedInputError("keep", f"must be at least {LEAST_DISTANCE} below trigger ({rules.trigger})")
    if rules.ceiling < rules.trigger:
        raise RefusedInputError("ceiling", f"must not be below trigger ({rules.trigger})")
    if rules.max_summary_tokens < LEAST_SUMMARY_TOKENS:
        raise RefusedInputError("max_summary_tokens", f"must be at least {LEAST_SUMMARY_TOKENS}")
    return rules


def is_long(messages: Sequence[Held], rules: CompressionRules, tokens: int | None = None) -> bool:
    """Whether the list is due to be compressed. *tokens*: of the whole list, None where nobody counted."""
    return len(messages) >= rules.trigger or _is_over(tokens, rules.trigger_tokens)


def is_at_ceiling(messages: Sequence[Held], rules: CompressionRules, tokens: int | None = None) -> bool:
    """Whether the oldest have to go whatever becomes of the summary."""
    limit = rules.trigger_tokens and rules.trigger_tokens * rules.ceiling // rules.trigger
    return len(messages) >= rules.ceiling or _is_over(tokens, limit)


def cut_of(
    messages: Sequence[Held], rules: CompressionRules, *, pinned: Collection[int] = (), tokens: int | None = None
) -> Cut | None:
    """Return what goes of a list that is due, or None when nothing is won. *pinned*: positions that stay, beside the
    first message of the user."""
    if not is_long(messages, rules, tokens):
        return None
    window = _newest(messages, rules.keep)
    stay = {p for p, message in enumerate(messages) if message.role == "system"}
    stay |= set(pinned) | set(_first_asked(messages)) | window
    stay |= {partner for group in _groups(messages) if stay & group for partner in group}
    removed = [p for p, message in enumerate(messages) if p not in stay or message.stands_for]
    fresh = [p for p in removed if not messages[p].stands_for]
    if not fresh or len(removed) < 2:
        return None
    if len(messages) < rules.trigger and not _is_worth_it([messages[p].tokens for p in fresh], rules):
        return None
    return Cut(removed=tuple(removed), anchor=_anchor(messages, removed, stay))


def room_of(messages: Sequence[Held], cut: Cut, rules: CompressionRules) -> int:
    """Tokens that the summary may have: no more than what it replaces, so that a list never grows."""
    return min(rules.max_summary_tokens, sum(messages[p].tokens for p in cut.removed) - MESSAGE_TOKENS)


def stands_for(messages: Sequence[Held], cut: Cut) -> int:
    """How many messages the summary of *cut* replaces, those behind earlier summaries included."""
    return sum(messages[p].stands_for or 1 for p in cut.removed)


def _is_over(tokens: int | None, limit: int | None) -> bool:
    return tokens is not None and limit is not None and tokens >= limit


def _is_worth_it(tokens: Sequence[int], rules: CompressionRules) -> bool:
    return sum(tokens) >= LEAST_SHARE * (rules.trigger_tokens or 0)


def _newest(messages: Sequence[Held], keep: int) -> set[int]:
    others = [p for p, message in enumerate(messages) if message.role != "system" and not message.stands_for]
    return set(others[-keep:])


def _first_asked(messages: Sequence[Held]) -> list[int]:
    asked = (p for p, message in enumerate(messages) if message.role == "user" and not message.stands_for)
    return [p for p in [next(asked, None)] if p is not None]


def _groups(messages: Sequence[Held]) -> list[set[int]]:
    """Positions that belong together: a message that asks for tools and what answers it, the nearest before it when
    ids come again."""
    asked: dict[str, int] = {}
    groups: dict[int, set[int]] = {}
    for position, message in enumerate(messages):
        owner = asked.get(message.answers) if message.answers is not None else None
        if owner is not None:
            groups[owner].add(position)
        for call in message.calls:
            asked[call] = position
            groups.setdefault(position, {position})
    return list(groups.values())


def _anchor(messages: Sequence[Held], removed: Sequence[int], stay: Collection[int]) -> int:
    """Where the summary stands: behind the last task that it leads up to, so that it reads on into the newest; never
    between a call and its results."""
    asked = max((p for p in stay if messages[p].role == "user" and p < removed[-1]), default=-1)
    behind = [p for p in removed if p > asked]
    between = (p for p in behind if not _goes_on(messages, stay, p))
    return next(between, behind[-1])


def _goes_on(messages: Sequence[Held], stay: Collection[int], position: int) -> bool:
    """Whether the next message that stays answers a call that stands before *position*."""
    following = min((p for p in stay if p > position), default=None)
    return following is not None and messages[following].answers is not None
