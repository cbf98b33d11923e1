"""A person planted in every store of an account, whole erasures walked through the machine, and what is found after."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agent_memory import contract
from agent_memory.aws.snapshots import item_text
from agent_memory.domain.archive import put_away
from agent_memory.domain.keys import ledger_key, user_ref
from agent_memory.wiring_tenant import TenantServices
from support.aws import USER_KEY, AwsAccount, an_aws_account, for_erasures
from support.builders import AGENT, NOW, TENANT, LambdaContext, a_claim, a_parked_run, a_retrieved_memory, an_episode
from support.fact_runs import StandInKnowledge, SubjectEmbedder, ingest, said_by
from support.machines import Walk, definition, walk
from support.procedure_runs import a_bus, proposed
from support.regressions import a_case

from lambdas.erase_store.handler import handler as erase_store
from lambdas.erasure_desk.handler import handler as erasure_desk

MACHINE = definition("erasure")
ALICE, BOB = "alice@example.com", "bob@example.com"
MARK = "quokka"  # stands in everything that Alice said, and in nothing else
TABLES = ("episodes_table", "ledger_table", "facts_table", "procedures_table")
BUCKETS = ("transcripts_bucket", "parked_bucket", "knowledge_bucket", "archive_bucket")


def ref_of(user_id: str, tenant_id: str = TENANT) -> str:
    return user_ref(USER_KEY, tenant_id, user_id)


@contextmanager
def an_account_that_erases() -> Iterator[AwsAccount]:
    with an_aws_account(confirmationThreshold="2") as account:
        for_erasures(account)
        a_bus(account)
        own = account.services
        vars(own)["embedder"] = SubjectEmbedder("depot", "crane", "gate", "lamp")
        vars(own)["knowledge"] = StandInKnowledge(account)
        at(account, NOW)
        own.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        yield account


def at(account: AwsAccount, now: int) -> None:
    account.services.now = lambda: now  # type: ignore[method-assign]  # the clock moves


def ask(question: Mapping[str, object]) -> dict[str, Any]:
    """The answer of the desk."""
    answer: dict[str, Any] = erasure_desk(json.loads(json.dumps({"tenant_id": TENANT, **question})), LambdaContext())
    return dict(json.loads(json.dumps(answer)))


def _task(event: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(erase_store(event, LambdaContext()))))


def worked_off(ticket: Mapping[str, Any], **tasks: Any) -> Walk:
    """The machine on *ticket*; *tasks* take the place of steps by their state's name."""
    return walk(MACHINE, {"Erase": _task, "GiveUp": _task, "Report": _task, **tasks}, ticket)


def ticket_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    from agent_memory.domain.erasure import ErasureTicket

    return ErasureTicket(erasure_id=asked["erasure_id"], tenant_id=asked["tenant_id"]).model_dump(mode="json")


def erased(user_id: str = ALICE) -> tuple[dict[str, Any], Walk]:
    """Ask for the erasure of a user and let it run. Returns the signed receipt."""
    asked = ask({"action": "request", "user_id": user_id})
    if receipt := ask({"action": "status", "erasure_id": asked["erasure_id"]})["receipt"]:
        return receipt, Walk(status="SUCCEEDED")  # its execution has that name, and is over
    done = worked_off(ticket_of(asked))
    return ask({"action": "status", "erasure_id": asked["erasure_id"]})["receipt"], done


def an_episode_of(tenant: TenantServices, run_id: str, user_id: str, text: str, **changes: object) -> None:
    episode = an_episode(
        run_id=run_id, tenant_id=tenant.tenant_id, user_ref=ref_of(user_id, tenant.tenant_id), task=text, **changes
    )
    assert tenant.episodes.put(episode) == "stored"
    tenant.agent_notes.note_agent(AGENT, now=NOW)


def plant(account: AwsAccount, user_id: str, name: str, mark: str, tenant_id: str = TENANT) -> None:
    """Something of *user_id* in every store; runs and texts carry *name* and *mark*."""
    tenant, ref = account.services.tenant(tenant_id), ref_of(user_id, tenant_id)
    for n in range(3):
        an_episode_of(tenant, f"{name}-e{n}", user_id, f"{mark} asked for {n}")
    an_episode_of(tenant, f"{name}-old", user_id, f"{mark} asked long ago")
    put_away((AGENT, f"{name}-old"), tenant.episode_shelf, tenant.archive, night="n-2027-01-14", reason="x", now=NOW)
    for n in range(2):
        said_by(tenant, f"Ship {mark} calls at pier {name}{n}.", f"{name}-f{n}a", f"{name}-f{n}b", user_ref=ref)
    proposed(tenant, f"{name}-p", [f"Call {mark}.", f"Wait for {mark}.", "Hang up."], user_ref=ref)
    tenant.ledger.park(a_parked_run(run_id=f"{name}-parked", user_ref=ref, ended_at=NOW - 60))
    tenant.claims.park(AGENT, f"{name}-parked", {"user_ref": ref, "said": mark})
    tenant.claims.put_claim(a_claim(run_id=f"{name}-e0", user_ref=ref, messages=({"role": "user", "content": mark},)))
    tenant.regressions.put(a_case(case_id=f"case-{name}", user_ref=ref, question=f"What does {mark} want?"))
    tenant.ledger.record_retrieval(
        context_id=f"c-{name}", items=[a_retrieved_memory(f"{name}-e1")], at=NOW, expires_at=NOW + 1
    )
    s3, s = account.client("s3"), account.settings
    accept(tenant, f"{name}-up", ref)
    for body in (mark, f"{mark} again"):
        key = f"{tenant_id}/{AGENT}/{name}-up/t.json"
        s3.put_object(Bucket=s.transcripts_bucket, Key=key, Body=body.encode())
    look = {"keys": [{"agent_id": AGENT, "run_id": f"{name}-e0"}], "tenant_id": tenant_id}
    key = f"lifecycle/n-2027-01-14/look/{tenant_id}/{name}.json"
    s3.put_object(Bucket=s.archive_bucket, Key=key, Body=json.dumps(look).encode())
    sqs = account.client("sqs")
    detail = {"tenant_id": tenant_id, "agent_id": AGENT, "run_id": f"{name}-q", "user_id": user_id, "task": mark}
    letter = json.dumps({"source": f"agent-memory.client/{tenant_id}", "detail": detail})
    sqs.send_message(QueueUrl=account.variables["AGENT_MEMORY_INTAKE_DEAD_LETTERS"], MessageBody=letter)


def accept(tenant: TenantServices, run_id: str, ref: str) -> None:
    from support.builders import a_ledger_run

    tenant.ledger.accept(a_ledger_run(tenant_id=tenant.tenant_id, run_id=run_id, user_ref=ref, ended_at=NOW - 60))


def published(account: AwsAccount) -> None:
    """Facts that wait get into the Knowledge Base."""
    ingest()


def everything(account: AwsAccount) -> dict[str, str]:
    """Every item, object version, letter and answer of the account as text, by where it is; receipts aside."""
    s, found = account.settings, {}
    for table in TABLES:
        name = getattr(s, table)
        for row in account.items(name):
            keys = [value["S"] for field, value in row.items() if field in _KEYS and "S" in value]
            found[f"{table}:{'|'.join(keys)}"] = item_text(row)
    s3 = account.client("s3")
    for bucket in BUCKETS:
        name = getattr(s, bucket)
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for one in page.get("Versions", ()):
                body = s3.get_object(Bucket=name, Key=one["Key"], VersionId=one["VersionId"])["Body"].read()
                found[f"{bucket}:{one['Key']}?{one['VersionId']}"] = _text(body)
    for queue in ("AGENT_MEMORY_INTAKE_DEAD_LETTERS", "AGENT_MEMORY_RETRIEVALS_DEAD_LETTERS"):
        url = account.variables[queue]
        # Whoever looks hides nothing: an erasure right behind it could not see what is hidden.
        while got := account.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0):
            new = {f"{queue}:{m['MessageId']}": m["Body"] for m in got.get("Messages", ())}
            if not new.keys() - found.keys():
                break
            found |= new
    for key, (text, said) in vars(account.services)["knowledge"].indexed.items():
        found[f"kb:{key}"] = text + json.dumps(said)
    return found


_KEYS = {
    contract.EPISODES_PARTITION_KEY, contract.EPISODES_SORT_KEY, contract.LEDGER_PARTITION_KEY,
    contract.LEDGER_SORT_KEY, contract.FACTS_PARTITION_KEY, contract.FACTS_SORT_KEY,
    contract.PROCEDURES_PARTITION_KEY, contract.PROCEDURES_SORT_KEY,
}  # fmt: skip


def _text(body: bytes) -> str:
    import gzip

    return (gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body).decode("utf-8", "replace")


def mentioning(found: Mapping[str, str], *marks: str) -> dict[str, str]:
    """What names one of *marks* in its place or its content, tombstones aside."""
    tombstone = f"ledger_table:{ledger_key(TENANT, 'tombstone')}"
    return {
        place: text
        for place, text in found.items()
        if any(mark in place or mark in text for mark in marks)
        and not place.startswith(tombstone)
        and not place.startswith("ledger_table:tombstone")
    }
