"""Working memory for LangChain messages: the older part of a long run gives way to one summary."""

import asyncio
import inspect
import warnings
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from agent_memory.domain.deadlines import patience, started
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.working_memory import (
    CompressionRules,
    Cut,
    Held,
    compression_rules,
    cut_of,
    is_at_ceiling,
    room_of,
    stands_for,
)
from agent_memory.domain.working_summaries import body_of, instruction, note_text, question, shown, summary_text
from agent_memory.langgraph.messages import held, summary_message, summary_of, text_of, transcript_of, unseen

Summariser = BaseChatModel | Callable[[str], str | Awaitable[str]]
Counter = Callable[[Sequence[BaseMessage]], int]
SUMMARISER_SECONDS = 30.0


class Compressed(NamedTuple):
    """A list after compression. *removed*: what went, older summaries left out. *update*: the same as a state update
    for `add_messages`."""

    messages: list[BaseMessage]
    removed: list[BaseMessage]
    update: list[BaseMessage]


class WorkingMemory:
    """The working memory of runs: how long a list of messages may get, and who writes the summary.

    *summariser*: a chat model, better a cheap one, or a callable from prompt to text. Without one, and when it fails,
    a run goes on as it is until the ceiling; then the oldest messages go, with a note of what can be told without a
    model. Thresholds that are not given are those of the deployment, where memory runs with one. *token_counter*: a
    model that counts tokens itself, or a callable; needed for *trigger_tokens* only.

    Example: `WorkingMemory(init_chat_model("anthropic:claude-haiku-5-5"), trigger=40, ceiling=60)`
    """

    def __init__(
        self,
        summariser: Summariser | None = None,
        *,
        token_counter: BaseChatModel | Counter | None = None,
        timeout_seconds: float = SUMMARISER_SECONDS,
        **rules: int | None,
    ) -> None:
        self.rules: CompressionRules = compression_rules(**rules)
        self._given = rules
        self._summariser = summariser
        self._timeout_seconds = patience(timeout_seconds, "timeout_seconds")
        self._count = _counter(token_counter or (summariser if isinstance(summariser, BaseChatModel) else None))

    def within(self, recommended: Mapping[str, int]) -> "WorkingMemory":
        """The same with *recommended* rules for what was not given. Those that do not go together with what was given
        are left out.

        Example: `WorkingMemory(summariser).within(memory.working_memory_rules())`
        """
        known = {name: value for name, value in recommended.items() if name in CompressionRules.model_fields}
        other = copy(self)
        try:
            other.rules = compression_rules(**{**known, **self._given})
        except RefusedInputError as refused:
            _warned(f"the deployment's rules of working memory were left out: {refused}")
        return other

    def compress(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the list that a model should be sent, for programs that keep their messages themselves.

        Example: `messages = working_memory.compress(messages)`
        """
        done = self.compressed(messages)
        return done.messages if done else list(messages)

    def compressed(self, messages: Sequence[BaseMessage], *, pinned: Collection[str] = ()) -> Compressed | None:
        """Return what becomes of *messages*, or None when they stay. *pinned*: ids of messages that stay. Never raises:
        what goes wrong here costs room, not the run."""
        try:
            return self._compressed(messages, pinned)
        except Exception as error:
            _warned(f"working memory was left as it is ({type(error).__name__})")
            return None

    def _compressed(self, messages: Sequence[BaseMessage], pinned: Collection[str]) -> Compressed | None:
        found = [held(message) for message in messages]
        tokens = self._tokens(messages, found)
        stay = [p for p, message in enumerate(messages) if message.id is not None and message.id in pinned]
        cut = cut_of(found, self.rules, pinned=stay, tokens=tokens)
        if cut is None:
            return None
        text = self._summary(messages, found, cut, must=is_at_ceiling(found, self.rules, tokens))
        return _replaced(messages, cut, text, stands_for(found, cut)) if text else None

    def _tokens(self, messages: Sequence[BaseMessage], found: Sequence[Held]) -> int | None:
        """Tokens of the list, counted by the model only when an estimate says that it may matter."""
        limit = self.rules.trigger_tokens
        if limit is None:
            return None
        estimate = sum(one.tokens for one in found)
        if estimate < limit // 2:
            return estimate
        try:
            return self._count(messages)
        except Exception as error:
            _warned(f"tokens were estimated, the counter failed ({type(error).__name__})")
            return estimate

    def _summary(self, messages: Sequence[BaseMessage], found: Sequence[Held], cut: Cut, *, must: bool) -> str | None:
        """The summary of what goes; a note when there is none and it *must* go; else None."""
        going = [messages[p] for p in cut.removed]
        earlier = "\n".join(body_of(text_of(message)) for message in going if summary_of(message))
        transcript = transcript_of([message for message in going if not summary_of(message)])
        count, room = stands_for(found, cut), room_of(found, cut, self.rules)
        told = shown(transcript, self.rules.max_shown_tokens)
        answer = self._asked(question(earlier, told)) if earlier or told else None
        text = summary_text(answer, count, room) if answer else None
        return text or (note_text(earlier, transcript, count, room) if must else None)

    def _asked(self, text: str) -> str | None:
        """What the summariser answers; None without one, and when it fails or takes too long."""
        summariser = self._summariser
        if summariser is None:
            return None
        told = instruction(self.rules.max_summary_tokens)
        try:
            answer = started(lambda: _ask(summariser, told, text)).result(timeout=self._timeout_seconds)
        except Exception as error:
            _warned(f"messages could not be summarised ({type(error).__name__}); the run goes on")
            return None
        if not answer.strip():
            _warned("messages could not be summarised (the summariser said nothing); the run goes on")
        return answer


def _ask(summariser: Summariser, told: str, text: str) -> str:
    if isinstance(summariser, BaseChatModel):
        return text_of(summariser.invoke([SystemMessage(told), HumanMessage(text)], unseen("summary")))
    answer = summariser(f"{told}\n{text}")
    if inspect.isawaitable(answer):
        answer = asyncio.run(_awaited(answer))
    if not isinstance(answer, str):
        raise TypeError("a summariser returns text")
    return answer


async def _awaited(answer: Awaitable[str]) -> str:
    return await answer


def _replaced(messages: Sequence[BaseMessage], cut: Cut, text: str, count: int) -> Compressed:
    going = set(cut.removed)
    ids = [message.id for message in messages]
    # The summary takes over the id of a message that goes, so that reducers put it in that place and streams, which
    # know the id, do not show it. Where ids are missing or doubled the whole list is written anew.
    known = None not in ids and len(set(ids)) == len(ids)
    summary = summary_message(text, count, ids[cut.anchor] if known else None)
    after = [
        summary if p == cut.anchor else message
        for p, message in enumerate(messages)
        if p == cut.anchor or p not in going
    ]
    removed = [messages[p] for p in cut.removed if not summary_of(messages[p])]
    if not known:
        return Compressed(after, removed, [RemoveMessage(id=REMOVE_ALL_MESSAGES), *after])
    leaving = [RemoveMessage(id=str(ids[p])) for p in cut.removed if p != cut.anchor]
    return Compressed(after, removed, [summary, *leaving])


def _counter(source: BaseChatModel | Counter | None) -> Counter:
    """The counter of a model that has its own; the base class's asks for a tokenizer of another model."""
    if not isinstance(source, BaseChatModel):
        return source or count_tokens_approximately
    if type(source).get_num_tokens_from_messages is BaseChatModel.get_num_tokens_from_messages:
        return count_tokens_approximately
    return lambda messages: source.get_num_tokens_from_messages(list(messages))


def _warned(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=2)
