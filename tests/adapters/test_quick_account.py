"""What the tests' account saves itself is not seen: a refused transaction leaves no trace, an empty queue has nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.aws import AwsAccount, an_aws_account

BACK, TAKEN = {"S": "as before"}, {"S": "changed"}


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


def key(name: str) -> dict[str, dict[str, str]]:
    return {"ledger_key": {"S": "meadow#run"}, "entry_id": {"S": name}}


def rows(account: AwsAccount) -> dict[str, Any]:
    return {row["entry_id"]["S"]: row["said"] for row in account.items(account.settings.ledger_table)}


def write(account: AwsAccount, *refused: dict[str, Any]) -> None:
    """Change, replace, delete and add one row each, and do what *refused* says."""
    table = account.settings.ledger_table
    change = {
        "UpdateExpression": "SET #said.#inner = :it",
        "ExpressionAttributeNames": {"#said": "said", "#inner": "inner"},
        "ExpressionAttributeValues": {":it": TAKEN},
    }
    account.client("dynamodb").transact_write_items(
        TransactItems=[
            {"Update": {"TableName": table, "Key": key("changed"), **change}},
            {"Put": {"TableName": table, "Item": {**key("replaced"), "said": TAKEN}}},
            {"Delete": {"TableName": table, "Key": key("deleted")}},
            {"Put": {"TableName": table, "Item": {**key("added"), "said": TAKEN}}},
            *refused,
        ]
    )


def planted_in(account: AwsAccount) -> AwsAccount:
    for name in ("changed", "replaced", "deleted", "other"):
        item = {**key(name), "said": {"M": {"inner": BACK}}}
        account.client("dynamodb").put_item(TableName=account.settings.ledger_table, Item=item)
    return account


@pytest.fixture
def planted(account: AwsAccount) -> AwsAccount:
    return planted_in(account)


def test_a_transaction_does_all_of_it(planted: AwsAccount) -> None:
    write(planted)
    kept = {"M": {"inner": BACK}}
    assert rows(planted) == {"changed": {"M": {"inner": TAKEN}}, "replaced": TAKEN, "added": TAKEN, "other": kept}


def test_a_refused_transaction_does_none_of_it_and_the_next_one_finds_all_as_it_was(planted: AwsAccount) -> None:
    client, before = planted.client("dynamodb"), rows(planted)
    check = {"TableName": planted.settings.ledger_table, "ConditionExpression": "attribute_exists(entry_id)"}
    for _ in range(2):
        with pytest.raises(client.exceptions.TransactionCanceledException):
            write(planted, {"ConditionCheck": {**check, "Key": key("missing")}})
        assert rows(planted) == before
    write(planted)
    assert rows(planted)["changed"] == {"M": {"inner": TAKEN}}


def test_a_long_poll_takes_what_is_there_and_ends_when_nothing_is(account: AwsAccount) -> None:
    sqs, queue = account.client("sqs"), account.settings.refused_queue
    sqs.send_message(QueueUrl=queue, MessageBody="one")
    asked = {"QueueUrl": queue, "WaitTimeSeconds": 20, "VisibilityTimeout": 60}
    assert [message["Body"] for message in sqs.receive_message(**asked)["Messages"]] == ["one"]
    assert "Messages" not in sqs.receive_message(**asked)


def test_an_account_knows_nothing_of_the_one_before() -> None:
    clients = []
    for _ in range(2):
        with an_aws_account() as account:
            assert rows(account) == {}
            planted_in(account)
            clients.append(account.client("dynamodb"))
    assert clients[0] is clients[1]
