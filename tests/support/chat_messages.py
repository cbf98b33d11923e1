"""LangChain messages for tests: conversations of any valid shape, and whether a chat model would take a list."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

CONTENTS = st.one_of(
    st.text(max_size=60),
    st.just(""),
    st.lists(
        st.one_of(
            st.text(min_size=1, max_size=20),
            st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=20)),
            st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}),
            st.just({"type": "reasoning", "reasoning": "hmm", "signature": "QUJD"}),
            st.just({"type": "citation_v9", "foo": 1}),
        ),
        max_size=3,
    ),
)


@st.composite
def exchanges(draw: st.DrawFn, *, most: int = 60, ids: bool = True) -> list[BaseMessage]:
    """A list that a chat model takes: calls are answered at once and in any order, several at a time, with unreadable
    requests and system messages between."""
    found: list[BaseMessage] = []
    for number in range(draw(st.integers(0, most // 2))):
        kind = draw(st.sampled_from(("human", "human", "ai", "ai", "calls", "calls", "system")))
        if kind == "calls":
            found += _calls(draw, number)
        else:
            made = {"human": HumanMessage, "ai": AIMessage, "system": SystemMessage}[kind]
            found.append(made(content=draw(CONTENTS)))
    if ids:
        for place, message in enumerate(found):
            message.id = f"m{place}"
    return found


def _calls(draw: st.DrawFn, number: int) -> Iterator[BaseMessage]:
    # Some models count their calls anew in every message.
    prefix = f"c{number}-" if draw(st.booleans()) else "call_"
    asked = [f"{prefix}{n}" for n in range(draw(st.integers(1, 5)))]
    broken = (
        [{"name": "look", "args": "{oops", "id": f"{prefix}bad", "error": "not JSON"}] if draw(st.booleans()) else []
    )
    calls = [{"name": "look", "args": {"n": one}, "id": one} for one in asked]
    yield AIMessage(content=draw(CONTENTS), tool_calls=calls, invalid_tool_calls=broken)
    for one in draw(st.permutations([*asked, *(str(call["id"]) for call in broken)])):
        yield ToolMessage(content=draw(st.one_of(st.text(max_size=200), st.just(""))), tool_call_id=one)


def faults(messages: Sequence[BaseMessage]) -> list[str]:
    """Why a chat model would refuse *messages*: results without their call before them, calls without all results."""
    found: list[str] = []
    open_calls: set[str] = set()
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_calls:
                found.append(f"{place}: result of {message.tool_call_id} without its call")
            open_calls.discard(message.tool_call_id)
            continue
        found += [f"{place}: {call} was not answered" for call in sorted(open_calls)]
        asked = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
        open_calls = {str(call["id"]) for call in asked}
    return found + [f"end: {call} was not answered" for call in sorted(open_calls)]


def a_talk(count: int, **options: Any) -> list[BaseMessage]:
    """*count* messages of a user and an agent in turn, with ids."""
    makers = (HumanMessage, AIMessage)
    return [makers[n % 2](content=f"message {n} " + "word " * 20, id=f"m{n}", **options) for n in range(count)]


def a_working_run(steps: int, *, result: str = "found nothing unusual here " * 8) -> list[BaseMessage]:
    """A task and *steps* calls of a tool, each answered: 1 + 2 x steps messages."""
    found: list[BaseMessage] = [HumanMessage(content="Check every depot and report.", id="task")]
    for n in range(steps):
        call = {"name": "inspect", "args": {"depot": n}, "id": f"call-{n}"}
        found.append(AIMessage(content=f"Looking at depot {n}.", tool_calls=[call], id=f"ai-{n}"))
        found.append(ToolMessage(content=f"depot {n}: {result}", tool_call_id=f"call-{n}", id=f"tool-{n}"))
    return found
