"""accept_run from queue message to started execution."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain import acceptance
from agent_memory.domain.errors import StoreBusyError
from agent_memory.domain.models import LedgerRun, ParkedRun, RunState
from support.aws import AwsAccount, an_aws_account
from support.builders import (
    AGENT,
    RUN,
    TENANT,
    LambdaContext,
    a_detail,
    an_event,
    an_sqs_event,
    some_messages,
)

from lambdas.accept_run.handler import handler


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


def deliver(*bodies: object) -> list[str]:
    """Deliver one batch and return the ids that failed."""
    answer = handler(an_sqs_event(*bodies), LambdaContext())
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def metrics_of(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """Every metric printed since the last look, added up."""
    total: dict[str, float] = {}
    for line in capsys.readouterr().out.splitlines():
        found = json.loads(line) if line.startswith("{") else {}
        for group in found.get("_aws", {}).get("CloudWatchMetrics", []):
            for metric in group["Metrics"]:
                total[metric["Name"]] = total.get(metric["Name"], 0) + sum(found[metric["Name"]])
    return total


def ledger_run(account: AwsAccount, run_id: str = RUN) -> LedgerRun:
    run = account.services.tenant(TENANT).ledger.run(AGENT, run_id)
    assert run is not None
    return run


def parked_run(account: AwsAccount, run_id: str = RUN) -> ParkedRun:
    parked = account.services.tenant(TENANT).ledger.parked_run(AGENT, run_id)
    assert parked is not None
    return parked


def redriven(account: AwsAccount) -> acceptance.Redrive:
    own, tenant = account.services, account.services.tenant(TENANT)
    doors = acceptance.Doors(tenant.ledger, tenant.claims, own.machine, own.user_refs)
    return acceptance.redrive(AGENT, RUN, doors, own.retention_rules, now=own.now())


def recent(**changes: object) -> dict[str, Any]:
    """An event whose run ended just now, by the wall clock that handlers read."""
    return an_event(a_detail(**{"ended_at": None, **changes}))


def test_a_run_is_claimed_and_started_with_ids_only(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    assert deliver(recent(user_id="ann@example.org", outcome="COMPLETED")) == []
    (execution,) = account.executions()
    ticket = account.ticket_of(execution)
    assert set(ticket) == {"tenant_id", "agent_id", "run_id", "attempt", "claim_key"}
    claim = account.services.tenant(TENANT).claims.get_claim(ticket["claim_key"])
    assert claim.messages == tuple(some_messages())
    assert claim.user_ref is not None
    assert claim.user_ref.startswith("u-")
    assert ledger_run(account).state is RunState.ACCEPTED
    out = capsys.readouterr().out
    assert '"RunsAccepted":[1.0]' in out.replace(" ", "")
    for secret in ("ann@example.org", "K7"):
        assert secret not in out
        assert secret not in json.dumps(account.items(account.settings.ledger_table))


def test_the_tenant_is_noted_for_the_night(account: AwsAccount) -> None:
    deliver(recent(), recent(run_id="r-2"))
    rows = [row for row in account.items(account.settings.ledger_table) if row["ledger_key"]["S"] == "registry#tenants"]
    assert [row["entry_id"]["S"] for row in rows] == [TENANT]


def test_the_same_content_twice_is_a_duplicate_whatever_its_order_and_time(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    event = recent(task="Move K7")
    again = dict(recent(task="Move K7", ended_at="2026-11-30T10:00:00Z"), id="another-delivery")
    again["detail"] = dict(reversed(again["detail"].items()))
    account.services.machine.start = lambda ticket: len(started := [ticket]) == len(started)  # type: ignore[method-assign]
    deliver(event)
    account.services.tenant(TENANT).ledger.move(AGENT, RUN, state=RunState.STORED, attempt=1)
    deliver(again)
    assert metrics_of(capsys) == {"RunsAccepted": 1, "RunsDuplicate": 1}


def test_other_content_under_the_same_run_is_a_conflict_and_the_first_wins(
    account: AwsAccount, caplog: pytest.LogCaptureFixture
) -> None:
    deliver(recent())
    deliver(recent(transcript={"messages": some_messages(("user", "Something else."))}))
    assert len(account.executions()) == 1
    named = [(vars(record)["run_id"], vars(record)["decision"]) for record in caplog.records]
    assert named == [(RUN, "accepted"), (RUN, "conflict")]
    claim = account.services.tenant(TENANT).claims.get_claim(account.ticket_of(account.executions()[0])["claim_key"])
    assert claim.messages == tuple(some_messages())


def test_one_poisoned_message_does_not_hold_up_the_batch(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = account.services.machine.start

    def fussy(ticket: Any) -> bool:
        if ticket.run_id == "r-2":
            raise StoreBusyError("states:StartExecution failed (ThrottlingException)")
        return start(ticket)

    monkeypatch.setattr(account.services.machine, "start", fussy)
    assert deliver(recent(run_id="r-1"), recent(run_id="r-2"), "no json", recent(run_id="r-3")) == ["m-1"]
    assert len(account.executions()) == 2
    assert metrics_of(capsys) == {"RunsAccepted": 2, "RunsRefused": 1}
    assert deliver(recent(run_id="r-2")) == ["m-0"]


def test_when_all_of_a_batch_fails_each_is_named(account: AwsAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(ticket: Any) -> bool:
        raise StoreBusyError("busy")

    monkeypatch.setattr(account.services.machine, "start", busy)
    assert deliver(recent(run_id="r-1"), recent(run_id="r-2")) == ["m-0", "m-1"]


def test_an_uploaded_transcript_is_read_and_is_the_same_run_as_inline(account: AwsAccount) -> None:
    body = gzip.compress(json.dumps({"messages": some_messages()}).encode())
    bucket, key = account.settings.transcripts_bucket, f"{TENANT}/{AGENT}/{RUN}/upload.json.gz"
    account.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
    deliver(recent(transcript={"s3_uri": f"s3://{bucket}/{key}"}))
    uploaded = ledger_run(account).content_sha256
    deliver(recent(run_id="r-2"))
    claims = [
        account.services.tenant(TENANT).claims.get_claim(account.ticket_of(e)["claim_key"])
        for e in account.executions()
    ]
    assert claims[0].messages == claims[1].messages
    deliver(recent())
    assert ledger_run(account).content_sha256 == uploaded
    assert len(account.executions()) == 2


def test_a_run_whose_transcript_came_late_is_parked_and_can_be_redriven(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket, key = account.settings.transcripts_bucket, f"{TENANT}/{AGENT}/{RUN}/late.json"
    deliver(recent(user_id="ann@example.org", transcript={"s3_uri": f"s3://{bucket}/{key}"}))
    assert metrics_of(capsys) == {"RunsParked": 1}
    parked = parked_run(account)
    assert (parked.reason, parked.step) == ("transcript_missing", "Accept")
    content = account.services.tenant(TENANT).claims.get_parked(parked.content_key)
    assert "ann@example.org" not in json.dumps(content)
    assert redriven(account).reason == "transcript_missing"
    account.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(some_messages()).encode())
    assert redriven(account).model_dump() == {"decision": "started", "attempt": 2, "reason": None}
    assert redriven(account).attempt == 2
    (execution,) = account.executions()
    claim = account.services.tenant(TENANT).claims.get_claim(account.ticket_of(execution)["claim_key"])
    assert claim.user_ref == parked.user_ref
    assert claim.user_ref is not None


def test_a_user_that_cannot_be_read_is_parked_and_never_becomes_no_user(account: AwsAccount) -> None:
    deliver(recent(user_id=["ann@example.org"]))
    parked = parked_run(account)
    assert parked.reason.startswith("user_id must be")
    assert "ann" not in json.dumps(account.services.tenant(TENANT).claims.get_parked(parked.content_key))
    assert redriven(account).decision == "parked"
    assert account.executions() == []


def test_a_mended_event_goes_to_work_after_a_bad_one_was_parked(account: AwsAccount) -> None:
    deliver(recent(domain="has space"))
    deliver(recent(domain="has space"))
    assert account.executions() == []
    deliver(recent(domain="flights"))
    deliver(recent(domain="flights"))
    assert [account.ticket_of(execution)["attempt"] for execution in account.executions()] == [2]


@pytest.mark.parametrize("messages", [None, [], "text", {"0": "x"}])
def test_a_run_without_messages_is_parked(account: AwsAccount, messages: object) -> None:
    deliver(recent(transcript={"messages": messages}))
    assert parked_run(account).reason in ("no_messages", "transcript.messages must be a list")
    assert account.executions() == []


def test_ten_thousand_messages_are_a_run(account: AwsAccount) -> None:
    deliver(recent(transcript={"messages": some_messages(*[("user", f"line {i}") for i in range(10_000)])}))
    (execution,) = account.executions()
    claim = account.services.tenant(TENANT).claims.get_claim(account.ticket_of(execution)["claim_key"])
    assert len(claim.messages) == 10_000


def test_a_run_that_ended_long_ago_is_counted_and_not_started(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    deliver(recent(ended_at="2020-01-01T00:00:00Z"))
    deliver(recent(ended_at="2020-01-01T00:00:00Z"))
    assert account.executions() == []
    assert ledger_run(account).state is RunState.EXPIRED_ON_ARRIVAL
    assert metrics_of(capsys) == {"ExpiredOnArrival": 1, "RunsDuplicate": 1}


def test_a_run_of_an_erased_user_leaves_nothing(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    user_ref = account.services.user_refs.user_ref(TENANT, "ann@example.org")
    account.erase(TENANT, user_ref, before=account.services.now() + 60)
    deliver(recent(user_id="ann@example.org"))
    deliver(recent(user_id="ann@example.org", domain="has space"))
    assert metrics_of(capsys) == {"RunsErased": 2}
    assert account.executions() == []
    for bucket in (account.settings.transcripts_bucket, account.settings.parked_bucket):
        assert account.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_refused_event_is_kept_without_its_user(account: AwsAccount) -> None:
    deliver(an_event(a_detail(tenant_id="a#b", user_id="ann@example.org")))
    deliver(an_event(source="agent-memory.client/fabrikam"))
    refused = {body["field"]: body for body in account.refused()}
    assert set(refused) == {"tenant_id", "source"}
    assert "ann@example.org" not in json.dumps(refused)
