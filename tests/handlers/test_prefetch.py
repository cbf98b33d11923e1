"""Prefetch: what was recalled while the run was queued is picked up by id, by that run alone, or found anew."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain import prefetching
from agent_memory.domain.errors import AccessRefusedError, ModelBusyError
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, TENANT, LambdaContext
from support.recalls import FixedEmbedder, an_episode_at
from support.retrieval import a_knowledge_base

from lambdas.bootstrap.handler import handler

GENEROUS = 20_000
UNKNOWN = "c-00000000-0000-4000-8000-000000000000"
MISSING = {"tier": "prefetch", "note": "prefetch_missing"}


@pytest.fixture
def told() -> list[tuple[str, Any]]:
    return []


@pytest.fixture
def account(told: list[tuple[str, Any]]) -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        account.services.__dict__["embedder"] = FixedEmbedder()
        account.services.__dict__["publish"] = lambda *event: told.append(event)
        a_knowledge_base(account)
        assert account.services.tenant(TENANT).episodes.put(an_episode_at(0.95, run_id="near")) == "stored"
        yield account


def ask(**question: Any) -> dict[str, Any]:
    event = {"tenant_id": TENANT, "agent_id": AGENT, "task": "kiln upkeep", "budget_ms": GENEROUS, **question}
    return dict(handler({name: value for name, value in event.items() if value is not None}, LambdaContext()))


def prefetched(**question: Any) -> str:
    answer = ask(prefetch=True, **question)
    assert answer["prefetched"] is True, answer
    return str(answer["context_id"])


def ids(answer: dict[str, Any]) -> list[str]:
    return [item["id"] for item in answer["items"]]


def forget_the_embedder(account: AwsAccount) -> None:
    account.services.__dict__["embedder"] = FixedEmbedder(ModelBusyError("must not be asked"))


def test_what_was_prefetched_is_picked_up_without_reading_memory_again(account: AwsAccount) -> None:
    context_id = prefetched()
    forget_the_embedder(account)
    account.client("dynamodb").delete_table(TableName=account.settings.episodes_table)
    for task in ("kiln upkeep", None):
        answer = ask(context_id=context_id, task=task)
        assert (answer["context_id"], answer["prefetched"], answer["degraded"]) == (context_id, True, [])
        assert ids(answer) == [f"{AGENT}/near"]
        assert answer["context"].startswith(f'<agent-memory id="{context_id}">')


def test_the_answer_to_a_prefetch_holds_no_memories(account: AwsAccount) -> None:
    answer = ask(prefetch=True)
    assert (answer["context"], answer["items"], answer["nothing_relevant"]) == ("", [], False)


def test_memories_count_as_read_when_they_are_picked_up_and_not_before(
    account: AwsAccount, told: list[tuple[str, Any]]
) -> None:
    context_id = prefetched()
    assert told == []
    ask(context_id=context_id)
    ask(context_id=context_id)
    # The recording is once per context, however often it is told.
    assert [(kind, detail["context_id"]) for kind, detail in told] == [("Memory Retrieved", context_id)] * 2


def test_that_nothing_is_relevant_is_prefetched_as_well(account: AwsAccount) -> None:
    account.services.__dict__["embedder"] = FixedEmbedder(-FixedEmbedder().embed(""))
    context_id = prefetched()
    answer = ask(context_id=context_id)
    assert (answer["nothing_relevant"], answer["prefetched"], answer["items"]) == (True, True, [])


@pytest.mark.parametrize(
    "other",
    [
        {"agent_id": "stranger"},
        {"tenant_id": "other-tenant"},
        {"user_id": "somebody"},
        {"task": "another task"},
        {"domain": "pottery"},
        {"max_context_tokens": 50},
        {"tiers": ["semantic"]},
    ],
)
def test_another_agent_user_or_question_gets_an_answer_of_its_own(account: AwsAccount, other: dict[str, Any]) -> None:
    context_id = prefetched()
    answer = ask(context_id=context_id, **other)
    assert answer["prefetched"] is False
    assert answer["context_id"] != context_id
    assert MISSING in answer["notes"]
    if "task" not in other:
        ids_only = ask(context_id=context_id, task=None, **other)
        if {"agent_id", "tenant_id", "user_id"} & set(other):
            assert ids_only["items"] == []
            assert ids_only["degraded"] == [{"tier": "prefetch", "reason": "missing"}]


def test_a_users_context_is_picked_up_for_that_user_only(account: AwsAccount) -> None:
    context_id = prefetched(user_id="somebody")
    for user_id in (None, "somebody-else"):
        answer = ask(context_id=context_id, task=None, user_id=user_id)
        assert (answer["items"], answer["degraded"]) == ([], [{"tier": "prefetch", "reason": "missing"}])
    assert ask(context_id=context_id, task=None, user_id="somebody")["prefetched"] is True


def test_an_unknown_id_costs_a_recall_and_not_the_run(account: AwsAccount) -> None:
    answer = ask(context_id=UNKNOWN)
    assert (ids(answer), answer["notes"], answer["degraded"]) == ([f"{AGENT}/near"], [MISSING], [])
    assert answer["nothing_relevant"] is False
    answer = ask(context_id=UNKNOWN, task=None)
    assert (answer["context"], answer["nothing_relevant"]) == ("", False)


def test_what_waited_too_long_is_found_anew_though_its_row_is_still_there(account: AwsAccount) -> None:
    context_id = prefetched()
    now = account.services.now()
    account.services.__dict__["now"] = lambda: now + account.settings.prefetch_minutes * 60
    answer = ask(context_id=context_id)
    assert (answer["prefetched"], ids(answer)) == (False, [f"{AGENT}/near"])


@pytest.mark.parametrize("entry", ["u-0123", "*"])
def test_what_was_kept_before_an_erasure_is_not_picked_up_after_it(account: AwsAccount, entry: str) -> None:
    context_id = prefetched()
    account.erase(TENANT, entry, before=account.services.now() + 5)
    assert ask(context_id=context_id)["prefetched"] is False
    account.erase(TENANT, entry, before=account.services.now() - 60)
    assert ask(context_id=context_id)["prefetched"] is True


@pytest.mark.parametrize("entry", ["u-0123", "*"])
def test_nothing_is_kept_when_somebody_is_erased_while_memory_is_read(account: AwsAccount, entry: str) -> None:
    account.erase(TENANT, entry, before=account.services.now())
    assert ask(prefetch=True)["prefetched"] is False
    assert [row for row in account.items(account.settings.ledger_table) if "content" in row] == []
    account.erase(TENANT, entry, before=account.services.now() - 1)
    assert ask(prefetch=True)["prefetched"] is True
    assert [row for row in account.items(account.settings.ledger_table) if "content" in row]


def test_a_degraded_recall_is_not_kept_for_a_run_that_may_find_more(account: AwsAccount) -> None:
    forget_the_embedder(account)
    answer = ask(prefetch=True)
    assert (answer["prefetched"], answer["degraded"]) == (False, [{"tier": "embedding", "reason": "throttled"}])
    assert ask(context_id=answer["context_id"])["prefetched"] is False


class Refusing:
    def keep(self, _: object) -> bool:
        raise AccessRefusedError("dynamodb:PutItem was refused")

    def get(self, _: object) -> None:
        raise AccessRefusedError("dynamodb:GetItem was refused")


def test_a_store_that_refuses_is_named_and_the_run_gets_its_memories(account: AwsAccount) -> None:
    account.services.tenant(TENANT).__dict__["prefetches"] = Refusing()
    denied = {"tier": "prefetch", "reason": "denied"}
    assert denied in ask(prefetch=True)["degraded"]
    answer = ask(context_id=UNKNOWN)
    assert (answer["degraded"], ids(answer)) == ([denied], [f"{AGENT}/near"])


def test_what_is_too_large_for_a_row_is_not_kept(account: AwsAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetching, "MAX_BYTES", 10)
    answer = ask(prefetch=True)
    assert (answer["prefetched"], answer["degraded"]) == (False, [{"tier": "prefetch", "reason": "too_large"}])


@pytest.mark.parametrize("content", [b"", b"junk", b"\x1f\x8b", None, "text"])
def test_a_row_that_nobody_of_ours_wrote_is_found_anew(account: AwsAccount, content: object) -> None:
    context_id = prefetched()
    (row,) = [row for row in account.items(account.settings.ledger_table) if row["entry_id"]["S"] == context_id]
    kinds: dict[type, str] = {bytes: "B", str: "S", type(None): "NULL"}
    row["content"] = {kinds[type(content)]: True if content is None else content}
    account.client("dynamodb").put_item(TableName=account.settings.ledger_table, Item=row)
    assert ids(ask(context_id=context_id)) == [f"{AGENT}/near"]


def test_the_row_names_no_user_and_its_life_is_short(account: AwsAccount) -> None:
    context_id = prefetched(user_id="person@example.org")
    (row,) = [row for row in account.items(account.settings.ledger_table) if row["entry_id"]["S"] == context_id]
    assert row["ledger_key"]["S"] == f"{TENANT}#prefetch"
    assert "person@example.org" not in json.dumps(row, default=repr)
    assert int(row["expires_at"]["N"]) - int(row["kept_at"]["N"]) == 3600


@pytest.mark.parametrize(
    ("field", "question"),
    [
        ("prefetch", {"prefetch": "yes"}),
        ("context_id", {"context_id": "a b"}),
        ("context_id", {"context_id": 7}),
        ("context_id", {"prefetch": True, "context_id": UNKNOWN}),
        ("task", {"prefetch": True, "task": None}),
        ("task", {"context_id": UNKNOWN, "task": " "}),
    ],
)
def test_a_prefetch_that_breaks_a_rule_is_refused_by_field(
    account: AwsAccount, field: str, question: dict[str, Any]
) -> None:
    assert ask(**question)["error"]["field"] == field
