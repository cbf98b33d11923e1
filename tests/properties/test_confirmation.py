"""However deliveries interleave and repeat, the counts come out the same; and the verdict has no direction."""

from collections.abc import Sequence

from agent_memory.domain.facts import Candidate
from agent_memory.domain.same_fact import Relation, same_fact, thresholds_of
from hypothesis import given, settings
from hypothesis import strategies as st
from support.facts import a_candidate, after

WORDINGS = {
    "closing": ("Depot K closes at 16:00.", "The closing time of depot K is 4 pm.", "depot k closes at 16:00"),
    "later": ("Depot K closes at 17:00.", "Depot K closes at 5 p.m."),
    "crane": ("The crane lifts 2 t.", "The crane lifts 2,000 kg."),
}
deliveries = st.lists(
    st.tuples(st.sampled_from(sorted(WORDINGS)), st.integers(0, 5), st.integers(0, 2)),
    min_size=1,
    max_size=14,
    unique_by=lambda d: d[:2],
)


def delivered(claim: str, run: int, wording: int) -> Candidate:
    texts = WORDINGS[claim]
    subject = "crane" if claim == "crane" else "depot"
    return a_candidate(
        texts[wording % len(texts)], run=f"r-{run}", subject=subject, position=sorted(WORDINGS).index(claim)
    )


def counted(claims: Sequence[tuple[str, int, int]]) -> dict[str, set[tuple[str, str]]]:
    claim_of = {text: claim for claim, texts in WORDINGS.items() for text in texts}
    facts = after(delivered(*claim) for claim in claims)
    assert len({claim_of[fact.content] for fact in facts}) == len(facts), "one claim became two facts"
    return {claim_of[fact.content]: set(fact.runs) for fact in facts}


@settings(max_examples=60, deadline=None)
@given(deliveries, st.data())
def test_any_order_and_repetition_of_the_deliveries_ends_with_the_same_counts(
    claims: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(claims), max_size=6))
    shuffled = data.draw(st.permutations([*claims, *again]))
    true_counts: dict[str, set[tuple[str, str]]] = {}
    for claim, run, _ in claims:
        true_counts.setdefault(claim, set()).add(("claims-bot", f"r-{run}"))
    assert counted(shuffled) == true_counts


words = st.sampled_from(
    [
        "the",
        "depot",
        "Kiln",
        "K",
        "2",
        "3",
        "kg",
        "lb",
        "not",
        "never",
        "closes",
        "opens",
        "before",
        "after",
        "at",
        "16:00",
        "4",
        "pm",
        "Monday",
        "May",
        "all",
        "some",
        "must",
        "may",
        "without",
        "from",
        "to",
        "by",
        "NW-77",
        "倉",
        "unpaid",
        "5,000",
        "%",
    ]
)
sentences = st.one_of(st.lists(words, min_size=1, max_size=9).map(" ".join), st.text(max_size=60))


@settings(max_examples=300, deadline=None)
@given(sentences, sentences, st.floats(-1, 1))
def test_the_verdict_has_no_direction_and_no_text_breaks_it(a: str, b: str, cosine: float) -> None:
    thresholds = thresholds_of("local.all-minilm-l6-v2")
    forth = same_fact(a, b, cosine=cosine, thresholds=thresholds)
    back = same_fact(b, a, cosine=cosine, thresholds=thresholds)
    assert forth.relation is back.relation


@settings(max_examples=200, deadline=None)
@given(sentences)
def test_every_text_is_the_same_as_itself(text: str) -> None:
    verdict = same_fact(text, f"  {text} ", cosine=0.0, thresholds=thresholds_of("local.all-minilm-l6-v2"))
    assert verdict.relation is Relation.SAME
