"""What must hold for every list of messages: it stays valid, keeps what it must, never grows, and comes to rest."""

import warnings
from collections.abc import Callable, Sequence

import pytest
from agent_memory.langgraph import WorkingMemory
from agent_memory.langgraph.messages import summary_of, tokens_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langgraph.graph.message import add_messages
from support.chat_messages import exchanges, faults


def failing(prompt: str) -> str:
    raise TimeoutError


def wordy(prompt: str) -> str:
    return "decided: go on. " * 2_000


SUMMARISERS: dict[str, Callable[[str], str] | None] = {
    "short": lambda prompt: "Checked the depots.",
    "wordy": wordy,
    "silent": lambda prompt: "  ",
    "failing": failing,
    "none": None,
}
PATIENT = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def _warnings_are_expected() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", "messages could not be summarised")
        yield


def words(messages: Sequence[BaseMessage]) -> list[object]:
    return [(message.id, message.type, message.content) for message in messages]


@pytest.mark.parametrize("name", SUMMARISERS)
@PATIENT
@given(
    messages=exchanges(),
    rules=st.sampled_from([(30, 15, 40, None), (8, 3, 12, None), (5, 2, 5, None), (30, 4, 40, 120)]),
    pinned=st.sets(st.integers(0, 60).map("m{}".format), max_size=3),
)
def test_a_compressed_list_is_valid_keeps_what_it_must_never_grows_and_is_at_rest(
    name: str, messages: list[BaseMessage], rules: tuple[int, int, int, int | None], pinned: set[str]
) -> None:
    trigger, keep, ceiling, tokens = rules
    memory = WorkingMemory(SUMMARISERS[name], trigger=trigger, keep=keep, ceiling=ceiling, trigger_tokens=tokens)
    assert faults(messages) == []
    done = memory.compressed(messages, pinned=pinned)
    after = done.messages if done else messages
    assert faults(after) == []
    assert len(after) <= len(messages)
    assert sum(map(tokens_of, after)) <= sum(map(tokens_of, messages))
    systems = [message for message in messages if isinstance(message, SystemMessage)]
    assert [m for m in after if isinstance(m, SystemMessage)] == systems
    others = [message for message in messages if not isinstance(message, SystemMessage)]
    kept = [message for message in after if not isinstance(message, SystemMessage)]
    assert kept[len(kept) - len(others[-keep:]) :] == others[-keep:]
    first = next((message for message in messages if isinstance(message, HumanMessage)), None)
    assert first is None or first in after
    assert [message for message in messages if message.id in pinned] == [
        message for message in after if message.id in pinned and not summary_of(message)
    ]
    if len(messages) < trigger and tokens is None:
        assert after == messages
    assert sum(1 for message in after if summary_of(message)) <= 1
    # What stays keeps its order, and a second look changes nothing.
    stayed = [message for message in after if not summary_of(message)]
    assert stayed == [message for message in messages if message in stayed]
    assert memory.compressed(after, pinned=pinned) is None or not done
    if done is None:
        assert words(after) == words(messages)


@PATIENT
@given(messages=exchanges())
def test_the_state_update_leads_to_the_same_list_and_changes_no_id(messages: list[BaseMessage]) -> None:
    done = WorkingMemory(lambda prompt: "Checked the depots.", trigger=8, keep=3, ceiling=12).compressed(messages)
    if done is None:
        return
    state = add_messages(list(messages), list(done.update))
    assert words(state) == words(done.messages)
    ids = [message.id for message in state]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= {message.id for message in messages}


@PATIENT
@given(messages=exchanges(ids=False))
def test_messages_without_ids_are_compressed_as_well(messages: list[BaseMessage]) -> None:
    done = WorkingMemory(lambda prompt: "Checked the depots.", trigger=8, keep=3, ceiling=12).compressed(messages)
    if done is not None:
        state = add_messages([], list(messages))
        assert faults(add_messages(state, list(done.update))) == []


@PATIENT
@given(messages=exchanges(most=120))
def test_a_run_that_grows_by_one_message_at_a_time_keeps_one_bounded_summary(messages: list[BaseMessage]) -> None:
    memory = WorkingMemory(wordy, trigger=10, keep=4, ceiling=14, max_summary_tokens=60)
    held: list[BaseMessage] = []
    for message in messages:
        held.append(message)
        if not faults(held):
            held = memory.compress(held)
        summaries = [one for one in held if summary_of(one)]
        assert len(summaries) <= 1
        assert all(tokens_of(one) <= 64 for one in summaries)
    systems = sum(1 for message in held if isinstance(message, SystemMessage))
    lately = sum(1 for message in held[-10:] if message.type == "tool")
    assert len(held) <= max(14, systems + 1 + 1 + 4 + lately + 10)
