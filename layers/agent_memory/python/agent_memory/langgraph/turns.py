"""Where in a thread's messages a run begins, what it was asked, and what it said in all."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from agent_memory.domain.memory_use import cited_in
from agent_memory.domain.plain_text import one_line, shortened
from agent_memory.domain.transcript_blocks import as_text
from agent_memory.langgraph.messages import summary_of, text_of
from agent_memory.langgraph.state import Kept, RunRecord

MAX_TASK = 8_000
# "Friday, please" says what was asked only together with what was said before.
SHORT_TASK, MAX_EARLIER = 200, 1_000


def beginning(messages: Sequence[BaseMessage], before: RunRecord | None) -> int:
    """Position of the first message that is new: behind the end of the run *before*, or what was asked since it broke
    off, else where the last thing that was asked begins."""
    ids = [message.id for message in messages]
    if before and before.ended and before.last_id in ids:
        return ids.index(before.last_id) + 1
    if before and not before.ended and before.first_id in ids:
        return next(iter(_asked_since(messages, before)), len(messages))
    asked = [p for p, message in enumerate(messages) if _is_asked(message)]
    if not asked:
        return 0
    start = asked[-1]
    while start and (_is_asked(messages[start - 1]) or isinstance(messages[start - 1], SystemMessage)):
        start -= 1
    return next(p for p in asked if p >= start)


def is_same_run(messages: Sequence[BaseMessage], before: RunRecord) -> bool:
    """Whether a run that has not ended goes on: nothing was asked since it began."""
    return not _asked_since(messages, before)


def asked_from(messages: Sequence[BaseMessage], start: int) -> list[BaseMessage]:
    """What was asked from *start* on."""
    return [message for message in messages[start:] if _is_asked(message)]


def task_of(messages: Sequence[BaseMessage], start: int) -> str:
    """What is asked from *start* on; behind a short question comes what was asked before it, newest last."""
    task = "\n".join(filter(None, map(text_of, asked_from(messages, start))))
    earlier: list[str] = []
    if task and len(task) < SHORT_TASK:
        for message in reversed([m for m in messages[:start] if _is_asked(m)]):
            text = one_line(text_of(message))
            if len(text) + sum(map(len, earlier)) > MAX_EARLIER:
                break
            earlier.insert(0, text)
    return shortened("\n".join([*filter(None, earlier), task]), MAX_TASK)


def said_in(messages: Sequence[BaseMessage], kept: Kept) -> list[BaseMessage]:
    """All messages of a run in their order: those in the list, and those that compression took out of it."""
    part = [m for m in messages[_first(messages, kept.run) :] if not (kept.removed and summary_of(m))]
    places = {message_id: place for place, message_id in enumerate(kept.run.order)}
    return sorted([*kept.removed, *part], key=lambda message: places.get(message.id or "", len(places)))


def order_of(messages: Sequence[BaseMessage], run: RunRecord) -> tuple[str, ...]:
    """The ids of a run's messages as they came: those that are known, then the new ones."""
    own = (m.id for m in messages[_first(messages, run) :] if m.id and not summary_of(m))
    return tuple(dict.fromkeys([*run.order, *own]))


def of_the_run(removed: Sequence[BaseMessage], messages: Sequence[BaseMessage], run: RunRecord) -> list[BaseMessage]:
    """Those of *removed* that belong to the run, by the list *messages* that still held them."""
    own = {id(message) for message in messages[_first(messages, run) :]}
    return [message for message in removed if id(message) in own]


def reaches_back(messages: Sequence[BaseMessage], after: Sequence[BaseMessage], run: RunRecord) -> bool:
    """Whether a compression of *messages* to *after* took out what stood before the run: its summary holds that too."""
    left = {id(message) for message in after}
    return any(id(message) not in left for message in messages[: _first(messages, run)])


def cited(item_ids: Sequence[str], messages: Sequence[BaseMessage]) -> list[str]:
    """Those memories that the agent names in what it says or asks of tools, by their id or their run's."""
    words = "\n".join(
        text_of(message) + "".join(as_text(call.get("args")) for call in message.tool_calls)
        for message in messages
        if isinstance(message, AIMessage)
    )
    return cited_in(item_ids, words)


def _asked_since(messages: Sequence[BaseMessage], before: RunRecord) -> list[int]:
    """Positions of what was asked after the run *before* began."""
    known = set(before.task_ids)
    first = _first(messages, before)
    return [p for p, m in enumerate(messages) if p >= first and _is_asked(m) and m.id not in known]


def _first(messages: Sequence[BaseMessage], run: RunRecord) -> int:
    ids = [message.id for message in messages]
    return ids.index(run.first_id) if run.first_id in ids else beginning(messages, None)


def _is_asked(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and not summary_of(message)
