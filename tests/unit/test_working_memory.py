"""Which messages of a long run stay and which give way to a summary."""

from collections.abc import Sequence

import pytest
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.working_memory import Held, compression_rules, cut_of, heading, is_summary, room_of, stands_for

RULES = compression_rules()


def a_list(shape: str) -> list[Held]:
    """One message a word: s system, u user, a assistant, +N a summary of N, a:x,y asks for calls, t:x answers one."""
    found = []
    for word in shape.split():
        if word[0] == "+":
            found.append(Held(role="user", stands_for=int(word[1:]), tokens=40))
            continue
        name, _, ids = word.partition(":")
        role = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "o": "other"}[name]
        calls = tuple(ids.split(",")) if name == "a" and ids else ()
        found.append(Held(role=role, calls=calls, answers=ids if name == "t" else None, tokens=20))
    return found


def gone(shape: str, *, pinned: Sequence[int] = (), **changes: int) -> tuple[int, ...]:
    cut = cut_of(a_list(shape), compression_rules(**changes), pinned=pinned)
    return cut.removed if cut else ()


def test_a_list_below_the_trigger_stays() -> None:
    assert cut_of(a_list("u " + "a u " * 14), RULES) is None


def test_thirty_messages_give_way_but_for_the_task_and_the_newest_fifteen() -> None:
    cut = cut_of(a_list("u a " * 15), RULES)
    assert cut is not None
    assert cut.removed == tuple(range(1, 15))
    assert cut.anchor == 1


def test_system_messages_stay_wherever_they_stand() -> None:
    assert gone("s u a s a u a u a", trigger=8, keep=3, ceiling=12) == (2, 4, 5)


def test_the_task_stays_when_the_agent_spoke_first() -> None:
    assert gone("a a u a a a a u", trigger=8, keep=3, ceiling=12) == (0, 1, 3, 4)


def test_the_summary_stands_behind_the_task_that_it_leads_up_to() -> None:
    rules = compression_rules(trigger=8, keep=3, ceiling=12)
    cut = cut_of(a_list("u a a u a a a a a"), rules, pinned=[3])
    assert cut is not None
    assert (cut.removed, cut.anchor) == ((1, 2, 4, 5), 4)


def test_a_call_stays_with_its_results_when_the_cut_falls_between_them() -> None:
    assert gone("u a a a:x,y,z t:x t:y t:z a", trigger=8, keep=3, ceiling=12) == (1, 2)


def test_a_call_with_partial_results_goes_as_a_whole() -> None:
    assert gone("u a:x,y t:x u a u a a", trigger=8, keep=3, ceiling=12) == (1, 2, 3, 4)


def test_a_call_id_that_comes_again_belongs_to_the_nearest_call() -> None:
    assert gone("u a:x t:x a:x t:x u a:x t:x", trigger=8, keep=2, ceiling=12) == (1, 2, 3, 4, 5)


def test_what_stands_between_a_call_and_a_late_result_does_not_hold_them_apart() -> None:
    cut = cut_of(a_list("u a a:x u u a a t:x a"), compression_rules(trigger=8, keep=2, ceiling=12))
    assert cut is not None
    assert cut.removed == (1, 3, 4, 5, 6)
    assert cut.anchor == 1


def test_an_older_summary_goes_into_the_newer_one() -> None:
    messages = a_list("u +14 a a a u a u a a")
    cut = cut_of(messages, compression_rules(trigger=10, keep=3, ceiling=12))
    assert cut is not None
    assert cut.removed == (1, 2, 3, 4, 5, 6)
    assert stands_for(messages, cut) == 19


def test_a_summary_is_not_made_of_a_summary_alone() -> None:
    assert gone("s s s s u +14 a a a", trigger=8, keep=3, ceiling=12) == ()


def test_a_summary_is_none_of_the_newest() -> None:
    assert gone("s s u a +14 a a a", trigger=8, keep=4, ceiling=12) == ()


def test_a_summary_has_no_more_room_than_what_it_replaces() -> None:
    messages = a_list("u a a a a a a a")
    cut = cut_of(messages, compression_rules(trigger=8, keep=3, ceiling=12))
    assert cut is not None
    assert room_of(messages, cut, RULES) == 4 * 20 - 4


def test_a_limit_in_tokens_compresses_a_short_list_once_it_is_worth_it() -> None:
    messages = a_list("u " + "a u " * 10)
    assert cut_of(messages, compression_rules(trigger_tokens=100), tokens=99) is None
    assert cut_of(messages, compression_rules(trigger_tokens=100), tokens=420) is not None
    assert cut_of(messages, compression_rules(trigger_tokens=420), tokens=420) is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"keep": 28}, "keep"),
        ({"ceiling": 29}, "ceiling"),
        ({"trigger": 0}, "trigger"),
        ({"trigger": True}, "trigger"),
        ({"max_summary_tokens": 3}, "max_summary_tokens"),
        ({"tigger": 3}, "tigger"),
    ],
)
def test_rules_that_can_not_hold_are_refused_by_name(given: dict[str, int], field: str) -> None:
    with pytest.raises(RefusedInputError, match=field):
        compression_rules(**given)


def test_a_summary_is_known_by_its_heading() -> None:
    assert is_summary(heading(14) + "\nall is well")
    assert not is_summary("Please read the [Working-memory summary of 3 earlier messages]")
