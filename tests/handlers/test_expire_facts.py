"""Facts that nobody confirms any more leave S3 and the Knowledge Base before their rows go, and can come back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain.archive import Lease, Snapshot
from agent_memory.domain.fact_review import ReviewDoors, retire
from agent_memory.domain.facts import FactState
from agent_memory.domain.keys import result_key, slice_key
from agent_memory.domain.lifecycle import FactSlice, LifecycleRun, SliceResult
from agent_memory.domain.restoring import restore_memory
from agent_memory.wiring_merging import merge_services
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account
from support.builders import DAY, NOW, TENANT, LambdaContext
from support.fact_runs import DOMAIN, StandInKnowledge, SubjectEmbedder, document_names, facts_of, ingest, said_by
from support.nights import NIGHT, a_night

from lambdas.expire_facts.handler import handler

SAYING = "Depot K closes at 16:00."
LATER = NOW + 300 * DAY


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = SubjectEmbedder("depot", "crane")
        vars(account.services)["knowledge"] = StandInKnowledge(account)
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        at(account, NOW)
        yield account


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


def at(account: AwsAccount, now: int) -> None:
    account.services.now = lambda: now  # type: ignore[method-assign]  # the clock moves


def learnt(tenant: TenantServices, saying: str = SAYING, runs: int = 3, **claim: object) -> str:
    said_by(tenant, saying, *(f"r-{i}" for i in range(runs)), **claim)
    (fact,) = [one for one in facts_of(tenant) if one.content == saying]
    return fact.fact_id


def night(account: AwsAccount, *fact_ids: str, now: int = LATER, run: LifecycleRun | None = None) -> dict[str, str]:
    """What a night at *now* decides of these facts."""
    at(account, now)
    run = run or a_night(now=now)
    files, key = account.services.night_files, slice_key(run.run_id, "facts", TENANT, "0001")
    files.put(key, FactSlice(tenant_id=TENANT, name="0001", facts=tuple((DOMAIN, one) for one in fact_ids)))
    assert handler(json.loads(json.dumps({"run": run.model_dump(), "key": key})), LambdaContext()) == {}
    result = files.get(result_key(run.run_id, "facts", TENANT, "0001"), SliceResult)
    assert result is not None
    return {one.run_id: one.decision for one in result.done}


def restored(memory_id: str, now: int) -> str:
    own = merge_services()
    return restore_memory(memory_id, own.restore_doors(TENANT), own.restore_rules, now=now).decision


def test_a_fact_leaves_the_knowledge_base_before_its_rows_go(account: AwsAccount, tenant: TenantServices) -> None:
    fact_id = learnt(tenant)
    ingest("e-1")
    assert night(account, fact_id) == {fact_id: "withdrawn"}
    (fact,) = facts_of(tenant)
    assert (fact.state, fact.expired_away) == (FactState.RETIRED, True)
    assert document_names(account) == []
    # Until the Knowledge Base was seen without it, its rows stay.
    assert night(account, fact_id, now=LATER + DAY) == {fact_id: "withdrawing"}
    assert len(facts_of(tenant)) == 1
    ingest("e-2")
    assert night(account, fact_id, now=LATER + 2 * DAY) == {fact_id: "expired"}
    assert [row["fact_id"]["S"] for row in account.facts()] == ["~head"]
    assert night(account, fact_id, now=LATER + 3 * DAY) == {fact_id: "gone"}


def test_a_fact_that_was_never_believed_goes_at_once_and_is_archived(
    account: AwsAccount, tenant: TenantServices
) -> None:
    fact_id = learnt(tenant, runs=2)
    assert night(account, fact_id) == {fact_id: "expired"}
    assert facts_of(tenant) == []
    assert len(list(tenant.archive.of_memory("semantic", ("", fact_id)))) == 1


def test_a_fact_counts_its_age_from_its_last_confirmation(account: AwsAccount, tenant: TenantServices) -> None:
    fact_id = learnt(tenant)
    assert night(account, fact_id, now=NOW + 270 * DAY - 1) == {fact_id: "moved"}
    at(account, NOW + 100 * DAY)
    said_by(tenant, SAYING, "r-9")
    assert night(account, fact_id, now=NOW + 270 * DAY) == {fact_id: "moved"}
    assert night(account, fact_id, now=NOW + 370 * DAY) == {fact_id: "withdrawn"}


def test_pinned_facts_and_what_a_person_retired_stay(account: AwsAccount, tenant: TenantServices) -> None:
    fact_id = learnt(tenant)
    doors = ReviewDoors(tenant.facts, tenant.documents, account.services.dirty, account.services.rest)
    retire(TENANT, DOMAIN, fact_id, reason="wrong", doors=doors, now=NOW)
    assert night(account, fact_id) == {fact_id: "moved"}
    (row,) = [row for row in account.facts() if row["fact_id"]["S"] == fact_id]
    assert "decays_at" not in row
    assert "due_shard" not in row
    # Else the next run would teach what a person knows to be wrong.
    assert said_by(tenant, SAYING, "r-7", "r-8", "r-9") == ["observed", "observed", "observed"]


def test_all_facts_of_a_tenant_on_hold_stay(account: AwsAccount, tenant: TenantServices) -> None:
    fact_id = learnt(tenant)
    tenant.agent_notes.hold("*", now=NOW)
    assert night(account, fact_id) == {fact_id: "kept"}


def test_a_fact_that_is_confirmed_while_the_night_works_stays(account: AwsAccount, tenant: TenantServices) -> None:
    fact_id = learnt(tenant)
    put, archive = tenant.archive.put, tenant.archive

    def confirmed_first(*arguments: Any, **named: Any) -> str:
        at(account, LATER)
        said_by(tenant, SAYING, "r-9")
        return put(*arguments, **named)

    archive.put = confirmed_first  # type: ignore[method-assign]  # somebody is faster
    assert night(account, fact_id) == {fact_id: "kept"}
    (fact,) = facts_of(tenant)
    assert fact.state is FactState.PROMOTED


def test_an_archive_that_fails_keeps_the_fact(account: AwsAccount, tenant: TenantServices) -> None:
    fact_id = learnt(tenant)
    get = tenant.archive.get
    tenant.archive.get = lambda key: get(key).model_copy(  # type: ignore[method-assign]  # a copy that is not one
        update={"snapshot": get(key).snapshot.model_copy(update={"since": 1})}
    )
    assert night(account, fact_id) == {fact_id: "failed"}
    (fact,) = facts_of(tenant)
    assert fact.state is FactState.PROMOTED
    assert len(document_names(account)) == 2


def test_a_fact_is_archived_and_put_back_byte_for_byte_with_its_document(
    account: AwsAccount, tenant: TenantServices
) -> None:
    fact_id = learnt(tenant, runs=5)
    ingest("e-1")
    rows, documents = account.facts(), account.knowledge()
    shelf = tenant.fact_shelf(account.services.dirty)
    snapshot = shelf.snapshot((DOMAIN, fact_id))
    assert snapshot is not None
    assert len(snapshot.items) == 6
    kept = tenant.archive.get(tenant.archive.put(snapshot, night=NIGHT, reason="expired", at=NOW)).snapshot
    assert kept == snapshot
    assert shelf.remove(kept) == "removed"
    tenant.documents.delete(DOMAIN, fact_id)
    assert [row["fact_id"]["S"] for row in account.facts()] == ["~head"]
    assert shelf.put_back(kept) == "restored"
    heads = [row for row in account.facts() if row["fact_id"]["S"] == "~head"]
    assert [row for row in account.facts() if row not in heads] == [r for r in rows if r["fact_id"]["S"] != "~head"]
    assert account.knowledge() == documents
    assert shelf.put_back(kept) == "present"


def test_a_fact_of_many_observations_goes_and_comes_back_whole(account: AwsAccount, tenant: TenantServices) -> None:
    fact_id = learnt(tenant, runs=4)
    shelf = tenant.fact_shelf(account.services.dirty)
    snapshot = shelf.snapshot((DOMAIN, fact_id))
    assert snapshot is not None
    client, table = account.client("dynamodb"), account.settings.facts_table
    pattern = next(row for row in account.facts() if "#" in row["fact_id"]["S"])
    for number in range(200):
        row = {**pattern, "fact_id": {"S": f"{fact_id}#bot/x-{number}#0"}, "run_id": {"S": f"x-{number}"}}
        client.put_item(TableName=table, Item=row)
    whole = shelf.snapshot((DOMAIN, fact_id))
    assert whole is not None
    rows = [row for row in account.facts() if row["fact_id"]["S"] != "~head"]
    assert shelf.remove(whole) == "removed"
    assert len(account.facts()) == 1
    assert shelf.put_back(whole) == "restored"
    assert sorted(r["fact_id"]["S"] for r in account.facts() if r["fact_id"]["S"] != "~head") == sorted(
        r["fact_id"]["S"] for r in rows
    )


def test_an_expired_fact_comes_back_believed_and_is_ingested_anew(account: AwsAccount, tenant: TenantServices) -> None:
    fact_id = learnt(tenant)
    ingest("e-1")
    night(account, fact_id)
    ingest("e-2")
    night(account, fact_id, now=LATER + DAY)
    assert facts_of(tenant) == []
    at(account, LATER + 2 * DAY)
    assert restored(fact_id, LATER + 2 * DAY) == "restored"
    (fact,) = facts_of(tenant)
    assert (fact.content, len(fact.runs)) == (SAYING, 3)
    assert fact.kept_until == LATER + 32 * DAY
    assert fact.due_at(270) == LATER + 32 * DAY
    assert night(account, fact_id, now=LATER + 3 * DAY) == {fact_id: "moved"}


def test_a_fact_that_is_brought_back_while_it_is_withdrawn_is_believed_again(
    account: AwsAccount, tenant: TenantServices
) -> None:
    fact_id = learnt(tenant)
    ingest("e-1")
    night(account, fact_id)
    assert restored(fact_id, LATER + 60) == "restored"
    (fact,) = facts_of(tenant)
    assert (fact.state, fact.history[-1].reason) == (FactState.PROMOTED, "restored")
    ingest("e-2")
    assert len(document_names(account)) == 2
    (fact,) = facts_of(tenant)
    assert fact.state is FactState.INGESTED
    assert restored(fact_id, LATER + 120) == "present"


def test_a_fact_comes_back_contested_when_the_contrary_is_believed_by_now(
    account: AwsAccount, tenant: TenantServices
) -> None:
    fact_id = learnt(tenant)
    night(account, fact_id)
    ingest("e-1")
    night(account, fact_id, now=LATER + DAY)
    assert said_by(tenant, "Depot K closes at 17:00.", "n-1", "n-2", "n-3")[-1] == "promoted"
    restored(fact_id, LATER + 2 * DAY)
    back = next(one for one in facts_of(tenant) if one.fact_id == fact_id)
    assert back.state is FactState.CONTESTED
    assert len(back.contested_by) == 1


def test_what_an_erased_user_said_stays_away(account: AwsAccount, tenant: TenantServices) -> None:
    for number in range(3):
        said_by(tenant, SAYING, f"r-{number}", user_ref=f"u-{number}")
    (fact,) = facts_of(tenant)
    night(account, fact.fact_id)
    ingest("e-1")
    night(account, fact.fact_id, now=LATER + DAY)
    account.erase(TENANT, "u-1", before=LATER)
    assert restored(fact.fact_id, LATER + 2 * DAY) == "restored"
    (back,) = facts_of(tenant)
    # Two runs are left, which is one too few to believe it.
    assert (back.users, back.state, back.promoted_at) == ({"u-0", "u-2"}, FactState.OBSERVED, None)
    assert document_names(account) == []


def test_a_fact_about_an_erased_user_does_not_come_back(account: AwsAccount, tenant: TenantServices) -> None:
    shelf = tenant.fact_shelf(account.services.dirty)
    for number in range(3):
        said_by(tenant, SAYING, f"r-{number}", user_ref="u-1")
    (fact,) = facts_of(tenant)
    snapshot = shelf.snapshot((DOMAIN, fact.fact_id))
    assert snapshot is not None
    assert shelf.remove(snapshot) == "removed"
    account.erase(TENANT, "u-1", before=NOW)
    assert shelf.put_back(snapshot) == "erased"
    assert facts_of(tenant) == []


def test_a_removal_that_broke_off_half_way_is_finished_the_next_night(
    account: AwsAccount, tenant: TenantServices
) -> None:
    fact_id = learnt(tenant, runs=2)
    client, table = account.client("dynamodb"), account.settings.facts_table
    said = next(row for row in account.facts() if "#" in row["fact_id"]["S"])
    client.delete_item(TableName=table, Key={name: said[name] for name in ("domain_key", "fact_id")})
    assert night(account, fact_id) == {fact_id: "expired"}
    assert [row["fact_id"]["S"] for row in account.facts()] == ["~head"]


@pytest.mark.parametrize("entry", ["u-1", "*"])
@pytest.mark.parametrize("leased", [True, False])
def test_an_erasure_between_the_look_at_tombstones_and_the_write_keeps_the_person_away(
    account: AwsAccount, tenant: TenantServices, entry: str, leased: bool
) -> None:
    for number in range(3):
        said_by(tenant, SAYING, f"r-{number}", user_ref=f"u-{number}")
    (fact,) = facts_of(tenant)
    shelf = tenant.fact_shelf(account.services.dirty)
    snapshot = shelf.snapshot((DOMAIN, fact.fact_id))
    assert snapshot is not None
    assert shelf.remove(snapshot) == "removed"
    looked = shelf._erased

    def erased_meanwhile(seen: Snapshot) -> set[str]:
        found = looked(seen)
        account.erase(TENANT, entry, before=LATER)
        return found

    shelf._erased = erased_meanwhile  # type: ignore[method-assign]  # somebody is faster
    lease = Lease(at=LATER, kept_until=LATER + DAY, expires_at=LATER + 4 * DAY) if leased else None
    word = shelf.put_back(snapshot, lease)
    if entry == "*":
        assert (word, facts_of(tenant)) == ("erased", [])
    else:
        assert word == "restored"
        (back,) = facts_of(tenant)
        assert (back.users, back.state) == ({"u-0", "u-2"}, FactState.OBSERVED)
    assert not any("u-1" in str(row.get("user_ref")) for row in account.facts())
