"""Scrubbing: every text loses its personal data and secrets before anything is stored or embedded."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import Literal

from agent_memory.domain.errors import (
    AgentMemoryError,
    ConfigurationError,
    ModelAnswerError,
    TranscriptError,
    UnsupportedLanguageError,
)
from agent_memory.domain.introductions import introduced_names
from agent_memory.domain.language import Language, guess_language
from agent_memory.domain.mistaken_names import detect_without_mistakes
from agent_memory.domain.models import DetectedSpan, Distillation, Model
from agent_memory.domain.ports import PersonalDataDetector
from agent_memory.domain.recognisers import recognise
from agent_memory.domain.repeated_names import SPREADING, repeats

SECRET_TYPES = frozenset({"API_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "PASSWORD", "PRIVATE_KEY"})
_DETECTOR_TYPES = (
    "BANK_ACCOUNT_NUMBER BANK_ROUTING CREDIT_DEBIT_NUMBER CREDIT_DEBIT_CVV CREDIT_DEBIT_EXPIRY PIN EMAIL ADDRESS NAME "
    "PHONE SSN DATE_TIME PASSPORT_NUMBER DRIVER_ID URL AGE USERNAME PASSWORD AWS_ACCESS_KEY AWS_SECRET_KEY IP_ADDRESS "
    "MAC_ADDRESS LICENSE_PLATE VEHICLE_IDENTIFICATION_NUMBER UK_NATIONAL_INSURANCE_NUMBER "
    "CA_SOCIAL_INSURANCE_NUMBER US_INDIVIDUAL_TAX_IDENTIFICATION_NUMBER UK_UNIQUE_TAXPAYER_REFERENCE_NUMBER "
    "IN_PERMANENT_ACCOUNT_NUMBER IN_NREGA INTERNATIONAL_BANK_ACCOUNT_NUMBER SWIFT_CODE "
    "UK_NATIONAL_HEALTH_SERVICE_NUMBER CA_HEALTH_NUMBER IN_AADHAAR IN_VOTER_NUMBER"
)
# What a detector may learn to find after this was written.
OTHER_TYPE = "PERSONAL_DATA"
TYPES = frozenset(_DETECTOR_TYPES.split()) | SECRET_TYPES | {OTHER_TYPE}
KEPT_BY_DEFAULT = frozenset({"DATE_TIME", "URL"})

_PLACEHOLDER = re.compile(r"\[(?:" + "|".join(sorted(TYPES)) + r")\]")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
# Detectors take these for numbers of a person; a memory is worth little without them.
_NEEDED = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|[$\u20ac\u00a3\u00a5]\s?\d[\d.,]*|\d[\d.,]*\s?(?:[$\u20ac\u00a3\u00a5]|USD|EUR|GBP|CHF|JPY)"
)
# One replacement can bring a word that says "telephone" nearer to a number, so rules run until they find no more.
_MAX_ROUNDS = 8


class Policy(Model):
    """What a deployment removes. *types*: those replaced; *min_score* holds for the detector's findings only."""

    types: frozenset[str] = TYPES - KEPT_BY_DEFAULT
    min_score: float = 0.5
    unsupported_language: Literal["rules", "park"] = "rules"


class Scrubbed(Model):
    """A text without personal data. *counts*: replaced entities by type. *names_unchecked*: only rules looked at it."""

    text: str
    counts: Mapping[str, int]
    names_unchecked: bool = False


class ScrubbedTexts(Model):
    """Several texts scrubbed together; *texts* in the order they came."""

    texts: tuple[str, ...]
    counts: Mapping[str, int]
    names_unchecked: bool = False


def policy_from(*, types: str, min_score: float, allow: str, unsupported_language: str) -> Policy:
    """The policy that a deployment's settings describe. *types* empty: all but dates and addresses of web pages.

    Secrets are removed unless *allow* names them. Raises ConfigurationError naming the setting.
    """
    asked, allowed = _type_names(types, "pii_types"), _type_names(allow, "pii_allow")
    if unsupported_language not in ("rules", "park"):
        raise ConfigurationError("pii_unsupported_language must be rules or park")
    if not 0 <= min_score <= 1:
        raise ConfigurationError("pii_min_score must be between 0 and 1")
    removed = (asked | SECRET_TYPES if asked else TYPES - KEPT_BY_DEFAULT) - allowed
    return Policy(
        types=removed,
        min_score=min_score,
        unsupported_language="park" if unsupported_language == "park" else "rules",
    )


def _type_names(value: str, setting: str) -> frozenset[str]:
    names = frozenset(name.strip().upper() for name in value.split(",") if name.strip())
    if "ALL" in names:
        return TYPES
    if names - TYPES:
        raise ConfigurationError(f"{setting} names no known type of personal data: {', '.join(sorted(names - TYPES))}")
    return names


def scrub(text: str, detector: PersonalDataDetector, policy: Policy) -> Scrubbed:
    """Replace each entity of *text* by its type in brackets.

    Raises ModelBusyError (the detector is down: store nothing), UnsupportedLanguageError (policy `park`).
    """
    done = scrub_texts([text], detector, policy)
    return Scrubbed(text=done.texts[0], counts=done.counts, names_unchecked=done.names_unchecked)


def scrub_texts(
    texts: Sequence[str], detector: PersonalDataDetector, policy: Policy, *, spared: Iterable[str] = ()
) -> ScrubbedTexts:
    """Like scrub for many texts, in as few requests as their size allows: a detector bills and waits per request.

    A name found in one of them goes from all of them, unless it is one of *spared*.
    """
    distinct = list(dict.fromkeys(texts))
    findings: dict[str, list[DetectedSpan]] = {text: [] for text in distinct}
    unchecked = False
    for language, group in _by_language(distinct).items():
        if language == "other":
            if policy.unsupported_language == "park":
                raise UnsupportedLanguageError("the detector of names knows English and Spanish")
            unchecked = True
            continue
        try:
            for text, spans in zip(group, detect_without_mistakes(group, language, detector), strict=True):
                findings[text] = spans
        except UnsupportedLanguageError:
            if policy.unsupported_language == "park":
                raise
            unchecked = True
    named = {text: list(_names_in(text, findings[text], policy)) for text in distinct}
    again = repeats(distinct, named, spared)
    counts: Counter[str] = Counter()
    clean = {text: _without(text, [*findings[text], *again.get(text, ())], policy, counts) for text in distinct}
    return ScrubbedTexts(texts=tuple(clean[text] for text in texts), counts=dict(counts), names_unchecked=unchecked)


# Made by us of a text, not taken from it; a detector would take the digits of one document's hash for a number of
# somebody's, and all documents would be one.
NO_TEXTS = frozenset({"source_hash"})


def scrub_distillation(
    distillation: Distillation, detector: PersonalDataDetector, policy: Policy
) -> tuple[Distillation, Mapping[str, int]]:
    """Scrub every text that *distillation* holds, whatever field it stands in, and count entities by type."""
    content = distillation.model_dump()
    # To a detector "search_flights" can look like a name; what is shaped like one word of a program is left to rules.
    tools = {tool for tool in distillation.artifacts.tools_used if _TOOL_NAME.fullmatch(tool)}
    texts = sorted(set(_texts(content)) - tools)
    done = scrub_texts(texts, detector, policy, spared=tools)
    counts = Counter(done.counts)
    by_rules = {tool: _without(tool, [], policy, counts) for tool in tools}
    clean = _replaced(content, by_rules | dict(zip(texts, done.texts, strict=True)))
    # Dumped and read back, so that a field added later is scrubbed without being named here.
    scrubbed = Distillation.model_validate(clean)
    unchecked = distillation.names_unchecked or done.names_unchecked
    return scrubbed.model_copy(update={"scrubbed": True, "names_unchecked": unchecked}), dict(counts)


def before_scrubbing(distillation: Distillation, scrubbed: Distillation) -> Mapping[str, str]:
    """What each text of *scrubbed* that scrubbing changed was in *distillation*.

    Only to be judged: nothing of it may be kept. Two texts that became one are both in it, in one.
    """
    before: dict[str, str] = {}
    for said, clean in zip(_texts(distillation.model_dump()), _texts(scrubbed.model_dump()), strict=True):
        if said != clean and said not in before.get(clean, ""):
            before[clean] = f"{before[clean]}\n{said}" if clean in before else said
    return before


def reason_not_scrubbed(error: AgentMemoryError) -> str:
    """The short code under which a run is parked when scrubbing it is not worth another try."""
    if isinstance(error, UnsupportedLanguageError):
        return "unsupported_language"
    return error.reason if isinstance(error, TranscriptError | ModelAnswerError) else "not_scrubbed"


def _texts(node: object) -> Iterator[str]:
    if isinstance(node, Enum):
        return
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            if key not in NO_TEXTS:
                yield from _texts(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _texts(value)


def _replaced(node: object, clean: Mapping[str, str]) -> object:
    if isinstance(node, Enum):
        return node
    if isinstance(node, str):
        return clean[node]
    if isinstance(node, Mapping):
        return {key: value if key in NO_TEXTS else _replaced(value, clean) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return tuple(_replaced(value, clean) for value in node)
    return node


def _by_language(texts: Iterable[str]) -> dict[Language, list[str]]:
    """Texts that can be asked about, by language; those too short to tell go with the language of the others."""
    guesses = {text: guess_language(text) for text in texts if text.strip()}
    told = Counter(language for text, language in guesses.items() if language != "undecided" for _ in text.split())
    usual: Language = told.most_common(1)[0][0] if told else "en"
    groups: dict[Language, list[str]] = {}
    for text, language in guesses.items():
        groups.setdefault(usual if language == "undecided" else language, []).append(text)
    return groups


def _without(text: str, detected: Sequence[DetectedSpan], policy: Policy, counts: Counter[str]) -> str:
    """*text* without the findings that *policy* removes and without what our own rules recognise."""
    spans = [span for span in detected if _counts_as_personal(text, span, policy)]
    for _ in range(_MAX_ROUNDS):
        spans += [span for span in recognise(text) if span.type in policy.types]
        found = list(_outside_placeholders(text, merged(spans)))
        if not found:
            break
        counts.update(span.type for span in found)
        text, spans = replaced(text, found), []
    return text


def _names_in(text: str, detected: Iterable[DetectedSpan], policy: Policy) -> Iterator[DetectedSpan]:
    """What of *text* is removed as a name of somebody, by the detector or by our own rules."""
    removed = [span for span in detected if _counts_as_personal(text, span, policy)]
    if "NAME" in policy.types:
        removed += [DetectedSpan(type=t, start=start, end=end, score=1) for t, start, end in introduced_names(text)]
    yield from _outside_placeholders(text, [span for span in removed if span.type in SPREADING])


def _counts_as_personal(text: str, span: DetectedSpan, policy: Policy) -> bool:
    if span.score < policy.min_score or _known(span.type) not in policy.types:
        return False
    return span.type in SECRET_TYPES or not _NEEDED.fullmatch(text[span.start : span.end].strip())


def _known(type_: str) -> str:
    return type_ if type_ in TYPES else OTHER_TYPE


def merged(spans: Iterable[DetectedSpan]) -> list[DetectedSpan]:
    """Disjoint spans that cover the same characters, in order; each has the type of the best score in it."""
    groups: list[DetectedSpan] = []
    best: list[DetectedSpan] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if groups and span.start < groups[-1].end:
            if (span.score, span.end - span.start) > (best[-1].score, best[-1].end - best[-1].start):
                best[-1] = span
            groups[-1] = groups[-1].model_copy(update={"end": max(groups[-1].end, span.end)})
        else:
            groups.append(span)
            best.append(span)
    return [
        group.model_copy(update={"type": _known(strongest.type), "score": strongest.score})
        for group, strongest in zip(groups, best, strict=True)
    ]


def _outside_placeholders(text: str, spans: Iterable[DetectedSpan]) -> Iterator[DetectedSpan]:
    """The parts of *spans* that no placeholder covers: scrubbed text is not scrubbed again."""
    kept = [match.span() for match in _PLACEHOLDER.finditer(text)]
    for span in spans:
        inside = [(start, end) for start, end in kept if start < span.end and end > span.start]
        if not inside:
            yield span
            continue
        borders = [(span.start, span.start), *inside, (span.end, span.end)]
        for (_, start), (end, _) in pairwise(borders):
            if any(c.isalnum() for c in text[start:end]):
                yield span.model_copy(update={"start": start, "end": end})


def replaced(text: str, spans: Sequence[DetectedSpan]) -> str:
    """Put the type in brackets for each of the disjoint *spans*, from the end backwards so that offsets hold."""
    for span in sorted(spans, key=lambda s: s.start, reverse=True):
        text = f"{text[: span.start]}[{span.type}]{text[span.end :]}"
    return text
