"""Memory for Strands agents. Needs the extra: `pip install "agent-memory[strands]"`.

from agent_memory.strands import AgentMemory, MemoryHooks

agent = Agent(model=model, tools=tools, hooks=[MemoryHooks(AgentMemory("acme", "support-desk"))])
"""

import asyncio
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from strands.agent import Agent, AgentResult
from strands.hooks import (
    AfterInvocationEvent,
    BeforeInvocationEvent,
    HookProvider,
    HookRegistry,
    MessageAddedEvent,
    MessageUpdatedEvent,
)
from strands.types.content import Message, SystemContentBlock

from agent_memory.client import AgentMemory, Recall
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.memory_use import cited_in, ids_of, procedure_succeeded
from agent_memory.domain.models import Model, Outcome
from agent_memory.domain.plain_text import shortened
from agent_memory.domain.transcript_blocks import Call, Text, pieces_of
from agent_memory.tools import said_in

__all__ = ["AgentMemory", "MemoryHooks"]

MAX_TASK: Final = 8_000
FINISHED: Final = ("end_turn", "stop_sequence")
PAUSED: Final = ("interrupt", "checkpoint")
Value = TypeVar("Value")
Used: TypeAlias = Callable[[Sequence[str], Sequence[Message]], Sequence[str]]
Outcomes: TypeAlias = Outcome | str | Callable[[AgentResult | None], Outcome | str | None] | None


class StoredRun(Model):
    """A run as the agent's own state keeps it while it goes on, so that it can be resumed in another process."""

    run_id: str
    task: str = ""
    context: str = ""
    context_id: str | None = None
    item_ids: tuple[str, ...] = ()
    procedure_id: str | None = None
    first: str | None = None


class _Running:
    """A run in this process: what it is, what was said in it, and the system prompt that it found."""

    def __init__(self, run: StoredRun, said: Sequence[Message] = ()) -> None:
        self.run = run
        self.said = {_id_of(message): message for message in said}
        self.prompt: list[SystemContentBlock] | None = None


class MemoryHooks(HookProvider):
    """Recalls when an invocation begins, shows it in the system prompt, hands the run over when it is done.

    The system prompt is as it was when the invocation is over. A run that is interrupted goes on when it is resumed:
    it recalls once and ends once. *outcome*: a value, or a function of the agent's result (None when it raised);
    without it a run that raised is FAILED, one that was stopped PARTIAL, and of others the distiller judges. *used*:
    which of the recalled ids a run used, a function of them and its messages; those that the agent names by their id,
    when it is not given. *recall*: further options of `AgentMemory.recall`, such as the context_id of a prefetch.
    Memory never breaks a run: what goes wrong is a RuntimeWarning.

    Example: `Agent(model=model, hooks=[MemoryHooks(memory, domain="customs")])`
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        task_type: str | None = None,
        domain: str | None = None,
        user_id: str | None = None,
        outcome: Outcomes = None,
        used: Used | None = None,
        recall: Mapping[str, Any] | None = None,
    ) -> None:
        self._memory = memory
        self._about: Mapping[str, Any] = {"task_type": task_type, "domain": domain, "user_id": user_id}
        self._outcome = outcome
        self._used = used or _cited
        self._recall = dict(recall or {})
        self._key = f"agent_memory/{memory.tenant_id}/{memory.agent_id}"
        self._running: WeakKeyDictionary[Agent, _Running] = WeakKeyDictionary()

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        """Called by the agent that the hooks are given to."""
        registry.add_callback(BeforeInvocationEvent, self._begin)
        registry.add_callback(MessageAddedEvent, self._added)
        registry.add_callback(MessageUpdatedEvent, self._updated)
        registry.add_callback(AfterInvocationEvent, self._end)

    async def _begin(self, event: BeforeInvocationEvent) -> None:
        if event.messages is None:  # a call for structured output alone is no run
            return
        agent = event.agent
        # Answers to an interrupt are no messages; whatever is asked begins a run.
        running = None if event.messages else self._running.get(agent) or self._resumed(agent)
        if running is None:
            running = _Running(await asyncio.to_thread(self._begun, agent, event.messages))
        self._running[agent] = running
        agent.state.set(self._key, running.run.model_dump())
        if running.run.context:
            running.prompt = agent.system_prompt_content
            agent.system_prompt = [*(running.prompt or ()), {"text": running.run.context}]

    def _begun(self, agent: Agent, asked: Sequence[Message]) -> StoredRun:
        task = shortened(_task_in(asked) or _task_in(agent.messages[-1:]), MAX_TASK)
        found = Recall()
        if task:
            try:
                found = self._memory.recall(task, **self._about, **self._recall)
            except RefusedInputError as refused:
                self._warn("memory was not recalled", refused)
        return StoredRun(
            run_id=f"r-{uuid.uuid4()}",
            task=task,
            context=found.context,
            context_id=found.context_id,
            item_ids=tuple(item.id for item in found.items),
            procedure_id=found.procedure_id,
        )

    def _resumed(self, agent: Agent) -> _Running | None:
        """The run that another process began and that was interrupted; None when there is none."""
        stored = agent.state.get(self._key)
        try:
            run = StoredRun.model_validate(stored)
        except ValueError:
            return None
        ids = [_id_of(message) for message in agent.messages]
        return _Running(run, agent.messages[ids.index(run.first) :] if run.first in ids else agent.messages)

    def _added(self, event: MessageAddedEvent) -> None:
        running = self._running.get(event.agent)
        if running is None:
            return
        running.said[_id_of(event.message)] = event.message
        if running.run.first is None:
            running.run = running.run.model_copy(update={"first": _id_of(event.message)})
            event.agent.state.set(self._key, running.run.model_dump())

    def _updated(self, event: MessageUpdatedEvent) -> None:
        running = self._running.get(event.agent)
        if running is not None and event.tracking_id in running.said:
            running.said[event.tracking_id] = event.message

    async def _end(self, event: AfterInvocationEvent) -> None:
        running = self._running.get(event.agent)
        if running is None:
            return
        if running.run.context:
            event.agent.system_prompt = running.prompt
        if event.result is not None and event.result.stop_reason in PAUSED:
            return
        del self._running[event.agent]
        event.agent.state.delete(self._key)
        if running.said:
            await asyncio.to_thread(self._handed_over, running, event.result)

    def _handed_over(self, running: _Running, result: AgentResult | None) -> None:
        run, said = running.run, list(running.said.values())
        outcome = self._told(
            "its outcome could not be told",
            lambda: self._outcome(result) if callable(self._outcome) else self._outcome or _outcome_of(result),
        )
        used = self._told("what it used could not be told", lambda: ids_of(self._used(run.item_ids, said))) or ()
        succeeded = procedure_succeeded(outcome) if run.procedure_id else None
        rated: dict[str, Any] = {"procedure_id": run.procedure_id, "procedure_succeeded": succeeded}
        about: dict[str, Any] = {**self._about, "task": run.task or None, "context_id": run.context_id, "used": used}
        self._told(
            "the run was not handed over to memory",
            lambda: self._memory.end_run(
                run.run_id, messages=said, outcome=outcome, **about, **(rated | dict(said_in(said)))
            ),
        )

    def _told(self, failed: str, work: Callable[[], Value]) -> Value | None:
        """What *work* gives; None and a warning when it fails: the program's functions are not ours."""
        try:
            return work()
        except Exception as error:
            self._warn(failed, error)
            return None

    def _warn(self, what: str, error: Exception) -> None:
        if self._memory.strict:
            raise error
        reason = str(error) if isinstance(error, RefusedInputError) else type(error).__name__
        warnings.warn(f"{what}: {reason}", RuntimeWarning, stacklevel=3)


def _outcome_of(result: AgentResult | None) -> Outcome | None:
    if result is None:
        return Outcome.FAILED
    return None if result.stop_reason in FINISHED else Outcome.PARTIAL


def _cited(item_ids: Sequence[str], messages: Sequence[Message]) -> list[str]:
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    pieces = [piece for content in said for piece in pieces_of(content, Counter())]
    texts = [piece.text for piece in pieces if isinstance(piece, Text)]
    return cited_in(item_ids, "\n".join([*texts, *(piece.arguments for piece in pieces if isinstance(piece, Call))]))


def _task_in(messages: Sequence[Message]) -> str:
    blocks = [block for message in messages if message["role"] == "user" for block in message["content"]]
    return "\n".join(block["text"] for block in blocks if block.get("text", "").strip())


def _id_of(message: Message) -> str:
    """The id under which Strands knows a message; one that has none is known by where it lies."""
    return str(message.get("tracking_id") or id(message))
