"""Faults of the field around erasure: one tier forgotten, one page deleted, old versions kept."""

from collections.abc import Iterator

import pytest
from agent_memory.domain.fact_writes import FactWrite, NewObservation
from agent_memory.domain.facts import Fact, Observation, SourceKind
from support.aws import AwsAccount
from support.builders import AGENT, NOW, TENANT, a_vector
from support.erasures import (
    ALICE,
    BOB,
    MARK,
    an_account_that_erases,
    an_episode_of,
    erased,
    everything,
    mentioning,
    plant,
    published,
    ref_of,
)
from support.fact_runs import DOMAIN, facts_of, ingest, said_by
from support.procedure_runs import only, proposed

STEPS = ["Weigh the parcel.", "Print the label.", "Close the box."]


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_account_that_erases() as account:
        yield account


@pytest.mark.case("pi-h06")
def test_erasure_reaches_every_tier_and_what_others_taught_stays(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    plant(account, ALICE, "alice", MARK)
    shared = "The lift takes two tons."
    for user, run in ((ALICE, "alice-s"), (BOB, "bob-s1"), (BOB, "bob-s2")):
        said_by(tenant, shared, run, user_ref=ref_of(user))
    for user, run in ((ALICE, "alice-pp"), (BOB, "bob-pp")):
        proposed(tenant, run, STEPS, user_ref=ref_of(user), task_type="pack")
    published(account)
    receipt, done = erased()
    ingest("after the erasure")
    assert mentioning(everything(account), MARK, ALICE, ref_of(ALICE), "alice-") == {}
    indexed = vars(account.services)["knowledge"].indexed
    assert [text for text, _ in indexed.values()] == [shared]
    [fact] = facts_of(tenant)
    assert len(fact.runs) == 2
    assert only(tenant, "pack").evidence == 1
    assert (done.status, receipt["receipt"]["decision"]) == ("SUCCEEDED", "erased")


def many_facts(account: AwsAccount, user_id: str, number: int) -> None:
    tenant, ref = account.services.tenant(TENANT), ref_of(user_id)
    for start in range(0, number, 40):
        facts, said = [], []
        for n in range(start, min(start + 40, number)):
            one = Observation(
                agent_id=AGENT, run_id=f"{ref}-{n}", user_ref=ref, source=SourceKind.USER, content=f"note {n} {user_id}",
                confidence=0.9, vector=a_vector(), embedding_model="test-model", observed_at=NOW - 60,
            )  # fmt: skip
            fact = Fact(
                tenant_id=TENANT, domain=DOMAIN, fact_id=f"f-{ref[2:10]}{n:024d}", content=one.content, confidence=0.9,
                observations=(one,), created_at=NOW - 60, last_confirmed_at=NOW - 60,
            )  # fmt: skip
            facts.append(fact)
            said.append(NewObservation(fact.fact_id, one))
        change = FactWrite(seen=tenant.facts.domain(DOMAIN), facts=tuple(facts), observations=tuple(said))
        assert tenant.facts.write(change) == "written"


@pytest.mark.case("ps-h06")
def test_all_of_250_facts_go_in_one_request_which_says_how_many(account: AwsAccount) -> None:
    many_facts(account, ALICE, 250)
    many_facts(account, BOB, 5)
    receipt, _ = erased()
    [facts] = [one for one in receipt["receipt"]["stores"] if one["store"] == "facts"]
    assert facts["removed"] == 2 * 250  # each fact with what was said for it
    assert len(facts_of(account.services.tenant(TENANT))) == 5
    again, done = erased("nobody@example.com")
    assert (sum(one["removed"] for one in again["receipt"]["stores"]), done.status) == (0, "SUCCEEDED")


@pytest.mark.case("pi-h04")
def test_an_erasure_names_nobody_in_its_receipt_its_answers_and_its_logs(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    an_episode_of(account.services.tenant(TENANT), "alice-1", ALICE, MARK)
    receipt, done = erased()
    printed = capsys.readouterr()
    logged = printed.out + printed.err + caplog.text + "".join(str(vars(record)) for record in caplog.records)
    told = str(receipt) + str(done.inputs) + logged
    assert not [mark for mark in (ALICE, MARK, "alice-1") if mark in told]
