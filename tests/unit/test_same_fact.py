"""Two sentences that look alike to the embedding: the guards decide."""

from pathlib import Path

import pytest
from agent_memory.domain import fact_guards_wordnet as dictionary
from agent_memory.domain.fact_guards_text import stem
from agent_memory.domain.same_fact import Relation, same_fact, thresholds_of

THRESHOLDS = thresholds_of("local.all-minilm-l6-v2")


def relation(a: str, b: str, cosine: float = 0.95) -> Relation:
    forth, back = (same_fact(x, y, cosine=cosine, thresholds=THRESHOLDS) for x, y in ((a, b), (b, a)))
    assert forth.relation is back.relation, "the verdict depends on the order"
    return forth.relation


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The quay crane lifts 12 t.", "The quay crane lifts 12,000 kg."),
        ("The crew rests for 1 h.", "The crew rests for 60 minutes."),
        ("Bay 3 closes at 16:00.", "Bay 3 closes at 4 p.m."),
        ("The index holds 5,000 rows.", "The index holds five thousand rows."),
        ("The index holds 5\u00a0000 rows.", "The index holds 5000 rows."),
        ("Caf\u00e9 Brandt opens at 7.", "Cafe\u0301  Brandt opens at\u00a07"),
        ("The permit ends on 2 May 2029.", "The permit ends on 2029-05-02."),
        ("Trains run Monday to Friday.", "Trains run on weekdays."),
        ("The hall is not open on Sundays.", "The hall is closed on Sundays."),
        ("Tickets are non-transferable.", "Tickets are not transferable."),
        ("The portal is no longer maintained.", "The portal is not maintained any more."),
        ("Divers must log their depth.", "Divers are required to log their depth."),
        ("A visa is optional.", "A visa is not required."),
        ("At least 3 pilots sign.", "Three or more pilots sign."),
        ("Fulmar pays Petrel monthly.", "Petrel is paid monthly by Fulmar."),
        ("Part QX-9 fits the old pump.", "Part qx9 fits the old pump."),
        ("Every rider has a vest.", "All riders have a vest."),
    ],
)
def test_the_same_amount_day_polarity_or_role_in_other_words_is_the_same_fact(a: str, b: str) -> None:
    assert relation(a, b) is Relation.SAME


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The bonus is 2x.", "The bonus is 3x."),
        ("The sack weighs 10 kg.", "The sack weighs 10 lb."),
        ("The permit began in 2028.", "The permit began in 2029."),
        ("Bay 3 closes at 4 pm.", "Bay 3 closes at 4 am."),
        ("The feed sends 50 events per second.", "The feed sends 50 events per minute."),
        ("The hall is closed on Sundays.", "The hall is closed on Mondays."),
        ("The siren is tested.", "The siren is never tested."),
        ("Parcels leave with a label.", "Parcels leave without a label."),
        ("The visa is valid.", "The visa is invalid."),
        ("At least 3 pilots sign.", "At most 3 pilots sign."),
        ("Grease the axle before the test.", "Grease the axle after the test."),
        ("The stairs lead upwards.", "The stairs lead downwards."),
        ("Divers must log their depth.", "Divers may log their depth."),
        ("Fulmar pays Petrel.", "Petrel pays Fulmar."),
        ("Data moves from the lake to the mart.", "Data moves from the mart to the lake."),
        ("Fulmar owes Petrel.", "Fulmar is owed by Petrel."),
        ("Choose Fulmar, not Petrel.", "Choose Petrel, not Fulmar."),
    ],
)
def test_what_excludes_the_other_contradicts_it(a: str, b: str) -> None:
    assert relation(a, b) is Relation.CONTRADICTS


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Bay 3 is for vans only.", "Bay 8 is for vans only."),
        ("Depot K closes early.", "Depot L closes early."),
        ("depot k closes early", "depot l closes early"),
        ("Part QX-9 fits the pump.", "Part QX-8 fits the pump."),
        ("The host is in Turin.", "The host is in Genoa."),
        ("All riders have a vest.", "Some riders have a vest."),
        ("Only pilots sign.", "Pilots sign."),
        ("Pilots should sign.", "Pilots must sign."),
        ("The ferry leaves on Friday.", "The ferry might leave on Friday."),
        ("The ferry has 40 seats.", "The ferry has seats."),
    ],
)
def test_another_subject_or_scope_is_another_fact(a: str, b: str) -> None:
    assert relation(a, b) is Relation.DIFFERENT


def test_likeness_alone_is_not_enough_when_each_has_words_of_its_own() -> None:
    assert relation("The boat is painted.", "The boat is rented.", cosine=0.7) is Relation.DIFFERENT


def test_the_same_words_in_another_order_need_less_likeness() -> None:
    assert relation("The club rents the boat.", "The boat is rented by the club.", cosine=0.66) is Relation.SAME


def test_a_narrow_merge_and_a_narrow_miss_are_close_calls() -> None:
    merged = same_fact("The boat is painted.", "The boat got a coat.", cosine=0.77, thresholds=THRESHOLDS)
    missed = same_fact("The boat is painted.", "The boat got a coat.", cosine=0.70, thresholds=THRESHOLDS)
    assert (merged.relation, merged.close_call) == (Relation.SAME, True)
    assert (missed.relation, missed.close_call) == (Relation.DIFFERENT, True)


def test_an_unmeasured_embedding_model_merges_only_what_is_nearly_the_same() -> None:
    unknown = thresholds_of("somebody.new-model")
    verdict = same_fact("The boat is painted.", "The boat got a coat.", cosine=0.9, thresholds=unknown)
    assert verdict.relation is Relation.DIFFERENT


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("Lager K schlie\u00dft um 16:00.", "Um 16:00 schlie\u00dft Lager K.", Relation.SAME),
        ("Lager K schlie\u00dft um 16:00.", "Lager K schlie\u00dft um 17:00.", Relation.CONTRADICTS),
        (
            "\u5009\u5eab\u306f16:00\u306b\u9589\u307e\u308a\u307e\u3059",
            "\u5009\u5eab\u306f17:00\u306b\u9589\u307e\u308a\u307e\u3059",
            Relation.CONTRADICTS,
        ),
    ],
)
def test_in_other_languages_numbers_still_count(a: str, b: str, expected: Relation) -> None:
    assert relation(a, b) is expected


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The cyst is benign.", "The cyst is malignant."),
        ("The captain trusted the pilot.", "The captain mistrusts the pilot."),
        ("The mooring fee is payable annually in arrears.", "The mooring fee is payable annually in advance."),
        ("The harbour board lauded the bid.", "The harbour board abandons the bid."),
    ],
)
def test_one_word_in_the_place_of_another_is_not_the_same_fact_for_being_alike(a: str, b: str) -> None:
    assert relation(a, b, cosine=0.85) is not Relation.SAME


def test_opposites_of_the_dictionary_contradict_in_every_form() -> None:
    assert relation("The cyst is benign.", "The cyst is malignant.") is Relation.CONTRADICTS
    assert relation("The skipper accelerated.", "The skipper decelerates.") is Relation.CONTRADICTS
    assert relation("Moorings are scarce.", "Moorings are abundant.") is Relation.CONTRADICTS


def test_a_replaced_word_that_nothing_is_known_of_asks_for_more_likeness_and_for_a_judge() -> None:
    pair = ("The board lauded the bid.", "The board shelved the bid.")
    below, above = (same_fact(*pair, cosine=cosine, thresholds=THRESHOLDS) for cosine in (0.85, 0.9))
    assert (below.relation, below.reason, below.close_call) == (Relation.DIFFERENT, "word_replaced", True)
    assert (above.relation, above.close_call) == (Relation.SAME, True)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The physician signs the log.", "The doctor signs the log."),
        ("The berth is dangerous.", "The berth is unsafe."),
        ("The net was torn.", "Someone tore the net."),
        ("Fishing is forbidden in the basin.", "Fishing is not allowed in the basin."),
    ],
)
def test_a_word_of_the_same_meaning_asks_for_no_more(a: str, b: str) -> None:
    assert relation(a, b, cosine=0.8) is Relation.SAME


def test_a_merge_that_rests_on_another_word_is_always_a_close_call() -> None:
    synonyms = same_fact(
        "The physician signs the log.", "The doctor signs the log.", cosine=0.99, thresholds=THRESHOLDS
    )
    assert (synonyms.relation, synonyms.close_call) == (Relation.SAME, True)
    for a, b in (
        ("The club rents the boat.", "The boat is rented by the club."),
        ("The index holds 5,000 rows.", "The index holds five thousand rows."),
        ("Every rider has a vest.", "All riders have a vest."),
    ):
        assert not same_fact(a, b, cosine=0.95, thresholds=THRESHOLDS).close_call


def test_the_dictionary_holds_stems_as_the_guards_cut_them() -> None:
    for x, y in (("deliberately", "accidentally"), ("arrives", "leaving"), ("victory", "defeats")):
        assert dictionary.opposite(stem(x), stem(y))
        assert dictionary.opposite(stem(y), stem(x))
    assert dictionary.alike(stem("doctors"), stem("physician"))
    assert dictionary.alike(stem("physician"), stem("doctors"))
    assert not dictionary.alike(stem("plaintiff"), stem("defendant"))


def test_the_dictionary_carries_its_licence() -> None:
    text = Path(dictionary.__file__).with_name(dictionary.DATA).read_text(encoding="ascii")
    assert "WordNet 3.1 Copyright 2011 by Princeton University." in text[:3000]
    assert "PRINCETON" in text[:3000]
