"""Tokens and ids of any language."""

import pytest
from agent_memory.domain.lexical import is_id, matches, query, tokens
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Größe STRASSE straße", ["grösse", "strasse", "strasse"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("ｆｕｌｌ　ｗｉｄｔｈ", ["full", "width"]),
        ("窯の温度", ["窯の", "の温", "温度"]),
        ("ERR-4042!", ["err-4042", "err", "4042"]),
        ("call [NAME] at [PHONE]", ["call", "at"]),
        ("", []),
        ("--- ...", []),
    ],
)
def test_tokens_are_folded_and_keep_every_script(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize("token", ["err-4042", "w2378156", "mia_li_36", "12345", "5f-21/b", "hx7q"])
def test_what_names_one_thing_is_an_id(token: str) -> None:
    assert is_id(token)


@pytest.mark.parametrize("token", ["20th", "10am", "2024", "2024-05-20", "10:30", "flight", "may20", "100kg", "2x"])
def test_quantities_dates_and_words_are_no_ids(token: str) -> None:
    assert not is_id(token)


def test_a_word_in_capitals_is_an_id_unless_the_text_shouts() -> None:
    assert "hxdubq" in query("Change my reservation HXDUBQ to a nonstop flight").ids
    assert not query("PLEASE CHANGE MY RESERVATION TODAY").ids


def test_a_match_of_many_words_is_stronger_than_of_few_and_never_one() -> None:
    asked = query("adjust the burner of the tunnel kiln after a gas change")
    few, many, none = matches(
        asked, ["the kiln", "adjust the burner of the tunnel kiln after a gas change", "lunch menu"]
    )
    assert 0 == none.score < few.score < many.score < 1


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=5))
def test_no_text_can_break_the_matching(asked: str, texts: list[str]) -> None:
    found = matches(query(asked), texts)
    assert len(found) == len(texts)
    assert all(0 <= match.score < 1 for match in found)
