"""What memory keeps in a graph's state: one record per agent, so that agents of two tenants never read each other's."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langgraph.graph.message import add_messages
from pydantic import ValidationError
from typing_extensions import TypedDict

from agent_memory.domain.models import Model
from agent_memory.domain.outgoing import as_json

KEY = "agent_memory"


class RunRecord(Model):
    """A run as its thread remembers it. *task_ids*: messages that asked for it; *first_id*: where it begins. *about*:
    its user_id, task_type and domain, None when its user could not be told; gone when it has ended. *context*
    is what memory said, kept until the run ends. *order*: ids of its messages as they came, once some were taken out
    of the list. *last_id*: the newest message when it ended; None: it goes on."""

    run_id: str
    task: str = ""
    task_ids: tuple[str, ...] = ()
    first_id: str | None = None
    about: Mapping[str, str | None] | None = None
    context: str = ""
    context_id: str | None = None
    item_ids: tuple[str, ...] = ()
    procedure_id: str | None = None
    order: tuple[str, ...] = ()
    ended: bool = False
    last_id: str | None = None

    def closed(self, messages: Sequence[BaseMessage]) -> "RunRecord":
        """What is kept of a run that was handed over: enough to know where the next one begins."""
        return RunRecord(run_id=self.run_id, first_id=self.first_id, ended=True, last_id=messages[-1].id)


def merged(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> dict[str, Any]:
    """The records of all agents that share a state; the newer one of each."""
    return {**(left or {}), **(right or {})}


class MemoryState(TypedDict):
    """State of a graph that uses the nodes: messages, and the records beside them.

    Example: `StateGraph(MemoryState)`, or a class of your own that inherits from it.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    agent_memory: NotRequired[Annotated[dict[str, Any], merged]]


class MemoryAgentState(AgentState[Any]):
    """State of a LangChain agent with memory; the records are in neither its input nor its output."""

    agent_memory: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, merged]]


class Kept(Model):
    """A record and the messages of its run that compression took out of the list."""

    run: RunRecord
    removed: tuple[BaseMessage, ...] = ()

    def update(self, owner: str) -> dict[str, Any]:
        """The state update that keeps it under *owner*."""
        return {KEY: {owner: {"run": self.run.model_dump(mode="json"), "removed": list(self.removed)}}}


def kept_in(state: object, owner: str) -> Kept | None:
    """The record of *owner* in *state*, or None: also when what stands there is no record."""
    records = value_of(state, KEY)
    entry = records.get(owner) if isinstance(records, Mapping) else None
    if not isinstance(entry, Mapping):
        return None
    removed = entry.get("removed")
    try:
        run = RunRecord.model_validate(entry.get("run"))
    except ValidationError:
        return None
    listed = removed if isinstance(removed, list | tuple) else ()
    return Kept(run=run, removed=tuple(m for m in listed if isinstance(m, BaseMessage)))


def messages_in(state: object) -> Sequence[BaseMessage]:
    """The messages of *state*, those that are written as dicts or pairs included; none where it holds none. What a
    reducer left without an id is known by its place and its words: so each turn finds where the one before it ended."""
    found = value_of(state, "messages")
    read = map(_message, found if isinstance(found, list | tuple) else [])
    return [_known(message, place) for place, message in enumerate(one for one in read if one is not None)]


def is_reduced(state: object) -> bool:
    """Whether the list in *state* is one that a reducer of messages made, and so takes their removal."""
    found = value_of(state, "messages")
    return isinstance(found, list | tuple) and all(
        isinstance(message, BaseMessage) and message.id is not None for message in found
    )


def _known(message: BaseMessage, place: int) -> BaseMessage:
    if message.id is not None:
        return message
    words = json.dumps([message.type, as_json(message.content)]).encode()
    return message.model_copy(update={"id": f"{place}-{hashlib.sha256(words).hexdigest()[:16]}"})


def _message(value: object) -> BaseMessage | None:
    if isinstance(value, BaseMessage):
        return value
    try:
        return convert_to_messages([value])[0]  # type: ignore[list-item]
    except (ValueError, TypeError, NotImplementedError, KeyError):
        return None


def value_of(state: object, name: str) -> object:
    """A value of a state, which may be a mapping or an object with attributes."""
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)
