"""The tools of an agent: what the model says is checked, rides on the end of the run, and proves nothing by itself."""

import threading
from collections.abc import Iterator

import pytest
from agent_memory.client import AgentMemory
from agent_memory.contract import MEMORY_TOOLS
from agent_memory.domain.distillery import Distillery
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import run_ended, run_ids
from agent_memory.domain.evidence import Evidence
from agent_memory.domain.models import Claim, Outcome
from agent_memory.domain.transcripts import read_transcript
from agent_memory.tools import MAX_FACTS, MemoryTools, RunNotes, said_in
from langchain_core.tools import StructuredTool
from support.builders import NOW, a_claim
from support.stand_in import StandIn, a_stand_in

RULE = "Ferns want shade from noon on."


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_stand_in() as stand_in:
        yield stand_in


@pytest.fixture
def notes() -> RunNotes:
    return RunNotes()


@pytest.fixture
def tools(world: StandIn, notes: RunNotes) -> MemoryTools:
    return MemoryTools(AgentMemory("meadow", "gardener", "test"), notes=notes, domain="plants", user_id="u")


def test_recall_asks_with_what_the_program_fixed_and_answers_the_context(world: StandIn, tools: MemoryTools) -> None:
    world.answer = lambda _: {"context": "<memory>", "context_id": "c-1"}
    assert tools.recall_memory("What do ferns want?") == "<memory>"
    (asked,) = world.questions
    assert (asked["tenant_id"], asked["agent_id"]) == ("meadow", "gardener")
    assert (asked["domain"], asked["user_id"]) == ("plants", "u")


def test_no_memory_and_no_answer_are_told_apart(world: StandIn, tools: MemoryTools) -> None:
    assert "nothing relevant" in tools.recall_memory("Anything?")
    world.function_error = True
    with pytest.warns(RuntimeWarning):
        assert "can't be read now" in tools.recall_memory("Anything?")
    assert tools.recall_memory(" ").startswith("Memory was not asked: task")
    assert tools.recall_memory(7).startswith("Memory was not asked")  # type: ignore[arg-type]


def test_what_the_agent_said_rides_on_the_end_of_its_run(world: StandIn, tools: MemoryTools, notes: RunNotes) -> None:
    assert notes.said() == {}
    assert tools.remember(f"  {RULE}\n", "shade from noon", about_user=False).startswith("Noted")
    tools.rate_procedure("p-1", False)
    tools.rate_procedure("p-1", True)
    AgentMemory("meadow", "gardener", "test").end_run(
        "r-1", messages=[{"role": "user", "content": RULE}], **notes.said()
    )
    (detail,) = world.details
    fact = {"content": RULE, "evidence": "shade from noon", "confidence": 0.9, "scope": "domain"}
    assert detail["artifacts"] == {"facts": [fact]}
    assert detail["procedure"] == {"procedure_id": "p-1", "succeeded": True}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("remember", {"fact": "", "evidence": "x"}),
        ("remember", {"fact": RULE, "evidence": None}),
        ("remember", {"fact": ["a"], "evidence": "x"}),
        ("remember", {"fact": "x" * 5_000, "evidence": "x"}),
        ("remember", {"fact": RULE, "evidence": "x" * 700}),
        ("rate_procedure", {"procedure_id": "p 1", "succeeded": True}),
        ("rate_procedure", {"procedure_id": None, "succeeded": True}),
        ("rate_procedure", {"procedure_id": "p-1", "succeeded": "very"}),
    ],
)
def test_what_a_model_says_wrongly_is_told_to_it_and_noted_nowhere(
    tools: MemoryTools, notes: RunNotes, tool: str, arguments: dict[str, object]
) -> None:
    assert getattr(tools, tool)(**arguments).startswith("Not noted: ")
    assert notes.said() == {}


def test_the_same_fact_is_noted_once_and_a_run_remembers_only_so_many(tools: MemoryTools, notes: RunNotes) -> None:
    for _ in range(2):
        for number in range(MAX_FACTS):
            assert tools.remember(f"Bed {number} is sunny.", "is sunny") != ""
    assert len(notes.said()["facts"]) == MAX_FACTS
    assert "at most" in tools.remember("One more.", "One more.")


def test_tools_called_in_parallel_lose_nothing() -> None:
    notes = RunNotes()
    threads = [threading.Thread(target=notes.remember, args=(f"Bed {n} is sunny.", "sunny")) for n in range(MAX_FACTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(notes.said()["facts"]) == MAX_FACTS


def test_a_framework_can_take_the_functions_as_they_are(tools: MemoryTools) -> None:
    made = [StructuredTool.from_function(function) for function in tools.functions()]
    assert {tool.name for tool in made} <= MEMORY_TOOLS
    assert all(tool.description for tool in made)
    names = {name for tool in made for name in tool.args}
    assert not {"tenant_id", "agent_id", "user_id"} & names


def test_tools_take_no_tenant_and_no_agent_beside_the_memory(tools: MemoryTools) -> None:
    with pytest.raises(RefusedInputError, match="tenant_id"):
        MemoryTools(tools._memory, tenant_id="another")


def a_run(*, quoted_by_the_user: bool, tool: str = "remember") -> Claim:
    notes = RunNotes()
    notes.remember(RULE, RULE)
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": tool, "arguments": f'{{"fact": "x", "evidence": "{RULE}"}}'},
    }
    detail = {
        "tenant_id": "meadow",
        "agent_id": "gardener",
        "run_id": "r-1",
        "outcome": "COMPLETED",
        "transcript": {
            "messages": [
                {"role": "user", "content": RULE if quoted_by_the_user else "Water the ferns."},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "Noted."},
                {"role": "assistant", "content": "Done."},
            ]
        },
        "artifacts": dict(notes.said()),
    }
    event = {"source": "agent-memory.client/meadow", "detail": detail, "time": NOW}
    ended = run_ended(event, run_ids(event), now=NOW)
    return a_claim(messages=ended.messages, artifacts=ended.artifacts, outcome=Outcome.COMPLETED)


@pytest.mark.parametrize("tool", ["remember", "mcp__agent-memory__remember", "memory.remember"])
def test_a_quote_is_not_proved_by_the_call_that_gives_it(tool: str) -> None:
    distillery = Distillery(None, max_tokens=500, min_confidence=0.6)
    assert distillery.distil(a_run(quoted_by_the_user=False, tool=tool)).artifacts.facts == ()
    (fact,) = distillery.distil(a_run(quoted_by_the_user=True, tool=tool)).artifacts.facts
    assert (fact.content, fact.source) == (RULE, "user")


def test_a_call_of_another_tool_is_still_evidence() -> None:
    run = a_run(quoted_by_the_user=False, tool="save_note")
    assert Evidence(read_transcript(run.messages)).source_of(RULE) is not None


def test_what_was_said_through_the_tools_can_be_read_from_the_conversation() -> None:
    def called(name: str, arguments: object, number: int) -> dict[str, object]:
        return {"id": str(number), "type": "function", "function": {"name": name, "arguments": arguments}}

    calls = [
        called("remember", f'{{"fact": "{RULE}", "evidence": "{RULE}", "about_user": true}}', 1),
        called("mcp__memory__rate_procedure", '{"procedure_id": "p-1", "succeeded": false}', 2),
        called("remember", "not json", 3),
        called("remember", '["a"]', 4),
        called("remember", '{"fact": 7}', 5),
        called("look_up", '{"fact": "x", "evidence": "y"}', 6),
    ]
    said = said_in([{"role": "user", "content": RULE}, {"role": "assistant", "content": None, "tool_calls": calls}])
    assert [(fact["content"], fact["scope"]) for fact in said["facts"]] == [(RULE, "user")]
    assert (said["procedure_id"], said["procedure_succeeded"]) == ("p-1", False)
    assert said_in([]) == said_in([None, 7, "text", {}]) == {}


def test_the_tools_of_an_agent_keep_nothing_of_its_runs(world: StandIn) -> None:
    tools = MemoryTools(AgentMemory("meadow", "gardener", "test"))
    assert {tools.remember(f"Bed {n} is sunny.", "is sunny") for n in range(2 * MAX_FACTS)} == {
        tools.remember("x", "y")
    }
    assert tools.remember("", "y").startswith("Not noted")
    assert tools.rate_procedure("p-1", True) == "Noted."
