"""The regression_cases function on the real adapters: cases are scrubbed, users are pseudonyms, asking leaves no mark."""

from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain.errors import ModelBusyError, RetryableError
from agent_memory.domain.regressions import MAX_CASES
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, TENANT, LambdaContext
from support.detectors import Down, KnownWords
from support.recalls import FixedEmbedder, an_episode_at
from support.regressions import a_case
from support.retrieval import a_knowledge_base

from lambdas.regression_cases.handler import handler

CASE = {
    "case_id": "move",
    "agent_id": AGENT,
    "question": "Move Ada's booking.",
    "criteria": ["Booking K7 could be moved without a fee."],
    "minimum": 0.6,
}


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = FixedEmbedder()
        vars(account.services)["detector"] = KnownWords({"Ada": "NAME"})
        a_knowledge_base(account)
        yield account


def called(action: str, **event: Any) -> dict[str, Any]:
    return dict(handler({"action": action, "tenant_id": TENANT, **event}, LambdaContext()))


def test_a_case_is_stored_without_personal_data_and_its_user_as_a_pseudonym(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = called("add", case={**CASE, "user_id": "ada@example.com"})
    assert (answer["scrubbed"], answer["replaced"], answer["case"]["question"]) == (
        True,
        False,
        "Move [NAME]'s booking.",
    )
    [stored] = account.services.tenant(TENANT).regressions.cases()
    assert stored.question == "Move [NAME]'s booking."
    assert stored.user_ref is not None
    assert stored.user_ref.startswith("u-")
    rows = str(account.items(account.settings.ledger_table))
    said = capsys.readouterr().out
    for word in ("Ada", "ada@example.com"):
        assert word not in rows
        assert word not in said
    assert "booking" not in said


def test_a_case_of_the_same_id_is_replaced_and_the_next_one_over_the_limit_is_refused(account: AwsAccount) -> None:
    store = account.services.tenant(TENANT).regressions
    for number in range(MAX_CASES - 1):
        store.put(a_case(case_id=f"c-{number}"))
    assert called("add", case=CASE)["replaced"] is False
    assert called("add", case=CASE)["replaced"] is True
    refused = called("add", case={**CASE, "case_id": "one-more"})
    assert refused["error"]["field"] == "case_id"
    assert "regress remove" in refused["error"]["message"]


def test_a_detector_that_is_down_stores_nothing(account: AwsAccount) -> None:
    vars(account.services)["detector"] = Down()
    with pytest.raises(ModelBusyError):
        called("add", case=CASE)
    assert account.services.tenant(TENANT).regressions.cases() == []


def test_asking_scores_what_memory_holds_and_counts_as_no_access(account: AwsAccount) -> None:
    episodes = account.services.tenant(TENANT).episodes
    episodes.put(an_episode_at(0.95))
    called("add", case=CASE)
    [found] = called("ask", case_id="move")["cases"]
    assert (found["case_id"], found["score"], found["verdict"]) == ("move", 1.0, "PASS")
    assert len(called("ask")["cases"]) == 1
    [row] = account.episodes()
    assert row["access_count"] == {"N": "0"}
    kinds = {row["ledger_key"]["S"] for row in account.items(account.settings.ledger_table)}
    assert kinds == {f"{TENANT}#regressions"}


def test_an_embedder_that_is_down_is_no_verdict(account: AwsAccount) -> None:
    called("add", case=CASE)
    vars(account.services)["embedder"] = FixedEmbedder(ModelBusyError("down"))
    with pytest.raises(RetryableError):
        called("ask")


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"action": "drop"}, "action"),
        ({"action": "ask", "tenant_id": "registry"}, "tenant_id"),
        ({"action": "ask", "case_id": "none-such"}, "case_id"),
        ({"action": "ask", "case_id": "a#b"}, "case_id"),
        ({"action": "add", "case": None}, "case"),
        ({"action": "add", "case": {**CASE, "user_id": ["ada"]}}, "user_id"),
        ({"action": "add", "case": {**CASE, "minimum": 2}}, "minimum"),
    ],
)
def test_hostile_input_is_refused_by_its_field(account: AwsAccount, event: dict[str, Any], field: str) -> None:
    assert handler({"tenant_id": TENANT, **event}, LambdaContext())["error"]["field"] == field


def test_what_is_no_object_is_refused(account: AwsAccount) -> None:
    assert handler(["ask"], LambdaContext())["error"]["field"] == "input"


def test_a_case_of_another_tenant_is_not_there(account: AwsAccount) -> None:
    called("add", case=CASE)
    assert called("ask", tenant_id="other") == {"cases": []}
