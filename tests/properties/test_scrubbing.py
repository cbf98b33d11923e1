"""What holds for every text, wherever the slices cut it and whatever the detector answers."""

import re
from functools import partial
from itertools import pairwise
from unittest.mock import patch

from agent_memory.domain import detection
from agent_memory.domain.detection import slices
from agent_memory.domain.models import DetectedSpan
from agent_memory.domain.privacy import TYPES, Policy, merged, replaced, scrub, scrub_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from support.detectors import Canned, KnownWords

PLANTED = ["ivo.brekke@example.org", "+44 20 7946 0991", "4012888888881881", "GB82WEST12345698765432", "219-09-9999"]
NAME = "\u00c5se Brekke"
TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
PROSE = st.text("ab \u00e9\U0001f469\n", max_size=120)
PLACEHOLDER = re.compile(r"\[(?:" + "|".join(TYPES) + r")\]")


@st.composite
def spans_of(draw: st.DrawFn, length: int) -> list[DetectedSpan]:
    pairs = draw(st.lists(st.tuples(st.integers(0, length), st.integers(0, length)), max_size=6))
    kinds = st.sampled_from(sorted(TYPES))
    return [
        DetectedSpan(type=draw(kinds), start=min(p), end=max(p), score=draw(st.floats(0, 1)))
        for p in pairs
        if p[0] != p[1]
    ]


@given(TEXT, st.data())
def test_merging_covers_the_same_characters_and_replacing_leaves_the_others_whole(
    text: str, data: st.DataObject
) -> None:
    spans = data.draw(spans_of(len(text)))
    disjoint = merged(spans)
    covered = {at for s in spans for at in range(s.start, s.end)}
    assert {at for s in disjoint for at in range(s.start, s.end)} == covered
    assert all(a.end <= b.start for a, b in pairwise(disjoint))
    borders = [0, *(at for s in disjoint for at in (s.start, s.end)), len(text)]
    outside = [text[a:b] for a, b in zip(borders[::2], borders[1::2], strict=True)]
    expected = outside[0] + "".join(f"[{s.type}]{piece}" for s, piece in zip(disjoint, outside[1:], strict=True))
    assert replaced(text, disjoint) == expected


@given(TEXT, st.integers(8, 60), st.integers(0, 40))
def test_slices_cover_everything_within_the_limit(text: str, limit: int, overlap: int) -> None:
    overlap = min(overlap, limit - 7)
    pieces = slices(text, limit=limit, overlap=overlap)
    assert {at for a, b in pieces for at in range(a, b)} == set(range(len(text)))
    assert all(len(text[a:b].encode()) <= limit for a, b in pieces)
    for (_, end), (start, _) in pairwise(pieces):
        assert len(text[start:end].encode()) >= overlap


@given(PROSE, st.sampled_from(PLANTED), PROSE)
def test_a_planted_identifier_never_remains_and_the_text_around_it_does(before: str, planted: str, after: str) -> None:
    done = scrub(f"{before} {planted} {after}", KnownWords(), Policy()).text
    assert planted not in done
    assert not re.search(r"\d{4}|example", done)
    assert done.startswith(f"{before} [")
    assert done.endswith(f"] {after}")


@given(PROSE, st.integers(0, 60), PROSE)
@settings(max_examples=60)
def test_no_part_of_a_name_remains_wherever_the_cut_falls(before: str, shift: int, after: str) -> None:
    text = f"{before}{'.' * shift} {NAME} {after}"
    small = partial(slices, limit=60, overlap=20)
    with patch.object(detection, "slices", small):
        done = scrub(text, KnownWords({NAME: "NAME"}), Policy()).text
    assert done == f"{before}{'.' * shift} [NAME] {after}"


@given(
    st.lists(
        st.sampled_from([*PLANTED, NAME, "call", "password:", "token=", "[EMAIL]", "card", "a1b2c3d4e5", " ", "\n"])
    )
)
def test_scrubbing_twice_changes_nothing(words: list[str]) -> None:
    detector = KnownWords({NAME: "NAME", "call": "USERNAME", "EMAIL": "NAME"})
    once = scrub(" ".join(words), detector, Policy()).text
    assert scrub(once, detector, Policy()).text == once


PIECES = [
    NAME,
    "Brekke",
    "\u00c5se",
    "my name is",
    "I am",
    "Will",
    "ole_77",
    "9 Fir Road",
    "[NAME]",
    "paid",
    ". ",
    "\n",
]
RUN = st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join), max_size=5)
SIGHTED = {NAME: "NAME", "ole_77": "USERNAME", "9 Fir Road": "ADDRESS"}


@given(RUN)
def test_scrubbing_a_whole_run_twice_changes_nothing(texts: list[str]) -> None:
    once = scrub_texts(texts, KnownWords(SIGHTED), Policy()).texts
    assert scrub_texts(once, KnownWords(SIGHTED), Policy()).texts == once


@given(RUN)
def test_a_name_seen_in_one_text_remains_in_none(texts: list[str]) -> None:
    done = scrub_texts([*texts, f"Signed: {NAME}"], KnownWords(SIGHTED), Policy()).texts
    assert not any(part in text for text in done for part in NAME.split())


@given(
    TEXT, st.lists(st.tuples(st.sampled_from(sorted(TYPES)), st.integers(-5, 300), st.integers(-5, 300), st.floats()))
)
def test_whatever_the_detector_answers_the_rest_of_the_text_is_kept_in_order(
    text: str, findings: list[tuple[str, int, int, float]]
) -> None:
    done = scrub(text, Canned(findings), Policy()).text
    at = 0
    for piece in PLACEHOLDER.split(done):
        assert text.find(piece, at) >= 0
        at = text.find(piece, at) + len(piece)
    assert scrub(done, KnownWords(), Policy()).text == done


@given(st.lists(PROSE, max_size=6))
def test_fields_scrubbed_together_equal_fields_scrubbed_alone(fields: list[str]) -> None:
    fields = [f"{field} {NAME}" for field in fields]
    together = scrub_texts(fields, KnownWords({NAME: "NAME"}), Policy()).texts
    assert list(together) == [scrub(field, KnownWords({NAME: "NAME"}), Policy()).text for field in fields]
