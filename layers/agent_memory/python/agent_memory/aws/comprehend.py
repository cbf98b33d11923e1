"""Amazon Comprehend as the detector of personal data. It knows English and Spanish."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.domain.errors import ModelAnswerError, ModelBusyError, RefusedInputError, UnsupportedLanguageError
from agent_memory.domain.models import DetectedSpan

ACTION = "comprehend:DetectPiiEntities"
# The service's own limit; privacy.slices stays below it.
MAX_BYTES = 100_000


class ComprehendDetector:
    """Finds personal data in one slice of text."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def detect(self, text: str, language: str) -> Sequence[DetectedSpan]:
        """The findings in *text*. Blank text costs no request.

        Raises UnsupportedLanguageError, ModelBusyError to retry, AccessRefusedError, RefusedInputError when the
        text is too large, ModelAnswerError when the answer can't be applied.
        """
        if not text.strip():
            return []
        if len(text.encode("utf-8", "replace")) > MAX_BYTES:
            raise RefusedInputError("text", f"must be at most {MAX_BYTES} bytes for {ACTION}")
        with translating(ACTION, busy=ModelBusyError):
            try:
                answer = self._client.detect_pii_entities(Text=text, LanguageCode=language)
            except ClientError as error:
                _raise_own(error)
                raise
        return list(_spans(answer, len(text)))


def _raise_own(error: ClientError) -> None:
    """Raise what only this service says; the causes are cut, they could quote the text."""
    if error_code(error) == "UnsupportedLanguageException":
        raise UnsupportedLanguageError(f"{ACTION} does not know this language") from None
    if error_code(error) == "TextSizeLimitExceededException":
        raise RefusedInputError("text", f"is too large for {ACTION}") from None


def _spans(answer: object, length: int) -> Iterator[DetectedSpan]:
    entities = answer.get("Entities") if isinstance(answer, dict) else None
    if not isinstance(entities, list):
        # An answer without the list is not "nothing found".
        raise ModelAnswerError("no_entities")
    for entity in entities:
        if not isinstance(entity, dict):
            raise ModelAnswerError("malformed_entity")
        start, end, kind = entity.get("BeginOffset"), entity.get("EndOffset"), entity.get("Type")
        if type(start) is not int or type(end) is not int or not isinstance(kind, str):
            raise ModelAnswerError("malformed_entity")
        start, end = max(start, 0), min(end, length)
        if start < end:
            yield DetectedSpan(type=kind, start=start, end=end, score=_score(entity.get("Score")))


def _score(value: object) -> float:
    """A finding whose score can't be read counts as certain: better a word too few than a name too many."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 1.0
    return min(max(float(value), 0.0), 1.0)
