"""Whatever a person said among others, nothing of it stays, and what others said is what it was."""

from agent_memory.domain.erasing_facts import reduced
from agent_memory.domain.erasing_files import mentions, pruned
from agent_memory.domain.erasure import Erasure, Traces, belongs
from agent_memory.domain.fact_writes import StoreMarks
from agent_memory.domain.facts import BELIEVED, Fact, Observation
from hypothesis import given, settings
from hypothesis import strategies as st
from support.facts import NOW, Gate, a_candidate, after

USERS = ("u-alice", "u-bob", "u-cleo", None)
said = st.lists(st.tuples(st.sampled_from(USERS), st.integers(0, 4)), min_size=1, max_size=8, unique_by=lambda s: s[1])


def facts_after(claims: list[tuple[str | None, int]]) -> list[Fact]:
    return after(
        a_candidate(f"Depot K closes at 16:00{'.' * (user == 'u-alice')}", run=f"r-{run}", user_ref=user)
        for user, run in claims
    )


def is_alices(one: Observation) -> bool:
    return one.user_ref == "u-alice"


@settings(max_examples=80, deadline=None)
@given(said)
def test_a_reduced_fact_names_nothing_of_the_person_and_keeps_all_of_the_others(
    claims: list[tuple[str | None, int]],
) -> None:
    runs = {("claims-bot", f"r-{run}") for user, run in claims if user == "u-alice"}
    for fact in facts_after(claims):
        change = reduced(
            fact, StoreMarks(), "u-alice", is_alices, lambda agent, run: (agent, run) in runs, Gate(), now=NOW
        )
        others = tuple(one for one in fact.observations if one.user_ref != "u-alice")
        if change is None:
            assert others == fact.observations
            continue
        assert change.fact is not None or not others
        if change.fact is not None:
            kept = change.fact
            assert kept.observations == others
            assert kept.content in {one.content for one in others}
            assert not {(step.agent_id, step.run_id) for step in kept.history} & runs
            assert kept.state not in BELIEVED or len(kept.runs) >= Gate().confirmation_threshold
            again = reduced(
                kept, change.marks, "u-alice", is_alices, lambda agent, run: (agent, run) in runs, Gate(), now=NOW
            )
            assert again is None


names = st.sampled_from(["bot/r-1", "bot/r-2", "f-1", "other", "bot"])
json_values = st.recursive(
    names | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=3)
    | st.fixed_dictionaries({"agent_id": st.just("bot"), "run_id": st.sampled_from(["r-1", "r-2"])}),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(json_values, max_size=5))
def test_pruned_files_name_nothing_of_the_person_and_pruning_again_changes_nothing(value: list[object]) -> None:
    def theirs(agent: str, run: str) -> bool:
        return (agent, run) == ("bot", "r-1")

    once = pruned(value, theirs, frozenset({"f-1"}))
    assert not mentions(once, theirs, frozenset({"f-1"}))
    assert "r-1" not in str(once)
    assert "f-1" not in str(once)


@given(st.sampled_from(USERS), st.integers(NOW - 5, NOW + 5), st.sampled_from(["r-1", "r-2"]))
def test_a_row_belongs_by_its_run_or_by_its_pseudonym_before_the_cut_off(
    user: str | None, ended_at: int, run: str
) -> None:
    erasure = Erasure(erasure_id="x-1", tenant_id="t", user_ref="u-alice", erased_before=NOW)
    traces = Traces().with_runs([erasure.run_hash("bot", "r-1")])
    row = {"agent_id": "bot", "run_id": run, "user_ref": user, "ended_at": ended_at}
    assert belongs(row, erasure, traces) is (run == "r-1" or (user == "u-alice" and ended_at <= NOW))


def test_slices_of_nights_keep_their_shape_without_the_persons_runs_and_facts() -> None:
    def theirs(agent: str, run: str) -> bool:
        return (agent, run) == ("bot", "r-1")

    look = {"agents": [{"agent_id": "bot", "run_ids": ["r-1", "r-2"]}], "facts": [["depots", "f-1"], ["depots", "f-2"]]}
    assert pruned(look, theirs, frozenset({"f-1"})) == {
        "agents": [{"agent_id": "bot", "run_ids": ["r-2"]}],
        "facts": [["depots", "f-2"]],
    }
