"""Scrubbing: what is removed, what stays, and what happens when the detector can't help."""

from itertools import pairwise

import pytest
from agent_memory.domain.detection import slices
from agent_memory.domain.errors import ConfigurationError, ModelBusyError, UnsupportedLanguageError
from agent_memory.domain.models import CandidateFact, CandidateProcedure, DetectedSpan
from agent_memory.domain.privacy import (
    OTHER_TYPE,
    SECRET_TYPES,
    TYPES,
    Policy,
    merged,
    policy_from,
    scrub,
    scrub_distillation,
    scrub_texts,
)
from support.builders import a_distillation, some_artifacts
from support.detectors import Canned, Down, KnownWords, KnowsNoLanguage

GERMAN = "Bitte schicken Sie die Rechnung an Frau Jutta Brandt, jutta.brandt@example.de, und nicht an uns."


def a_span(start: int, end: int, kind: str = "NAME", score: float = 0.9) -> DetectedSpan:
    return DetectedSpan(type=kind, start=start, end=end, score=score)


def test_an_entity_becomes_its_type_and_the_rest_stays() -> None:
    done = scrub("Ask Pia Lund, then close it.", KnownWords({"Pia Lund": "NAME"}), Policy())
    assert done.text == "Ask [NAME], then close it."
    assert done.counts == {"NAME": 1}
    assert not done.names_unchecked


def test_overlapping_spans_become_one_of_the_type_with_the_best_score() -> None:
    spans = [a_span(4, 9, "AGE", 0.6), a_span(0, 5, "NAME", 0.7), a_span(8, 12, "PHONE", 0.95), a_span(20, 22)]
    assert [(s.start, s.end, s.type) for s in merged(spans)] == [(0, 12, "PHONE"), (20, 22, "NAME")]


def test_spans_that_only_touch_stay_two() -> None:
    assert [(s.start, s.end) for s in merged([a_span(3, 6), a_span(0, 3, "AGE")])] == [(0, 3), (3, 6)]


def test_findings_below_the_score_of_the_policy_stay_but_own_rules_do_not_ask() -> None:
    detector = KnownWords({"Rose": "NAME"}, score=0.4)
    assert scrub("Rose wrote to rose@example.org", detector, Policy(min_score=0.5)).text == "Rose wrote to [EMAIL]"


def test_a_score_that_is_no_number_counts_as_certain() -> None:
    assert scrub("Rose is here.", Canned([("NAME", 0, 4, float("nan"))]), Policy()).text == "[NAME] is here."


@pytest.mark.parametrize(("start", "end"), [(-3, 4), (0, 4_000), (9, 4), (50, 60)])
def test_offsets_that_point_out_of_the_text_are_pulled_back_or_dropped(start: int, end: int) -> None:
    text = "Rose is here."
    done = scrub(text, Canned([("NAME", start, end, 0.9)]), Policy()).text
    assert done == ("[NAME]" + text[min(end, len(text)) :] if max(start, 0) < min(end, len(text)) else text)


def test_a_type_that_nobody_knew_when_this_was_written_is_removed_all_the_same() -> None:
    assert scrub("gene code Q7", Canned([("GENOME", 10, 12, 0.9)]), Policy()).text == f"gene code [{OTHER_TYPE}]"


def test_dates_money_and_ids_stay_whatever_the_detector_takes_them_for() -> None:
    text = "Run r-20240517 on 2024-05-17T10:00:00Z paid $1,250.00 for HAT045."
    detector = KnownWords({"2024-05-17T10:00:00Z": "PHONE", "$1,250.00": "BANK_ACCOUNT_NUMBER"})
    assert scrub(text, detector, Policy()).text == text


def test_dates_and_web_addresses_stay_by_default_but_not_the_secrets_in_them() -> None:
    text = "On Monday see https://example.org/docs and https://admin:hunter22@example.org/x"
    detector = KnownWords({"Monday": "DATE_TIME", "https://example.org/docs": "URL"})
    done = scrub(text, detector, Policy()).text
    assert done.startswith("On Monday see https://example.org/docs and ")
    assert "hunter22" not in done


def test_scrubbed_text_is_not_scrubbed_again() -> None:
    text = "[NAME] wrote password=[PASSWORD] to [EMAIL]"
    detector = KnownWords({"NAME": "NAME", "[EMAIL]": "EMAIL", "[NAME] wrote": "NAME"})
    # The finding that reaches beyond the placeholder is applied to the part outside.
    assert scrub(text, detector, Policy()).text == "[NAME][NAME] password=[PASSWORD] to [EMAIL]"
    assert scrub(text, KnownWords({"NAME": "NAME"}), Policy()).text == text


def test_brackets_around_something_else_are_no_placeholder() -> None:
    assert scrub("[ROSE]", KnownWords({"ROSE": "NAME"}), Policy()).text == "[[NAME]]"


def test_a_number_that_comes_nearer_to_its_word_by_a_replacement_is_found_too() -> None:
    text = f"call {'Wilhelmina' * 12} 4321 9876"
    once = scrub(text, KnownWords({"Wilhelmina" * 12: "NAME"}), Policy()).text
    assert once == "call [NAME] [PHONE]"


def test_many_fields_are_one_request_and_a_finding_never_crosses_into_the_next() -> None:
    detector = KnownWords({"Lund\n\nPia": "NAME", "Oda": "NAME"})
    done = scrub_texts(["Mail Lund", "Pia came", "", "Oda and Oda", "Mail Lund"], detector, Policy())
    assert done.texts == ("Mail [NAME]", "[NAME] came", "", "[NAME] and [NAME]", "Mail [NAME]")
    assert len(detector.asked) == 1


def test_a_blank_text_asks_nobody() -> None:
    detector = KnownWords()
    assert scrub("  \n", detector, Policy()).text == "  \n"
    assert detector.asked == []


def test_english_and_spanish_fields_are_asked_about_in_their_language() -> None:
    detector = KnownWords()
    scrub_texts(["The customer wants to move it.", "El cliente quiere cambiar la fecha."], detector, Policy())
    assert sorted(language for _, language in detector.asked) == ["en", "es"]


def test_another_language_is_left_to_the_rules_and_marked() -> None:
    detector = KnownWords({"Jutta Brandt": "NAME"})
    done = scrub(GERMAN, detector, Policy(unsupported_language="rules"))
    assert "[EMAIL]" in done.text
    assert done.names_unchecked
    assert detector.asked == []


def test_another_language_parks_where_the_deployment_says_so() -> None:
    with pytest.raises(UnsupportedLanguageError):
        scrub(GERMAN, KnownWords(), Policy(unsupported_language="park"))


def test_a_language_that_the_detector_refuses_is_not_taken_for_nothing_found() -> None:
    done = scrub("Send it to rose@example.org please.", KnowsNoLanguage(), Policy())
    assert (done.text, done.names_unchecked) == ("Send it to [EMAIL] please.", True)
    with pytest.raises(UnsupportedLanguageError):
        scrub("Send it please.", KnowsNoLanguage(), Policy(unsupported_language="park"))


def test_a_detector_that_is_down_is_raised_and_nothing_comes_back() -> None:
    with pytest.raises(ModelBusyError):
        scrub("Rose wrote.", Down(), Policy())


def test_slices_stay_below_the_limit_in_bytes_and_overlap() -> None:
    text = "\u00e9\U0001f469 a" * 500
    pieces = slices(text, limit=300, overlap=50)
    assert pieces[0][0] == 0
    assert pieces[-1][1] == len(text)
    for start, end in pieces:
        assert 0 < len(text[start:end].encode()) <= 300
    for (_, end), (start, _) in pairwise(pieces):
        assert len(text[start:end].encode()) >= 50


def test_half_a_surrogate_pair_does_not_stop_the_scrubbing() -> None:
    detector = KnownWords({"Rose": "NAME"})
    assert scrub("\ud83d Rose", detector, Policy()).text == "\ud83d [NAME]"
    assert detector.asked[0][0].encode()


def test_every_text_of_a_distillation_is_scrubbed_and_nothing_else_changes() -> None:
    mail = "oda.holm@example.org"
    artifacts = some_artifacts(
        task_summary=f"1 {mail}",
        key_findings=(f"2 {mail}", "Fee is $20."),
        approach_used=f"3 {mail}",
        tools_used=("find_booking", f"mail_{mail}"),
        reusable_patterns=(f"4 {mail}",),
        facts=(CandidateFact(content=f"5 {mail}", confidence=0.9, evidence=f"6 {mail}"),),
        procedure=CandidateProcedure(title=f"7 {mail}", steps=(f"8 {mail}",)),
    )
    raw = a_distillation(
        task=f"9 {mail}", asked=f"10 {mail}", artifacts=artifacts, scrubbed=False, counts={"retries": 1}
    )
    clean, counts = scrub_distillation(raw, KnownWords({"find_booking": "NAME"}), Policy())
    assert clean.scrubbed
    assert "oda" not in clean.model_dump_json()
    assert counts["EMAIL"] == 11
    assert clean.artifacts.tools_used[0] == "find_booking"
    assert clean.artifacts.key_findings[1] == "Fee is $20."
    assert (clean.artifacts.outcome, clean.artifacts.confidence, dict(clean.counts)) == (
        artifacts.outcome,
        artifacts.confidence,
        {"retries": 1},
    )


def test_the_default_policy_keeps_dates_and_web_addresses() -> None:
    policy = policy_from(types="", min_score=0.5, allow="", unsupported_language="rules")
    assert policy == Policy()
    assert TYPES - policy.types == {"DATE_TIME", "URL"}


def test_a_deployment_names_types_and_secrets_go_unless_allowed() -> None:
    policy = policy_from(types="email, phone", min_score=0.8, allow="PHONE", unsupported_language="park")
    assert policy.types == SECRET_TYPES | {"EMAIL"}
    assert policy_from(types="ALL", min_score=0, allow="NAME", unsupported_language="rules").types == TYPES - {"NAME"}


@pytest.mark.parametrize(
    "settings",
    [
        {"types": "EMIAL"},
        {"allow": "COLOUR"},
        {"min_score": 1.5},
        {"min_score": float("nan")},
        {"unsupported_language": "skip"},
    ],
)
def test_a_policy_that_makes_no_sense_stops_the_function(settings: dict[str, object]) -> None:
    given = {"types": "", "min_score": 0.5, "allow": "", "unsupported_language": "rules", **settings}
    with pytest.raises(ConfigurationError, match="pii_"):
        policy_from(**given)  # type: ignore[arg-type]  # the wrong values are the point
