"""Scores of what was recalled, without a chat model: words, meaning, numbers, rank."""

import pytest
from agent_memory.domain.recalled import RecalledItem
from agent_memory.domain.retrieval_scoring import COMPARED, PERSISTENCE, retrieval_score


def an_item(text: str, *, tier: str = "episodic", item_id: str = "a/r") -> RecalledItem:
    return RecalledItem(id=item_id, tier=tier, text=text, score=0.9, provenance={})


def unlike(one: str, other: str) -> float:
    return 0.0


def alike(one: str, other: str) -> float:
    return 1.0


def test_what_stands_there_word_for_word_counts_in_full_whatever_its_case_and_full_stop() -> None:
    items = [an_item("task: Release a parcel\nfound: The form CN23 is needed for parcels. It costs nothing.")]
    assert retrieval_score(["the form cn23 is needed for parcels"], items, unlike) == 1.0


def test_nothing_recalled_and_no_criteria_score_nought() -> None:
    assert retrieval_score(["anything"], [], alike) == 0.0
    assert retrieval_score([], [an_item("anything")], alike) == 0.0


def test_other_words_count_by_their_share_and_their_meaning() -> None:
    items = [an_item("found: Depot K closes at 16:00.")]
    by_words = retrieval_score(["Depot K shuts at 16:00."], items, unlike)
    by_both = retrieval_score(["Depot K shuts at 16:00."], items, lambda one, other: 0.8)
    assert 0 < by_words < by_both < 1
    assert by_both == pytest.approx(by_words + 0.4)


def test_a_criterion_whose_number_is_missing_counts_half() -> None:
    said = retrieval_score(["Order A-4711 waits for its papers."], [an_item("found: Order waits for papers.")], alike)
    whole = retrieval_score(["Order waits for its papers."], [an_item("found: Order waits for papers.")], alike)
    assert said < 0.5 < whole


@pytest.mark.parametrize(
    ("criterion", "remembered"),
    [
        ("Refunds are allowed after 30 days.", "Refunds are not allowed after 30 days."),
        ("Depot K closes at 16:00.", "Depot K closes at 17:00."),
    ],
)
def test_a_memory_that_says_the_opposite_scores_nothing(criterion: str, remembered: str) -> None:
    assert retrieval_score([criterion], [an_item(f"found: {remembered}")], alike) == 0.0


def test_a_part_of_a_longer_number_or_word_is_not_the_criterion() -> None:
    assert retrieval_score(["The cap is 2"], [an_item("found: The cap is 20")], unlike) < 1.0


def test_what_stands_further_down_in_its_tier_counts_less_and_tiers_do_not_push_each_other_down() -> None:
    other, wanted = an_item("found: Something else."), an_item("found: Paper is in tray two.")
    assert retrieval_score(["Paper is in tray two."], [wanted, other], unlike) == 1.0
    assert retrieval_score(["Paper is in tray two."], [other, wanted], unlike) == pytest.approx(PERSISTENCE)
    fact = an_item("Something else.", tier="semantic")
    assert retrieval_score(["Paper is in tray two."], [fact, wanted], unlike) == 1.0


def test_the_score_is_the_mean_over_the_criteria() -> None:
    items = [an_item("found: Paper is in tray two.\nworked: Ask the porter.")]
    assert retrieval_score(["Paper is in tray two.", "Qux zyx"], items, unlike) == 0.5


def test_two_sentences_of_a_criterion_are_held_against_two_sentences() -> None:
    items = [an_item("found: Close the valve. Wait a minute. Open the tap.")]
    assert retrieval_score(["Close the valve. Wait a minute."], items, unlike) == 1.0
    assert retrieval_score(["Close the valve. Open the tap."], items, unlike) < 1.0


def test_a_criterion_costs_a_few_embeddings_however_much_was_recalled() -> None:
    asked: list[tuple[str, str]] = []

    def counted(one: str, other: str) -> float:
        asked.append((one, other))
        return 0.5

    items = [an_item("\n".join(f"found: Tray {n} holds paper {m}." for m in range(10))) for n in range(8)]
    retrieval_score(["A drawer holds envelopes."], items, counted)
    assert len(asked) == COMPARED
