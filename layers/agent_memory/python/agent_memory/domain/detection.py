"""Asking the detector of personal data: long text in overlapping slices, many short texts in one request."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from agent_memory.domain.models import DetectedSpan
from agent_memory.domain.ports import PersonalDataDetector

# What the detector takes at once: its limit is 100,000 bytes of UTF-8.
SLICE_BYTES = 90_000
# Longer than any entity, so that what one cut divides the next slice holds whole.
OVERLAP_BYTES = 4_000
# Between the fields of one request: ends a sentence and a line, so that no entity reaches across.
FIELD_SEPARATOR = "\n\n"

_SURROGATE = re.compile("[\ud800-\udfff]")


def detect_fields(fields: Sequence[str], language: str, detector: PersonalDataDetector) -> list[list[DetectedSpan]]:
    """Findings in each field, with offsets of that field, from requests over all of them."""
    joined = FIELD_SEPARATOR.join(fields)
    starts = [0]
    for field in fields:
        starts.append(starts[-1] + len(field) + len(FIELD_SEPARATOR))
    found: list[list[DetectedSpan]] = [[] for _ in fields]
    for span in _detect(joined, language, detector):
        at = bisect_right(starts, span.start) - 1
        # A finding that reaches into the next field is cut at the border: each part is removed where it stands.
        while at < len(fields) and starts[at] < span.end:
            start, end = max(span.start - starts[at], 0), min(span.end - starts[at], len(fields[at]))
            if start < end:
                found[at].append(span.model_copy(update={"start": start, "end": end}))
            at += 1
    return found


def _detect(text: str, language: str, detector: PersonalDataDetector) -> Iterator[DetectedSpan]:
    # Half of a surrogate pair has no UTF-8; a stand-in of the same length keeps the offsets.
    sendable = _SURROGATE.sub("\ufffd", text)
    for start, end in slices(sendable):
        piece = sendable[start:end]
        if not piece.strip():
            continue
        for span in detector.detect(piece, language):
            # Offsets are outside data: one that points out of the slice is pulled back into it.
            first, last = max(span.start, 0), min(span.end, len(piece))
            if first < last:
                yield span.model_copy(update={"start": start + first, "end": start + last})


def slices(text: str, *, limit: int = SLICE_BYTES, overlap: int = OVERLAP_BYTES) -> list[tuple[int, int]]:
    """Cut *text* into pieces of at most *limit* bytes of UTF-8 that overlap by at least *overlap* bytes.

    Offsets are code points, *end* exclusive; together the pieces cover all of it.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= limit:
        return [(0, len(text))] if text else []
    offsets = [0]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode("utf-8", "surrogatepass")))
    pieces = [(0, bisect_right(offsets, limit) - 1)]
    while pieces[-1][1] < len(text):
        # A piece may end three bytes short and the next begin three early: a close overlap must not stand still.
        start = max(bisect_right(offsets, offsets[pieces[-1][1]] - overlap) - 1, pieces[-1][0] + 1)
        pieces.append((start, bisect_right(offsets, offsets[start] + limit) - 1))
    return pieces
