"""Strands agents with memory, on a scripted model of their own SDK and a server that speaks AWS's protocols."""

import json
import warnings
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from agent_memory.aws.remote import ClientEvents
from agent_memory.client import AgentMemory
from agent_memory.deployment import Deployment
from agent_memory.strands import MemoryHooks
from strands import Agent, ToolContext, tool
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager
from support.agents import an_item
from support.stand_in import StandIn, a_stand_in

CONTEXT = "<memory of ferns>"
QUOTE = "Ferns want shade from noon on."


class ScriptedModel(Model):
    """Says what the script says, in order: text, calls of tools, or an error; keeps what it was shown."""

    def __init__(self, *script: str | dict[str, Any] | Exception) -> None:
        self.script = list(script)
        self.prompts: list[str] = []

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> AsyncGenerator[dict[str, Any], None]:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **more: Any
    ) -> AsyncIterable[Any]:
        blocks = more.get("system_prompt_content") or []
        self.prompts.append("\n".join(block.get("text", "") for block in blocks) or system_prompt or "")
        said = self.script.pop(0)
        if isinstance(said, Exception):
            raise said
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(said, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": said}}}
            yield {"contentBlockStop": {}}
        for name, arguments in said.items() if isinstance(said, dict) else ():
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"t-{name}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if isinstance(said, dict) else "end_turn"}}


@tool
def look_up(plant: str) -> str:
    """Look a plant up."""
    return QUOTE


@tool(context=True)
def ask_a_person(question: str, tool_context: ToolContext) -> str:
    """Ask a person."""
    return str(tool_context.interrupt("person", reason=question))


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_stand_in() as stand_in:
        stand_in.answer = lambda _: {"context": CONTEXT, "context_id": "c-9"}
        yield stand_in


def an_agent(model: Model, tenant: str = "meadow", **options: Any) -> Agent:
    hooks = MemoryHooks(AgentMemory(tenant, "gardener", "test"), **options.pop("memory", {}))
    return Agent(model=model, hooks=[hooks], callback_handler=None, tools=[look_up, ask_a_person], **options)


def test_memory_stands_in_the_prompt_of_every_call_and_is_gone_afterwards(world: StandIn) -> None:
    model = ScriptedModel({"look_up": {"plant": "fern"}}, "Moved.", "Again.")
    agent = an_agent(model, system_prompt="You garden.", memory={"domain": "plants", "user_id": "u"})
    agent("Move the ferns")
    assert model.prompts == [f"You garden.\n{CONTEXT}"] * 2
    assert agent.system_prompt == "You garden."
    (question,), (detail,) = world.questions, world.details
    assert (question["task"], question["domain"], question["user_id"]) == ("Move the ferns", "plants", "u")
    assert (detail["task"], detail["memory"]["context_id"]) == ("Move the ferns", "c-9")
    assert "outcome" not in detail
    assert [message["role"] for message in detail["transcript"]["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert CONTEXT not in json.dumps(detail)
    assert agent.state.get() == {}
    agent("Once more")
    assert model.prompts[2] == f"You garden.\n{CONTEXT}"
    assert [one["transcript"]["messages"][0]["content"] for one in world.details][1] == [{"text": "Once more"}]
    assert len({one["run_id"] for one in world.details}) == 2


TRACE: ContextVar[str] = ContextVar("trace", default="none")


def test_a_run_is_handed_over_in_the_context_of_its_program(world: StandIn) -> None:
    seen: list[str] = []

    class Noting(Deployment):
        def events(self, tenant_id: str) -> ClientEvents:
            seen.append(TRACE.get())
            return super().events(tenant_id)

    memory = AgentMemory("meadow", "gardener", deployment=Noting("test"))
    agent = Agent(model=ScriptedModel("Moved."), hooks=[MemoryHooks(memory)], callback_handler=None)
    outside = TRACE.set("the-run")
    try:
        agent("Move the ferns")
    finally:
        TRACE.reset(outside)
    assert (seen, len(world.details)) == (["the-run"], 1)


def test_without_a_prompt_of_its_own_the_agent_gets_memory_alone_and_has_none_afterwards(world: StandIn) -> None:
    model = ScriptedModel("Moved.")
    agent = an_agent(model)
    agent("Move the ferns")
    assert (model.prompts, agent.system_prompt) == ([CONTEXT], None)


def test_a_run_that_raises_has_failed_and_is_handed_over(world: StandIn) -> None:
    agent = an_agent(ScriptedModel(ValueError("down")), system_prompt="You garden.")
    with pytest.raises(ValueError, match="down"):
        agent("Move the ferns")
    assert [detail["outcome"] for detail in world.details] == ["FAILED"]
    assert agent.system_prompt == "You garden."


def test_an_interrupted_run_recalls_once_and_ends_once(world: StandIn) -> None:
    model = ScriptedModel({"ask_a_person": {"question": "Now?"}}, "Moved.")
    agent = an_agent(model, system_prompt="You garden.")
    paused = agent("Move the ferns")
    assert (paused.stop_reason, world.details, agent.system_prompt) == ("interrupt", [], "You garden.")
    agent([{"interruptResponse": {"interruptId": paused.interrupts[0].id, "response": "yes"}}])
    assert (len(world.questions), len(world.details)) == (1, 1)
    assert [message["role"] for message in world.details[0]["transcript"]["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert model.prompts == [f"You garden.\n{CONTEXT}"] * 2


def test_a_run_that_is_resumed_in_another_process_is_the_same_run(world: StandIn, tmp_path: Path) -> None:
    def opened(model: Model) -> Agent:
        return an_agent(model, session_manager=FileSessionManager("s-1", storage_dir=str(tmp_path)), agent_id="a")

    opened(ScriptedModel("Hello.")).__call__("Hello")
    paused = opened(ScriptedModel({"ask_a_person": {"question": "Now?"}}))("Move the ferns")
    model = ScriptedModel("Moved.")
    opened(model)([{"interruptResponse": {"interruptId": paused.interrupts[0].id, "response": "yes"}}])
    assert [question["task"] for question in world.questions] == ["Hello", "Move the ferns"]
    assert model.prompts == [CONTEXT]
    last = world.details[-1]
    assert (len(world.details), last["task"], last["memory"]["context_id"]) == (2, "Move the ferns", "c-9")
    assert [message["role"] for message in last["transcript"]["messages"]] == ["user", "assistant", "user", "assistant"]
    opened(ScriptedModel("Bye."))("Bye")
    assert len(world.questions) == 3


def test_two_agents_of_two_tenants_in_one_process_stay_apart(world: StandIn) -> None:
    agents = [an_agent(ScriptedModel("Done.", "Done."), tenant=tenant) for tenant in ("meadow", "orchard")]
    for agent in (*agents, *agents):
        agent("Move the ferns")
    assert [detail["tenant_id"] for detail in world.details] == ["meadow", "orchard"] * 2
    assert all(len(detail["transcript"]["messages"]) == 2 for detail in world.details)


def test_what_the_agent_remembered_rides_on_its_run(world: StandIn) -> None:
    @tool
    def remember(fact: str, evidence: str) -> str:
        """Remember."""
        return "Noted."

    model = ScriptedModel({"look_up": {"plant": "fern"}}, {"remember": {"fact": "Shade.", "evidence": QUOTE}}, "Done.")
    agent = an_agent(model)
    agent.tool_registry.register_tool(remember)
    agent("Move the ferns")
    assert world.details[0]["artifacts"]["facts"][0]["content"] == "Shade."


@pytest.mark.parametrize(("given", "expected"), [("COMPLETED", "COMPLETED"), (lambda result: "PARTIAL", "PARTIAL")])
def test_the_program_may_say_how_a_run_ended(world: StandIn, given: object, expected: str) -> None:
    an_agent(ScriptedModel("Done."), memory={"outcome": given})("Move the ferns")
    assert world.details[0]["outcome"] == expected


def test_memory_that_is_down_costs_the_agent_nothing_but_a_warning(world: StandIn) -> None:
    world.function_error = True
    world.refused_actions = {"PutEvents"}

    def fail(_: object) -> str:
        raise KeyError("secret")

    for options in ({}, {"outcome": fail}, {"task_type": "a b"}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = an_agent(ScriptedModel("Moved."), memory=options)("Move the ferns")
        assert result.stop_reason == "end_turn"
        assert any(issubclass(one.category, RuntimeWarning) for one in caught)
        assert "secret" not in "".join(str(one.message) for one in caught)


async def _streamed(agent: Agent) -> list[Any]:
    return [event async for event in agent.stream_async("Move the ferns")]


def test_a_stream_is_the_same_with_memory_and_without(world: StandIn) -> None:
    import asyncio

    def kinds(agent: Agent) -> list[list[str]]:
        return [sorted(map(str, event)) for event in asyncio.run(_streamed(agent))]

    plain = Agent(model=ScriptedModel("Moved."), callback_handler=None)
    assert kinds(an_agent(ScriptedModel("Moved."))) == kinds(plain)


EPISODE, FACT, PROCEDURE = "gardener/r-0a1b2c", "f-3d4e5f", "p-77aa88"


def offering(world: StandIn) -> None:
    """Let memory offer one item of each tier."""
    items = [an_item(EPISODE), an_item(FACT, "semantic"), an_item(PROCEDURE, "procedural")]
    world.answer = lambda _: {"context": CONTEXT, "context_id": "c-9", "items": items}


def test_what_the_agent_names_was_used_and_the_procedure_did_as_the_run_did(world: StandIn) -> None:
    offering(world)
    script = {"look_up": {"plant": f"as in {FACT}"}}, "As r-0a1b2c did, I moved them."
    an_agent(ScriptedModel(*script), memory={"outcome": "COMPLETED"})("Move the ferns")
    (detail,) = world.details
    assert detail["memory"] == {"context_id": "c-9", "used": [EPISODE, FACT]}
    assert detail["procedure"] == {"procedure_id": PROCEDURE, "succeeded": True}


@pytest.mark.parametrize(("outcome", "succeeded"), [("FAILED", False), ("PARTIAL", None), (None, None)])
def test_a_procedure_that_was_offered_is_reported_whatever_came_of_it(
    world: StandIn, outcome: str | None, succeeded: bool | None
) -> None:
    offering(world)
    an_agent(ScriptedModel("Done."), memory={"outcome": outcome})("Move the ferns")
    (detail,) = world.details
    assert (detail["memory"]["used"], detail["procedure"].get("succeeded")) == ([], succeeded)
    assert detail["procedure"]["procedure_id"] == PROCEDURE


def test_what_the_agent_itself_says_of_a_procedure_counts_more_than_the_runs_end(world: StandIn) -> None:
    @tool
    def rate_procedure(procedure_id: str, succeeded: bool) -> str:
        """Rate."""
        return "Noted."

    offering(world)
    script = {"rate_procedure": {"procedure_id": PROCEDURE, "succeeded": False}}, "Done."
    agent = an_agent(ScriptedModel(*script), memory={"outcome": "COMPLETED"})
    agent.tool_registry.register_tool(rate_procedure)
    agent("Move the ferns")
    assert world.details[0]["procedure"] == {"procedure_id": PROCEDURE, "succeeded": False}


def test_what_was_offered_survives_an_interrupt_in_another_process(world: StandIn, tmp_path: Path) -> None:
    def opened(model: Model) -> Agent:
        session = FileSessionManager("s-1", storage_dir=str(tmp_path))
        return an_agent(model, session_manager=session, agent_id="a", memory={"outcome": "COMPLETED"})

    offering(world)
    paused = opened(ScriptedModel({"ask_a_person": {"question": "Now?"}}))("Move the ferns")
    answer = {"interruptResponse": {"interruptId": paused.interrupts[0].id, "response": "yes"}}
    opened(ScriptedModel(f"Moved, see {FACT}."))([answer])
    (detail,) = world.details
    assert (detail["memory"]["used"], detail["procedure"]["procedure_id"]) == ([FACT], PROCEDURE)


def test_the_program_may_say_what_was_used_and_its_mistakes_do_not_cost_the_run(world: StandIn) -> None:
    offering(world)

    def fail(*_: object) -> list[str]:
        raise KeyError("secret")

    an_agent(ScriptedModel("Done."), memory={"used": lambda offered, messages: offered[:1]})("Move the ferns")
    for options in ({"used": fail}, {"used": lambda *_: "f-1"}, {"outcome": fail}):
        with pytest.warns(RuntimeWarning, match="could not be told"):
            an_agent(ScriptedModel("Done."), memory=options)("Move the ferns")
    assert [detail["memory"]["used"] for detail in world.details] == [[EPISODE], [], [], []]
