"""Near-duplicates of an index: their marks, and what an erasure leaves of these."""

from agent_memory.domain.agentcore import AgentCoreMemory
from agent_memory.domain.agentcore_index import Entry, Listing, Note, RecordIndex, listed, without
from agent_memory.domain.agentcore_twins import to_be_looked_at, twins
from support.builders import NOW

MEMORY = AgentCoreMemory(memory_id="harbour-Abc1234567", namespaces=("/actors/",))
PLACE, OTHER = "a-1", "a-2"


def an_index(**changes: object) -> RecordIndex:
    entries = {
        name: Entry(record_id=name, place=place, created_at=NOW - 60, words=words)
        for name, place, words in (("r1", PLACE, "w"), ("r2", PLACE, "w"), ("r3", PLACE, "v"), ("r4", OTHER, "w"))
    }
    index = RecordIndex(entries=entries, namespaces={PLACE: "/actors/a/", OTHER: "/actors/b/"})
    return index.model_copy(update=changes)


def mark_of(index: RecordIndex) -> str:
    [(place, mark)] = twins(index, now=NOW)
    assert place == PLACE
    return mark


def test_a_mark_is_of_the_very_records_in_their_very_words() -> None:
    index = an_index()
    grown = Entry(record_id="r5", place=PLACE, created_at=NOW, words="w")
    reworded = {**index.entries, **{n: index.entries[n].model_copy(update={"words": "x"}) for n in ("r1", "r2")}}
    marks = {
        mark_of(an_index(entries=entries)) for entries in (index.entries, {**index.entries, "r5": grown}, reworded)
    }
    assert len(marks) == 3


def test_what_is_marked_is_not_looked_at_and_what_joins_it_is() -> None:
    index = an_index()
    marked = an_index(apart={PLACE: (mark_of(index),)})
    assert (to_be_looked_at(index, 9, now=NOW), to_be_looked_at(marked, 9, now=NOW)) == ({PLACE}, frozenset())
    assert to_be_looked_at(marked, 2, now=NOW) == {PLACE}
    joined = {**index.entries, "r5": Entry(record_id="r5", place=PLACE, created_at=NOW, words="w")}
    assert to_be_looked_at(marked.model_copy(update={"entries": joined}), 9, now=NOW) == {PLACE}


def test_marks_go_with_a_record_of_their_namespace_and_with_no_others() -> None:
    marked = an_index(apart={PLACE: ("m",), OTHER: ("n",)})
    assert without(marked, ["r2"]).apart == {OTHER: ("n",)}
    assert without(marked, ["r4"]).apart == {PLACE: ("m",)}
    assert without(marked, []).apart == marked.apart


def test_a_listing_takes_marks_in_and_one_of_everything_forgets_them() -> None:
    marked, note = an_index(apart={OTHER: ("n",)}), Note(kind="apart", name="m", place=PLACE, namespace="/actors/a/")
    some, everything = (Listing([], whole, "n-1", [note]) for whole in (False, True))
    assert listed(marked, some, MEMORY, now=NOW).apart == {PLACE: ("m",), OTHER: ("n",)}
    assert listed(marked, everything, MEMORY, now=NOW).apart == {}
