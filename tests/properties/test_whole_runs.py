"""Whatever compression took out of a run on its way, the run is handed over as it was said."""

from typing import Any

from agent_memory.langgraph import MemoryNodes, WorkingMemory
from agent_memory.langgraph.messages import summary_of
from agent_memory.langgraph.state import KEY, Kept, RunRecord, kept_in, merged, messages_in
from agent_memory.langgraph.turns import said_in
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph.message import add_messages
from support.agents import a_remembering_world, gardener
from support.chat_messages import exchanges, faults

PATIENT = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def after(state: dict[str, Any], update: dict[str, Any] | None) -> dict[str, Any]:
    """What a graph makes of a node's update."""
    given_messages = list((update or {}).get("messages", []))
    records = merged(state[KEY], (update or {}).get(KEY))
    return {"messages": add_messages(state["messages"], given_messages), KEY: records}


def test_a_run_is_handed_over_as_it_was_said() -> None:
    seen: set[bool] = set()
    working = WorkingMemory(lambda prompt: "ok", trigger=9, keep=3, ceiling=12)
    nodes = MemoryNodes(gardener(), working_memory=working)

    @PATIENT
    @given(before=exchanges(most=16, ids=False), run=exchanges(most=80, ids=False), sometimes=st.booleans())
    def holds(before: list[BaseMessage], run: list[BaseMessage], sometimes: bool) -> None:
        task = HumanMessage("Water everything, the ferns by the door first, and tell me when it is done.")
        state: dict[str, Any] = {"messages": [*before, AIMessage("What now?"), task], KEY: {}}
        for place, message in enumerate([*state["messages"], *run]):
            message.id = f"m{place}"
        record = RunRecord(run_id="r-1", task_ids=(str(task.id),), first_id=task.id)
        state = after(state, Kept(run=record).update(nodes.owner))
        for message in run:
            state = after(state, {"messages": [message]})
            if not faults(state["messages"]) and not (sometimes and message.type == "human"):
                state = after(state, nodes.compress(state))
        kept = kept_in(state, nodes.owner)
        assert kept is not None
        said = said_in(messages_in(state), kept)
        assert [(m.id, m.content) for m in said] == [(m.id, m.content) for m in [task, *run]]
        seen.add(any(summary_of(message) for message in state["messages"]))

    with a_remembering_world():
        holds()
    assert seen == {True, False}
