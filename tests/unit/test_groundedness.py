"""A text says what its sources say, or it is refused with the reason."""

import json
from pathlib import Path

import pytest
from agent_memory.domain.groundedness import ungrounded

BOOKINGS = [
    [
        "Move booking K7 to Friday.",
        "Moved booking K7 to Friday.",
        "Booking K7 could be moved without a fee.",
        "Looked the booking up, then changed its date.",
        "Check the fee before a move.",
    ],
    [
        "Move booking K9 to Monday.",
        "Moved booking K9 to Monday after paying a fee of 30 EUR.",
        "Moving K9 cost 30 EUR because the fare was basic economy.",
        "Basic economy fares can not be changed for free.",
    ],
    [
        "Change the date of booking L2.",
        "The booking was moved to 3 March.",
        "Flexible fares can be changed until 2 hours before departure.",
    ],
]
DEPOT = [
    ["When does depot K close?", "Depot K closes at 16:00.", "The gate of depot K is closed at weekends."],
    ["Depot K hours", "Depot K shuts at 4 pm on weekdays, its gate code changes every month."],
]


@pytest.mark.parametrize(
    "said",
    [
        [
            "Bookings K7, K9 and L2 were moved to other dates. K7 (to Friday) was free of charge, K9 (to Monday) cost "
            "30 EUR because its fare was basic economy. Flexible fares can be changed until 2 hours before departure; "
            "basic economy fares can not be changed for free."
        ],
        [
            "Agents moved bookings: look the booking up, check the fee before a move, then change its date.",
            "Basic economy fares cost 30 EUR to change.",
            "Flexible fares can be changed until two hours before departure.",
        ],
    ],
)
def test_a_fair_summary_passes(said: list[str]) -> None:
    assert ungrounded(said, BOOKINGS) is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Basic economy fares can be changed for free.", "contradicts_sources"),
        ("Booking K7 could not be moved without a fee.", "contradicts_sources"),
        ("Moved booking K7 to Monday and booking K9 to Friday.", "contradicts_sources"),
        ("Moving K9 cost 45 EUR.", "number_not_in_sources"),
        ("Booking K7 was moved to 4 March.", "date_not_in_sources"),
        ("Booking K7 was moved to Sunday.", "date_not_in_sources"),
        ("Contoso's booking QX-99 was moved to Friday.", "name_not_in_sources"),
        ("The weather is nice and the cat sleeps on the sofa.", "ungrounded"),
        ("Flexible fares can not be booked.", "negation_not_in_sources"),
        ("", "empty"),
        (" \n ", "empty"),
    ],
)
def test_what_no_source_says_is_refused(said: str, reason: str) -> None:
    assert ungrounded([said], BOOKINGS) == reason


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        ("Depot K closes at 16:00 on weekdays; its gate is closed at weekends.", True),
        ("Depot K closes at 4 pm. The gate code changes monthly.", True),
        ("Depot K closes at 17:00.", False),
        ("Depot K opens at 16:00.", False),
        ("Depot K never closes.", False),
        ("The gate of depot K is open at weekends, it closes at 16:00.", False),
    ],
)
def test_times_and_opposites_are_held_against_the_sources(said: str, passes: bool) -> None:
    assert (ungrounded([said], DEPOT) is None) is passes


def test_a_source_that_nothing_was_taken_from_is_noticed() -> None:
    other = ["Renew the parking permit of the van.", "The permit of the van was renewed at the town hall."]
    assert ungrounded(["Booking K7 could be moved without a fee."], [BOOKINGS[0], other]) == "source_left_out"


def test_a_source_that_was_turned_round_is_noticed_although_another_agrees() -> None:
    disagreeing = [["The change fee can be waived."], ["The change fee can not be waived for gold members."]]
    assert ungrounded(["The change fee can not be waived."], disagreeing) == "contradicts_sources"


def test_scripts_without_spaces_are_read_too() -> None:
    sources = [["預訂K7改到星期五。", "預訂K7免費改期。"]]
    assert ungrounded(["預訂K7免費改到星期五。"], sources) is None
    assert ungrounded(["天氣很好，貓在睡覺。"], sources) == "ungrounded"


def test_most_wrong_restatements_are_refused_and_most_right_ones_pass() -> None:
    """On the pairs that the guards of facts were built on: a floor under both rates, so that neither slips unseen."""
    data = Path(__file__).parents[1] / "benchmarks" / "data" / "fact_pairs.json"
    pairs = json.loads(data.read_text())
    refused = {same: [ungrounded([p["b"]], [[p["a"]]]) for p in pairs if p["same"] is same] for same in (True, False)}
    assert sum(map(bool, refused[False])) >= 0.9 * len(refused[False])
    assert sum(map(bool, refused[True])) <= 0.2 * len(refused[True])
