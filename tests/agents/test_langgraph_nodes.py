"""Memory as nodes of a graph of one's own: MemoryState, three nodes and the context for the model."""

import asyncio
import operator
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from agent_memory.client import AgentMemory
from agent_memory.langgraph import MemoryNodes, MemoryState, WorkingMemory
from agent_memory.langgraph.messages import summary_of
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from support.agents import ScriptedChat, a_remembering_world, an_answer, gardener, prompts
from support.chat_messages import a_talk
from support.stand_in import StandIn
from typing_extensions import TypedDict

THREAD: Any = {"configurable": {"thread_id": "t-1"}}


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_remembering_world() as found, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield found


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as opened:
            yield opened


def a_graph(
    model: ScriptedChat, nodes: MemoryNodes, saver: BaseCheckpointSaver[Any] | None = None, *, asks: bool = False
) -> Any:
    """Recall, then a model between compression and, when it *asks*, a person; then the end of the run."""

    def answer(state: MemoryState) -> dict[str, Any]:
        context = nodes.context(state)
        system = [SystemMessage(f"You garden. {context}")]
        return {"messages": [model.invoke([*system, *state["messages"]])]}

    def ask(state: MemoryState) -> dict[str, Any]:
        return {"messages": [HumanMessage(interrupt("Really?"))]} if asks else {}

    builder = StateGraph(MemoryState)
    steps = {"recall": nodes.recall, "ask": ask, "compress": nodes.compress, "answer": answer, "end": nodes.end_run}
    for name, step in steps.items():
        builder.add_node(name, step)
    for first, second in zip([START, *steps], [*steps, END], strict=True):
        builder.add_edge(first, second)
    return builder.compile(checkpointer=saver)


def test_a_graph_recalls_shows_and_hands_over(world: StandIn, saver: BaseCheckpointSaver[Any]) -> None:
    model = ScriptedChat(script=["Watered."])
    graph = a_graph(model, MemoryNodes(gardener(), outcome="COMPLETED"), saver)
    for text in ("Water the fern", "Water the oak"):
        graph.invoke({"messages": [HumanMessage(text)]}, THREAD)
    assert prompts(model) == ["You garden. MEMORY SAYS HELLO"] * 2
    assert len(world.questions) == 2
    assert [len(detail["transcript"]["messages"]) for detail in world.details] == [2, 2]
    assert {detail["outcome"] for detail in world.details} == {"COMPLETED"}


def test_a_graph_that_is_resumed_recalls_once_and_ends_once(world: StandIn, saver: BaseCheckpointSaver[Any]) -> None:
    model = ScriptedChat(script=["Cut."])
    graph = a_graph(model, MemoryNodes(gardener()), saver, asks=True)
    graph.invoke({"messages": [HumanMessage("Cut the oak")]}, THREAD)
    graph.invoke(Command(resume="Yes."), THREAD)
    assert len(world.questions) == len(world.details) == 1
    assert [message["content"] for message in world.details[0]["transcript"]["messages"]] == [
        "Cut the oak",
        "Yes.",
        "Cut.",
    ]


def a_list_that_only_grows(
    nodes: MemoryNodes, saver: BaseCheckpointSaver[Any] | None, answer: Any, write: Any
) -> tuple[Any, list[int]]:
    """A graph whose messages are joined by `+`, and how many of them its model saw each time."""
    seen: list[int] = []

    def model(state: Any) -> dict[str, Any]:
        seen.append(len(state["messages"]))
        return {"messages": [write(answer)]}

    class Grows(TypedDict):
        messages: Annotated[list[Any], operator.add]
        agent_memory: dict[str, Any]

    builder = StateGraph(Grows)
    steps = {"recall": nodes.recall, "compress": nodes.compress, "answer": model, "end": nodes.end_run}
    for name, step in steps.items():
        builder.add_node(name, step)
    for first, second in zip([START, *steps], [*steps, END], strict=True):
        builder.add_edge(first, second)
    return builder.compile(checkpointer=saver), seen


@pytest.mark.parametrize(
    ("ask", "write"),
    [
        (lambda text: HumanMessage(text), lambda text: AIMessage(text)),
        (lambda text: {"role": "user", "content": text}, lambda text: {"role": "assistant", "content": text}),
        (lambda text: HumanMessage(text, id=str(uuid.uuid4())), lambda text: ("ai", text)),
    ],
)
def test_where_messages_have_no_ids_each_turn_is_its_own_run_all_the_same(
    world: StandIn, saver: BaseCheckpointSaver[Any], ask: Any, write: Any
) -> None:
    graph, _ = a_list_that_only_grows(MemoryNodes(gardener()), saver, "Done.", write)
    for text in ("Water the fern", "Water the oak", "Water the oak"):
        graph.invoke({"messages": [ask(text)]}, THREAD)
    # What was handed over once is not handed over again: it would confirm itself.
    told = [[message["content"] for message in detail["transcript"]["messages"]] for detail in world.details]
    assert told == [["Water the fern", "Done."], ["Water the oak", "Done."], ["Water the oak", "Done."]]


def test_a_list_that_was_written_anew_is_not_taken_for_the_one_before(world: StandIn) -> None:
    nodes = MemoryNodes(gardener())
    state: dict[str, Any] = {"messages": [HumanMessage("Water the fern"), AIMessage("Done.")]}
    for messages in (state["messages"], [SystemMessage("You garden."), HumanMessage("Cut the oak")]):
        state["messages"] = messages
        for node in (nodes.recall, nodes.end_run):
            state |= node(state, None) or {}  # type: ignore[arg-type]
    assert [question["task"] for question in world.questions] == ["Water the fern", "Cut the oak"]
    assert len(world.details) == 2


def test_a_list_from_which_nothing_can_be_removed_is_left_as_it_is_and_somebody_is_told() -> None:
    with a_remembering_world():
        nodes = MemoryNodes(gardener(), working_memory=WorkingMemory(lambda prompt: "ok"))
        graph, seen = a_list_that_only_grows(nodes, None, "Done.", AIMessage)
        talk = [message.model_copy(update={"id": None}) for message in a_talk(41)]
        with pytest.warns(RuntimeWarning, match="need the reducer add_messages"):
            graph.invoke({"messages": talk})
    assert seen == [41]


def test_an_async_graph_compresses_and_streams_the_models_words(world: StandIn) -> None:
    model = ScriptedChat(script=["All is well."])
    nodes = MemoryNodes(gardener(), working_memory=WorkingMemory(ScriptedChat(script=["SUMMARY WORDS"])))

    async def run() -> str:
        stream = a_graph(model, nodes).astream({"messages": a_talk(31)}, stream_mode="messages")
        return "".join([str(chunk.content) async for chunk, _ in stream])

    assert asyncio.run(run()) == "All is well."
    assert len(model.sent[0]) == 1 + 1 + 1 + 15
    assert sum(1 for message in model.sent[0] if summary_of(message)) == 1


def test_two_agents_of_two_tenants_in_one_graph_read_only_their_own(world: StandIn) -> None:
    world.answer = lambda question: an_answer(f"MEMORY OF {question['tenant_id']}")
    meadow, orchard = (MemoryNodes(AgentMemory(tenant, "gardener", "test")) for tenant in ("meadow", "orchard"))
    seen: list[str] = []

    def look(state: MemoryState) -> dict[str, Any]:
        seen.extend((meadow.context(state), orchard.context(state)))
        return {}

    builder = StateGraph(MemoryState)
    # Both in one step: their records meet in the reducer.
    for name, step in {"m": meadow.recall, "o": orchard.recall, "look": look, "end": meadow.end_run}.items():
        builder.add_node(name, step, defer=name == "look")
    for first, second in [(START, "m"), (START, "o"), ("m", "look"), ("o", "look"), ("look", "end"), ("end", END)]:
        builder.add_edge(first, second)
    state = builder.compile().invoke({"messages": [HumanMessage("Water everything")]})
    assert seen == ["MEMORY OF meadow", "MEMORY OF orchard"]
    assert [detail["tenant_id"] for detail in world.details] == ["meadow"]
    assert orchard.context(state) == "MEMORY OF orchard"
    assert meadow.context(state) == ""


@pytest.mark.parametrize("entry", [None, "text", {"meadow/gardener": 7}, {"meadow/gardener": {"run": {"run_id": 1}}}])
def test_what_is_no_record_of_ours_is_no_record(world: StandIn, entry: object) -> None:
    nodes = MemoryNodes(gardener())
    state = {"messages": [HumanMessage("Water the fern", id="m1")], "agent_memory": entry}
    assert nodes.context(state) == ""
    assert nodes.end_run(state, None) is None  # type: ignore[arg-type]
    assert nodes.recall(state, None) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [{}, {"messages": None}, {"messages": "text"}, object()])
def test_a_state_without_messages_is_left_alone(world: StandIn, state: object) -> None:
    nodes = MemoryNodes(gardener())
    assert nodes.recall(state, None) is None  # type: ignore[arg-type]
    assert nodes.compress(state) is None
    assert nodes.end_run(state, None) is None  # type: ignore[arg-type]
    assert world.questions == world.details == []


def test_a_strict_client_raises_into_the_run() -> None:
    with a_remembering_world() as world:
        world.function_error = True
        with pytest.raises(Exception, match="bootstrap"):
            a_graph(ScriptedChat(script=["Done."]), MemoryNodes(gardener(strict=True))).invoke(
                {"messages": [HumanMessage("Water the fern")]}
            )


def test_thresholds_that_are_not_given_are_the_deployments(world: StandIn) -> None:
    world.names["working-memory"] = '{"trigger": 12, "keep": 4, "ceiling": 16, "of a later release": 1, "max": "x"}'
    cases: list[tuple[WorkingMemory | bool, int]] = [
        (WorkingMemory(lambda prompt: "ok"), 1 + 1 + 4),
        (WorkingMemory(lambda prompt: "ok", keep=2), 1 + 1 + 2),
        (WorkingMemory(lambda prompt: "ok", trigger=14, keep=4, ceiling=20), 12),
        (True, 12),
        (False, 12),
    ]
    for working_memory, length in cases:
        model = ScriptedChat(script=["Done."])
        a_graph(model, MemoryNodes(gardener(), working_memory=working_memory)).invoke({"messages": a_talk(12)})
        assert len(model.sent[0]) == 1 + length


def test_a_deployments_thresholds_that_do_not_go_with_what_was_given_are_left_out(world: StandIn) -> None:
    world.names["working-memory"] = '{"trigger": 12, "keep": 4, "ceiling": 16}'
    nodes = MemoryNodes(gardener(), working_memory=WorkingMemory(lambda prompt: "ok", keep=20))
    with pytest.warns(RuntimeWarning, match="keep must be at least 3 below trigger"):
        assert nodes.compress({"messages": a_talk(12)}) is None
    assert nodes.compress({"messages": a_talk(30)}) is not None


@pytest.mark.parametrize("published", ["not JSON", "[1]", "{}", None])
def test_a_deployment_that_recommends_nothing_leaves_the_defaults(world: StandIn, published: str | None) -> None:
    if published is None:
        world.names.pop("working-memory")
    else:
        world.names["working-memory"] = published
    assert gardener().working_memory_rules() == {}
    assert MemoryNodes(gardener()).compress({"messages": a_talk(39)}) is None
