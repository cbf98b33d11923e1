"""Memories of AgentCore on a running stack: what is put there, what is read there, and what functions say."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_memory.deployment import Deployment
from agent_memory.domain.agentcore_ports import Asked
from agent_memory.domain.agentcore_records import Record
from support.agentcore_stack import ADDED, CELLS, Told, a_read, deliver, put_there

from local import runtime


@contextmanager
def a_stack_over_agentcore(
    folder: Path, entries: Mapping[str, Mapping[str, Any]], **context: str
) -> Iterator[tuple[Path, runtime.Stack]]:
    """A stack of its own in a folder that looks like the project. *entries*: by the name of the memory of each.

    Deployed twice: the memories that it is to name get their ids when they are made."""
    (folder / "local").mkdir()
    (folder / "local" / "__main__.py").touch()
    stack = runtime.up(folder / ".local")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in stack.environment.items():
            patch.setenv(name, value)
        control = Deployment("local").clients.get("bedrock-agentcore-control")
        ids = {name: control.create_memory(name=name, eventExpiryDuration=30)["memory"]["id"] for name in entries}
    named = [{"memory_id": ids[name], **entry} for name, entry in entries.items()]
    stack = runtime.up(folder / ".local", context={"agentcoreMemories": json.dumps(named), **context})
    yield folder, stack
    stack.down()


def function(functions: Any, step: str) -> Mapping[str, Any]:
    """The function of a step of this night."""
    pages = functions.get_paginator("list_functions").paginate()
    [found] = [
        one
        for page in pages
        for one in page["Functions"]
        if re.fullmatch(rf"agent-memory-agentcore-{step}-[a-z-]+", one["FunctionName"])
    ]
    return found  # type: ignore[no-any-return]  # a client that is typed as Any


def memory_of(deployment: Deployment, name: str) -> Any:
    return next(one for one in deployment.agentcore.memories if one.name == name)


def records_of(deployment: Deployment, name: str) -> list[Record]:
    own = deployment.agentcore
    return list(own.records(memory_of(deployment, name)).listed(Asked("/actors/")))


def described(records: Sequence[Record]) -> Counter[str]:
    """Every record but for its id and what a restore adds."""
    return Counter(
        json.dumps(
            [one.text, one.namespace, one.strategy_id, one.created_at,
             {key: held for key, held in one.metadata.items() if key not in ADDED}],
            sort_keys=True,
        )
        for one in records
    )  # fmt: skip


def put(deployment: Deployment, name: str, told: Sequence[Told]) -> list[str]:
    """Records of old, in a memory whose index is lost: the next refresh lists all of it."""
    memory_id = memory_of(deployment, name).memory_id
    bucket = deployment.services.settings.agentcore_bucket
    deployment.clients.get("s3").delete_object(Bucket=bucket, Key=f"agentcore/{name}/index.json.gz")
    return put_there(deployment.clients.get("bedrock-agentcore"), memory_id, told)


def trail(deployment: Deployment, events: Sequence[Mapping[str, Any]], *, at: int, name: str) -> None:
    deliver(deployment.clients.get("s3"), deployment.services.settings.trail_bucket, events, at=at, name=name)


def read(deployment: Deployment, memory_id: str, told: Sequence[Told], ids: Sequence[str]) -> None:
    """The reads, among reads that are none: of a function of the night, ones that failed, ones of another service."""
    events = [
        a_read(f"e-{number}-{read}", memory_id, ids[number], one.read_at)
        for number, one in enumerate(told)
        for read in range(one.reads)
    ]
    own = {"arn": function(deployment.clients.get("lambda"), "examine")["Role"]}
    at = max(one.read_at for one in told)
    for number, name in enumerate(ids[: 3 * CELLS]):
        others = ({"userIdentity": {"sessionContext": {"sessionIssuer": own}}}, {"errorCode": "AccessDenied"},
                  {"eventSource": "s3.amazonaws.com"})  # fmt: skip
        events += [a_read(f"o-{number}-{place}", memory_id, name, at, **one) for place, one in enumerate(others)]
    trail(deployment, events, at=at, name="reads")


def measured(log: str, service: str, metric: str) -> float:
    """The sum of a metric over all that a function printed."""
    lines = [line[line.index("{") :] for line in log.splitlines() if '"_aws"' in line and f'"{service}"' in line]
    return sum(sum(json.loads(line).get(metric, [0.0])) for line in lines)


def forget_the_lock(deployment: Deployment) -> None:
    """An hour and a quarter later the lock of the killed night has run out."""
    deployment.clients.get("dynamodb").update_item(
        TableName=deployment.services.settings.ledger_table,
        Key={"ledger_key": {"S": "registry#agentcore"}, "entry_id": {"S": "lock"}},
        UpdateExpression="SET #until = :past",
        ExpressionAttributeNames={"#until": "until"},
        ExpressionAttributeValues={":past": {"N": "1"}},
    )
