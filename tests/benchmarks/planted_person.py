"""A person planted in every store of the local stack beside another, and what is found of either afterwards."""

import gzip
import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from agent_memory.aws.snapshots import item_text
from agent_memory.contract import CLIENT_SOURCE_PREFIX, RUN_ENDED
from agent_memory.domain.archive import put_away
from agent_memory.domain.fact_writes import FactWrite, NewObservation
from agent_memory.domain.facts import Fact, FactChange, FactState, Observation
from agent_memory.domain.keys import fact_id, procedure_id
from agent_memory.domain.knowledge import KnowledgeQuery
from agent_memory.domain.models import (
    DistilledBy,
    Episode,
    EpisodeKind,
    FactScope,
    LedgerRun,
    Outcome,
    ParkedRun,
    RetrievedMemory,
    RunState,
    SourceKind,
)
from agent_memory.domain.procedure_ports import ProposalWrite
from agent_memory.domain.procedures import Procedure, ProposalEvidence, steps_hash
from agent_memory.domain.promotion import publish
from agent_memory.domain.regressions import RegressionCase
from benchmarks.stack import BenchStack

AGENT, DAY = "concierge", 86_400
EPISODES, OWN_FACTS, SHARED_FACTS, PROCEDURES, SUMMARIES, ARCHIVED, PARKED, FLYING = 300, 125, 125, 10, 5, 30, 20, 50
TABLES = ("episodes_table", "ledger_table", "facts_table", "procedures_table")
BUCKETS = ("transcripts_bucket", "parked_bucket", "knowledge_bucket", "archive_bucket")
QUEUES = ("intake-queue", "intake-dead-letters", "retrievals-queue", "retrievals-dead-letters", "refused-queue")


class Person:
    """*mark*: stands in every text of theirs. *prefix*: begins every run of theirs."""

    def __init__(self, stack: BenchStack, tenant_id: str, name: str, mark: str) -> None:
        self.own, self.stack, self.tenant_id = stack.services, stack, tenant_id
        self.tenant = stack.services.tenant(tenant_id)
        self.user_id, self.mark, self.prefix = f"{name}-{mark}@example.com", mark, f"{name}-{mark}-"
        self.ref = stack.services.user_refs.user_ref(tenant_id, self.user_id)
        self.now = stack.services.now() - 3600
        self.planted = 0

    @property
    def marks(self) -> tuple[str, ...]:
        return self.mark, self.ref, self.user_id

    def episode(self, run: str, **changes: object) -> Episode:
        values: dict[str, object] = {
            "tenant_id": self.tenant_id, "agent_id": AGENT, "run_id": self.prefix + run, "outcome": Outcome.COMPLETED,
            "task": f"{self.mark} wants a table", "digest": f"{self.mark} got it",
            "task_vector": np.eye(384, dtype=np.float32)[0], "embedding_model": "bench",
            "distilled_by": DistilledBy.MODEL, "user_ref": self.ref, "created_at": self.now, "ended_at": self.now,
            "expires_at": self.now + 90 * DAY, "decays_at": self.now + 34 * DAY,
        }  # fmt: skip
        return Episode.model_validate(values | changes)

    def keep_episodes(self, number: int) -> None:
        for n in range(number):
            self.tenant.episodes.put(self.episode(f"e{n}"))
            self._accept(f"e{n}", RunState.STORED)
        for n in range(SUMMARIES):
            sources = (f"{self.prefix}gone{n}a", f"{self.prefix}gone{n}b")
            self.tenant.episodes.put(self.episode(f"m{n}", kind=EpisodeKind.SUMMARY, sources=sources))
        for n in range(ARCHIVED):
            self.tenant.episodes.put(self.episode(f"a{n}"))
            shelf, archive = self.tenant.episode_shelf, self.tenant.archive
            put_away((AGENT, f"{self.prefix}a{n}"), shelf, archive, night="n-2026-01-01", reason="bench", now=self.now)
        self.tenant.agent_notes.note_agent(AGENT, now=self.now)
        self.planted += number + SUMMARIES + ARCHIVED

    def _accept(self, run: str, state: RunState) -> None:
        row = LedgerRun(
            tenant_id=self.tenant_id, agent_id=AGENT, run_id=self.prefix + run, content_sha256="0" * 64, attempt=1,
            state=state, accepted_at=self.now, ended_at=self.now, expires_at=self.now + 210 * DAY, user_ref=self.ref,
        )  # fmt: skip
        self.tenant.ledger.accept(row)

    def said(self, run: str, content: str) -> Observation:
        return Observation(
            agent_id=AGENT, run_id=self.prefix + run, user_ref=self.ref, source=SourceKind.USER, content=content,
            confidence=0.9, vector=np.eye(8, dtype=np.float32)[0], embedding_model="bench", observed_at=self.now,
        )  # fmt: skip

    def keep_facts(self, number: int) -> None:
        """Facts about this person, promoted and published, three runs each."""
        for start in range(0, number, 20):
            made = [self._fact(n) for n in range(start, min(start + 20, number))]
            _write_facts(self.stack, self.tenant_id, "about", made)
        self.planted += number

    def _fact(self, n: int) -> tuple[Fact, list[Observation]]:
        content = f"{self.mark} prefers table {n}."
        fact = a_fact(self.tenant_id, "about", f"{self.prefix}f{n}", content, self.now)
        fact = fact.model_copy(update={"scope": FactScope.USER, "user_ref": self.ref})
        return fact, [self.said(f"f{n}-{i}", content) for i in range(3)]

    def keep_procedures(self, number: int) -> None:
        for n in range(number):
            steps = (f"Call {self.mark}.", f"Ask for table {n}.", "Confirm.")
            propose(self, f"p{n}", f"booking-{n % 3}", f"Book as {self.mark} {n}", steps)
        self.planted += number

    def keep_the_rest(self) -> None:
        s3, s = self.stack.client("s3"), self.own.settings
        for n in range(PARKED):
            run = f"{self.prefix}parked{n}"
            self._accept(f"parked{n}", RunState.PARKED)
            key = self.tenant.claims.park(AGENT, run, {"user_ref": self.ref, "said": self.mark})
            row = ParkedRun(
                tenant_id=self.tenant_id, agent_id=AGENT, run_id=run, reason="bench", step="Distil", attempt=1,
                parked_at=self.now, expires_at=self.now + 30 * DAY, content_key=key, ended_at=self.now,
                user_ref=self.ref,
            )  # fmt: skip
            self.tenant.ledger.park(row)
            upload = f"{self.tenant_id}/{AGENT}/{self.prefix}e{n}/transcript.json"
            for body in (self.mark, f"{self.mark} again"):
                s3.put_object(Bucket=s.transcripts_bucket, Key=upload, Body=body.encode())
            items = [RetrievedMemory(memory_id=f"{AGENT}/{self.prefix}e{n}", tier="episodic", agent_id=AGENT,
                                     run_id=f"{self.prefix}e{n}")]  # fmt: skip
            context = f"c-{self.prefix}{n}"
            self.tenant.ledger.record_retrieval(context_id=context, items=items, at=self.now, expires_at=self.now + DAY)
        look = {"keys": [{"agent_id": AGENT, "run_id": f"{self.prefix}e0"}], "tenant_id": self.tenant_id}
        key = f"lifecycle/n-2026-01-01/look/{self.tenant_id}/{self.planted:04d}.json"
        s3.put_object(Bucket=s.archive_bucket, Key=key, Body=json.dumps(look).encode())
        case = RegressionCase(
            case_id=f"case-{self.mark}", agent_id=AGENT, question=f"What does {self.mark} like?", criteria=("Tables",),
            minimum=0.5, user_ref=self.ref,
        )  # fmt: skip
        self.tenant.regressions.put(case)
        for n in range(10):
            body = json.dumps(self.event(f"dead{n}"))
            self.stack.client("sqs").send_message(
                QueueUrl=self.stack.parameter("intake-dead-letters"), MessageBody=body
            )
        self.planted += 3 * PARKED + PARKED + 1 + 1 + 10

    def event(self, run: str) -> dict[str, Any]:
        return {"source": CLIENT_SOURCE_PREFIX + self.tenant_id, "detail-type": RUN_ENDED, "detail": self.detail(run)}

    def detail(self, run: str) -> dict[str, Any]:
        ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = [{"role": "user", "content": f"{self.mark} wants {run}"}, {"role": "assistant", "content": "Done."}]
        return {
            "schema_version": 1, "tenant_id": self.tenant_id, "agent_id": AGENT, "run_id": self.prefix + run,
            "ended_at": ended, "user_id": self.user_id, "outcome": "COMPLETED", "transcript": {"messages": said},
        }  # fmt: skip

    def send(self, *runs: str) -> None:
        entries = [
            {
                "Source": CLIENT_SOURCE_PREFIX + self.tenant_id, "DetailType": RUN_ENDED,
                "Detail": json.dumps(self.detail(run)), "EventBusName": self.own.settings.bus,
            }
            for run in runs
        ]  # fmt: skip
        for start in range(0, len(entries), 10):
            self.stack.client("events").put_events(Entries=entries[start : start + 10])


def a_fact(tenant_id: str, domain: str, run: str, content: str, now: int) -> Fact:
    promoted = FactChange(at=now, state=FactState.PROMOTED, reason="confirmed", agent_id=AGENT, run_id=run)
    return Fact(
        tenant_id=tenant_id, domain=domain, fact_id=fact_id(tenant_id, domain, AGENT, run, 0), content=content,
        state=FactState.PROMOTED, confidence=0.9, history=(promoted,), created_at=now, last_confirmed_at=now,
        promoted_at=now,
    )  # fmt: skip


def _write_facts(stack: BenchStack, tenant_id: str, domain: str, made: list[tuple[Fact, list[Observation]]]) -> None:
    own, tenant = stack.services, stack.services.tenant(tenant_id)
    own.dirty.note(tenant_id, domain, now=own.now())
    said = tuple(NewObservation(fact.fact_id, one) for fact, all_said in made for one in all_said)
    facts = tuple(fact.model_copy(update={"observations": tuple(all_said)}) for fact, all_said in made)
    if tenant.facts.write(FactWrite(seen=tenant.facts.domain(domain), facts=facts, observations=said)) != "written":
        raise RuntimeError("the facts were not written")
    for fact in facts:
        publish(fact, tenant.facts, tenant.documents)


def share_facts(stack: BenchStack, tenant_id: str, one: Person, other: Person, number: int) -> None:
    """Facts that both said: every second one is carried by the other alone, the rest fall below the threshold."""
    for start in range(0, number, 10):
        made = []
        for n in range(start, min(start + 10, number)):
            content = f"House rule {n} holds in hall {n % 7}."
            words = f"{one.mark} told that house rule {n} holds in hall {n % 7}."
            others = [other.said(f"s{n}-{i}", content) for i in range(3 if n % 2 else 2)]
            fact = a_fact(tenant_id, "house", f"{one.prefix}s{n}", words, one.now)
            made.append((fact, [one.said(f"s{n}", words), *others]))
        _write_facts(stack, tenant_id, "house", made)
    one.planted += number


def propose(person: Person, run: str, task_type: str, title: str, steps: tuple[str, ...]) -> None:
    tenant_id, procedures = person.tenant_id, person.tenant.procedures
    procedure = Procedure(
        tenant_id=tenant_id, task_type=task_type, procedure_id=procedure_id(tenant_id, task_type, steps), title=title,
        steps=steps, created_at=person.now, proposed_by=(AGENT, person.prefix + run), proposers=(AGENT,), evidence=1,
        last_used_at=person.now, task=f"{person.mark} wants a table",
    )  # fmt: skip
    evidence = ProposalEvidence(
        agent_id=AGENT, run_id=person.prefix + run, user_ref=person.ref, proposed_at=person.now, title=title,
        steps_sha256=steps_hash(title, steps), steps=steps,
    )  # fmt: skip
    change = ProposalWrite(
        seen=procedures.of_task_type(task_type), procedure=procedure, evidence=evidence, opens=True,
        ended_at=person.now, expires_at=person.now + 90 * DAY,
    )  # fmt: skip
    if procedures.propose(change) != "written":
        raise RuntimeError("a procedure was not written")


def everything(stack: BenchStack, tenant_id: str) -> dict[str, str]:
    """Every row, version of an object and queued message of the stack as text, by its place, tenant by its name."""
    s, found = stack.services.settings, {}
    dynamodb, s3, sqs = stack.client("dynamodb"), stack.client("s3"), stack.client("sqs")
    for table in TABLES:
        keys = [
            key["AttributeName"] for key in dynamodb.describe_table(TableName=getattr(s, table))["Table"]["KeySchema"]
        ]
        for page in dynamodb.get_paginator("scan").paginate(TableName=getattr(s, table)):
            for row in page["Items"]:
                found[f"{table}:" + "|".join(row[key]["S"] for key in keys)] = item_text(row)
    for bucket in BUCKETS:
        name = getattr(s, bucket)
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for one in page.get("Versions", ()):
                if tenant_id in one["Key"]:
                    body = s3.get_object(Bucket=name, Key=one["Key"], VersionId=one["VersionId"])["Body"].read()
                    found[f"{bucket}:{one['Key']}?{one['VersionId']}"] = text_of(body)
    for queue in QUEUES:
        for message in _messages(sqs, stack.parameter(queue)):
            found[f"{queue}:{message['MessageId']}"] = message["Body"]
    return found


def _messages(sqs: Any, url: str) -> list[dict[str, Any]]:
    seen: dict[str, dict[str, Any]] = {}
    while True:
        got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=20).get("Messages", [])
        if all(one["MessageId"] in seen for one in got):
            break
        seen |= {one["MessageId"]: one for one in got}
    for one in seen.values():
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=0)
    return list(seen.values())


def text_of(body: bytes) -> str:
    return (gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body).decode("utf-8", "replace")


def known_to_the_knowledge_base(stack: BenchStack, tenant_id: str, person: Person, texts: list[str]) -> int:
    """How many answers to *texts* are in the person's words or about the person."""
    found = 0
    for text in texts:
        query = KnowledgeQuery(tenant_id=tenant_id, text=text, user_ref=person.ref, limit=50)
        answers = stack.services.knowledge.retrieve(query).found
        found += sum(person.mark in one.text or one.user_ref == person.ref for one in answers)
    return found


def naming(found: Mapping[str, str], *marks: str) -> set[str]:
    """The places that name one of *marks*, tombstones aside, which have to."""
    return {
        place
        for place, text in found.items()
        if any(mark in place or mark in text for mark in marks) and "#tombstone|" not in place
    }
