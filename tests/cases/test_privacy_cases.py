"""Faults of the field around personal data and offsets."""

import pytest
from agent_memory.domain.detection import OVERLAP_BYTES, SLICE_BYTES, slices
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import label
from agent_memory.domain.privacy import Policy, scrub, scrub_distillation
from support.builders import a_distillation, some_artifacts
from support.detectors import Canned, KnownWords

CODER = "\U0001f468\U0001f3fd\u200d\U0001f4bb"


@pytest.mark.case("pi-h01")
def test_personal_data_far_behind_the_first_characters_is_scrubbed() -> None:
    filler = "all fine here. " * 20_000
    text = f"{filler}Reach Nils at nils@example.net or 555-0182. {filler}His SSN is 219-09-9999"
    detector = KnownWords({"Nils": "NAME"})
    done = scrub(text, detector, Policy()).text
    assert done == f"{filler}Reach [NAME] at [EMAIL] or [PHONE]. {filler}His SSN is [SSN]"
    assert sum(len(asked) for asked, _ in detector.asked) >= len(text)
    assert all(len(asked.encode()) <= 100_000 for asked, _ in detector.asked)


@pytest.mark.case("pi-h02")
@pytest.mark.parametrize(("filler", "step"), [("z", 1), ("\u00e9", 7), ("\U0001f469", 7)])
def test_an_entity_on_a_cut_leaves_no_part_behind(filler: str, step: int) -> None:
    address, name = "nils.aas@example.org", "Nils Aas"
    first_end = slices(filler * SLICE_BYTES)[0][1]
    for before in range(0, len(address) + len(name) + 3, step):
        text = f"{filler * (first_end - before)} {name} {address} {filler * OVERLAP_BYTES}"
        done = scrub(text, KnownWords({name: "NAME"}), Policy()).text
        assert done == text.replace(name, "[NAME]").replace(address, "[EMAIL]")


@pytest.mark.case("pi-h03")
def test_overlapping_findings_are_merged_before_anything_is_replaced() -> None:
    text = "No CD9876543B fax 0301 555 0202 end"
    found = [
        ("PHONE", 18, 31, 0.9),
        ("BANK_ACCOUNT_NUMBER", 23, 31, 0.7),
        ("UK_NATIONAL_INSURANCE_NUMBER", 3, 13, 0.95),
        ("DRIVER_ID", 0, 6, 0.6),
    ]
    done = scrub(text, Canned(found), Policy()).text
    assert done == "[UK_NATIONAL_INSURANCE_NUMBER] fax [PHONE] end"


@pytest.mark.case("pi-h04")
def test_personal_data_is_scrubbed_in_every_field_and_refused_in_labels() -> None:
    artifacts = some_artifacts(
        tools_used=("refund", "notify_nils@example.com"),
        key_findings=("Refunded to GB82WEST12345698765432, note: call 555-0182.",),
        approach_used='Called refund with {"email":"nils@example.com"}.',
    )
    raw = a_distillation(
        task="Refund for Nils Aas", asked="name: Nils Aas, refund", artifacts=artifacts, scrubbed=False
    )
    clean, _ = scrub_distillation(raw, KnownWords({"Nils Aas": "NAME"}), Policy())
    kept = clean.model_dump_json()
    assert not [s for s in ("nils", "Nils", "GB82", "555-0182") if s in kept]
    assert clean.artifacts.tools_used == ("refund", "[EMAIL]")
    assert "Refunded to" in kept
    with pytest.raises(RefusedInputError) as refused:
        label("refund-for-nils@example.com", "task_type")
    assert "nils" not in str(refused.value)


@pytest.mark.case("pi-h05")
def test_a_language_that_the_detector_does_not_know_is_never_taken_for_nothing_found() -> None:
    text = "Bitte alles an Karla Vogt schicken, karla.vogt@example.de, IBAN DE75512108001245126199"
    detector = KnownWords()
    done = scrub(text, detector, Policy())
    assert done.text == "Bitte alles an Karla Vogt schicken, [EMAIL], IBAN [INTERNATIONAL_BANK_ACCOUNT_NUMBER]"
    assert done.names_unchecked
    assert {language for _, language in detector.asked} <= {"en", "es"}


@pytest.mark.case("uo-h01")
def test_offsets_are_code_points_behind_joined_emoji() -> None:
    text = f"{CODER} Post karl@example.com soon"
    start = text.index("karl")
    done = scrub(text, Canned([("EMAIL", start, start + len("karl@example.com"), 0.99)]), Policy()).text
    assert done == f"{CODER} Post [EMAIL] soon"


@pytest.mark.case("uo-h04")
def test_offsets_of_a_later_slice_are_mapped_back_to_the_whole_text() -> None:
    lead = "\u00fc" * 60_000
    text = f"{lead} ring \u260e {'x' * 10} pier-42-b {'y' * 20}"
    detector = KnownWords({"pier-42-b": "USERNAME"})
    done = scrub(text, detector, Policy()).text
    assert len(detector.asked) > 1
    assert done == text.replace("pier-42-b", "[USERNAME]")
