"""The ledger port on DynamoDB."""

from collections.abc import Iterator

import pytest
from agent_memory.aws.ledger import DynamoLedger
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.models import RunState
from support.aws import AwsAccount, an_aws_account
from support.builders import (
    AGENT,
    DAY,
    HASH,
    NOW,
    RUN,
    TENANT,
    a_ledger_run,
    a_parked_run,
    a_retrieved_memory,
    an_episode,
)


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@pytest.fixture
def ledger(account: AwsAccount) -> DynamoLedger:
    return account.services.tenant(TENANT).ledger


def remembered(account: AwsAccount, run_id: str = RUN) -> dict[str, object]:
    episode = account.services.tenant(TENANT).episodes.get(AGENT, run_id)
    assert episode is not None
    return episode.model_dump(include={"access_count", "last_access_at", "use_count"})


def retrieved(ledger: DynamoLedger, *runs: str, context_id: str = "c-1", at: int = NOW) -> str:
    items = [a_retrieved_memory(run) for run in runs]
    return ledger.record_retrieval(context_id=context_id, items=items, at=at, expires_at=at + 7 * DAY)


def test_a_run_is_accepted_once(ledger: DynamoLedger) -> None:
    assert ledger.accept(a_ledger_run(user_ref="u-1")) == "stored"
    assert ledger.accept(a_ledger_run(content_sha256="0" * 64)) == "duplicate"
    assert ledger.run(AGENT, RUN) == a_ledger_run(user_ref="u-1")
    assert ledger.run(AGENT, "another") is None


@pytest.mark.parametrize("entry", ["u-1", "*"])
def test_an_erased_run_is_not_accepted(account: AwsAccount, ledger: DynamoLedger, entry: str) -> None:
    account.erase(TENANT, entry, before=NOW)
    assert ledger.accept(a_ledger_run(user_ref="u-1")) == "erased"
    assert ledger.park(a_parked_run(user_ref="u-1", ended_at=NOW - 60)) == "erased"
    assert ledger.run(AGENT, RUN) is None
    assert ledger.parked() == []


def test_only_the_attempt_that_holds_the_row_moves_it(ledger: DynamoLedger) -> None:
    ledger.accept(a_ledger_run())
    assert ledger.next_attempt(AGENT, RUN, seen=1) == 2
    assert ledger.next_attempt(AGENT, RUN, seen=1) is None
    assert not ledger.move(AGENT, RUN, state=RunState.STORED, attempt=1)
    assert ledger.move(AGENT, RUN, state=RunState.PARKED, attempt=2, reason="model_busy")
    run = ledger.run(AGENT, RUN)
    assert run is not None
    assert (run.state, run.attempt, run.reason) == (RunState.PARKED, 2, "model_busy")
    assert ledger.move(AGENT, RUN, state=RunState.STORED, attempt=2)
    assert ledger.run(AGENT, RUN) == a_ledger_run(attempt=2, state=RunState.STORED)


def test_the_next_attempt_of_an_unread_run_learns_its_content_in_the_same_write(ledger: DynamoLedger) -> None:
    ledger.accept(a_ledger_run(content_sha256="", state=RunState.PARKED, reason="transcript_missing"))
    content = {"content_sha256": HASH, "user_ref": "u-1", "ended_at": NOW - 600}
    assert ledger.next_attempt(AGENT, RUN, seen=2, content=content) is None
    assert ledger.next_attempt(AGENT, RUN, seen=1, content=content) == 2
    assert ledger.run(AGENT, RUN) == a_ledger_run(attempt=2, **content)


def test_runs_at_work_are_those_neither_stored_nor_parked(ledger: DynamoLedger) -> None:
    for state in RunState:
        ledger.accept(a_ledger_run(run_id=f"r-{state}", state=state))
    assert [run.run_id for run in ledger.at_work()] == ["r-accepted"]


def test_a_run_that_is_gone_is_not_brought_back_by_an_update(account: AwsAccount, ledger: DynamoLedger) -> None:
    assert not ledger.move(AGENT, RUN, state=RunState.STORED, attempt=1)
    assert ledger.next_attempt(AGENT, RUN, seen=1) is None
    assert account.items(account.settings.ledger_table) == []


def test_parked_runs_are_listed_newest_first_and_leave_with_their_attempt(ledger: DynamoLedger) -> None:
    assert ledger.park(a_parked_run()) == "stored"
    assert ledger.park(a_parked_run(reason="again")) == "duplicate"
    assert ledger.park(a_parked_run(run_id="r-2", parked_at=NOW + 1)) == "stored"
    assert [run.run_id for run in ledger.parked()] == ["r-2", RUN]
    assert ledger.park(a_parked_run(attempt=2, reason="model_busy")) == "stored"
    assert not ledger.unpark(AGENT, RUN, attempt=1)
    assert ledger.unpark(AGENT, RUN, attempt=2)
    assert not ledger.unpark(AGENT, RUN, attempt=2)
    assert ledger.parked_run(AGENT, RUN) is None


def test_a_retrieval_counts_once_per_context_and_memory(account: AwsAccount, ledger: DynamoLedger) -> None:
    account.services.tenant(TENANT).episodes.put(an_episode())
    assert retrieved(ledger, RUN, RUN) == "stored"
    assert retrieved(ledger, RUN) == "duplicate"
    assert remembered(account) == {"access_count": 1, "last_access_at": NOW, "use_count": 0}
    assert retrieved(ledger, RUN, context_id="c-2", at=NOW + 5) == "stored"
    assert remembered(account) == {"access_count": 2, "last_access_at": NOW + 5, "use_count": 0}


def test_a_late_retrieval_does_not_turn_the_last_access_back(account: AwsAccount, ledger: DynamoLedger) -> None:
    account.services.tenant(TENANT).episodes.put(an_episode())
    retrieved(ledger, RUN, at=NOW)
    retrieved(ledger, RUN, context_id="c-2", at=NOW - DAY)
    assert remembered(account)["last_access_at"] == NOW


def test_a_deleted_memory_is_left_out_and_stays_deleted(account: AwsAccount, ledger: DynamoLedger) -> None:
    account.services.tenant(TENANT).episodes.put(an_episode())
    assert retrieved(ledger, RUN, "gone") == "stored"
    assert [item["run_id"]["S"] for item in account.episodes()] == [RUN]
    assert remembered(account)["access_count"] == 1


def test_use_counts_only_what_the_context_returned_and_once(account: AwsAccount, ledger: DynamoLedger) -> None:
    for run_id in (RUN, "r-2", "r-3"):
        account.services.tenant(TENANT).episodes.put(an_episode(run_id=run_id))
    retrieved(ledger, RUN, "r-2")
    run = (AGENT, "r-9")
    used = [f"{AGENT}/{RUN}", f"{AGENT}/r-3", "f-1", f"{AGENT}/{RUN}"]
    assert ledger.record_use(context_id="c-9", run=run, used=used) == 0
    assert ledger.record_use(context_id="c-1", run=run, used=["f-1"]) == 0
    assert ledger.record_use(context_id="c-1", run=run, used=used) == 1
    assert ledger.record_use(context_id="c-1", run=run, used=[f"{AGENT}/r-2"]) == 0
    assert remembered(account) == {"access_count": 1, "last_access_at": NOW, "use_count": 1}
    assert remembered(account, "r-2")["use_count"] == 0
    assert remembered(account, "r-3")["use_count"] == 0


def test_use_of_a_memory_that_was_deleted_meanwhile_brings_nothing_back(
    account: AwsAccount, ledger: DynamoLedger
) -> None:
    episodes = account.services.tenant(TENANT).episodes
    episodes.put(an_episode())
    retrieved(ledger, RUN)
    (item,) = account.episodes()
    key = {name: item[name] for name in ("agent_id", "run_id")}
    account.client("dynamodb").delete_item(TableName=account.settings.episodes_table, Key=key)
    ledger.record_use(context_id="c-1", run=(AGENT, "r-9"), used=[f"{AGENT}/{RUN}"])
    assert account.episodes() == []


def test_another_tenant_is_never_written_or_named(ledger: DynamoLedger) -> None:
    with pytest.raises(CrossTenantError):
        ledger.accept(a_ledger_run(tenant_id="fabrikam"))
    with pytest.raises(CrossTenantError):
        ledger.park(a_parked_run(tenant_id="fabrikam"))
    with pytest.raises(CrossTenantError):
        ledger.run("x#y", RUN)
    with pytest.raises(CrossTenantError):
        ledger.record_retrieval(context_id="c-1", items=[a_retrieved_memory(agent_id="x#y")], at=NOW, expires_at=NOW)
