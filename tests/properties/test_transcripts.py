"""Whatever stands in a transcript: it is read, always to the same result, and nothing hidden comes through."""

import json
import re

from agent_memory.domain.distillery import Distillery
from agent_memory.domain.errors import TranscriptError
from agent_memory.domain.plain_text import plain, shortened
from agent_memory.domain.transcripts import read_transcript
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import a_claim

PIECES = (
    "\u200d",
    "\U000e0041",
    "\ud83d",
    "\udc4d",
    "a",
    "\u0301",
    "\ufe0f",
    "\u202e",
    "<think>",
    "</think>",
    " ",
    "\x1b[1m",
)

any_text = st.one_of(
    st.text(max_size=30),
    st.text(st.characters(categories=("Cs", "Cf", "Cn", "Mn", "Lo")), max_size=20),
    st.lists(st.sampled_from(PIECES), max_size=20).map("".join),
)
keys = st.sampled_from(
    ("type", "role", "content", "text", "tool_calls", "tool_call_id", "id", "data", "kwargs", "toolUse", "toolResult",
     "toolUseId", "name", "args", "function", "arguments", "input", "image", "source", "json", "usage_metadata", "lc",
     "input_tokens", "document", "value", "reasoningContent", "function_call")
)  # fmt: skip
words = st.sampled_from(
    ("human", "ai", "tool", "system", "user", "assistant", "text", "tool_use", "tool_result", "image", "thinking",
     "constructor", "HumanMessage", "c1", "c2", "document", "non_standard", "function", "chat", "json", "remove")
)  # fmt: skip
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words, any_text)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=6),
        st.dictionaries(any_text, inner, max_size=3),
    ),
    max_leaves=25,
)
HIDDEN = re.compile("[\U000e0000-\U000e007f\ud800-\udfff\u200b\u202a-\u202e\u2066-\u2069]")


@settings(max_examples=300, deadline=None)
@given(st.lists(anything, max_size=8))
def test_any_messages_are_read_the_same_way_twice_and_nothing_hidden_comes_through(messages: list[object]) -> None:
    transcript = read_transcript(messages)
    assert transcript == read_transcript(messages)
    dumped = transcript.model_dump()
    written = json.dumps(dumped, ensure_ascii=False)
    written.encode("utf-8")
    assert not HIDDEN.search(written)
    assert transcript.steps <= len(transcript.turns)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(anything, min_size=1, max_size=6),
    st.one_of(st.none(), st.dictionaries(any_text | keys, anything, max_size=6)),
)
def test_any_run_is_distilled_or_refused_by_name(messages: list[object], artifacts: dict[str, object] | None) -> None:
    run = a_claim(messages=tuple(messages), artifacts=artifacts)
    try:
        result = Distillery(None, max_tokens=1, min_confidence=0.6).distil(run)
    except TranscriptError:
        assert not read_transcript(messages).turns
        return
    assert not HIDDEN.search(json.dumps(result.model_dump(), ensure_ascii=False))
    result.model_dump_json().encode("utf-8")


@given(any_text)
def test_plain_text_is_plain_once_and_for_all(text: str) -> None:
    assert plain(plain(text)) == plain(text)


@given(st.text(max_size=80), st.integers(min_value=4, max_value=60))
def test_shortened_text_keeps_to_its_limit(text: str, limit: int) -> None:
    assert len(shortened(text, limit)) <= limit
