"""LangChain agents with memory: recall once, show it, compress, hand over once; with every way of running a graph."""

import asyncio
import contextlib
import threading
import time
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from agent_memory.client import AgentMemory
from agent_memory.domain.errors import RefusedInputError
from agent_memory.langgraph import MemoryMiddleware, WorkingMemory
from agent_memory.langgraph.messages import summary_of
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt
from support.agents import (
    CONTEXT_ID,
    ScriptedChat,
    a_call,
    a_remembering_world,
    an_answer,
    an_item,
    gardener,
    prompts,
)
from support.chat_messages import a_talk, a_working_run, faults
from support.stand_in import StandIn

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


@tool
def water(plant: str) -> str:
    """Water a plant."""
    return f"{plant} was watered"


@tool
def ask_a_person(question: str) -> str:
    """Ask a person and wait for the answer."""
    return str(interrupt(question))


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def texts_of(detail: dict[str, Any]) -> list[str]:
    return [message["content"] for message in detail["transcript"]["messages"]]


def test_two_lines_recall_show_and_hand_over(world: StandIn) -> None:
    model = ScriptedChat(script=[a_call("water", "c1", plant="fern"), "The fern was watered."])
    agent = create_agent(model, [water], system_prompt="You garden.", middleware=[MemoryMiddleware(gardener())])
    answer = agent.invoke(said("Water the fern"))
    assert [question["task"] for question in world.questions] == ["Water the fern"]
    assert prompts(model) == ["You garden.\n\nMEMORY SAYS HELLO"] * 2
    assert [message.type for message in answer["messages"]] == ["human", "ai", "tool", "ai"]
    assert set(answer) == {"messages"}
    (detail,) = world.details
    assert texts_of(detail) == ["Water the fern", "", "fern was watered", "The fern was watered."]
    assert detail["memory"] == {"context_id": CONTEXT_ID, "used": []}
    assert "MEMORY SAYS HELLO" not in str(detail)


def test_an_agent_without_a_system_prompt_and_one_made_of_blocks_are_shown_memory_too(world: StandIn) -> None:
    blocks = SystemMessage(content=[{"type": "text", "text": "You garden."}])
    for prompt, expected in (
        (None, "MEMORY SAYS HELLO"),
        (blocks, [{"type": "text", "text": "You garden."}, {"type": "text", "text": "MEMORY SAYS HELLO"}]),
    ):
        model = ScriptedChat(script=["Done."])
        agent = create_agent(model, [], system_prompt=prompt, middleware=[MemoryMiddleware(gardener())])
        agent.invoke(said("Water the fern"))
        assert model.sent[0][0].content == expected


def test_a_new_turn_of_a_thread_is_a_new_run_and_memory_does_not_pile_up(
    world: StandIn, saver: BaseCheckpointSaver[Any]
) -> None:
    model = ScriptedChat(script=["Which one?", "Watered.", "You are welcome."])
    agent = create_agent(model, [], middleware=[MemoryMiddleware(gardener())], checkpointer=saver)
    for text in ("Water the plants by the door", "the left one", "x" * 300):
        agent.invoke(said(text), THREAD)
    assert [prompt.count("MEMORY SAYS HELLO") for prompt in prompts(model)] == [1, 1, 1]
    assert len(world.questions) == len(world.details) == 3
    assert len({detail["run_id"] for detail in world.details}) == 3
    # A short answer says what was asked only together with what was asked before it; a long one speaks for itself.
    assert [question["task"] for question in world.questions][1:] == [
        "Water the plants by the door\nthe left one",
        "x" * 300,
    ]
    # What was handed over once is not handed over again: it would confirm itself.
    assert texts_of(world.details[1]) == ["the left one", "Watered."]


def test_a_run_that_was_interrupted_recalls_once_and_ends_once(world: StandIn, saver: BaseCheckpointSaver[Any]) -> None:
    model = ScriptedChat(script=[a_call("ask_a_person", "c1", question="Really?"), "Done as you said."])
    agent = create_agent(model, [ask_a_person], middleware=[MemoryMiddleware(gardener())], checkpointer=saver)
    stopped = agent.invoke(said("Cut the oak"), THREAD)
    assert stopped["__interrupt__"]
    assert world.details == []
    agent.invoke(Command(resume="Yes, really."), THREAD)
    assert len(world.questions) == 1
    (detail,) = world.details
    assert texts_of(detail) == ["Cut the oak", "", "Yes, really.", "Done as you said."]
    assert prompts(model) == ["MEMORY SAYS HELLO"] * 2


def test_another_process_resumes_a_run_with_what_was_recalled_before(world: StandIn, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoints.db")
    with SqliteSaver.from_conn_string(path) as saver:
        first = ScriptedChat(script=[a_call("water", "c1", plant="fern")])
        asks = HumanInTheLoopMiddleware(interrupt_on={"water": True})
        agent = create_agent(first, [water], middleware=[MemoryMiddleware(gardener()), asks], checkpointer=saver)
        agent.invoke(said("Water the fern"), THREAD)
    world.answer = lambda _: an_answer("SOMETHING ELSE")
    with SqliteSaver.from_conn_string(path) as saver:
        second = ScriptedChat(script=["Watered."])
        asks = HumanInTheLoopMiddleware(interrupt_on={"water": True})
        agent = create_agent(second, [water], middleware=[MemoryMiddleware(gardener()), asks], checkpointer=saver)
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert prompts(second) == ["MEMORY SAYS HELLO"]
    assert len(world.questions) == len(world.details) == 1


def test_a_run_that_broke_off_is_handed_over_when_something_else_is_asked(
    world: StandIn, saver: BaseCheckpointSaver[Any]
) -> None:
    model = ScriptedChat(script=[RuntimeError("the model is gone"), "Watered."])
    agent = create_agent(model, [], middleware=[MemoryMiddleware(gardener(), outcome="COMPLETED")], checkpointer=saver)
    with pytest.raises(RuntimeError, match="gone"):
        agent.invoke(said("Cut the oak"), THREAD)
    assert world.details == []
    agent.invoke(said("Water the fern"), THREAD)
    broken, whole = world.details
    assert (texts_of(broken), broken.get("outcome")) == (["Cut the oak"], None)
    assert (texts_of(whole), whole["outcome"]) == (["Water the fern", "Watered."], "COMPLETED")


def test_a_run_that_broke_off_and_is_tried_again_is_one_run(world: StandIn, saver: BaseCheckpointSaver[Any]) -> None:
    model = ScriptedChat(script=[RuntimeError("the model is gone"), "Cut."])
    agent = create_agent(model, [], middleware=[MemoryMiddleware(gardener())], checkpointer=saver)
    with pytest.raises(RuntimeError, match="gone"):
        agent.invoke(said("Cut the oak"), THREAD)
    agent.invoke(None, THREAD)
    assert len(world.questions) == len(world.details) == 1
    assert texts_of(world.details[0]) == ["Cut the oak", "Cut."]


def test_a_long_run_is_compressed_in_the_state_and_handed_over_whole(
    world: StandIn, saver: BaseCheckpointSaver[Any]
) -> None:
    calls = [a_call("water", f"c{n}", plant=f"plant {n}") for n in range(30)]
    model = ScriptedChat(script=[*calls, "All watered."])
    cheap = ScriptedChat(script=["Plants so far are watered."])
    remembers = MemoryMiddleware(gardener(), working_memory=WorkingMemory(cheap))
    agent = create_agent(model, [water], middleware=[remembers], checkpointer=saver)
    answer = agent.invoke(said("Water all plants"), {**THREAD, "recursion_limit": 200})
    assert max(len(sent) for sent in model.sent) <= 1 + 30
    assert all(faults(sent) == [] for sent in model.sent)
    assert len(answer["messages"]) < 31
    assert sum(1 for message in answer["messages"] if summary_of(message)) == 1
    assert answer["messages"][0].content == "Water all plants"
    ids = [message.id for message in agent.get_state(THREAD).values["messages"]]
    assert len(set(ids)) == len(ids)
    # The whole run is handed over, every message once and in its order.
    told = [text for text in texts_of(world.details[0]) if "watered" in text]
    assert told == [*(f"plant {n} was watered" for n in range(30)), "All watered."]
    assert "Working-memory summary" not in str(world.details[0])
    kept = agent.get_state(THREAD).values["agent_memory"]["meadow/gardener"]
    assert kept["removed"] == []


def test_without_the_whole_run_what_was_summarised_is_handed_over_as_the_summary(world: StandIn) -> None:
    calls = [a_call("water", f"c{n}", plant=f"plant {n}") for n in range(16)]
    model = ScriptedChat(script=[*calls, "All watered."])
    working = WorkingMemory(lambda prompt: "Plants so far are watered.")
    agent = create_agent(
        model, [water], middleware=[MemoryMiddleware(gardener(), working_memory=working, whole_run=False)]
    )
    agent.invoke(said("Water all plants"), {"recursion_limit": 200})
    texts = texts_of(world.details[0])
    assert any(text.startswith("[Working-memory summary of 14 earlier messages]") for text in texts)
    assert "plant 1 was watered" not in texts


def test_without_the_whole_run_what_earlier_runs_said_is_not_handed_over_as_this_ones(world: StandIn) -> None:
    calls = [a_call("water", f"c{n}", plant=f"plant {n}") for n in range(32)]
    model = ScriptedChat(script=["The gate's code is 42.", *calls, "All watered."])
    working = WorkingMemory(lambda prompt: "The code is 42." if "42" in prompt else "Plants so far are watered.")
    remembers = MemoryMiddleware(gardener(), working_memory=working, whole_run=False)
    agent = create_agent(model, [water], middleware=[remembers], checkpointer=InMemorySaver())
    agent.invoke(said("What is the code?"), THREAD)
    agent.invoke(said("Water all plants"), {**THREAD, "recursion_limit": 200})
    texts = texts_of(world.details[1])
    assert not [text for text in texts if "42" in text]
    assert texts[0] == "Water all plants"
    assert [f"plant {n} was watered" in texts for n in range(32)] == [True] * 32


def test_a_history_that_came_along_is_not_part_of_the_run(world: StandIn) -> None:
    model = ScriptedChat(script=["Done."])
    agent = create_agent(model, [], middleware=[MemoryMiddleware(gardener(), working_memory=False)])
    agent.invoke({"messages": [*a_talk(4), HumanMessage("Now, please water the fern")]})
    assert texts_of(world.details[0]) == ["Now, please water the fern", "Done."]


@pytest.mark.parametrize("messages", [[], [AIMessage("I am here.")], [HumanMessage("")]])
def test_a_graph_to_which_nothing_was_said_runs_all_the_same(world: StandIn, messages: list[Any]) -> None:
    model = ScriptedChat(script=["Done."])
    agent = create_agent(model, [], middleware=[MemoryMiddleware(gardener())])
    assert agent.invoke({"messages": messages})["messages"][-1].content == "Done."
    assert world.questions == []


def test_streams_show_the_agents_own_words_and_nothing_of_memorys(world: StandIn) -> None:
    cheap = ScriptedChat(script=["SUMMARY WORDS"])
    model = ScriptedChat(script=["All is well."])
    remembers = MemoryMiddleware(
        gardener(), working_memory=WorkingMemory(cheap), distil_with=ScriptedChat(script=["not JSON"])
    )
    agent = create_agent(model, [], middleware=[remembers])
    long = {"messages": [*a_talk(31)[:-1], HumanMessage("How is it?", id="last")]}
    with pytest.warns(RuntimeWarning, match="not distilled"):
        shown = [(meta["langgraph_node"], chunk) for chunk, meta in agent.stream(long, stream_mode="messages")]
    assert "".join(str(chunk.content) for _, chunk in shown) == "All is well."
    assert {node for node, _ in shown} == {"model"}
    with pytest.warns(RuntimeWarning, match="not distilled"):
        updates = list(agent.stream(long, stream_mode="updates"))
    assert [next(iter(update)) for update in updates] == [
        "MemoryMiddleware.before_agent",
        "MemoryMiddleware.before_model",
        "model",
        "MemoryMiddleware.after_agent",
    ]


def test_an_async_stream_runs_the_same_way(world: StandIn, tmp_path: Path) -> None:
    async def run() -> list[str]:
        model = ScriptedChat(script=[a_call("water", "c1", plant="fern"), "The fern was watered."])
        cheap = ScriptedChat(script=["SUMMARY WORDS"])
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
            agent = create_agent(
                model,
                [water],
                middleware=[MemoryMiddleware(gardener(), working_memory=WorkingMemory(cheap))],
                checkpointer=saver,
            )
            long = {"messages": [*a_talk(31)[:-1], HumanMessage("Water the fern", id="last")]}
            stream = agent.astream(long, THREAD, stream_mode="messages")
            found = [str(chunk.content) async for chunk, meta in stream if meta["langgraph_node"] != "tools"]
            assert len(cheap.sent) == 1
            assert prompts(model) == ["MEMORY SAYS HELLO"] * 2
            return found

    assert "".join(asyncio.run(run())) == "The fern was watered."
    assert texts_of(world.details[0])[-1] == "The fern was watered."


def test_memory_does_not_hold_up_the_event_loop(world: StandIn) -> None:
    async def run() -> int:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.01)

        def slow(question: dict[str, Any]) -> object:
            asyncio.run(asyncio.sleep(0.3))
            return an_answer("LATE BUT HERE")

        world.answer = slow
        agent = create_agent(ScriptedChat(script=["Done."]), [], middleware=[MemoryMiddleware(gardener())])
        heart = asyncio.create_task(beat())
        await agent.ainvoke(said("Water the fern"))
        heart.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await heart
        return beats

    assert asyncio.run(run()) >= 5


def test_two_agents_in_one_process_know_nothing_of_each_other(world: StandIn, saver: BaseCheckpointSaver[Any]) -> None:
    world.answer = lambda question: an_answer(f"MEMORY OF {question['tenant_id']}")
    models = {name: ScriptedChat(script=["Done."]) for name in ("meadow", "orchard")}
    agents = {
        name: create_agent(
            model, [], middleware=[MemoryMiddleware(AgentMemory(name, "gardener", "test"))], checkpointer=saver
        )
        for name, model in models.items()
    }
    for name, agent in agents.items():
        agent.invoke(said(f"Water the {name}"), {"configurable": {"thread_id": name}})
    # Even on one thread, whose state both would read.
    agents["orchard"].invoke(said("Once more, and take your time about it"), {"configurable": {"thread_id": "meadow"}})
    assert prompts(models["meadow"]) == ["MEMORY OF meadow"]
    assert prompts(models["orchard"]) == ["MEMORY OF orchard"] * 2
    assert [detail["tenant_id"] for detail in world.details] == ["meadow", "orchard", "orchard"]
    assert [entry["Source"] for entry in world.entries] == [
        "agent-memory.client/meadow",
        "agent-memory.client/orchard",
        "agent-memory.client/orchard",
    ]


def test_what_differs_by_run_is_read_from_the_run(world: StandIn) -> None:
    remembers = MemoryMiddleware(
        gardener(),
        task_type="watering",
        domain=lambda state, runtime: "ferns" if "fern" in state["messages"][0].content else "other",
        user_id=lambda state, runtime: runtime.context["user"],
        outcome=lambda state, runtime: "COMPLETED" if "watered" in state["messages"][-1].content else "FAILED",
        limits={"max_episodes": 1},
    )
    agent = create_agent(ScriptedChat(script=["watered"]), [], middleware=[remembers], context_schema=dict)
    agent.invoke(said("Water the fern"), context={"user": "u-1"})
    (question,), (detail,) = world.questions, world.details
    assert (question["task_type"], question["domain"], question["user_id"]) == ("watering", "ferns", "u-1")
    assert question["max_episodes"] == 1
    assert (detail["domain"], detail["user_id"], detail["outcome"]) == ("ferns", "u-1", "COMPLETED")


def test_used_memories_are_those_that_the_agent_names_and_the_procedure_did_as_the_run_did(world: StandIn) -> None:
    items = [an_item("gardener/run-2026-11"), an_item("gardener/run-2026-1"), an_item("p-77aa88", "procedural")]
    world.answer = lambda _: an_answer("MEMORY", *items)
    for outcome, succeeded in (("COMPLETED", True), ("FAILED", False), ("PARTIAL", None), (None, None)):
        model = ScriptedChat(script=["As in run-2026-11, the fern was watered."])
        agent = create_agent(model, [], middleware=[MemoryMiddleware(gardener(), outcome=outcome)])
        agent.invoke(said("Water the fern"))
        detail = world.details[-1]
        assert detail["memory"]["used"] == ["gardener/run-2026-11"]
        expected = {"procedure_id": "p-77aa88"} | ({} if succeeded is None else {"succeeded": succeeded})
        assert detail["procedure"] == expected


def test_a_prefetched_recall_is_picked_up_by_its_id(world: StandIn) -> None:
    remembers = MemoryMiddleware(gardener(), prefetched=lambda state, runtime: runtime.context["memory"])
    agent = create_agent(ScriptedChat(script=["Done."]), [], middleware=[remembers], context_schema=dict)
    agent.invoke(said("Water the fern"), context={"memory": CONTEXT_ID})
    assert world.questions[0]["context_id"] == CONTEXT_ID


def test_memory_that_fails_everywhere_never_breaks_the_run() -> None:
    with a_remembering_world() as world:
        world.function_error = True
        world.refused_actions = {"PutEvents"}

        def broken(*_: object) -> str:
            raise KeyError("nobody knows")

        model = ScriptedChat(script=["Done."])
        for options in ({}, {"user_id": broken}, {"outcome": broken}, {"used": broken}):
            remembers = MemoryMiddleware(gardener(), working_memory=WorkingMemory(broken), **options)
            agent = create_agent(model, [], middleware=[remembers])
            with pytest.warns(RuntimeWarning):
                answer = agent.invoke({"messages": [*a_talk(44), HumanMessage("Water the fern")]})
            assert answer["messages"][-1].content == "Done."
            assert len(answer["messages"]) < 40


def test_warnings_hold_no_content() -> None:
    with a_remembering_world() as world, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        world.function_error = True
        world.refused_actions = {"PutEvents"}

        def quoting(*_: object) -> str:
            raise ValueError("the secret of Ines")

        options: dict[str, Any] = {"used": quoting, "working_memory": WorkingMemory(quoting)}
        agent = create_agent(ScriptedChat(script=["Done."]), [], middleware=[MemoryMiddleware(gardener(), **options)])
        agent.invoke({"messages": [*a_talk(44), HumanMessage("the secret of Ines")]})
        ours = [str(one.message) for one in caught if one.category is RuntimeWarning]
    assert len(ours) >= 3
    assert not [text for text in ours if "Ines" in text]


@pytest.mark.parametrize(("field", "value"), [("task_type", "two words"), ("domain", ""), ("outcome", "GREAT")])
def test_a_value_that_can_not_be_one_is_refused_when_the_agent_is_built(field: str, value: str) -> None:
    options: dict[str, Any] = {field: value}
    with pytest.raises(RefusedInputError, match=field):
        MemoryMiddleware(gardener(), **options)


def test_the_agents_own_model_can_distil_the_run(world: StandIn) -> None:
    record = {
        "task_summary": "Watered the fern.",
        "outcome": "COMPLETED",
        "confidence": 0.9,
        "key_findings": ["The fern stands by the door."],
        "approach_used": "Watered it.",
        "reusable_patterns": [],
        "facts": [
            {
                "content": "The fern needs water daily.",
                "confidence": 0.9,
                "evidence": "needs water daily",
                "scope": "domain",
                "valid_until": "2027-01-31",
            },
            {"content": "Invented.", "confidence": 0.9, "evidence": "nobody said this", "scope": "domain"},
        ],
    }
    own = ScriptedChat(script=[a_call("record", "c1", **record)])
    items = [an_item("p-77aa88", "procedural")]
    world.answer = lambda _: an_answer("MEMORY", *items)
    remembers = MemoryMiddleware(gardener(), distil_with=own, task_type="watering")
    agent = create_agent(ScriptedChat(script=["The fern needs water daily, so I did it."]), [], middleware=[remembers])
    agent.invoke(said("Water the fern"))
    (detail,) = world.details
    made = detail["artifacts"]
    assert made["task_summary"] == "Watered the fern."
    assert [fact["content"] for fact in made["facts"]] == ["The fern needs water daily."]
    assert made["facts"][0]["valid_until"].startswith("2027-01-31T23:59:59")
    assert detail["procedure"] == {"procedure_id": "p-77aa88", "succeeded": True}


@pytest.mark.parametrize("refusal", [NotImplementedError(), ValueError("no tool_choice here")])
def test_a_model_that_takes_no_forced_tool_distils_by_json(world: StandIn, refusal: Exception) -> None:
    class WithoutTools(ScriptedChat):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            raise refusal

    record = '```json\n{"task_summary": "Watered the fern.", "outcome": "COMPLETED", "confidence": 0.9}\n```'
    own = WithoutTools(script=[record])
    remembers = MemoryMiddleware(gardener(), distil_with=own)
    create_agent(ScriptedChat(script=["Done."]), [], middleware=[remembers]).invoke(said("Water the fern"))
    assert world.details[0]["artifacts"]["task_summary"] == "Watered the fern."
    assert '"task_summary"' in str(own.sent[0][0].content)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [("I would rather not.", "not_json"), (RuntimeError("gone"), "not_asked_RuntimeError"), ("", "empty")],
)
def test_a_run_whose_own_model_can_not_distil_is_handed_over_without_artifacts(
    world: StandIn, reply: Any, reason: str
) -> None:
    remembers = MemoryMiddleware(gardener(), distil_with=ScriptedChat(script=[reply]))
    with pytest.warns(RuntimeWarning, match=f"not distilled here: unusable model answer: {reason}"):
        create_agent(ScriptedChat(script=["Done."]), [], middleware=[remembers]).invoke(said("Water the fern"))
    assert "artifacts" not in world.details[0]


@pytest.mark.parametrize("hangs_in", ["bind_tools", "invoke"])
def test_a_model_that_hangs_when_it_should_distil_does_not_hold_the_run(world: StandIn, hangs_in: str) -> None:
    let_go = threading.Event()

    class Hanging(ScriptedChat):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return let_go.wait(30) if hangs_in == "bind_tools" else self

        def invoke(self, *_: Any, **__: Any) -> Any:
            let_go.wait(30)

    remembers = MemoryMiddleware(gardener(), distil_with=Hanging(script=[""]), distil_seconds=0.2)
    began = time.monotonic()
    try:
        with pytest.warns(RuntimeWarning, match=r"not distilled here: the model did not answer within 0\.2 s"):
            create_agent(ScriptedChat(script=["Done."]), [], middleware=[remembers]).invoke(said("Water the fern"))
    finally:
        let_go.set()
    assert time.monotonic() - began < 15
    assert "artifacts" not in world.details[0]


TRACE: ContextVar[str] = ContextVar("trace", default="none")


def test_what_distils_and_what_summarises_finds_the_context_of_the_run(world: StandIn) -> None:
    seen: list[str] = []

    class Traced(ScriptedChat):
        def _reply(self, messages: list[Any]) -> AIMessage:
            seen.append(TRACE.get())
            return super()._reply(messages)

    record = {"task_summary": "Watered the fern.", "outcome": "COMPLETED", "confidence": 0.9}
    summariser, own = Traced(script=["They spoke of ferns."]), Traced(script=[a_call("record", "c1", **record)])
    remembers = MemoryMiddleware(gardener(), working_memory=WorkingMemory(summariser), distil_with=own)
    agent = create_agent(ScriptedChat(script=["Done."]), [], middleware=[remembers])
    outside = TRACE.set("the-run")
    try:
        agent.invoke({"messages": [*a_talk(60), HumanMessage("Water the fern")]})
    finally:
        TRACE.reset(outside)
    assert (len(summariser.sent), len(own.sent)) == (1, 1)
    assert seen == ["the-run"] * 2


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "60", None])
def test_a_time_limit_that_is_none_is_refused_when_the_agent_is_built(seconds: Any) -> None:
    with pytest.raises(RefusedInputError, match="distil_seconds"):
        MemoryMiddleware(gardener(), distil_seconds=seconds)
    with pytest.raises(RefusedInputError, match="timeout_seconds"):
        WorkingMemory(timeout_seconds=seconds)


def test_five_hundred_messages_come_in_at_once(world: StandIn) -> None:
    model = ScriptedChat(script=["Done."])
    cheap = ScriptedChat(script=["A long way."])
    agent = create_agent(model, [water], middleware=[MemoryMiddleware(gardener(), working_memory=WorkingMemory(cheap))])
    agent.invoke({"messages": [*a_working_run(250), HumanMessage("And now?")]})
    assert faults(model.sent[0]) == []
    assert len(model.sent[0]) <= 1 + 1 + 1 + 16
    assert len(cheap.sent) == 1


def test_a_system_message_in_the_middle_and_doubled_ids_are_no_obstacle(world: StandIn) -> None:
    messages = a_working_run(20)
    messages.insert(9, SystemMessage("Be careful now.", id="middle"))
    for message in messages[20:24]:
        message.id = "twice"
    model = ScriptedChat(script=["Done."])
    working = WorkingMemory(lambda prompt: "A long way.")
    create_agent(model, [water], middleware=[MemoryMiddleware(gardener(), working_memory=working)]).invoke(
        {"messages": messages}
    )
    assert any(message.content == "Be careful now." for message in model.sent[0])
    done = working.compressed([*messages[:20], *messages[24:], *messages[24:26]])
    assert done is not None
    assert done.update[0].type == "remove"


def test_an_agent_within_a_graph_keeps_its_runs_to_itself(world: StandIn, saver: BaseCheckpointSaver[Any]) -> None:
    from langgraph.graph import END, START, MessagesState, StateGraph

    model = ScriptedChat(script=[a_call("ask_a_person", "c1", question="Really?"), "Done as you said."])
    inner = create_agent(model, [ask_a_person], middleware=[MemoryMiddleware(gardener())])
    builder = StateGraph(MessagesState)
    builder.add_node("gardener", inner)
    builder.add_edge(START, "gardener")
    builder.add_edge("gardener", END)
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("Cut the oak")]}, THREAD)
    answer = graph.invoke(Command(resume="Yes."), THREAD)
    assert set(answer) == {"messages"}
    assert isinstance(answer["messages"][2], ToolMessage)
    assert len(world.questions) == len(world.details) == 1
    assert prompts(model) == ["MEMORY SAYS HELLO"] * 2


def test_an_agent_with_tools_recalls_remembers_and_rates_by_itself(world: StandIn) -> None:
    world.answer = lambda question: an_answer(f"ABOUT {question['task']}", an_item("p-77aa88", "procedural"))
    fact = "The fern needs water daily."
    model = ScriptedChat(
        script=[
            a_call("recall_memory", "c1", question="How often do ferns drink?"),
            a_call("remember", "c2", fact=fact, evidence="it needs water daily"),
            a_call("remember", "c3", fact="", evidence=""),
            a_call("rate_procedure", "c4", procedure_id="p-other", succeeded=False),
            "Done.",
        ]
    )
    remembers = MemoryMiddleware(
        gardener(), tools=True, outcome="COMPLETED", user_id=lambda state, runtime: runtime.context["user"]
    )
    agent = create_agent(model, [], middleware=[remembers], context_schema=dict)
    told = agent.invoke(said("Water the fern, it needs water daily"), context={"user": "u-1"})["messages"]
    answers = [str(message.content) for message in told if isinstance(message, ToolMessage)]
    assert answers[0] == "ABOUT How often do ferns drink?"
    assert [answer.split(":")[0][:5] for answer in answers[1:]] == ["Noted", "Not n", "Noted"]
    assert [question["user_id"] for question in world.questions] == ["u-1", "u-1"]
    (detail,) = world.details
    assert [one["content"] for one in detail["artifacts"]["facts"]] == [fact]
    # What the agent says of a procedure counts, not what the run's end lets guess.
    assert detail["procedure"] == {"procedure_id": "p-other", "succeeded": False}
    # The model is told nothing of tenant, agent or user, and can set none of them.
    schemas = {one.name: set(one.tool_call_schema.model_json_schema()["properties"]) for one in remembers.tools}
    assert schemas == {
        "recall_memory": {"question"},
        "remember": {"fact", "evidence", "about_user"},
        "rate_procedure": {"procedure_id", "succeeded"},
    }


def test_what_one_run_noted_is_not_handed_over_with_the_next(world: StandIn) -> None:
    model = ScriptedChat(script=[a_call("remember", "c1", fact="A fact.", evidence="Water the fern"), "Done.", "Done."])
    agent = create_agent(model, [], middleware=[MemoryMiddleware(gardener(), tools=True)], checkpointer=InMemorySaver())
    agent.invoke(said("Water the fern"), THREAD)
    agent.invoke(said("Water the oak"), THREAD)
    assert ["artifacts" in detail for detail in world.details] == [True, False]
