"""A name that was found once is removed from the whole run; a mistake of the detector is not spread over it."""

import time

import pytest
from agent_memory.domain.models import DetectedSpan
from agent_memory.domain.privacy import Policy, scrub, scrub_distillation, scrub_texts
from agent_memory.domain.repeated_names import repeats
from support.builders import a_distillation, some_artifacts
from support.detectors import KnownWords


class OnlyIn:
    """Finds *word* only where *context* stands before it, as a detector that reads one sentence well."""

    def __init__(self, context: str, word: str, kind: str = "NAME") -> None:
        self._context, self._word, self._kind = context, word, kind

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        start = text.find(self._context + self._word)
        if start < 0:
            return []
        start += len(self._context)
        return [DetectedSpan(type=self._kind, start=start, end=start + len(self._word), score=0.9)]


def scrubbed(found_in: str, kind: str, word: str, other: str) -> str:
    """What becomes of *other* in a run where the detector sees *word* in another text only."""
    texts = [f"{found_in}{word} was here.", other]
    return scrub_texts(texts, OnlyIn(found_in, word, kind), Policy()).texts[1]


@pytest.mark.parametrize(
    ("kind", "word", "other", "left"),
    [
        ("NAME", "Tove Lindqvist", "Asked Tove Lindqvist to sign.", "Asked [NAME] to sign."),
        ("NAME", "Tove Lindqvist", "TOVE  LINDQVIST signed", "[NAME] signed"),
        ("NAME", "Tove Lindqvist", "Tove\nLindqvist's form", "[NAME]'s form"),
        ("NAME", "Tove Lindqvist", "from lindqvist, tove", "from lindqvist, tove"),
        ("NAME", "Tove Lindqvist", "Ms Lindqvist called, then Tove.", "Ms [NAME] called, then [NAME]."),
        ("NAME", "Tove Lindqvist", "Lindqvistgatan and Tovelund", "Lindqvistgatan and Tovelund"),
        ("NAME", "Sean O'Malley", "sean o\u2019malley paid", "[NAME] paid"),
        ("NAME", "Zo\u00eb", "Zo\u00eb paid", "[NAME] paid"),
        ("ADDRESS", "14 Alder Road, Bath", "Ship to 14 Alder Road Bath today", "Ship to [ADDRESS] today"),
        ("USERNAME", "tlind_88", "reset tlind_88 and tlind_881", "reset [USERNAME] and tlind_881"),
    ],
)
def test_what_was_found_in_one_text_goes_from_the_others(kind: str, word: str, other: str, left: str) -> None:
    assert scrubbed("Signed by ", kind, word, other) == left


@pytest.mark.parametrize(
    ("kind", "word", "other"),
    [
        ("NAME", "Will", "Will you pay in May?"),
        ("NAME", "Customer", "Customer asked for a refund"),
        ("NAME", "SAP", "Look it up in SAP"),
        ("NAME", "status", "status of the order"),
        ("NAME", "find_booking", "called find_booking"),
        ("NAME", "Rose", "a rose by the gate"),
        ("NAME", "Bo", "Bo was told"),
        ("ADDRESS", "New York", "a flight to New York"),
        ("ADDRESS", "10115", "order 10115 is late"),
        ("USERNAME", "admin", "ask an admin"),
        ("DATE_TIME", "Tove Lindqvist", "Tove Lindqvist"),
    ],
)
def test_what_may_be_something_else_elsewhere_is_left_there(kind: str, word: str, other: str) -> None:
    assert scrubbed("Seen by ", kind, word, other) == other


def test_a_finding_below_the_score_or_of_a_type_that_stays_does_not_spread() -> None:
    texts = ["Signed by Tove Lindqvist", "Tove Lindqvist paid"]
    detector = KnownWords({"Tove Lindqvist": "NAME"}, score=0.3)
    assert scrub_texts(texts, detector, Policy(min_score=0.5)).texts == tuple(texts)
    kept = Policy(types=Policy().types - {"NAME"})
    assert scrub_texts(texts, KnownWords({"Tove Lindqvist": "NAME"}), kept).texts == tuple(texts)
    assert scrub("My name is Tove Lindqvist.", KnownWords(), kept).text == "My name is Tove Lindqvist."


def test_tools_keep_their_names_in_every_field() -> None:
    artifacts = some_artifacts(tools_used=("Ledger", "find"), key_findings=("Asked Ledger twice.",))
    raw = a_distillation(task="Signed by Ledger", artifacts=artifacts, scrubbed=False)
    clean, _ = scrub_distillation(raw, OnlyIn("Signed by ", "Ledger"), Policy())
    assert clean.artifacts.tools_used == ("Ledger", "find")
    assert clean.artifacts.key_findings == ("Asked Ledger twice.",)


def test_a_name_in_the_task_goes_from_every_field_of_a_distillation() -> None:
    artifacts = some_artifacts(task_summary="Tove Lindqvist got a refund.", key_findings=("Lindqvist paid twice.",))
    raw = a_distillation(task="My name is Tove Lindqvist", asked="refund", artifacts=artifacts, scrubbed=False)
    clean, counts = scrub_distillation(raw, KnownWords(), Policy())
    assert "Lindqvist" not in clean.model_dump_json()
    assert counts["NAME"] == 3


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("My name is Tove Lindqvist. Refund me.", "My name is [NAME]. Refund me."),
        ("my name is Tove and I paid", "my name is [NAME] and I paid"),
        ("MY NAME IS TOVE LINDQVIST", "MY NAME IS [NAME]"),
        ("My name's Dr. Tove van der Berg, hello", "My name's Dr. [NAME], hello"),
        ("Hello, I am Tove Lindqvist and I paid", "Hello, I am [NAME] and I paid"),
        ("I'm Tove B. Lindqvist, I paid", "I'm [NAME], I paid"),
        ("The customer is Tove Lindqvist.", "The customer is [NAME]."),
        ("The caller is called Tove", "The caller is called [NAME]"),
        ("Me llamo Ana Mar\u00eda Ruiz y quiero pagar", "Me llamo [NAME] y quiero pagar"),
        ("Mein Name ist J\u00f6rg Wei\u00df.", "Mein Name ist [NAME]."),
        ("ich hei\u00dfe \u00d6zlem Y\u0131lmaz", "ich hei\u00dfe [NAME]"),
    ],
)
def test_a_name_that_is_introduced_needs_no_detector(text: str, left: str) -> None:
    assert scrub(text, KnownWords(), Policy()).text == left


@pytest.mark.parametrize(
    "text",
    [
        "My name is on the list. my name is spelled wrong",
        "I am sure. I am German. I am VERY ANGRY. I'm In Berlin",
        "I am Gold Member number 5",
        "The customer is Platinum Plus. The customer is waiting",
        "This is Customer Service",
        "My name is [NAME]. I am [NAME] [NAME]",
        "The Customer Is Always Right",
        "my name is",
    ],
)
def test_what_only_sounds_like_an_introduction_stays(text: str) -> None:
    assert scrub(text, KnownWords(), Policy()).text == text


def test_a_long_text_with_many_names_is_read_in_linear_time() -> None:
    names = [f"{a}{b}ra {b}{a}sen".title() for a in ("ab", "ce", "di", "ku", "lo") * 40 for b in ("n", "m", "t", "r")]
    text = "\n".join(names * 20)
    found = {n: [DetectedSpan(type="NAME", start=0, end=len(n), score=1)] for n in names}
    began = time.monotonic()
    assert len(repeats([text], found)[text]) >= len(names) * 20
    introduced = "my name is " * 5_000 + "I am " * 5_000 + "Aa " * 5_000
    scrub(introduced, KnownWords(), Policy())
    assert time.monotonic() - began < 10
