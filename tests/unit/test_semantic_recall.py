"""Facts in a recall, on values: floors, deadlines, and the context that facts and episodes share."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from agent_memory.domain.calibration import LOCAL_MODEL, TITAN_V2, fact_floor
from agent_memory.domain.deadlines import Budget, Reads
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.fact_writes import FoundFact, StoreMarks
from agent_memory.domain.facts import Fact, FactState
from agent_memory.domain.knowledge import KnowledgeQuery, Passages
from agent_memory.domain.knowledge_ports import Knowledge
from agent_memory.domain.memory_context import strip_memory_context
from agent_memory.domain.ports import Facts, UserRefs
from agent_memory.domain.recall_request import FactRules, RecallRequest, RecallRules, recall_request
from agent_memory.domain.recalled import RecalledItem, Remembered, context_of, within_budget
from agent_memory.domain.retrievals import retrieval_of
from agent_memory.domain.semantic_recall import FactDoors, FoundFacts, SemanticRecall
from support.builders import NOW, a_memory_retrieved_event, a_vector

CONTEXT_ID = "c-00000000-0000-4000-8000-000000000000"
RULES = RecallRules(budget_ms=1500, max_episodes=3, max_facts=5, max_context_tokens=2000)
QUESTION = {"tenant_id": "northwind", "agent_id": "claims-bot", "task": "depot hours"}


def a_found_fact(number: int = 1, **changes: Any) -> FoundFact:
    values = {
        "tenant_id": "northwind",
        "domain": "depots",
        "fact_id": f"f-{number:032x}",
        "content": f"Depot {number} closes at 16:00.",
        "state": FactState.PROMOTED,
        "confidence": 0.9,
        "created_at": NOW,
        "last_confirmed_at": NOW,
        "promoted_at": NOW,
    }
    fact = Fact.model_validate(values | changes)
    return FoundFact(fact=fact, marks=StoreMarks(), runs=3, vector=a_vector(0), embedding_model="test-model")


class Rows:
    """The facts of one tenant in memory. *reads*: the domains that were read at the same time, at most."""

    def __init__(self, *rows: FoundFact, seconds: float = 0.0) -> None:
        self.rows = rows
        self.seconds = seconds

    def domains(self) -> list[str]:
        return sorted({one.fact.domain for one in self.rows})

    def pending(self, domain: str) -> list[FoundFact]:
        time.sleep(self.seconds)
        return [one for one in self.rows if one.fact.domain == domain]

    def get_many(self, keys: Sequence[tuple[str, str]]) -> list[FoundFact]:
        return [one for one in self.rows if (one.fact.domain, one.fact.fact_id) in keys]


class NothingKnown:
    def retrieve(self, query: KnowledgeQuery) -> Passages:
        return Passages()


def found(
    rows: Rows, *, retrieve: Callable[[KnowledgeQuery], Passages] | None = None, milliseconds: int = 5000, **asked: Any
) -> tuple[FoundFacts, Reads]:
    base = NothingKnown()
    if retrieve is not None:
        base.retrieve = retrieve  # type: ignore[method-assign]  # one answer of its own
    doors = FactDoors(lambda: cast("Facts", rows), lambda: cast("Knowledge", base), lambda: cast("UserRefs", None))
    reads = Reads(Budget(milliseconds, time.monotonic))
    request = recall_request({**QUESTION, **asked}, RULES)
    recall = SemanticRecall(request, doors, reads, now=NOW, rules=FactRules(floor=0.6, ttl_days=270))
    return recall.found(a_vector(0), "test-model"), reads


def test_the_floor_belongs_to_the_model_and_a_setting_replaces_it() -> None:
    assert (fact_floor(LOCAL_MODEL), fact_floor(TITAN_V2), fact_floor("never.calibrated")) == (0.3, 0.6, 0.6)
    assert fact_floor(LOCAL_MODEL, override=0.5) == 0.5


@pytest.mark.parametrize("value", [-1, 21, 1.5, "3", True, float("nan"), [3]])
def test_a_number_of_facts_that_makes_no_sense_is_refused_by_name(value: object) -> None:
    with pytest.raises(RefusedInputError, match="max_facts"):
        recall_request({**QUESTION, "max_facts": value}, RULES)


def test_a_request_keeps_the_user_out_of_its_representation() -> None:
    request: RecallRequest = recall_request({**QUESTION, "user_id": "ada@example.com"}, RULES)
    assert request.user_id == "ada@example.com"
    assert "ada" not in repr(request)


def test_a_knowledge_base_that_hangs_costs_its_share_of_the_budget_and_no_more() -> None:
    release = threading.Event()

    def hang(query: KnowledgeQuery) -> Passages:
        release.wait(10)
        return Passages()

    began = time.monotonic()
    facts, reads = found(Rows(a_found_fact()), retrieve=hang, milliseconds=300, domain="depots")
    release.set()
    assert time.monotonic() - began < 5  # it hangs for 10
    assert [one.item.text for one in facts.memories] == ["Depot 1 closes at 16:00."]
    assert reads.degraded == [{"tier": "semantic", "reason": "timeout"}]


def test_many_domains_are_read_side_by_side() -> None:
    rows = Rows(*(a_found_fact(number, domain=f"d-{number}") for number in range(32)), seconds=0.2)
    began = time.monotonic()
    facts, _ = found(rows)
    assert time.monotonic() - began < 4  # one after the other takes 6.4
    assert (facts.passing, len(facts.memories)) == (32, 5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": FactState.SUPERSEDED}, "superseded"),
        ({"state": FactState.RETIRED}, "retired"),
        ({"state": FactState.OBSERVED}, "not_believed"),
        ({"last_confirmed_at": NOW - 270 * 86_400}, "expired"),
        ({"last_confirmed_at": NOW - 270 * 86_400 + 1}, None),
        ({"last_confirmed_at": NOW - 999 * 86_400, "pinned": True}, None),
        ({"valid_until": NOW}, "expired"),
        ({"valid_until": NOW + 1}, None),
        ({"valid_until": NOW, "pinned": True}, "expired"),
        ({"scope": "user", "user_ref": "u-1"}, "of_another_user"),
        ({"scope": "user"}, "of_another_user"),
    ],
)
def test_a_row_says_whether_its_fact_may_be_told(changes: dict[str, Any], reason: str | None) -> None:
    row = a_found_fact(**changes)
    waiting = row.model_copy(update={"fact": row.fact.model_copy(update={"ingested_at": NOW})})
    passages = Passages.model_validate(
        {
            "found": [
                {
                    "tenant_id": "northwind",
                    "domain": "depots",
                    "fact_id": row.fact.fact_id,
                    "text": "An older copy.",
                    "score": 0.9,
                }
            ]
        }
    )
    facts, _ = found(Rows(waiting), retrieve=lambda _: passages, domain="depots")
    assert [row["reason"] for row in facts.explain] == [reason]
    assert [one.item.text for one in facts.memories] == ([] if reason else ["Depot 1 closes at 16:00."])


def a_memory(kind: str, text: str) -> Remembered:
    item = RecalledItem(id=text, tier=kind, text=text, score=1.0, provenance={})
    return Remembered(kind=kind, about="run r-1", values=((kind if kind == "fact" else "task", text),), item=item)


def test_each_kind_is_counted_for_itself_and_the_whole_is_recognised_when_it_is_quoted_back() -> None:
    context = context_of(CONTEXT_ID, [a_memory("fact", "a"), a_memory("fact", "b"), a_memory("episode", "c")])
    assert [line[: line.index(":")] for line in context.splitlines()[2:-1:2]] == [
        "fact 1 of 2",
        "fact 2 of 2",
        "episode 1 of 1",
    ]
    assert strip_memory_context(f"before {context} after") == ("before  after", 1)
    cut = context.removesuffix("\n</agent-memory>")
    assert strip_memory_context(cut) == ("", 1)


def test_an_item_that_does_not_fit_is_dropped_whole_and_a_smaller_one_behind_it_is_kept() -> None:
    memories = [a_memory("fact", "short"), a_memory("fact", "long " * 400), a_memory("episode", "small")]
    kept = within_budget(CONTEXT_ID, memories, 200)
    assert [one.item.text for one in kept] == ["short", "small"]
    assert within_budget(CONTEXT_ID, memories, 0) == []


def test_a_recalled_fact_needs_no_run_and_an_episode_does() -> None:
    fact = {"memory_id": "f-1", "tier": "semantic", "agent_id": "", "run_id": ""}
    event = {**a_memory_retrieved_event(), "detail": {**a_memory_retrieved_event()["detail"], "items": [fact]}}
    (item,) = retrieval_of(event, now=NOW, context_days=7).items
    assert (item.memory_id, item.tier, item.agent_id, item.run_id) == ("f-1", "semantic", "", "")
    event["detail"]["items"] = [{**fact, "tier": "episodic"}]
    with pytest.raises(RefusedInputError):
        retrieval_of(event, now=NOW, context_days=7)
