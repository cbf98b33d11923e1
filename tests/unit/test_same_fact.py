"""Two sentences that look alike to the embedding: the guards decide."""

import pytest
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
