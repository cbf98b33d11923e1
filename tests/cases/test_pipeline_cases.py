"""Faults of the field in the pipeline: duplicates, crashes, clocks, numbers, sizes, tenants."""

import json
import os
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from agent_memory.aws import item_codec, machines
from agent_memory.aws.transactions import Transactions
from agent_memory.contract import EPISODES_TTL
from agent_memory.domain.errors import RefusedInputError, StoreBusyError
from agent_memory.domain.events import instant
from agent_memory.domain.models import RunState
from support.aws import AwsAccount, an_aws_account
from support.builders import (
    AGENT,
    DAY,
    NOW,
    RUN,
    TENANT,
    LambdaContext,
    a_detail,
    a_distillation,
    a_ledger_run,
    a_parked_run,
    a_retrieved_memory,
    an_episode,
    an_event,
    an_sqs_event,
    some_artifacts,
    some_messages,
)
from support.embedders import HashedEmbedder

from lambdas.accept_run.handler import handler as accept_run
from lambdas.store_episode.handler import handler as store_episode


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = HashedEmbedder()
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        yield account


def deliver(*events: object) -> list[str]:
    answer = accept_run(an_sqs_event(*events), LambdaContext())
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def work_off(account: AwsAccount, tenant_id: str = TENANT, **distillation: object) -> list[str]:
    """Do what the machine does for every execution of a tenant that was started, distillation given."""
    claims, decisions = account.services.tenant(tenant_id).claims, []
    for execution in account.executions():
        ticket = account.ticket_of(execution)
        if ticket["tenant_id"] == tenant_id:
            scrubbed = a_distillation(**distillation)
            ticket["scrubbed_key"] = claims.put_distillation(ticket["claim_key"], ticket["attempt"], scrubbed)
            decisions.append(store_episode(ticket, LambdaContext())["decision"])
    return decisions


@pytest.mark.case("cd-h01")
@pytest.mark.parametrize("gap", ["while it runs", "after it was stored"])
def test_one_event_delivered_twice_is_one_run_and_one_episode(
    account: AwsAccount, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, gap: str
) -> None:
    event = an_event(user_id="kim", task="Remember when the yard shuts")
    deliver(event)
    if gap == "after it was stored":
        work_off(account)
    else:
        # The second delivery comes long after the first one started it.
        monkeypatch.setattr(machines, "CLOCK_TOLERANCE_SECONDS", 0.0)
    deliver(event)
    decisions = [vars(r)["decision"] for r in caplog.records if r.getMessage() == "run taken in"]
    assert decisions == ["accepted", "duplicate"]
    assert len(account.executions()) == 1
    if gap == "after it was stored":
        assert work_off(account) == ["duplicate"]
        assert len(account.episodes()) == 1


class Crash(BaseException):
    """The process ends here: nothing catches this."""


@pytest.mark.case("cd-h04")
@pytest.mark.parametrize("step", ["put_claim", "start"])
def test_a_crash_after_the_ledger_row_does_not_lose_the_run(
    account: AwsAccount, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    tenant = account.services.tenant(TENANT)
    target = tenant.claims if step == "put_claim" else account.services.machine

    def crash(_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(target, step, crash)
        with pytest.raises(Crash):
            deliver(an_event())
    assert account.executions() == []
    deliver(an_event())
    assert [vars(r)["decision"] for r in caplog.records if r.getMessage() == "run taken in"] == ["accepted"]
    assert work_off(account) == ["stored"]


@pytest.mark.case("cd-h04")
def test_a_crash_between_storing_and_noting_it_is_mended_by_the_retry(
    account: AwsAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(an_event())

    def crash(*_: object, **__: object) -> None:
        raise Crash

    ledger = account.services.tenant(TENANT).ledger
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "move", crash)
        with pytest.raises(Crash):
            work_off(account)
    assert work_off(account) == ["duplicate"]
    run = ledger.run(AGENT, RUN)
    assert run is not None
    assert run.state is RunState.STORED


@pytest.mark.case("ec-h02")
def test_the_expiry_is_whole_seconds_under_the_name_that_ttl_reads() -> None:
    with an_aws_account(memoryTtlDays="30") as account:
        vars(account.services)["embedder"] = HashedEmbedder()
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        deliver(an_event(ended_at="2027-01-15T08:00:00.750Z"))
        work_off(account)
        (item,) = account.episodes()
        assert item[EPISODES_TTL] == {"N": str(NOW + 30 * DAY)}
        for row in account.items(account.settings.ledger_table):
            expiry = row.get("expires_at", {"N": "1"})
            assert list(expiry) == ["N"]
            assert int(expiry["N"]) < 10**11


@pytest.mark.case("ec-h03")
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/St_Johns"])
def test_one_instant_in_nine_spellings_is_one_instant_on_every_host(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", zone)
    time.tzset()
    try:
        spellings = [
            "2026-11-03T22:15:00",
            "2026-11-04T00:15:00+02:00",
            "2026-11-03T22:15:00Z",
            "2026-11-03 22:15",
            "20261103T221500Z",
            1793744100,
            1793744100000,
            1793744100.9,
            "1793744100",
            "1793744100000",
        ]
        assert {instant(spelling, "ended_at", now=NOW) for spelling in spellings} == {1793744100}
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.case("nd-h01")
def test_floats_are_stored_at_any_depth_and_read_back() -> None:
    artifact = {
        "summary": "Offer out",
        "confidence": 0.7,
        "timing": {"seconds": 2.75, "rounds": [0.2, {"precision": 0.41}], "none": None},
        "embedding": [0.25, -0.625],
        "seen": True,
        "steps": 3,
    }
    stored = item_codec.item(artifact)
    with an_aws_account() as account:
        key = {"ledger_key": {"S": "t#x"}, "entry_id": {"S": "1"}}
        client, table = account.client("dynamodb"), account.settings.ledger_table
        client.put_item(TableName=table, Item={**key, **stored})
        read = item_codec.attributes(client.get_item(TableName=table, Key=key)["Item"])
    assert {name: read[name] for name in artifact} == artifact
    assert stored["confidence"] == {"N": "0.7"}


@pytest.mark.case("nd-h01")
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 1e300])
def test_numbers_that_no_store_takes_are_refused_before_the_write(odd: float) -> None:
    with pytest.raises(RefusedInputError, match="number must be"):
        item_codec.item({"deep": [{"x": odd}]})


@pytest.mark.case("nd-h04")
def test_what_is_read_is_plain_json_with_whole_numbers_whole(account: AwsAccount) -> None:
    episodes = account.services.tenant(TENANT).episodes
    episodes.put(an_episode(confidence=0.85, access_count=3, task_vector=None, digest_vector=None))
    (read,) = episodes.get_many([(AGENT, RUN)])
    answer = json.loads(json.dumps(read.model_dump()))
    assert (answer["confidence"], answer["access_count"], answer["ended_at"]) == (0.85, 3, NOW - 60)
    assert type(answer["access_count"]) is int
    json.dumps([view.model_dump() for view in episodes.views(AGENT, now=NOW)])


@pytest.mark.case("nd-h05")
def test_long_fractions_are_rounded_to_fixed_places() -> None:
    with an_aws_account() as account:
        values = [1 / 3, Decimal(1) / Decimal(3), Decimal("0." + "3" * 39), 0.1 + 0.2, 0.3, -1e-12, 2.0]
        client, table = account.client("dynamodb"), account.settings.ledger_table
        for i, number in enumerate(values):
            key = {"ledger_key": {"S": "t#x"}, "entry_id": {"S": str(i)}}
            client.put_item(TableName=table, Item={**key, **item_codec.item({"value": number})})
        stored = [row["value"]["N"] for row in sorted(account.items(table), key=lambda row: row["entry_id"]["S"])]
    assert len(set(stored[:3])) == 1
    assert stored[3] == stored[4] == "0.3"
    assert stored[5:] == ["0", "2"]


@pytest.mark.case("cf-h05")
def test_every_update_hits_the_item_that_the_query_returned(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    tenant.episodes.put(an_episode())
    (view,) = tenant.episodes.views(AGENT, now=NOW)
    returned = [a_retrieved_memory(view.run_id, view.agent_id)]
    tenant.ledger.record_retrieval(context_id="c-1", items=returned, at=NOW, expires_at=NOW + DAY)
    tenant.ledger.record_use(context_id="c-1", run=(AGENT, "r-2"), used=[returned[0].memory_id])
    tenant.episodes.pin(view.agent_id, view.run_id, pinned=True, expires_at=None, decays_at=None)
    (item,) = account.episodes()
    assert (item["access_count"], item["use_count"], item["pinned"]) == ({"N": "1"}, {"N": "1"}, {"BOOL": True})
    assert "task" in item


@pytest.mark.case("cf-h06")
def test_attributes_named_by_reserved_words_can_be_updated(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    tenant.ledger.accept(a_ledger_run())
    assert tenant.ledger.move(AGENT, RUN, state=RunState.PARKED, attempt=1, reason="x")
    expressions: list[str] = []

    def note(params: dict[str, Any], **_: object) -> None:
        expressions.extend(str(value) for name, value in params.items() if name.endswith("Expression"))

    events = account.services.sessions.client(TENANT, "dynamodb").meta.events
    events.register("provide-client-params.dynamodb", note)
    for action in (
        lambda: tenant.ledger.next_attempt(AGENT, RUN, seen=1),
        lambda: tenant.ledger.unpark(AGENT, RUN, attempt=1),
        lambda: tenant.episodes.pin(AGENT, RUN, pinned=True, expires_at=NOW, decays_at=NOW),
        lambda: tenant.episodes.views(AGENT, now=NOW),
    ):
        action()
    words = {word.strip("(),") for text in expressions for word in text.split()}
    plain = {word for word in words if word and word[0] not in "#:"}
    grammar = {"SET", "REMOVE", "ADD", "AND", "OR", "=", "<", "<=", "attribute_exists", "attribute_not_exists"}
    assert {word for word in plain if not word.startswith("attribute_")} <= grammar
    assert expressions


@pytest.mark.case("ps-h03")
@pytest.mark.parametrize("characters", [5_000, 15_000])
def test_a_long_run_travels_as_a_pointer_and_keeps_its_ends(account: AwsAccount, characters: int) -> None:
    messages = some_messages(*[("user", f"piece {i} " + "v" * characters) for i in range(60)])
    assert deliver(an_event(transcript={"messages": messages})) == []
    (execution,) = account.executions()
    ticket = account.ticket_of(execution)
    assert len(json.dumps(ticket)) < 1_000
    claim = account.services.tenant(TENANT).claims.get_claim(ticket["claim_key"])
    assert "piece 0 " in str(claim.messages[0])
    assert "piece 59 " in str(claim.messages[-1])
    ticket["scrubbed_key"] = account.services.tenant(TENANT).claims.put_distillation(
        ticket["claim_key"], 1, a_distillation(task=str(messages))
    )
    answer = store_episode(ticket, LambdaContext())
    assert answer["decision"] == "stored"
    assert len(json.dumps(answer)) < 1_000


@pytest.mark.case("ps-h05")
def test_an_episode_of_a_huge_run_stays_small_and_whole(account: AwsAccount) -> None:
    deliver(an_event())
    huge = "WARN node " + "abcdefghij" * 1_500
    artifacts = some_artifacts(
        task_summary=huge,
        key_findings=("The disk of node z9 is full.", *[huge] * 300),
        approach_used=huge,
        tools_used=tuple(f"tool-{i}-{huge}" for i in range(300)),
        reusable_patterns=(huge,) * 300,
    )
    assert work_off(account, task=huge, asked=huge, artifacts=artifacts) == ["stored"]
    (item,) = account.episodes()
    size = sum(len(name) + len(str(next(iter(value.values())))) for name, value in item.items())
    assert size < 60_000
    assert "node z9" in str(item["key_findings"])
    assert {"task_vector", "digest_vector"} < set(item)


class HalfReading:
    """A client whose BatchGetItem reads the first twenty of every call and leaves the rest."""

    def __init__(self, client: Any, *, stuck: bool = False) -> None:
        self._client, self._stuck, self.sizes = client, stuck, list[int]()

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> Any:  # noqa: N803 - boto's name
        ((table, request),) = RequestItems.items()
        self.sizes.append(len(request["Keys"]))
        now, later = request["Keys"][:20], request["Keys"][20:]
        if self._stuck:
            now, later = [], request["Keys"]
        answer: dict[str, Any] = {"Responses": {}}
        if now:
            answer = self._client.batch_get_item(RequestItems={table: {**request, "Keys": now}})
        return {**answer, "UnprocessedKeys": {table: {**request, "Keys": later}} if later else {}}


@pytest.mark.case("ps-h07")
def test_a_batch_that_was_taken_in_part_is_asked_for_again(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    for i in range(60):
        tenant.episodes.put(an_episode(run_id=f"r-{i}"))
    keys = [item_codec.item({"agent_id": f"{TENANT}#{AGENT}", "run_id": f"r-{i}"}) for i in range(60)]
    client, pauses = HalfReading(account.client("dynamodb")), list[float]()
    batch = Transactions(client, pause=pauses.append, chance=lambda: 1.0)
    found = batch.batch_get(account.settings.episodes_table, keys)
    assert {item["run_id"] for item in found} == {f"r-{i}" for i in range(60)}
    assert len(found) == 60
    assert max(client.sizes) <= 100
    assert pauses == sorted(pauses)
    assert pauses[0] > 0


@pytest.mark.case("ps-h07")
def test_a_batch_that_stays_unread_is_not_taken_for_empty(account: AwsAccount) -> None:
    client = HalfReading(account.client("dynamodb"), stuck=True)
    keys = [item_codec.item({"agent_id": "t#a", "run_id": f"r-{i}"}) for i in range(3)]
    with pytest.raises(StoreBusyError, match="3 keys unread"):
        Transactions(client, pause=lambda _: None).batch_get(account.settings.episodes_table, keys)


@pytest.mark.case("ti-h01")
def test_ids_that_hold_the_separator_are_refused_alike(account: AwsAccount) -> None:
    odd = [("bay#north", "bot"), ("bay", "north#bot"), ("bay#north", "bot#x")]
    for tenant_id, agent_id in odd:
        deliver(an_event(a_detail(tenant_id=tenant_id, agent_id=agent_id)))
    deliver(an_event(a_detail(tenant_id="bay", agent_id="north", run_id="r#1")))
    assert account.executions() == []
    assert account.items(account.settings.ledger_table) == []
    assert [body["field"] for body in account.refused()] == ["tenant_id", "agent_id", "tenant_id", "run_id"]


@pytest.mark.case("ti-h02")
def test_a_tenant_whose_name_begins_another_sees_its_own_only(account: AwsAccount) -> None:
    names = ["bay", "bay-2", "bay2"]
    for name in names:
        deliver(an_event(a_detail(tenant_id=name)))
        work_off(account, name, task=f"The word of {name}")
        account.services.tenant(name).ledger.park(a_parked_run(tenant_id=name, run_id="r-parked"))
    account.erase("bay", "*", before=NOW + DAY)
    for name in names:
        tenant = account.services.tenant(name)
        assert [view.task for view in tenant.episodes.views(AGENT, now=NOW)] == [f"The word of {name}"]
        assert [run.tenant_id for run in tenant.ledger.parked()] == [name]
    deliver(an_event(a_detail(tenant_id="bay", run_id="r-2")), an_event(a_detail(tenant_id="bay-2", run_id="r-2")))
    assert account.services.tenant("bay").ledger.run(AGENT, "r-2") is None
    assert account.services.tenant("bay-2").ledger.run(AGENT, "r-2") is not None


@pytest.mark.case("ti-h03")
@pytest.mark.parametrize(
    "pointer",
    [
        "s3://{bucket}/harbour/bot/r-1.json",
        "s3://some-other-bucket/northwind/bot/r.json",
        "s3://{bucket}/northwind/../harbour/x.json",
        "s3://{bucket}/northwind-2/bot/r.json",
    ],
)
def test_a_pointer_into_another_prefix_is_parked_unread(account: AwsAccount, pointer: str) -> None:
    bucket = account.settings.transcripts_bucket
    account.client("s3").put_object(Bucket=bucket, Key="harbour/bot/r-1.json", Body=b'["secret of harbour"]')
    reads: list[str] = []
    client = account.services.sessions.client(TENANT, "s3")
    client.meta.events.register("before-call.s3.GetObject", lambda **call: reads.append(str(call)))
    deliver(an_event(transcript={"s3_uri": pointer.format(bucket=bucket)}))
    assert reads == []
    (parked,) = account.services.tenant(TENANT).ledger.parked()
    assert "transcript.s3_uri must be inside the tenant's prefix" in parked.reason
    assert account.executions() == []


@pytest.mark.case("ti-h04")
@pytest.mark.parametrize("field", ["tenant_id", "agent_id", "run_id"])
def test_missing_and_odd_ids_are_refused_by_name_and_make_no_tenant(account: AwsAccount, field: str) -> None:
    events = [an_event(a_detail(**{field: value})) for value in ("", 42, "  ", [], True)]
    absent, null = an_event(), an_event()
    del absent["detail"][field]
    null["detail"][field] = None
    assert deliver(*events, absent, null) == []
    refused = account.refused()
    assert [body["field"] for body in refused] == [field] * 7
    assert [body["rule"] for body in refused if body["rule"] == "is required"] == ["is required"] * 3
    assert account.items(account.settings.ledger_table) == []


@pytest.mark.case("ti-h04")
def test_empty_optional_fields_are_absent_also_from_index_keys(account: AwsAccount) -> None:
    event = an_event()
    event["detail"] |= {"domain": "", "task_type": None, "user_id": "", "task": "", "outcome": "", "memory": None}
    deliver(event)
    assert work_off(account) == ["stored"]
    (item,) = account.episodes()
    assert {"user_key", "user_ref", "task_type"} & set(item) == set()
    assert item["domain"] == {"S": "general"}
