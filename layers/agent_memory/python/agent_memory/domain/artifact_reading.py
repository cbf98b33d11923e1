"""Makes validated Artifacts of the object that a model or an agent answered, entry by entry.

A bad entry is dropped and counted with its reason; its neighbours stay. Only the fields named here are read: nothing
that decides (state, keys, counters) ever comes from a model, and tools and steps are counted from the messages.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time

from agent_memory.domain.answers import decoded_once
from agent_memory.domain.evidence import Evidence
from agent_memory.domain.models import Artifacts, CandidateFact, CandidateProcedure, FactScope, Outcome
from agent_memory.domain.plain_text import one_line, shortened
from agent_memory.domain.procedure_hygiene import MAX_STEPS, ordered_by_tools, steps_of_tools
from agent_memory.domain.transcript_blocks import cleaned
from agent_memory.domain.transcripts import Transcript

MAX_TEXT = 600
# A fact is one sentence, and a long clause is kept whole; what is longer is a document.
MAX_FACT = 4_000
MAX_STEP = 2_000
MAX_FACTS, MAX_FINDINGS, MAX_PATTERNS, MAX_TOOLS = 40, 20, 10, 50

_TEXT_NAMES = ("text", "fact", "content", "statement")
_OUTCOMES = {
    "SUCCESS": Outcome.COMPLETED,
    "SUCCEEDED": Outcome.COMPLETED,
    "SUCCESSFUL": Outcome.COMPLETED,
    "COMPLETE": Outcome.COMPLETED,
    "DONE": Outcome.COMPLETED,
    "PARTIALLY_COMPLETED": Outcome.PARTIAL,
    "INCOMPLETE": Outcome.PARTIAL,
    "FAILURE": Outcome.FAILED,
    "ERROR": Outcome.FAILED,
}
_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")
_NUMBER = re.compile(r"\d{1,3}(?:\.\d+)?")


def looks_like_artifacts(value: object) -> bool:
    """Whether *value* is an answer to our question: it has a summary or facts, or is a bare list of facts."""
    if isinstance(value, Mapping):
        named = value.get("task_summary", value.get("summary"))
        return isinstance(named, str) or isinstance(decoded_once(value.get("facts")), list)
    return isinstance(value, list) and any(
        isinstance(entry, Mapping) and any(isinstance(entry.get(name), str) for name in _TEXT_NAMES) for entry in value
    )


def read_artifacts(value: object, transcript: Transcript, counts: Counter[str]) -> Artifacts:
    """Read what looks_like_artifacts; everything that was dropped or read in another way is in *counts*."""
    fields: Mapping[object, object] = value if isinstance(value, Mapping) else {"facts": value}
    evidence = Evidence(transcript)
    facts = tuple(_facts(fields.get("facts"), evidence, counts))
    stated = fields.get("confidence")
    confidence = read_confidence(stated, counts)
    if "confidence" not in fields and facts:
        # An answer of facts alone is as sure as the least sure of them.
        confidence = min(fact.confidence for fact in facts)
    return Artifacts(
        task_summary=_line(fields.get("task_summary", fields.get("summary")), counts) or "",
        outcome=_outcome(fields.get("outcome"), counts),
        key_findings=tuple(_lines(fields.get("key_findings"), "finding", MAX_FINDINGS, counts)),
        approach_used=_approach(fields.get("approach_used"), counts),
        tools_used=transcript.tools_used[:MAX_TOOLS],
        time_taken_steps=transcript.steps,
        reusable_patterns=tuple(_lines(fields.get("reusable_patterns"), "pattern", MAX_PATTERNS, counts)),
        confidence=confidence,
        facts=facts,
        procedure=_procedure(fields.get("procedure", fields.get("procedures")), evidence, counts),
    )


def _clean(value: str, counts: Counter[str], limit: int) -> str:
    text = cleaned(value, counts).strip()
    if len(text) > limit:
        counts["texts_shortened"] += 1
    return shortened(text, limit)


def _line(value: object, counts: Counter[str], limit: int = MAX_TEXT) -> str | None:
    return one_line(_clean(value, counts, limit)) if isinstance(value, str) else None


def _listed(value: object) -> list[object]:
    value = decoded_once(value)
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]


def _lines(value: object, kind: str, most: int, counts: Counter[str]) -> Iterator[str]:
    kept: set[str] = set()
    for entry in _listed(value):
        text, reason = _entry_text(entry, counts)
        if reason:
            counts[f"{kind}s_rejected_{reason}"] += 1
        elif text not in kept and len(kept) < most:
            kept.add(text)
            yield text
        else:
            counts[f"{kind}s_left_out"] += 1


def _entry_text(entry: object, counts: Counter[str], limit: int = MAX_TEXT) -> tuple[str, str]:
    """The text of one entry, or why there is none: `null`, `no_text`, `text_not_a_string`, `empty`."""
    if entry is None:
        return "", "null"
    if isinstance(entry, Mapping):
        named = [entry[name] for name in _TEXT_NAMES if name in entry]
        if not named:
            return "", "no_text"
        entry = next((value for value in named if isinstance(value, str)), named[0])
    if not isinstance(entry, str):
        return "", "text_not_a_string"
    text = _line(entry, counts, limit)
    return (text, "") if text else ("", "empty")


def _facts(value: object, evidence: Evidence, counts: Counter[str]) -> Iterator[CandidateFact]:
    for index, entry in enumerate(_listed(value)):
        text, reason = _entry_text(entry, counts, 2 * MAX_FACT)
        if len(text) > MAX_FACT:
            reason = "too_long"
        fields = entry if isinstance(entry, Mapping) else {}
        if not reason and index >= MAX_FACTS:
            reason = "too_many"
        if reason:
            counts["facts_rejected"] += 1
            counts[f"facts_rejected_{reason}"] += 1
            continue
        # A sentence that stands in the transcript as it is needs no other quote.
        quote = _line(fields.get("evidence"), counts) or text
        source = evidence.source_of(quote)
        if source is None:
            counts["facts_without_evidence"] += 1
            continue
        yield CandidateFact(
            content=text,
            confidence=read_confidence(fields.get("confidence"), counts),
            evidence=quote,
            scope=FactScope.USER if str(fields.get("scope")).strip().lower() == "user" else FactScope.DOMAIN,
            valid_until=_valid_until(fields.get("valid_until")),
            source=source.kind,
            source_hash=source.hash,
        )


def read_confidence(value: object, counts: Counter[str]) -> float:
    """In [0, 1]: fractions as they are, "90%" and 85 as percentages; anything else is 0 and counted."""
    fraction = _fraction(value)
    if fraction is None:
        counts["confidences_coerced"] += 1
        return 0.0
    return round(fraction, 4)


def _fraction(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        if percentage := _PERCENTAGE.fullmatch(text):
            number = float(percentage[1]) / 100
            return number if number <= 1 else None
        value = float(text) if _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if 0 <= value <= 1:
        return float(value)
    # From 2 on it can only be a percentage; 1.7 is no more a percentage than a fraction.
    return value / 100 if 2 <= value <= 100 else None


def _outcome(value: object, counts: Counter[str]) -> Outcome:
    word = re.sub(r"[\s-]+", "_", value.strip().upper()) if isinstance(value, str) else ""
    if word in Outcome.__members__:
        return Outcome(word)
    if word not in _OUTCOMES:
        counts["outcomes_unread"] += 1
    return _OUTCOMES.get(word, Outcome.UNKNOWN)


def _approach(value: object, counts: Counter[str]) -> str:
    return shortened("; ".join(_lines(value, "approach", MAX_FINDINGS, counts)), MAX_TEXT)


def _procedure(value: object, evidence: Evidence, counts: Counter[str]) -> CandidateProcedure | None:
    entry = next(iter(_listed(value)), None)
    if entry is None:
        return None
    candidate, reason = _read_procedure(entry, evidence, counts)
    if candidate is None:
        counts["procedures_rejected"] += 1
        counts[f"procedures_rejected_{reason}"] += 1
    return candidate


def _read_procedure(entry: object, evidence: Evidence, counts: Counter[str]) -> tuple[CandidateProcedure | None, str]:
    """The procedure of one entry, or why there is none."""
    if not isinstance(entry, Mapping):
        return None, "not_an_object"
    title = _line(entry.get("title", entry.get("name")), counts)
    given = _listed(entry.get("steps"))
    if len(given) > MAX_STEPS:
        # The first forty of a hundred steps are another procedure.
        return None, "too_many_steps"
    read = list(_steps(given, counts))
    steps = tuple(step for step in read if step is not None)
    if len(steps) < len(read):
        # Without one of its steps it is another procedure, too.
        return None, "unreadable_step"
    if not title or not steps:
        return None, "no_steps" if title else "no_title"
    if ordered_by_tools(steps, evidence):
        return None, "order_of_a_tool"
    return CandidateProcedure(title=title, steps=steps, from_tools=steps_of_tools(steps, evidence)), ""


def _steps(given: list[object], counts: Counter[str]) -> Iterator[str | None]:
    """The text of each step; None for one that can't be read. Blank ones say nothing, and are left out."""
    for entry in given:
        text = None if (said := _said(entry)) is None else _clean(said, counts, MAX_STEP)
        if text:
            yield text
        else:
            counts["steps_rejected"] += 1
            if text is None:
                yield None


def _said(entry: object) -> str | None:
    """What one step says, whole: a condition beside an action is a part of it. None: it can't be read whole."""
    if not isinstance(entry, Mapping):
        return "" if entry is None else entry if isinstance(entry, str) else None
    # Numbers say its place in the order, which the list says already.
    texts = [value for value in entry.values() if value is not None and not isinstance(value, int | float)]
    if any(not isinstance(text, str) for text in texts) or any(str(name).isdigit() for name in entry):
        return None
    return ": ".join(text.strip() for text in texts if text.strip() and not text.strip().isdigit())


def _valid_until(value: object) -> int | None:
    """The end of that day, or that moment, as epoch seconds; what is no ISO date is no date."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            moment = datetime.combine(date.fromisoformat(text), time(23, 59, 59), UTC)
        elif re.match(r"\d{4}-\d{2}-\d{2}[T ]", text):
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        else:
            return None
        seconds = int(moment.timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None
