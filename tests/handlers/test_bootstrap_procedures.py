"""Procedures in a recall, on the account's own tables: what is offered, what is kept of it, and what can't be read."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, NOW, TENANT, LambdaContext, an_sqs_event
from support.procedures import TASK_TYPE, a_procedure, an_approved, stored
from support.recalls import FixedEmbedder, at_cosine
from support.retrieval import a_knowledge_base

from lambdas.bootstrap.handler import handler as bootstrap
from lambdas.record_retrieval.handler import handler as record_retrieval


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account(taskTypeAliases=json.dumps({"drain-pool": [TASK_TYPE]})) as account:
        vars(account.services)["embedder"] = FixedEmbedder()
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        a_knowledge_base(account)
        yield account


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


def ask(**question: Any) -> dict[str, Any]:
    asked = {"tenant_id": TENANT, "agent_id": AGENT, "task": "Drain n-9.", "budget_ms": 20_000, **question}
    return dict(json.loads(json.dumps(bootstrap(asked, LambdaContext()), allow_nan=False)))


def test_an_approved_procedure_is_offered_by_task_type_by_alias_and_by_meaning(tenant: TenantServices) -> None:
    stored(tenant.procedures, an_approved(a_procedure(task_vector=at_cosine(0.95))))
    for question in ({"task_type": TASK_TYPE}, {"task_type": "drain-pool"}, {}):
        answer = ask(**question)
        assert [item["tier"] for item in answer["items"]] == ["procedural"]
        assert answer["degraded"] == []
        assert "procedure 1 of 1: task type drain-node" in answer["context"]
    assert ask(task_type="other")["nothing_relevant"] is True
    assert ask(tiers=["episodic", "semantic"])["items"] == []


def test_a_procedure_of_another_tenant_is_offered_to_nobody_here(account: AwsAccount) -> None:
    theirs = account.services.tenant("other-tenant").procedures
    stored(theirs, an_approved(a_procedure(tenant_id="other-tenant", task_vector=at_cosine(0.99))))
    assert ask(task_type=TASK_TYPE)["items"] == ask()["items"] == []
    assert len(ask(tenant_id="other-tenant", task_type=TASK_TYPE)["items"]) == 1


def test_what_was_offered_is_kept_with_the_context_in_its_very_words(
    account: AwsAccount, tenant: TenantServices
) -> None:
    procedure = stored(tenant.procedures, an_approved())
    told: list[tuple[str, Any]] = []
    account.services.publish = lambda *event: told.append(event)  # type: ignore[method-assign]  # what would go to the bus
    answer = ask(task_type=TASK_TYPE)
    ((kind, detail),) = told
    assert procedure.title not in json.dumps(detail)
    event = {"detail-type": kind, "source": "agent-memory", "detail": detail}
    assert record_retrieval(an_sqs_event(event), LambdaContext()) == {"batchItemFailures": []}
    (kept,) = tenant.ledger.context(answer["context_id"]) or ()
    assert (kept.memory_id, kept.tier, kept.task_type) == (procedure.procedure_id, "procedural", TASK_TYPE)
    assert kept.steps_sha256 == procedure.steps_sha256


def test_a_table_that_cannot_be_read_is_named_and_the_rest_is_answered(account: AwsAccount) -> None:
    account.client("dynamodb").delete_table(TableName=account.settings.procedures_table)
    answer = ask(task_type=TASK_TYPE)
    assert answer["degraded"] == [{"tier": "procedural", "reason": "error"}]
    assert answer["nothing_relevant"] is False


def test_a_row_that_another_release_wrote_is_counted_and_hides_nothing(
    account: AwsAccount, tenant: TenantServices
) -> None:
    stored(tenant.procedures, an_approved())
    odd = stored(tenant.procedures, an_approved(a_procedure(steps=("Other.",), proposed_by=(AGENT, "r-2"))))
    account.client("dynamodb").update_item(
        TableName=account.settings.procedures_table,
        Key={"task_key": {"S": f"{TENANT}#{TASK_TYPE}"}, "procedure_id": {"S": odd.procedure_id}},
        UpdateExpression="SET #steps = :odd",
        ExpressionAttributeNames={"#steps": "steps"},
        ExpressionAttributeValues={":odd": {"N": "7"}},
    )
    answer = ask(task_type=TASK_TYPE)
    assert (len(answer["items"]), answer["unreadable"]) == (1, 1)
