"""A verb that begins an order and the code of a booking are no names; whatever could be a name goes."""

import re
from collections.abc import Callable

import pytest
from agent_memory.domain.errors import ModelBusyError
from agent_memory.domain.mistaken_names import is_code
from agent_memory.domain.models import DetectedSpan
from agent_memory.domain.opening_verbs import VERBS
from agent_memory.domain.privacy import Policy, scrub, scrub_texts
from agent_memory.domain.repeated_names import repeats
from support.detectors import KnownWords
from support.name_sets import CAPITAL_NAMES, CODES, NAMED_STEPS, STEPS


class Suspicious:
    """Takes for a name whatever its pattern finds."""

    def __init__(self, pattern: str, kind: str = "NAME") -> None:
        self._pattern, self._kind = re.compile(pattern, re.MULTILINE), kind
        self.asked: list[str] = []

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        self.asked.append(text)
        return [
            DetectedSpan(type=self._kind, start=found.start(), end=found.end(), score=0.9)
            for found in self._pattern.finditer(text)
        ]


def first_words() -> Suspicious:
    """The worst reader of steps: every capitalised first word is somebody."""
    return Suspicious(r"^[A-Z][a-z]+(?:'s)?(?: [A-Z][a-z]+)?")


def everything_in_capitals() -> Suspicious:
    return Suspicious(r"\b[A-Z0-9]{3,}(?: [A-Z]{3,})*\b")


def between_bars(marked: str) -> tuple[str, str]:
    """What is marked in the sentence, and the sentence."""
    *before, word, after = marked.split("|")
    if not before:
        return word, word + after
    return word, before[0] + word + after


def test_the_steps_of_a_procedure_keep_their_verbs() -> None:
    left = scrub_texts(STEPS, first_words(), Policy()).texts
    # Verbs that are names as well, and one whose next word could be the verb of a sentence about somebody.
    assert {text for text, before in zip(left, STEPS, strict=True) if text != before} == {
        "[NAME] the gateway from the branch office",
        "[NAME] the policy aloud",
        "[NAME] requests without proof of purchase",
    }


@pytest.mark.parametrize("marked", [one for one in NAMED_STEPS if one[0].isupper()])
def test_a_name_that_begins_a_step_goes(marked: str) -> None:
    name, text = between_bars(marked)
    assert name.removesuffix("'s") not in scrub(text, first_words(), Policy()).text


@pytest.mark.parametrize(
    "text",
    [
        "Close approves the refund",
        "Lock and the caller agree",
        "Book will sign the form",
        "Store signed it",
        "Call is asked first",
        "Place, our agent, signs",
        "Check's account is locked",
        "Dr. Close the dentist called",
        "J. Close the dentist called",
        "Verify",
        "Mark the parcel",
        "Grant the refund",
        "Bill the customer",
    ],
)
def test_in_doubt_a_first_word_is_a_name(text: str) -> None:
    word = next(one for one in re.findall(r"\w{4,}", text))
    assert word not in scrub(text, KnownWords({word: "NAME"}), Policy()).text


NAMES_TOO = "mark grant bill chase will rob pat sue drew jack frank rose hope ping read page"


@pytest.mark.parametrize("name", NAMES_TOO.split())
def test_a_verb_that_is_a_name_is_no_plain_verb(name: str) -> None:
    assert name not in VERBS


def test_a_first_word_that_is_a_name_in_small_letters_too_goes() -> None:
    assert scrub("Unlock the account", Suspicious("(?i)unlock"), Policy()).text == "[NAME] the account"


def test_a_verb_is_asked_about_again_in_small_letters_and_only_then() -> None:
    detector = Suspicious("Unlock|Maria")
    done = scrub_texts(["Unlock the account", "Maria pays", "It is paid"], detector, Policy())
    assert done.texts == ("Unlock the account", "[NAME] pays", "It is paid")
    assert detector.asked == ["Unlock the account\n\nMaria pays\n\nIt is paid", "unlock the account"]


@pytest.mark.parametrize(
    ("text", "found", "left"),
    [
        ("Unlock Maria's account", "Unlock Maria", "Unlock [NAME]'s account"),
        ("Done. Restart the router", "Restart", "Done. Restart the router"),
        (
            "1. Restart the router\n2. Download the log",
            "Restart|Download",
            "1. Restart the router\n2. Download the log",
        ),
        ("- Summarise it", "Summarise", "- Summarise it"),
        ("He saw Restart the dog", "Restart", "He saw [NAME] the dog"),
        ("Ask Close the dentist", "Close", "Ask [NAME] the dentist"),
        ("Double-check the form", "Double", "Double-check the form"),
    ],
)
def test_only_a_verb_at_the_beginning_of_a_sentence_is_left(text: str, found: str, left: str) -> None:
    assert scrub(text, Suspicious(found), Policy()).text == left


def test_a_verb_that_was_taken_for_a_name_is_not_spread() -> None:
    texts = ["please Restart it", "Restart the router"]
    found = {texts[0]: [DetectedSpan(type="NAME", start=7, end=14, score=0.9)]}
    assert repeats(texts, found) == {}


def test_a_detector_that_is_down_at_the_second_question_is_raised() -> None:
    class DownLater(Suspicious):
        def detect(self, text: str, language: str) -> list[DetectedSpan]:
            if self.asked:
                raise ModelBusyError("comprehend:DetectPiiEntities failed (ThrottlingException)")
            return super().detect(text, language)

    with pytest.raises(ModelBusyError):
        scrub("Unlock the account", DownLater("Unlock"), Policy())


def test_spanish_is_asked_about_once() -> None:
    detector = Suspicious("Cancel")
    scrub("Cancel la reserva que el cliente quiere cambiar de fecha.", detector, Policy())
    assert len(detector.asked) == 1


def test_codes_survive_a_reader_that_takes_them_for_names() -> None:
    pairs = [between_bars(marked) for marked in CODES]
    lost = {code for code, text in pairs if code not in scrub(text, everything_in_capitals(), Policy()).text}
    # Longer than the code of a booking, or a word with a number, which may be somebody's account.
    assert lost == {"XEWRD9", "SAVE20X", "W2378156", "CS0014278", "INC48213", "INV20931"}


@pytest.mark.parametrize("marked", CAPITAL_NAMES)
def test_a_name_in_capitals_goes(marked: str) -> None:
    name, text = between_bars(marked)
    left = scrub(text, everything_in_capitals(), Policy()).text
    assert not any(part in left for part in name.split())


@pytest.mark.parametrize(
    ("text", "found", "left"),
    [
        ("I'll go with Flight HAT271, please.", "Flight HAT271", "I'll go with Flight HAT271, please."),
        ("with ID H8Q05L is", "ID H8Q05L", "with ID H8Q05L is"),
        ("to **Cancel:** HSR97W now", r"Cancel:\*\* HSR97W", "to **Cancel:** HSR97W now"),
        ("on HAT284\n  - PHX to", r"HAT284\n  - PHX", "on HAT284\n  - PHX to"),
        ("Mia Berg HAT271 Ana", "Mia Berg HAT271 Ana", "[NAME] HAT271 [NAME]"),
        ("Mia Berg, JFK", "Mia Berg, JFK", "[NAME], JFK"),
        ("user MIA_HAT271 paid", "MIA_HAT271", "user [NAME] paid"),
        ("Mia Berg HAT271@example", "Mia Berg HAT271", "[NAME]@example"),
        ("Mia Berg HAT271XXXX", "Mia Berg HAT271", "[NAME]XXXX"),
        ("user HAT271.mia paid", "HAT271.mia", "user [NAME] paid"),
        ("user mia42 paid", "mia42", "user [NAME] paid"),
    ],
)
def test_a_code_inside_a_finding_is_cut_out_of_it(text: str, found: str, left: str) -> None:
    assert scrub(text, Suspicious(found), Policy()).text == left


def test_a_code_that_is_found_as_something_else_than_a_name_goes() -> None:
    assert (
        scrub("use H8Q05L now", Suspicious("H8Q05L", "PASSPORT_NUMBER"), Policy()).text == "use [PASSPORT_NUMBER] now"
    )
    assert scrub("password: H8Q05L", Suspicious("H8Q05L"), Policy()).text == "password: [PASSWORD]"


def shapes(words: str, judge: Callable[[str], bool]) -> list[str]:
    return [word for word in words.split() if judge(word)]


def test_names_are_no_codes_and_codes_are() -> None:
    names = (
        "SMITH LEE KIM ANN LIU NGO NG MIA DEN GARCIA WILSON MARTIN SCHMIDT SCHULZ WRIGHT KNIGHT NGUYEN LYNCH LYNN FLYNN "
        "SZYMON ZBIGNI PTACEK BAXTER MAXWEL TARIQ FAROOQ IQBAL SIDIQI AXMANN OXNARD NIXDOR HOXHAJ BJORN WOJTEK ZHANGS "
        "JACQUE MCQUAY ROCQUE LECOCQ BOECKX "
        "MARIA1 SMITH77 LOPEZ2 Mia42 mia_1 PUNERT 12345 123456"
    )
    codes = "HXDUBJ VAAOXJ XKCDWR BQRTKL SDZQKO IFOYYZ JMO1MG H8Q05L HAT271 UA1187 JFK PHX DTW 4WQ150 MZDDS4 KC18K6"
    assert shapes(names, is_code) == []
    assert shapes(codes, is_code) == codes.split()
