"""Whole nights over AgentCore: the machine walked with the real functions, on an account and a data plane."""

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from agent_memory.contract import TRAIL_PREFIX
from agent_memory.domain.models import Vector
from agent_memory.wiring_agentcore import SERVICE, AgentCoreServices
from support.agentcore import MEMORY_ID, AgentCore
from support.aws import ACCOUNT, AwsAccount, an_aws_account
from support.builders import NOW, LambdaContext
from support.conversations import Said, ScriptedModel
from support.detectors import KnownWords
from support.lifecycle import at
from support.machines import CONTEXT, Walk, definition, walk
from support.merges import an_answer
from support.whole_nights import LongContext

from lambdas.decay.handler import handler as decay
from lambdas.examine_memories.handler import handler as examine_memories
from lambdas.lifecycle_report.handler import handler as lifecycle_report
from lambdas.merge_memories.handler import handler as merge_memories
from lambdas.prune_memories.handler import handler as prune_memories
from lambdas.quality_check.handler import handler as quality_check
from lambdas.refresh_records.handler import handler as refresh_records
from lambdas.restore_memories.handler import handler as restore_memories

DAY = 86_400
MACHINE = definition("agentcore")
BUCKET, TRAIL = f"agent-memory-agentcore-test-{ACCOUNT}", f"agent-memory-trail-test-{ACCOUNT}"
ALICE, BOB = "/actors/alice/", "/actors/bob/"
ENTRY: Mapping[str, Any] = {
    "memory_id": MEMORY_ID,
    "namespaces": ["/actors/"],
    "strategies": {"semantic-1": "semantic", "summary-1": "summaries", "pref-1": "preferences"},
    "retention": {"semantic": 120},
}
STEPS = {
    **dict.fromkeys(("TakeLock", "Plan", "Weigh", "ReleaseLock", "GiveLockBack", "GiveUnusedLockBack"), decay),
    "Refresh": refresh_records,
    "ExamineMemories": examine_memories,
    "ExpireMemories": prune_memories,
    "PruneMemories": prune_memories,
    "MergeMemories": merge_memories,
    "Baseline": quality_check,
    "QualityCheck": quality_check,
    "RestoreMemories": restore_memories,
    "Report": lifecycle_report,
}


class TopicEmbedder:
    """Texts that begin with the same word mean the same."""

    model, dimensions = "test-model", 8

    def embed(self, text: str) -> Vector:
        first = hashlib.sha256(text.split()[0].encode()).digest()
        vector = np.zeros(8, dtype=np.float32)
        vector[first[0] % 8] = 1
        return vector


@contextmanager
def an_account_with_agentcore(*entries: Mapping[str, Any], **changes: str) -> Iterator[tuple[AwsAccount, AgentCore]]:
    """An account, and in it the memories of *entries* (without any: one, over the actors of the harbour)."""
    settings = {
        "nightBackend": "agentcore",
        "agentcoreMemories": json.dumps(list(entries) or [ENTRY]),
        "agentcoreBucket": BUCKET,
        "archiveBucket": BUCKET,
        "trailBucket": TRAIL,
        "agentcoreIgnoredRoles": "nightly-role,gdpr-role",
        "summariseModelId": "test-summariser",
    }
    with an_aws_account(**{**settings, **changes}) as account:
        for bucket in (BUCKET, TRAIL):
            account.client("s3").create_bucket(Bucket=bucket)
            account.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        plane = AgentCore()
        account.services.sessions._own_clients[SERVICE, ""] = plane
        vars(account.services)["embedder"] = TopicEmbedder()
        vars(account.services)["detector"] = KnownWords()
        at(account, NOW)
        yield account, plane


def night_services(account: AwsAccount) -> AgentCoreServices:
    return AgentCoreServices(account.services)


def a_night_over_agentcore(
    account: AwsAccount,
    *answers: Said | Exception,
    execution: str = "e-1",
    dry_run: bool = False,
    model: ScriptedModel | None = None,
    **tasks: Any,
) -> Walk:
    """Walk one night with a model that gives *answers* (the last one again and again)."""
    before = vars(account.services).get("summariser")
    vars(account.services)["summariser"] = model or ScriptedModel(*(answers or (an_answer(),)))
    steps: dict[str, Any] = {name: _called(handler) for name, handler in STEPS.items()}
    steps |= {"Publish": lambda event: {}, "Alarm": lambda event: {}, **tasks}

    def listing(bucket: str, prefix: str) -> list[str]:
        pages = account.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    try:
        with patch.dict(CONTEXT["Execution"], Name=execution):
            return walk(MACHINE, steps, {"dry_run": dry_run}, listing=listing)
    finally:
        vars(account.services)["summariser"] = before


def _called(handler: Any) -> Any:
    long = handler in (refresh_records, merge_memories, restore_memories, quality_check)
    return lambda event: handler(event, LongContext() if long else LambdaContext())


def a_read(event_id: str, record_id: str, at: str, **changes: Any) -> dict[str, Any]:
    """A CloudTrail record of GetMemoryRecord, as an agent's role makes it. *at*: ISO 8601."""
    return {
        "eventID": event_id,
        "eventTime": at,
        "eventSource": "bedrock-agentcore.amazonaws.com",
        "eventName": "GetMemoryRecord",
        "requestParameters": {"memoryId": MEMORY_ID, "memoryRecordId": record_id},
        "userIdentity": {"sessionContext": {"sessionIssuer": {"userName": "agent-role"}}},
        **changes,
    }


def deliver(account: AwsAccount, key: str, body: object) -> str:
    """Put a file into the trail's bucket, gzipped unless it is bytes, under the day's folder unless *key* has one."""
    raw = body if isinstance(body, bytes) else gzip.compress(json.dumps(body).encode())
    folder = f"{TRAIL_PREFIX}{ACCOUNT}/CloudTrail/us-east-1/"
    whole = key if key.startswith((TRAIL_PREFIX, "reports/")) else folder + key
    account.client("s3").put_object(Bucket=TRAIL, Key=whole, Body=raw)
    return whole
