"""The bootstrap function from input to answer, on the real adapters."""

import json
import re
from collections.abc import Iterator
from threading import Event
from time import monotonic
from typing import Any

import pytest
from agent_memory.domain.errors import ModelBusyError, StoreBusyError
from agent_memory.domain.memory_context import END_MARK
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, NOW, TENANT, LambdaContext
from support.recalls import FixedEmbedder, an_episode_at
from support.retrieval import a_knowledge_base

from lambdas.bootstrap.handler import handler

GENEROUS = 20_000


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account(sharedAgents=json.dumps({f"{TENANT}/{AGENT}": ["archivist"]})) as account:
        account.services.__dict__["embedder"] = FixedEmbedder()
        a_knowledge_base(account)
        yield account


def ask(**question: Any) -> dict[str, Any]:
    event = {"tenant_id": TENANT, "agent_id": AGENT, "task": "kiln upkeep", "budget_ms": GENEROUS, **question}
    return dict(handler(event, LambdaContext()))


def put(account: AwsAccount, cosine: float, **changes: Any) -> None:
    tenant = changes.get("tenant_id", TENANT)
    assert account.services.tenant(tenant).episodes.put(an_episode_at(cosine, **changes)) == "stored"


def test_an_answer_has_everything_the_agent_and_its_operator_need(account: AwsAccount) -> None:
    put(account, 0.95, run_id="near", reusable_patterns=("Vent before heating.",))
    put(account, 0.1, run_id="far")
    answer = ask()
    (item,) = answer["items"]
    assert item["id"] == f"{AGENT}/near"
    assert item["tier"] == "episodic"
    assert item["provenance"]["outcome"] == "COMPLETED"
    assert item["provenance"]["ended_at"] == "2027-01-15T07:59:00Z"
    assert re.fullmatch(r"c-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", answer["context_id"])
    assert '  worked: "Vent before heating."' in answer["context"].splitlines()
    assert (answer["degraded"], answer["nothing_relevant"], answer["considered"]) == ([], False, 2)
    assert all(type(spent) is int for spent in answer["timings"].values())
    assert "explain" not in answer


def test_no_memory_is_an_answer(account: AwsAccount) -> None:
    assert ask()["nothing_relevant"] is True
    put(account, 0.2)
    answer = ask()
    assert (answer["items"], answer["context"], answer["nothing_relevant"]) == ([], "", True)


def test_named_agents_of_the_same_tenant_are_read_too_and_no_others(account: AwsAccount) -> None:
    put(account, 0.95, agent_id="archivist", run_id="shared")
    put(account, 0.95, agent_id="stranger", run_id="not-shared")
    put(account, 0.95, tenant_id="other-tenant", agent_id="archivist", run_id="elsewhere")
    assert [item["id"] for item in ask()["items"]] == ["archivist/shared"]
    assert [item["id"] for item in ask(agent_id="archivist")["items"]] == ["archivist/shared"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tenant_id", "a#b"),
        ("agent_id", None),
        ("agent_id", {"a": 1}),
        ("task", 7),
        ("task", ["kiln"]),
        ("task", "x" * 60_000),
        ("task_type", "a@b"),
        ("domain", 3),
        ("user_id", 12),
        ("tiers", "episodic"),
        ("tiers", []),
        ("tiers", ["episodic", "dreams"]),
        ("tiers", [["episodic"]]),
        ("max_episodes", -1),
        ("max_episodes", 6),
        ("max_episodes", True),
        ("max_episodes", "3"),
        ("max_episodes", 2.5),
        ("max_episodes", float("nan")),
        ("max_episodes", float("inf")),
        ("max_context_tokens", -1),
        ("max_context_tokens", 10**12),
        ("budget_ms", 0),
        ("explain", "yes"),
    ],
)
def test_input_that_breaks_a_rule_is_refused_by_field(account: AwsAccount, field: str, value: object) -> None:
    answer = ask(**{field: value})
    assert answer["error"]["field"] == field
    assert answer["error"]["rule"]
    assert json.dumps(answer)


@pytest.mark.parametrize("event", [None, [], "kiln", 7, {}, {"tenant_id": TENANT}])
def test_input_that_is_no_question_is_refused(account: AwsAccount, event: Any) -> None:
    assert set(handler(event, LambdaContext())) == {"error"}


def test_unknown_fields_and_hidden_characters_change_nothing(account: AwsAccount) -> None:
    put(account, 0.95)
    assert len(ask(favourite="blue", task="kiln\u200b upkeep\ud800")["items"]) == 1


def test_explain_shows_the_parts_before_floor_collapse_and_budget(account: AwsAccount) -> None:
    put(account, 0.95, run_id="near")
    put(account, 0.1, run_id="far")
    rows = ask(explain=True, max_context_tokens=1)["explain"]
    assert [(row["id"], row["passes"]) for row in rows] == [(f"{AGENT}/near", True), (f"{AGENT}/far", False)]
    assert rows[0]["cosine_task"] == pytest.approx(0.95, abs=0.01)
    assert {"score", "cosine_digest", "lexical"} <= set(rows[0])


def test_what_was_returned_is_told_to_the_bus_in_ids_only(account: AwsAccount) -> None:
    put(account, 0.95, run_id="near", task="a secret kiln")
    told: list[tuple[str, Any]] = []
    account.services.__dict__["publish"] = lambda *event: told.append(event)
    answer = ask()
    ((kind, detail),) = told
    assert kind == "Memory Retrieved"
    assert detail["context_id"] == answer["context_id"]
    assert detail["items"] == [{"memory_id": f"{AGENT}/near", "tier": "episodic", "agent_id": AGENT, "run_id": "near"}]
    assert "secret" not in json.dumps(detail)


def test_a_bus_that_fails_costs_nothing_but_a_word(account: AwsAccount) -> None:
    put(account, 0.95)
    account.client("events").delete_event_bus(Name="agent-memory-test")

    def busy(*_: object) -> None:
        raise StoreBusyError("down")

    account.services.__dict__["publish"] = busy
    answer = ask()
    assert len(answer["items"]) == 1
    assert answer["degraded"] == [{"tier": "recording", "reason": "throttled"}]


@pytest.mark.parametrize("slow", ["embedder", "episodes", "publish"])
def test_whatever_hangs_the_answer_comes_within_its_budget(account: AwsAccount, slow: str) -> None:
    put(account, 0.95, task="kiln upkeep of K-5501", digest="kiln upkeep of K-5501")
    release = Event()
    services = account.services

    class Hanging(FixedEmbedder):
        def embed(self, text: str) -> Any:
            release.wait(30)
            return super().embed(text)

    if slow == "embedder":
        services.__dict__["embedder"] = Hanging()
    elif slow == "episodes":
        services.tenant(TENANT).__dict__["episodes"] = Waiting(release)
    else:
        services.__dict__["publish"] = lambda *_: release.wait(30)
    started = monotonic()
    answer = ask(budget_ms=700, task="kiln upkeep of K-5501")
    spent = monotonic() - started
    release.set()
    assert spent < 10  # what hangs does so for 30
    expected = {"embedder": "embedding", "episodes": "episodic", "publish": "recording"}[slow]
    assert {"tier": expected, "reason": "timeout"} in answer["degraded"]
    assert bool(answer["items"]) is (slow != "episodes")
    assert answer["nothing_relevant"] is False


class Waiting:
    """A store that does not answer before *release*."""

    def __init__(self, release: Event) -> None:
        self._release = release

    def views(self, agent_id: str, *, now: int) -> list[Any]:
        self._release.wait(30)
        return []


def test_a_refused_table_is_named_and_is_not_no_memory(account: AwsAccount) -> None:
    account.client("dynamodb").delete_table(TableName=account.settings.episodes_table)
    answer = ask()
    assert answer["degraded"] == [{"tier": "episodic", "reason": "error"}]
    assert answer["nothing_relevant"] is False


def test_the_token_budget_drops_whole_items_and_keeps_the_fence(account: AwsAccount) -> None:
    put(account, 0.97, run_id="long", key_findings=tuple("a long finding about burners " * 12 for _ in range(6)))
    put(account, 0.9, run_id="short", key_findings=("窯は二時間で温まる",))
    answer = ask(max_context_tokens=220)
    assert [item["provenance"]["run_id"] for item in answer["items"]] == ["short"]
    assert answer["context"].splitlines()[-1] == END_MARK
    assert answer["dropped"] == 1
    assert answer["nothing_relevant"] is False


def test_an_expired_item_is_not_returned_even_when_the_store_lets_it_through(account: AwsAccount) -> None:
    put(account, 0.95, run_id="past", ended_at=1_500_000_000, expires_at=1_500_000_001)
    put(account, 0.95, run_id="live", expires_at=NOW + 86_400)
    assert [item["provenance"]["run_id"] for item in ask()["items"]] == ["live"]


def test_nothing_of_the_task_or_the_memories_is_logged(
    account: AwsAccount, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    put(account, 0.95, task="secretword kiln", key_findings=("secretword finding",))
    account.services.__dict__["embedder"] = FixedEmbedder(ModelBusyError("busy"))
    ask(task="secretword kiln", user_id="person@example.org")
    handler({"tenant_id": "secretword#", "agent_id": AGENT, "task": "x"}, LambdaContext())
    metrics = capsys.readouterr()
    logged = " ".join(str(vars(record)) for record in caplog.records)
    said = logged + metrics.out + metrics.err
    assert "memory recalled" in logged
    assert "RecallsRefused" in metrics.out
    assert "secretword" not in said
    assert "person@example.org" not in said
