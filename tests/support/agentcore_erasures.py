"""Erasures in an account whose tenant keeps records in AgentCore, with nights over these before."""

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from agent_memory import contract, settings, wiring
from agent_memory.aws.snapshots import item_text
from agent_memory.wiring_agentcore import SERVICE
from support.agentcore import MEMORY_ID, AgentCore
from support.agentcore_nights import BUCKET, ENTRY, TRAIL, TopicEmbedder, a_night_over_agentcore
from support.aws import AwsAccount, an_aws_account, for_erasures
from support.builders import NOW, TENANT
from support.conversations import Said
from support.detectors import KnownWords
from support.erasures import ask, at, ticket_of, worked_off
from support.fact_runs import StandInKnowledge
from support.machines import Walk
from support.procedure_runs import a_bus

LETTERS = contract.environment_variable("agentcoreReadsDeadLetters")
OWN = {**ENTRY, "tenant_id": TENANT, "namespaces": ["/actors/", "/sessions/"]}


@contextmanager
def an_account_that_erases_in_agentcore(*entries: Mapping[str, Any]) -> Iterator[tuple[AwsAccount, AgentCore]]:
    """An account, and in it the memories of *entries* (without any: one of TENANT's, two prefixes of it)."""
    told = {
        "agentcoreMemories": json.dumps(list(entries) or [OWN]),
        "agentcoreBucket": BUCKET,
        "trailBucket": TRAIL,
        "summariseModelId": "test-summariser",
    }
    with an_aws_account(**told) as account:
        for_erasures(account)
        told_of_letters(account)
        a_bus(account)
        for bucket in (BUCKET, TRAIL):
            account.client("s3").create_bucket(Bucket=bucket)
            account.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        plane = AgentCore()
        fit(account, plane, NOW)
        yield account, plane


def told_of_letters(account: AwsAccount) -> None:
    """Deploy the queue of reports of reads that could not be kept."""
    url = account.client("sqs").create_queue(QueueName="agentcore-reads-dead-letters")["QueueUrl"]
    os.environ[LETTERS] = account.variables[LETTERS] = url
    forget()


def fit(account: AwsAccount, plane: AgentCore, now: int) -> None:
    """Put what stands in for services into this process's."""
    vars(account).pop("services", None)
    own = account.services
    for sessions in (own.sessions, own.erasure_sessions):
        sessions._own_clients[SERVICE, ""] = plane
    vars(own)["embedder"], vars(own)["detector"] = TopicEmbedder(), KnownWords()
    vars(own)["knowledge"] = StandInKnowledge(account)
    at(account, now)
    own.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test


def a_night(account: AwsAccount, plane: AgentCore, *answers: Said, now: int = NOW, execution: str = "e-1") -> Walk:
    """One night over AgentCore, by functions that are told so."""
    told = {"nightBackend": "agentcore", "archiveBucket": BUCKET, "agentcoreIgnoredRoles": "nightly-role"}
    with patch.dict(os.environ, {contract.environment_variable(key): value for key, value in told.items()}):
        forget()
        fit(account, plane, now)
        done = a_night_over_agentcore(account, *answers, execution=execution)
    forget()
    fit(account, plane, now)
    return done


def forget() -> None:
    """Let the next call read the variables anew."""
    settings.settings.cache_clear()
    wiring.services.cache_clear()


def erased(tenant_id: str = TENANT, **subject: object) -> tuple[dict[str, Any], Walk]:
    """Ask for an erasure and let it run. Returns the signed receipt."""
    asked = ask({"action": "request", "tenant_id": tenant_id, **subject})
    done = worked_off(ticket_of_all(asked))
    return ask({"action": "status", "tenant_id": tenant_id, "erasure_id": asked["erasure_id"]})["receipt"], done


def ticket_of_all(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The ticket that the desk hands to the machine: with the stores that are deployed."""
    from agent_memory.domain.erasure import first_sweep
    from agent_memory.wiring_erasure import erasure_services

    stores = first_sweep(erasure_services().stores(asked["tenant_id"]))
    return {**ticket_of(asked), "stores": list(stores)}


def kept(account: AwsAccount) -> dict[str, str]:
    """Every version in AgentCore's bucket and every row of the ledger as text, by where it is."""
    s3, found = account.client("s3"), {}
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=BUCKET):
        for one in page.get("Versions", ()):
            body = s3.get_object(Bucket=BUCKET, Key=one["Key"], VersionId=one["VersionId"])["Body"].read()
            text = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
            found[f"{one['Key']}?{one['VersionId']}"] = text.decode("utf-8", "replace")
    for row in account.items(account.settings.ledger_table):
        found[f"{row[contract.LEDGER_PARTITION_KEY]['S']}|{row[contract.LEDGER_SORT_KEY]['S']}"] = item_text(row)
    return found


def records_of(plane: AgentCore, memory: str = MEMORY_ID) -> dict[str, dict[str, Any]]:
    return {key: dict(one) for key, one in plane.records.get(memory, {}).items()}
