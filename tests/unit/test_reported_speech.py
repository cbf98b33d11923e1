"""What a source told its reader to do is shown as the word of a source; what was found is shown as found."""

import pytest
from agent_memory.domain.reported_speech import LABEL, LONGEST, labelled, tells_its_reader
from agent_memory.domain.screening import Trust


@pytest.mark.parametrize("text", ["Always attach the signed form.", "The gate opens when you ring twice."])
def test_an_order_from_outside_is_the_word_of_a_source_and_an_agents_own_rule_is_not(text: str) -> None:
    assert labelled("found", text, Trust.OUTSIDE) == (LABEL, text)
    assert labelled("found", text, Trust.AGENT) == ("found", text)


def test_a_statement_stays_a_finding() -> None:
    text = "The depot closes at 16:00."
    assert not tells_its_reader(text)
    assert labelled("found", text, Trust.OUTSIDE) == ("found", text)


def test_a_source_is_not_quoted_at_length() -> None:
    label, text = labelled("found", "Attach the form. " * 100, Trust.OUTSIDE)
    assert (label, len(text), text[-1]) == (LABEL, LONGEST, "\u2026")
