"""The laptop's detector, run in its own environment: Comprehend's words, code points, places that survive."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from agent_memory.domain.detection import detect_fields
from agent_memory.domain.models import DetectedSpan
from agent_memory.domain.privacy import Policy, scrub_texts
from support.name_sets import CAPITAL_NAMES, CODES, NAMED_STEPS, STEPS

from local.layout import AI_VENV, ROOT, python_of

# The engine behind a pipe, in a process that can open no connection: it must need none.
SOURCE = """
import json, socket, sys
def refuse(*_, **__): raise OSError("no network here")
socket.socket.connect = refuse
from local.personal_data import PersonalDataEngine
engine = PersonalDataEngine()
from concurrent.futures import ThreadPoolExecutor
for line in sys.stdin:
    texts, language = json.loads(line)
    with ThreadPoolExecutor(4) as pool:
        print(json.dumps(list(pool.map(lambda text: engine.detect(text, language), texts))), flush=True)
"""


class Engine:
    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self._child = child

    def entities(self, texts: Sequence[str], language: str = "en") -> list[list[dict[str, Any]]]:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.write(json.dumps([texts, language]) + "\n")
        self._child.stdin.flush()
        return list(json.loads(self._child.stdout.readline()))

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        (entities,) = self.entities([text], language)
        return [
            DetectedSpan(type=e["Type"], start=e["BeginOffset"], end=e["EndOffset"], score=e["Score"]) for e in entities
        ]

    def found(self, text: str, language: str = "en") -> set[tuple[str, str]]:
        (entities,) = self.entities([text], language)
        return {(e["Type"], text[e["BeginOffset"] : e["EndOffset"]]) for e in entities}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    if not python_of(AI_VENV).exists():
        pytest.skip("make local-install builds the AI server's environment")
    command = [str(python_of(AI_VENV)), "-c", SOURCE]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield Engine(child)
        assert child.stdin
        child.stdin.close()


def test_names_are_found_and_places_survive(engine: Engine) -> None:
    text = "My name is Martha Collins and I need a flight from San Francisco to New York in Germany."
    assert engine.found(text) == {("NAME", "Martha Collins")}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Mail martha@example.org today.", ("EMAIL", "martha@example.org")),
        ("It came from 203.0.113.77 at noon.", ("IP_ADDRESS", "203.0.113.77")),
        ("Card 4012888888881881 was charged.", ("CREDIT_DEBIT_NUMBER", "4012888888881881")),
        ("IBAN GB82WEST12345698765432 it is.", ("INTERNATIONAL_BANK_ACCOUNT_NUMBER", "GB82WEST12345698765432")),
        ("Deliver to 221 Baker Street, Suite 4 please.", ("ADDRESS", "221 Baker Street, Suite 4")),
        ("Er wohnt in der Lindenstra\u00dfe 14 dort.", ("ADDRESS", "Lindenstra\u00dfe 14")),
        ("The postcode is SW1A 1AA there.", ("ADDRESS", "SW1A 1AA")),
    ],
)
def test_identifiers_and_addresses_have_comprehends_names(engine: Engine, text: str, found: tuple[str, str]) -> None:
    assert found in engine.found(text)


def test_spanish_runs_on_patterns_alone(engine: Engine) -> None:
    found = engine.found("Vivo en Calle Mayor 12, escribe a marta@example.es", "es")
    assert found == {("ADDRESS", "Calle Mayor 12"), ("EMAIL", "marta@example.es")}


def test_offsets_are_code_points(engine: Engine) -> None:
    text = "\U0001f469\U0001f3fb\u200d\U0001f4bb Ask marta@example.org now"
    assert engine.found(text) == {("EMAIL", "marta@example.org")}


def test_tool_names_and_order_numbers_are_no_personal_data(engine: Engine) -> None:
    text = "The agent used search_direct_flight and update_reservation for order 1234567 in economy class."
    assert engine.found(text) == set()


def test_threads_share_one_engine(engine: Engine) -> None:
    texts = [f"My name is Martha Collins, number {i}, from Boston." for i in range(40)]
    answers = engine.entities(texts)
    assert [texts[i][a[0]["BeginOffset"] : a[0]["EndOffset"]] for i, a in enumerate(answers)] == ["Martha Collins"] * 40


def test_steps_and_codes_are_read_as_they_were_written(engine: Engine) -> None:
    left = scrub_texts(STEPS, engine, Policy()).texts
    # "Ping" is a name as well.
    assert [text for text in left if "[NAME]" in text] == ["[NAME] the gateway from the branch office"]
    for marked in CODES:
        before, code, after = marked.split("|")
        (text,) = scrub_texts([before + code + after], engine, Policy()).texts
        assert code in text


def test_every_name_that_the_model_finds_in_steps_and_in_capitals_goes(engine: Engine) -> None:
    texts = [marked.replace("|", "") for marked in (*NAMED_STEPS, *CAPITAL_NAMES)]
    found = detect_fields(texts, "en", engine)
    left = scrub_texts(texts, engine, Policy()).texts
    assert sum(map(bool, found)) > len(texts) / 2
    for text, spans, scrubbed in zip(texts, found, left, strict=True):
        for span in spans:
            assert text[span.start : span.end] not in scrubbed
