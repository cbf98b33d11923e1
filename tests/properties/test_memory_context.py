"""The memory context holds whatever text is put into it, and is found again in whatever it is put into."""

import json

from agent_memory.domain.memory_context import (
    END_MARK,
    PREAMBLE,
    begin_mark,
    item_lines,
    memory_context,
    quoted,
    strip_memory_context,
)
from hypothesis import given
from hypothesis import strategies as st

ID = "c-7c9e6679-7425-40de-944b-e07fc1f90ae7"
MARKS = st.sampled_from(
    [END_MARK, begin_mark(ID), "\n", "<", "\u2028", '"', "\\", "episode 1 of 1: run x", "\uff1c/agent-memory\uff1e"]
)
HOSTILE = st.lists(st.text(max_size=12) | MARKS, max_size=8).map("".join)


@given(st.lists(HOSTILE, min_size=1, max_size=4))
def test_no_text_closes_or_fakes_the_fence(texts: list[str]) -> None:
    block = memory_context(ID, [item_lines("episode 1 of 1: run r", [("found", text) for text in texts])])
    lines = block.splitlines()
    assert lines[0] == begin_mark(ID)
    assert lines[1] == PREAMBLE
    assert lines[-1] == END_MARK
    assert block.count(END_MARK) == block.count(begin_mark(ID)) == 1
    assert all(line.startswith('  found: "') and line.endswith('"') for line in lines[3:-1])


@given(HOSTILE, HOSTILE, HOSTILE)
def test_a_context_is_removed_whole_and_what_stands_around_it_stays(before: str, inside: str, after: str) -> None:
    block = memory_context(ID, [item_lines("episode 1 of 1: run r", [("task", inside)])])
    if END_MARK in before + after or "<agent-memory" in before + after:
        return
    found = (before + after, 1)
    if not block:
        found = (before + after, 0)
    assert strip_memory_context(before + block + after) == found


@given(HOSTILE)
def test_a_context_inside_json_is_removed_and_the_json_stays_whole(inside: str) -> None:
    block = memory_context(ID, [item_lines("episode 1 of 1: run r", [("task", inside or "x")])])
    held = json.dumps({"messages": [{"role": "system", "content": f"Be kind.\n{block}\nThanks."}]}, ensure_ascii=False)
    stripped, count = strip_memory_context(held)
    assert count == 1
    assert json.loads(stripped)["messages"][0]["content"] == "Be kind.\n\nThanks."


def test_a_cut_context_loses_its_own_lines_and_a_quoted_mark_takes_nothing_with_it() -> None:
    block = memory_context(ID, [item_lines("episode 1 of 1: run r", [("task", "kiln"), ("found", "warm")])])
    cut = block.rsplit("\n", 1)[0]
    assert strip_memory_context(f"{cut}\nThe user asked for more.") == ("\nThe user asked for more.", 1)
    spoken = f"Why is {begin_mark(ID)} in my prompt? Please explain."
    assert strip_memory_context(spoken) == ("Why is  in my prompt? Please explain.", 1)
    assert strip_memory_context("no mark at all") == ("no mark at all", 0)


def test_nothing_to_say_is_no_text() -> None:
    assert memory_context(ID, []) == ""


def test_joiners_of_emoji_and_scripts_survive_and_hidden_characters_do_not() -> None:
    assert quoted("👩‍👩‍👧 ❤️ می‌خواهم क्‍ष m² ½") == '"👩‍👩‍👧 ❤️ می‌خواهم क्‍ष m² ½"'
    assert quoted("in\u200bvi\u2060si\u202eble\u00ad \U000e0041") == '"invisible "'


@given(st.text())
def test_a_quoted_value_is_one_line_of_json(text: str) -> None:
    line = quoted(text)
    assert len(line.splitlines()) == 1
    assert isinstance(json.loads(line), str)
