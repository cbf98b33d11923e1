"""Memory as nodes of any StateGraph: recall at the start, compress before the model, end the run after it."""

import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from agent_memory.client import AgentMemory, Recall
from agent_memory.domain.deadlines import patience
from agent_memory.domain.distillers import LATE
from agent_memory.domain.errors import AgentMemoryError, ModelAnswerError, RefusedInputError
from agent_memory.domain.keys import label, user_identity
from agent_memory.domain.memory_use import ids_of, procedure_succeeded
from agent_memory.domain.models import Outcome
from agent_memory.domain.working_memory import CEILING
from agent_memory.langgraph.compression import WorkingMemory
from agent_memory.langgraph.distilling import DISTILLING_SECONDS, agent_artifacts
from agent_memory.langgraph.state import Kept, RunRecord, is_reduced, kept_in, messages_in
from agent_memory.langgraph.tools import langchain_tools
from agent_memory.langgraph.turns import (
    asked_from,
    beginning,
    cited,
    is_same_run,
    of_the_run,
    order_of,
    reaches_back,
    said_in,
    task_of,
)
from agent_memory.tools import said_in as noted_in

Value = TypeVar("Value")
Given: TypeAlias = Value | Callable[[Any, Runtime[Any]], Value]
Used = Callable[[Sequence[str], Sequence[BaseMessage]], Sequence[str]]
NOT_RECALLED, NOT_HANDED_OVER = "memory was not recalled", "the run was not handed over to memory"
NOT_REDUCED = "long runs are not compressed: the messages need the reducer add_messages, which gives each an id"
RULES_FROM = 10
LABELS = ("task_type", "domain")


class MemoryNodes:
    """Three functions that are nodes of a graph over `MemoryState`, and the context for its model.

    What differs by run (*task_type*, *domain*, *user_id*, *outcome*, *prefetched*: the id of a recall that was made
    when the run was queued) is a value or a function of state and runtime. *limits*: of `AgentMemory.recall`.
    *working_memory* False: messages stay as they are. *used*: which of the recalled ids a run used; those that the
    agent names, when it is not given. *distil_with*: a model that makes the run's artifacts here, within
    *distil_seconds* or not at all. *whole_run*: what compression takes out is kept beside the messages until the run is
    handed over. Memory never breaks a run: what goes wrong is a RuntimeWarning, unless the client is *strict*.

    Example: `builder.add_node("recall", nodes.recall); builder.add_node("end_run", nodes.end_run)`
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        working_memory: WorkingMemory | bool = True,
        task_type: Given[str | None] = None,
        domain: Given[str | None] = None,
        user_id: Given[str | None] = None,
        outcome: Given[Outcome | str | None] = None,
        prefetched: Given[str | None] = None,
        limits: Mapping[str, Any] | None = None,
        used: Used = cited,
        distil_with: BaseChatModel | None = None,
        distil_seconds: float = DISTILLING_SECONDS,
        whole_run: bool = True,
    ) -> None:
        self.memory = memory
        self.owner = f"{memory.tenant_id}/{memory.agent_id}"
        self._working_memory = WorkingMemory() if working_memory is True else working_memory or None
        self._recommended: WorkingMemory | None = None
        self._about = {"task_type": task_type, "domain": domain, "user_id": user_id}
        for name in LABELS:
            if isinstance(value := self._about[name], str):
                label(value, name)
        self._outcome: Given[Outcome | str | None] = outcome if callable(outcome) else _outcome(outcome)
        self._prefetched = prefetched
        self._limits = dict(limits or {})
        self._used = used
        self._distil_with = distil_with
        self._distil_seconds = patience(distil_seconds, "distil_seconds")
        self._whole_run = whole_run

    def recall(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Node at the start of a graph: begin a run and recall for it, once. A run that is resumed goes on.

        Example: `builder.add_edge(START, "recall")`
        """
        return self._guarded(NOT_RECALLED, lambda: self._begun(state, runtime))

    def context(self, state: Any) -> str:
        """What memory said about the run in *state*: text for the system prompt of every model call.

        Example: `model.invoke([SystemMessage(prompt + nodes.context(state)), *state["messages"]])`
        """
        kept = kept_in(state, self.owner)
        return kept.run.context if kept and not kept.run.ended else ""

    def compress(self, state: Any) -> dict[str, Any] | None:
        """Node before the model: replace the older messages of a long run by a summary.

        Example: `builder.add_edge("compress", "model")`
        """
        return self._guarded("working memory was left as it is", lambda: self._compressed(state))

    def end_run(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Node at the end of a graph: hand the run over to memory, once.

        Example: `builder.add_edge("end_run", END)`
        """
        return self._guarded(NOT_HANDED_OVER, lambda: self._ended(state, runtime))

    def tools(self) -> list[BaseTool]:
        """Tools for the agent: recall_memory, remember and rate_procedure. What it says through them goes along when
        the run is handed over.

        Example: `ToolNode([*tools, *nodes.tools()])`
        """
        return langchain_tools(self.memory, self._about_now)

    def _guarded(self, what: str, work: Callable[[], Value | None]) -> Value | None:
        try:
            return work()
        except Exception as error:
            if self.memory.strict:
                raise
            reason = str(error) if isinstance(error, AgentMemoryError) else type(error).__name__
            warnings.warn(f"{what}: {reason}", RuntimeWarning, stacklevel=3)
            return None

    def _begun(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        messages, before = messages_in(state), kept_in(state, self.owner)
        if before and not before.run.ended and is_same_run(messages, before.run):
            return None
        start = beginning(messages, before.run if before else None)
        if start >= len(messages):
            return None
        if before and not before.run.ended:
            # It broke off, and something else was asked: what there is of it is handed over as it stands.
            self._guarded(NOT_HANDED_OVER, lambda: self._handed_over(before, messages[:start], _begun_as(before.run)))
        asked = asked_from(messages, start)
        run = RunRecord(
            run_id=f"r-{uuid.uuid4()}",
            task=task_of(messages, start),
            task_ids=tuple(message.id for message in asked if message.id),
            first_id=(asked or messages[start:])[0].id,
            about=self._guarded(NOT_RECALLED, lambda: self._said(None, state, runtime)),
        )
        # The record stands whatever the recall does: a run that recalled nothing is handed over all the same.
        found = Recall()
        if run.task and run.about is not None:
            found = self._guarded(NOT_RECALLED, lambda: self._recalled(run, state, runtime)) or found
        return Kept(run=run.model_copy(update=_recalled_fields(found))).update(self.owner)

    def _recalled(self, run: RunRecord, state: Any, runtime: Runtime[Any]) -> Recall:
        asked: dict[str, Any] = dict(run.about or {}) | {"run_id": run.run_id}
        asked["context_id"] = self._guarded(
            "the id of its prefetch could not be told", lambda: _given(self._prefetched, state, runtime)
        )
        return self.memory.recall(run.task, **asked, **self._limits)

    def _compressed(self, state: Any) -> dict[str, Any] | None:
        messages, kept = messages_in(state), kept_in(state, self.owner)
        if self._working_memory is None or not self._takes_removal(state, len(messages)):
            return None
        going_on = kept if kept and not kept.run.ended else None
        done = self._rules(self._working_memory, messages).compressed(
            messages, pinned=going_on.run.task_ids if going_on else ()
        )
        if done is None:
            return None
        update: dict[str, Any] = {"messages": done.update}
        if going_on and (
            # A summary that tells of earlier runs as well must not be handed over as what this one saw.
            self._whole_run or going_on.removed or reaches_back(messages, done.messages, going_on.run)
        ):
            own = of_the_run(done.removed, messages, going_on.run)
            run = going_on.run.model_copy(update={"order": order_of(messages, going_on.run)})
            update |= Kept(run=run, removed=(*going_on.removed, *own)).update(self.owner)
        return update

    def _takes_removal(self, state: Any, length: int) -> bool:
        """Whether messages can be taken out of the list. Elsewhere it grows, and somebody should know."""
        if not is_reduced(state) and length >= CEILING:
            warnings.warn(NOT_REDUCED, RuntimeWarning, stacklevel=5)
        return is_reduced(state)

    def _rules(self, wanted: WorkingMemory, messages: Sequence[BaseMessage]) -> WorkingMemory:
        """Working memory under the deployment's rules. They are asked for once, by the first run that gets so long that
        they may matter: a deployment that is away must not hold up every short one."""
        if len(messages) < RULES_FROM:
            return wanted
        if self._recommended is None:
            self._recommended = wanted.within(self.memory.working_memory_rules())
        return self._recommended

    def _ended(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        messages, kept = messages_in(state), kept_in(state, self.owner)
        if kept is None or kept.run.ended or not messages:
            return None
        outcome = self._guarded(
            "its outcome could not be told", lambda: _outcome(_given(self._outcome, state, runtime))
        )
        self._handed_over(kept, messages, self._said(kept.run, state, runtime), outcome)
        return Kept(run=kept.run.closed(messages)).update(self.owner)

    def _handed_over(
        self, kept: Kept, messages: Sequence[BaseMessage], about: Mapping[str, Any], outcome: Outcome | None = None
    ) -> None:
        run, said = kept.run, said_in(messages, kept)
        artifacts = self._artifacts(run, said, about["task_type"], outcome)
        result = outcome or (artifacts.get("outcome") if artifacts else None)
        succeeded = procedure_succeeded(result) if run.procedure_id else None
        rated: dict[str, Any] = {"procedure_id": run.procedure_id, "procedure_succeeded": succeeded}
        self.memory.end_run(
            run.run_id,
            messages=said,
            outcome=outcome,
            task=run.task or None,
            **about,
            context_id=run.context_id,
            used=self._guarded("what it used could not be told", lambda: ids_of(self._used(run.item_ids, said))) or (),
            artifacts=artifacts,
            **(rated | dict(noted_in(said))),
        )

    def _artifacts(
        self, run: RunRecord, said: Sequence[BaseMessage], task_type: str | None, outcome: Outcome | None
    ) -> Mapping[str, object] | None:
        if self._distil_with is None:
            return None
        about: dict[str, Any] = {"task": run.task, "task_type": task_type, "outcome": outcome}
        try:
            return agent_artifacts(self._distil_with, said, seconds=self._distil_seconds, **about)
        except ModelAnswerError as unusable:
            reason = str(unusable)
            if unusable.reason == LATE:
                reason = f"the model did not answer within {self._distil_seconds:g} s (distil_seconds)"
        except Exception as error:
            reason = type(error).__name__
        warnings.warn(f"the run was not distilled here: {reason}", RuntimeWarning, stacklevel=4)
        return None

    def _said(self, run: RunRecord | None, state: Any, runtime: Runtime[Any]) -> dict[str, str | None]:
        """What the program says of *run*, None for one that begins. It stays its user's who began it, whoever resumes
        it; a label that can't be told does not cost the run."""
        known = (run.about if run else None) or {}
        user = known.get("user_id") or user_identity(_given(self._about["user_id"], state, runtime))
        return {"user_id": user} | {name: self._label(name, state, runtime) or known.get(name) for name in LABELS}

    def _label(self, name: str, state: Any, runtime: Runtime[Any]) -> str | None:
        def told() -> str | None:
            value = _given(self._about[name], state, runtime)
            return None if value is None else label(value, name)

        return self._guarded(f"its {name} could not be told", told)

    def _about_now(self, state: Any, runtime: Any) -> dict[str, str | None] | None:
        """The same for the tools of a run under way; None when it can't be told."""
        kept = kept_in(state, self.owner)
        run = kept.run if kept and not kept.run.ended else None
        return self._guarded(NOT_RECALLED, lambda: self._said(run, state, runtime))


def _given(value: Given[Value], state: Any, runtime: Runtime[Any]) -> Value:
    return value(state, runtime) if callable(value) else value


def _outcome(value: object) -> Outcome | None:
    if value is None or isinstance(value, Outcome):
        return value
    if value not in Outcome.__members__:
        raise RefusedInputError("outcome", f"must be one of {', '.join(Outcome)}")
    return Outcome(str(value))


def _begun_as(run: RunRecord) -> Mapping[str, str | None]:
    """What a run that broke off was about: who runs the thread now may be somebody else."""
    if run.about is None:
        raise AgentMemoryError("whose run it was could not be told when it began")
    return run.about


def _recalled_fields(found: Recall) -> dict[str, Any]:
    return {
        "context": found.context,
        "context_id": found.context_id,
        "item_ids": tuple(item.id for item in found.items),
        "procedure_id": found.procedure_id,
    }
