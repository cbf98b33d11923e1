"""Whose run it is and what it is about: told by the program's functions, which may fail or be asked by somebody else."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.langgraph import MemoryMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from support.agents import ScriptedChat, a_call, a_remembering_world, an_answer, an_item, gardener
from support.stand_in import StandIn

THREAD: Any = {"configurable": {"thread_id": "t-1"}}
APPROVED: Any = Command(resume={"decisions": [{"type": "approve"}]})


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_remembering_world() as found, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield found


@tool
def water(plant: str) -> str:
    """Water a plant."""
    return f"{plant} was watered"


def who_runs_it(_: Any, runtime: Any) -> Any:
    return runtime.context["user"]


def broken(*_: object) -> str:
    raise KeyError("nobody knows")


def an_agent(model: ScriptedChat, *others: Any, tools: Any = (), **options: Any) -> Any:
    remembers = MemoryMiddleware(gardener(), **options)
    return create_agent(
        model, list(tools), middleware=[remembers, *others], checkpointer=InMemorySaver(), context_schema=dict
    )


def asked(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def users(world: StandIn) -> list[Any]:
    return [detail.get("user_id") for detail in world.details]


def test_a_run_that_broke_off_stays_its_users_whoever_goes_on_with_the_thread(world: StandIn) -> None:
    model = ScriptedChat(script=[RuntimeError("the model is gone"), "Watered."])
    agent = an_agent(model, user_id=who_runs_it, domain=who_runs_it)
    with pytest.raises(RuntimeError, match="gone"):
        agent.invoke(asked("Cut my oak"), THREAD, context={"user": "ines"})
    agent.invoke(asked("Water the fern"), THREAD, context={"user": "omar"})
    assert users(world) == ["ines", "omar"]
    assert [detail["domain"] for detail in world.details] == ["ines", "omar"]


@pytest.mark.parametrize("context", [{"user": "omar"}, None])
def test_a_run_is_its_users_who_began_it_also_when_somebody_else_resumes_it(world: StandIn, context: Any) -> None:
    script = [a_call("water", "c1", plant="fern"), a_call("recall_memory", "c2", question="And the oak?"), "Watered."]
    asks = HumanInTheLoopMiddleware(interrupt_on={"water": True})
    agent = an_agent(ScriptedChat(script=script), asks, tools=[water], user_id=who_runs_it)
    agent.invoke(asked("Water my fern"), THREAD, context={"user": "ines"})
    agent.invoke(APPROVED, THREAD, context=context)
    assert users(world) == ["ines"]


def test_the_tools_ask_for_the_user_who_began_the_run(world: StandIn) -> None:
    script = [a_call("water", "c1", plant="fern"), a_call("recall_memory", "c2", question="And the oak?"), "Watered."]
    asks = HumanInTheLoopMiddleware(interrupt_on={"water": True})
    remembers = MemoryMiddleware(gardener(), tools=True, user_id=who_runs_it)
    saver = InMemorySaver()
    agent = create_agent(
        ScriptedChat(script=script), [water], middleware=[remembers, asks], checkpointer=saver, context_schema=dict
    )
    agent.invoke(asked("Water my fern"), THREAD, context={"user": "ines"})
    agent.invoke(APPROVED, THREAD, context={"user": "omar"})
    assert [question["user_id"] for question in world.questions] == ["ines", "ines"]


def test_a_user_who_is_known_only_later_is_the_runs_all_the_same(world: StandIn) -> None:
    found: list[str] = []

    def later(*_: object) -> str | None:
        return found.pop() if found else None

    @tool
    def log_in(who: str) -> str:
        """Log somebody in."""
        found.append(who)
        return "welcome"

    model = ScriptedChat(script=[a_call("log_in", "c1", who="ines"), "Hello."])
    an_agent(model, tools=[log_in], user_id=later).invoke(asked("Log me in"), THREAD)
    assert users(world) == ["ines"]


def test_what_a_thread_keeps_of_a_run_that_ended_names_no_user(world: StandIn) -> None:
    agent = an_agent(ScriptedChat(script=["Done."]), user_id="ines")
    agent.invoke(asked("Water my fern"), THREAD)
    assert users(world) == ["ines"]
    assert "ines" not in str(agent.get_state(THREAD).values)


def test_a_broken_run_whose_user_nobody_could_tell_is_not_handed_over_as_another_users() -> None:
    def known(_: Any, runtime: Any) -> Any:
        return broken() if runtime.context is None else runtime.context["user"]

    with a_remembering_world() as world:
        agent = an_agent(ScriptedChat(script=[RuntimeError("the model is gone"), "Done."]), user_id=known)
        with pytest.raises(RuntimeError, match="gone"), pytest.warns(RuntimeWarning, match="not recalled: KeyError"):
            agent.invoke(asked("Cut my oak"), THREAD)
        with pytest.warns(RuntimeWarning, match="not handed over to memory: whose run it was"):
            agent.invoke(asked("Water the fern"), THREAD, context={"user": "omar"})
        assert users(world) == ["omar"]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (a_call("recall_memory", "c1", question="How often?"), "Memory can't be read now"),
        (a_call("remember", "c1", fact="Ferns drink.", evidence="drink"), "Noted"),
        (a_call("rate_procedure", "c1", procedure_id="p-1", succeeded=True), "Noted"),
    ],
)
def test_a_tool_whose_user_can_not_be_told_does_not_break_the_run(call: Any, answer: str) -> None:
    remembers = MemoryMiddleware(gardener(), tools=True, user_id=broken)
    with a_remembering_world() as world:
        agent = create_agent(ScriptedChat(script=[call, "Done."]), [], middleware=[remembers])
        with pytest.warns(RuntimeWarning, match="KeyError"):
            messages = agent.invoke(asked("Water the fern"))["messages"]
    assert next(str(m.content) for m in messages if isinstance(m, ToolMessage)).startswith(answer)
    # Without knowing whose run it is, nothing is asked and nothing handed over.
    assert world.questions == world.details == []


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({"outcome": broken}, "outcome could not be told: KeyError"),
        ({"outcome": lambda *_: "great"}, "outcome could not be told: outcome must be one of"),
        ({"used": broken}, "used could not be told: KeyError"),
        ({"used": lambda *_: None}, "used could not be told: used must be a list"),
        ({"used": lambda *_: "r-1"}, "used could not be told: used must be a list"),
        ({"used": lambda *_: [1]}, "used could not be told: used must be a list"),
        ({"task_type": lambda *_: "two words"}, "task_type could not be told: task_type must be 1 to 128"),
        ({"domain": broken}, "domain could not be told: KeyError"),
        ({"prefetched": broken}, "prefetch could not be told: KeyError"),
    ],
)
def test_a_function_that_fails_costs_what_it_would_have_said_and_no_run(options: Any, warned: str) -> None:
    with a_remembering_world("MEMORY", an_item("gardener/run-2026-1")) as world:
        world.answer = lambda _: an_answer("MEMORY", an_item("gardener/run-2026-1"))
        with pytest.warns(RuntimeWarning, match=warned):
            an_agent(ScriptedChat(script=["Done."]), **options).invoke(asked("Water the fern"), THREAD)
        (question,), (detail,) = world.questions, world.details
    assert question["task"] == detail["task"] == "Water the fern"
    assert not {"task_type", "domain", "outcome"} & set(detail)
