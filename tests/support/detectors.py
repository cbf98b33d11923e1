"""Detectors of personal data that do what a test says, and remember what they were asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_memory.domain.errors import ModelBusyError, UnsupportedLanguageError
from agent_memory.domain.models import DetectedSpan


@dataclass
class KnownWords:
    """Finds each of *words* (text -> type) wherever it stands whole in the slice it is given."""

    words: dict[str, str] = field(default_factory=dict)
    score: float = 0.99
    asked: list[tuple[str, str]] = field(default_factory=list)

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        self.asked.append((text, language))
        found = []
        for word, kind in self.words.items():
            at = text.find(word)
            while at >= 0:
                found.append(DetectedSpan(type=kind, start=at, end=at + len(word), score=self.score))
                at = text.find(word, at + 1)
        return found


@dataclass
class Canned:
    """Answers the same findings (type, start, end, score) to every question."""

    findings: Sequence[tuple[str, int, int, float]]

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        return [DetectedSpan(type=t, start=b, end=e, score=s) for t, b, e, s in self.findings]


class Down:
    """Throttles for ever."""

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        raise ModelBusyError("comprehend:DetectPiiEntities failed (ThrottlingException)")


class KnowsNoLanguage:
    """Refuses every language."""

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        raise UnsupportedLanguageError("comprehend:DetectPiiEntities does not know this language")
