"""What moto and botocore do again and again in tests, done once or not at all; support.aws calls it on import.

It costs only time, and most of what a test on moto took. Nothing that a test can see changes.
"""

import copy
import threading
import time
from collections import defaultdict
from functools import cache, wraps
from typing import Any

import boto3
from botocore.loaders import create_loader
from botocore.session import Session
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.sqs.models import SQSBackend

POLL_SECONDS = 0.005
_loader = create_loader()
_receive_message = SQSBackend.receive_message
_transact_write_items = DynamoDBBackend.transact_write_items
_transaction = threading.local()


def read_service_models_once() -> None:
    """Every test opens clients in sessions of its own; one loader for all reads each service's model once."""
    Session._register_data_loader = lambda self: self.register_component("data_loader", _loader)


@cache
def client(service: str, region: str) -> Any:
    """A client for setting an account up and looking into it, one per process: moto asks who calls, not by what."""
    return boto3.session.Session("test", "test", "test", region_name=region).client(service)


def answer_for_empty_queues_at_once() -> None:
    """A long poll of an empty queue takes its second or two; nobody is there to send anything meanwhile."""

    @wraps(_receive_message)
    def receive_message(
        self: SQSBackend, queue_name: str, count: int, wait_seconds_timeout: int, *rest: Any, **named: Any
    ) -> Any:
        found = _receive_message(self, queue_name, count, 0, *rest, **named)
        if found or not wait_seconds_timeout:
            return found
        # What was shown again this very millisecond is seen in the next; a long poll would have found it.
        time.sleep(POLL_SECONDS)
        return _receive_message(self, queue_name, count, 0, *rest, **named)

    SQSBackend.receive_message = receive_message


def copy_only_what_a_transaction_changes() -> None:
    """For its way back moto copies every item of each table that a transaction names, and writes grow quadratic.

    Puts and deletes take items out of their place and leave them as they are; only updates change them where they lie.
    """

    @wraps(_transact_write_items)
    def transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        _transaction.updates = [operation["Update"] for operation in transact_items if "Update" in operation]
        try:
            _transact_write_items(self, transact_items)
        finally:
            _transaction.updates = None

    def copied(self: Table, memo: dict[int, Any]) -> Table:
        twin = copy.copy(self)
        memo[id(self)] = twin
        updates = getattr(_transaction, "updates", None)
        if updates is None:
            vars(twin).update(copy.deepcopy(vars(self), memo))
            return twin
        twin.stream_shard = copy.deepcopy(self.stream_shard, memo)
        twin.items = defaultdict(dict, {key: _shelf(self, found) for key, found in self.items.items()})
        for update in updates:
            if update["TableName"] == self.name:
                _put_copy(self, twin, update["Key"])
        return twin

    DynamoDBBackend.transact_write_items = transact_write_items
    Table.__deepcopy__ = copied


def _shelf(table: Table, found: Any) -> Any:
    return dict(found) if table.has_range_key else found


def _put_copy(table: Table, twin: Table, key: dict[str, Any]) -> None:
    names = table.table_key_attrs
    if set(names) != set(key):
        return  # moto will refuse it
    place = [DynamoType(key[name]) for name in names]
    found = table.get_item(*place)
    if found is not None:
        shelf = twin.items[place[0]] if table.has_range_key else twin.items
        shelf[place[-1]] = copy.deepcopy(found)


read_service_models_once()
answer_for_empty_queues_at_once()
copy_only_what_a_transaction_changes()
