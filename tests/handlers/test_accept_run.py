"""accept_run from queue message to started execution."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain import acceptance, redriving
from agent_memory.domain.errors import StoreBusyError, TranscriptError
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


def deliver(*bodies: object, receives: int = 1) -> list[str]:
    """Deliver one batch and return the ids that failed."""
    answer = handler(an_sqs_event(*bodies, receives=receives), LambdaContext())
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


def redriven(account: AwsAccount) -> redriving.Redrive:
    own, tenant = account.services, account.services.tenant(TENANT)
    doors = acceptance.Doors(tenant.ledger, tenant.claims, own.machine, own.user_refs)
    return redriving.redrive(AGENT, RUN, doors, own.retention_rules, now=own.now())


def recent(**changes: object) -> dict[str, Any]:
    """An event whose run ended just now, by the wall clock that handlers read."""
    return an_event(a_detail(**{"ended_at": None, **changes}))


def test_a_run_is_claimed_and_started_with_ids_only(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    assert deliver(recent(user_id="ann@example.org", outcome="COMPLETED")) == []
    (execution,) = account.executions()
    ticket = account.ticket_of(execution)
    assert set(ticket) == {"tenant_id", "agent_id", "run_id", "attempt", "claim_key", "fact_indexes", "proposal"}
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


def stop(account: AwsAccount) -> None:
    """End every execution, as one ends that could not even park its run."""
    for execution in account.executions():
        account.client("stepfunctions").stop_execution(executionArn=execution["executionArn"])


def stuck_runs(account: AwsAccount, *, now: int | None = None) -> list[ParkedRun]:
    own, tenant = account.services, account.services.tenant(TENANT)
    doors = acceptance.Doors(tenant.ledger, tenant.claims, own.machine, own.user_refs)
    return redriving.stuck(doors, own.retention_rules, now=now or own.now())


def test_a_run_whose_execution_ended_without_settling_it_is_listed_and_redriven(account: AwsAccount) -> None:
    deliver(recent(), recent(run_id="r-2"))
    assert stuck_runs(account) == []
    stop(account)
    found = stuck_runs(account)
    assert {(run.run_id, run.reason, run.attempt) for run in found} == {(RUN, "stuck", 1), ("r-2", "stuck", 1)}
    assert redriven(account).model_dump() == {"decision": "started", "attempt": 2, "reason": None}
    assert [run.run_id for run in stuck_runs(account)] == ["r-2"]
    assert ledger_run(account).attempt == 2
    stop(account)
    assert redriven(account).attempt == 3


def test_a_redelivery_takes_a_run_over_whose_execution_ended_without_settling_it(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    deliver(recent())
    stop(account)
    deliver(recent())
    assert metrics_of(capsys) == {"RunsAccepted": 2}
    assert {account.ticket_of(execution)["attempt"] for execution in account.executions()} == {1, 2}


@pytest.mark.parametrize("state", [RunState.STORED, RunState.PARKED, RunState.ERASED])
def test_a_settled_run_is_never_taken_over(account: AwsAccount, state: RunState) -> None:
    deliver(recent())
    account.services.tenant(TENANT).ledger.move(AGENT, RUN, state=state, attempt=1)
    stop(account)
    deliver(recent())
    assert len(account.executions()) == 1
    assert stuck_runs(account) == []


def test_a_run_that_was_claimed_but_never_started_is_stuck_after_a_while(
    account: AwsAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(ticket: Any) -> bool:
        raise StoreBusyError("busy")

    with monkeypatch.context() as patch:
        patch.setattr(account.services.machine, "start", busy)
        deliver(recent())
    assert stuck_runs(account) == []
    assert len(stuck_runs(account, now=account.services.now() + 3600)) == 1
    assert redriven(account).model_dump() == {"decision": "started", "attempt": 1, "reason": None}


def test_a_stuck_run_whose_claim_expired_is_named_lost(account: AwsAccount) -> None:
    deliver(recent())
    stop(account)
    key = account.ticket_of(account.executions()[0])["claim_key"]
    account.client("s3").delete_object(Bucket=account.settings.transcripts_bucket, Key=key)
    assert redriven(account).model_dump() == {"decision": "lost", "attempt": 1, "reason": "claim_missing"}


@pytest.mark.parametrize("mended_by", ["delivery", "redrive"])
def test_a_run_that_was_parked_unread_knows_its_content_and_user_once_it_is_read(
    account: AwsAccount, mended_by: str
) -> None:
    bucket, key = account.settings.transcripts_bucket, f"{TENANT}/{AGENT}/{RUN}/late.json"
    pointed = {"s3_uri": f"s3://{bucket}/{key}"}
    ended = account.services.now() - 3600
    deliver(recent(user_id="ann@example.org", ended_at=ended, transcript=pointed))
    assert (ledger_run(account).content_sha256, ledger_run(account).reason) == ("", "transcript_missing")
    account.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(some_messages()).encode())
    if mended_by == "redrive":
        redriven(account)
    else:
        deliver(recent(user_id="ann@example.org", ended_at=ended, transcript=pointed))
    run = ledger_run(account)
    assert (run.state, run.attempt, run.ended_at, run.reason) == (RunState.ACCEPTED, 2, ended, None)
    assert run.user_ref == parked_run(account).user_ref
    assert run.user_ref is not None
    deliver(recent(user_id="ann@example.org", transcript={"messages": some_messages(("user", "Another content."))}))
    assert len(account.executions()) == 1
    assert ledger_run(account).content_sha256 == run.content_sha256


def test_the_ledger_says_why_a_run_was_parked_at_the_door_and_says_the_last_reason(account: AwsAccount) -> None:
    deliver(recent(domain="has space"))
    assert str(ledger_run(account).reason).startswith("domain must be")
    deliver(recent(transcript={"messages": []}))
    assert ledger_run(account).reason == "no_messages"


def test_an_uploaded_transcript_that_is_parked_outlives_its_upload(account: AwsAccount) -> None:
    bucket, key = account.settings.transcripts_bucket, f"{TENANT}/{AGENT}/{RUN}/upload.json"
    account.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(some_messages()).encode())
    event = recent(outcome="COMPLETED", transcript={"s3_uri": f"s3://{bucket}/{key}"}, task_type="has space")
    deliver(event)
    parked = parked_run(account)
    content = account.services.tenant(TENANT).claims.get_parked(parked.content_key)
    assert isinstance(content, dict)
    account.client("s3").delete_object(Bucket=bucket, Key=key)
    assert redriven(account).reason.startswith("task_type must be")  # type: ignore[union-attr]  # parked again
    assert account.services.tenant(TENANT).claims.get_parked_transcript(content["transcript_key"]) == some_messages()
    assert parked.expires_at > account.services.now() + 29 * 86_400


@pytest.mark.parametrize(("error", "receives"), [("refused", 1), ("busy", 5)])
def test_a_transcript_that_cannot_be_reached_parks_its_run_no_longer_than_it_exists(
    account: AwsAccount, monkeypatch: pytest.MonkeyPatch, error: str, receives: int
) -> None:
    claims = account.services.tenant(TENANT).claims

    def unreachable(*_: object) -> object:
        raise StoreBusyError("busy") if error == "busy" else TranscriptError("transcript_refused")

    monkeypatch.setattr(claims, "read_transcript", unreachable)
    monkeypatch.setattr(claims, "park_transcript", lambda *_: None)
    event = recent(transcript={"s3_uri": f"s3://{account.settings.transcripts_bucket}/{TENANT}/x.json"})
    if error == "busy":
        assert deliver(event, receives=4) == ["m-0"]
    assert deliver(event, receives=receives) == []
    parked = parked_run(account)
    assert parked.reason == ("transcript_refused" if error == "refused" else "transcript_unavailable")
    assert parked.expires_at <= account.services.now() + 3 * 86_400


def test_a_transcript_that_is_too_large_is_parked_unread_with_its_copy(account: AwsAccount) -> None:
    bucket, key = account.settings.transcripts_bucket, f"{TENANT}/{AGENT}/{RUN}/huge.json.gz"
    body = gzip.compress(b'["' + b"x" * (9 * 1024 * 1024) + b'"]')
    account.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
    deliver(recent(transcript={"s3_uri": f"s3://{bucket}/{key}"}))
    assert parked_run(account).reason == "too_large"
    listed = account.client("s3").list_objects_v2(Bucket=account.settings.parked_bucket)["Contents"]
    assert len(body) in {found["Size"] for found in listed}
