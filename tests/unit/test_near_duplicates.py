"""Near-duplicates: a memory goes for another only when that one says all that it says."""

import pytest
from agent_memory.domain.grouping import near_duplicates
from agent_memory.domain.models import Episode
from support.builders import a_vector, an_episode

ASKED = (
    "Renew the licence of the warehouse scanner for the Oslo site and tell the team. "
    "The scanner licence may be renewed by the team lead without approval from finance."
)


def twin(run_id: str, **changes: object) -> Episode:
    """One of several whose vectors are the same, as those of a text and of its opposite nearly are."""
    alike = {"task": "Renew the licence", "digest": ASKED, "task_vector": a_vector(1), "digest_vector": a_vector(1)}
    return an_episode(run_id=run_id, **{**alike, **changes})


def groups_of(*episodes: Episode) -> list[set[str]]:
    return [{one.run_id for one in group} for group in near_duplicates(episodes)]


def test_what_says_the_same_is_one_group() -> None:
    reworded = ASKED.replace("Renew the licence", "Please renew the licence")
    assert groups_of(twin("a"), twin("b"), twin("c", digest=reworded)) == [{"a", "b", "c"}]


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": ASKED.replace("may be", "may not be")},
        {"digest": ASKED.replace("Oslo", "Bergen")},
        {"digest": ASKED.replace("without", "only with")},
        {"key_findings": ("The gate code is in the blue folder.",)},
        {"reusable_patterns": ("Never call the vendor before noon.",)},
    ],
    ids=["negated", "another name", "the opposite", "knows more", "another pattern"],
)
def test_what_says_something_else_stays_however_alike_it_looks(changes: dict[str, object]) -> None:
    assert groups_of(twin("a", access_count=1), twin("b", **changes)) == []


def test_the_same_words_in_other_roles_are_no_duplicate() -> None:
    paid, received = ("Acme paid Globex for the crane.", "Globex paid Acme for the crane.")
    assert groups_of(twin("a", digest=paid), twin("b", digest=received)) == []
