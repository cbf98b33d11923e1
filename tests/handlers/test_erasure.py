"""A person or a tenant is forgotten in every store, others keep what is theirs, and the receipt proves it."""

import copy
from collections.abc import Iterator

import pytest
from agent_memory.domain.erasure import STORES
from support.aws import AwsAccount
from support.builders import NOW, TENANT
from support.erasures import (
    ALICE,
    BOB,
    MARK,
    an_account_that_erases,
    an_episode_of,
    ask,
    at,
    erased,
    everything,
    mentioning,
    plant,
    published,
    ref_of,
    ticket_of,
    worked_off,
)
from support.fact_runs import facts_of, said_by
from support.procedure_runs import only, proposed


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_account_that_erases() as account:
        yield account


def test_nothing_of_the_person_stays_and_everything_of_others_stays_as_it_is(account: AwsAccount) -> None:
    plant(account, ALICE, "alice", MARK)
    plant(account, BOB, "bob", "wombat")
    published(account)
    before = everything(account)
    theirs = mentioning(before, MARK, ref_of(ALICE), "alice-")
    assert {place.split(":")[0] for place in theirs} >= {
        "episodes_table", "ledger_table", "facts_table", "procedures_table", "transcripts_bucket", "parked_bucket",
        "knowledge_bucket", "archive_bucket", "AGENT_MEMORY_INTAKE_DEAD_LETTERS", "kb",
    }  # fmt: skip
    receipt, done = erased()
    after = everything(account)
    assert mentioning(after, MARK, ref_of(ALICE), ALICE, "alice-") == {}
    documents = {place.split(".txt")[0] for place in theirs if place.startswith("knowledge_bucket")}
    others = {place: text for place, text in before.items() if place not in theirs and not is_one_of(place, documents)}
    changed = {place for place, text in others.items() if after.get(place) != text}
    # Heads order the writes of everybody; noted domains are nobody's.
    assert {place for place in changed if "~head" not in place and "registry#" not in place} == set()
    assert (done.status, receipt["receipt"]["decision"]) == ("SUCCEEDED", "erased")


def is_one_of(place: str, documents: set[str]) -> bool:
    """A sidecar lies beside its document and names nobody."""
    return place.split(".txt")[0] in documents


def test_a_receipt_counts_every_store_and_is_proved_by_probing_again(account: AwsAccount) -> None:
    plant(account, ALICE, "alice", MARK)
    published(account)
    receipt, _ = erased()
    removed = {one["store"]: one["removed"] + one["changed"] for one in receipt["receipt"]["stores"]}
    assert set(removed) == set(STORES)
    assert {store for store, number in removed.items() if number} >= {
        "episodes", "facts", "procedures", "archive", "ledger-parked", "ledger-confirmed", "ledger-proposals",
        "ledger-context", "ledger-regressions", "transcripts", "pipeline-objects", "parked-objects", "night-files",
        "knowledge-documents", "knowledge-base", "intake-dead-letters", "ledger-run",
    }  # fmt: skip
    assert "alice" not in str(receipt)
    assert MARK not in str(receipt)
    question = {"action": "verify", "receipt": receipt}
    assert ask(question)["stores"] == list(STORES)
    assert {ask({**question, "store": store})["left"] for store in STORES} == {0}


def test_a_probe_finds_what_comes_back(account: AwsAccount) -> None:
    plant(account, ALICE, "alice", MARK)
    receipt, _ = erased()
    bucket, key = account.settings.transcripts_bucket, f"{TENANT}/claims-bot/alice-up/t.json"
    account.client("s3").put_object(Bucket=bucket, Key=key, Body=MARK.encode())
    assert ask({"action": "verify", "receipt": receipt, "store": "transcripts"})["left"] == 1


def test_an_edited_receipt_is_refused(account: AwsAccount) -> None:
    receipt, _ = erased()
    for path in (("receipt", "decision"), ("receipt", "user_ref"), ("signature", "mac"), ("signature", "key")):
        edited = copy.deepcopy(receipt)
        edited[path[0]][path[1]] = "erased!" if path[1] == "decision" else "AAAA"
        assert ask({"action": "verify", "receipt": edited})["error"]["field"] == "receipt"
    edited = copy.deepcopy(receipt)
    edited["receipt"]["stores"][0]["left"] = 7
    assert ask({"action": "verify", "receipt": edited})["error"]["field"] == "receipt"
    assert ask({"action": "verify", "receipt": receipt})["decision"] == "erased"


def test_a_shared_fact_is_kept_in_the_words_of_others(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    said_by(tenant, "Depot K closes at 16:00 says quokka.", "alice-1", user_ref=ref_of(ALICE))
    said_by(tenant, "Depot K closes at 16:00.", "bob-1", "bob-2", user_ref=ref_of(BOB))
    published(account)
    erased()
    published(account)
    [fact] = facts_of(tenant)
    assert fact.content == "Depot K closes at 16:00."
    assert {one.run_id for one in fact.observations} == {"bob-1", "bob-2"}
    assert fact.state == "ingested"
    assert mentioning(everything(account), MARK, "alice-", ref_of(ALICE)) == {}


def test_a_shared_fact_that_falls_below_the_threshold_is_withdrawn(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    said_by(tenant, "Depot K closes at 16:00.", "alice-1", user_ref=ref_of(ALICE))
    said_by(tenant, "Depot K closes at 16:00.", "bob-1", user_ref=ref_of(BOB))
    published(account)
    assert account.knowledge()
    receipt, _ = erased()
    [fact] = facts_of(tenant)
    assert (fact.state, fact.promoted_at) == ("observed", None)
    assert not account.knowledge()
    assert not vars(account.services)["knowledge"].indexed
    assert receipt["receipt"]["decision"] == "erased"


def test_a_procedure_that_others_proposed_too_is_reduced(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    steps = ["Cordon the node.", "Evict its pods.", "Check that no pod is left."]
    assert proposed(tenant, "alice-1", steps, user_ref=ref_of(ALICE)) == "proposed"
    proposed(tenant, "bob-1", steps, user_ref=ref_of(BOB))
    erased()
    procedure = only(tenant)
    assert (procedure.evidence, procedure.proposed_by[1], procedure.task) == (1, "bob-1", "")
    assert mentioning(everything(account), "alice-", ref_of(ALICE)) == {}


def test_erasing_twice_and_an_unknown_user_are_harmless(account: AwsAccount) -> None:
    plant(account, ALICE, "alice", MARK)
    erased()
    at(account, NOW + 5)
    again, _ = erased()
    assert again["receipt"]["decision"] == "erased"
    nobody, done = erased("nobody@example.com")
    assert (nobody["receipt"]["decision"], done.status) == ("erased", "SUCCEEDED")
    assert sum(one["removed"] for one in nobody["receipt"]["stores"]) == 0


def test_whoever_comes_back_is_remembered_again(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    plant(account, ALICE, "alice", MARK)
    erased()
    at(account, NOW + 1000)
    an_episode_of(tenant, "alice-new", ALICE, "I am back", ended_at=NOW + 900)
    receipt = ask({"action": "request", "user_id": BOB})
    worked_off(ticket_of(receipt))
    assert tenant.episodes.get("claims-bot", "alice-new") is not None


def test_a_late_message_older_than_the_tombstone_is_dropped(account: AwsAccount) -> None:
    ask({"action": "request", "user_id": ALICE})
    tenant = account.services.tenant(TENANT)
    with pytest.raises(AssertionError):
        an_episode_of(tenant, "alice-late", ALICE, MARK)


def test_a_store_that_keeps_failing_makes_a_partial_failure_that_is_retried_alone(account: AwsAccount) -> None:
    plant(account, ALICE, "alice", MARK)
    queue = account.variables["AGENT_MEMORY_INTAKE_DEAD_LETTERS"]
    account.client("sqs").delete_queue(QueueUrl=queue)
    receipt, done = erased()
    assert (done.status, done.error) == ("FAILED", "PartialFailure")
    assert receipt["receipt"]["decision"] == "partial_failure"
    bad = [one["store"] for one in receipt["receipt"]["stores"] if one["error"] or one["left"]]
    assert bad == ["intake-dead-letters"]
    account.client("sqs").create_queue(QueueName="intake-dead-letters")
    asked = ask({"action": "retry", "receipt": receipt})
    assert asked["execution"]
    execution = account.client("stepfunctions").list_executions(stateMachineArn=account.settings_now.erasure_machine)
    assert asked["execution"] in {one["name"] for one in execution["executions"]}
    arn = next(one["executionArn"] for one in execution["executions"] if one["name"] == asked["execution"])
    import json

    ticket = json.loads(account.client("stepfunctions").describe_execution(executionArn=arn)["input"])
    assert ticket["stores"] == ["intake-dead-letters"]
    assert worked_off(ticket).status == "SUCCEEDED"
    after = ask({"action": "status", "erasure_id": asked["erasure_id"]})["receipt"]
    assert after["receipt"]["decision"] == "erased"


def test_a_whole_tenant_goes_and_its_neighbour_stays(account: AwsAccount) -> None:
    plant(account, ALICE, "alice", MARK)
    an_episode_of(account.services.tenant("northwind2"), "bob-1", BOB, "wombat")
    account.services.registry.note("northwind2", now=NOW)
    account.services.registry.note(TENANT, now=NOW)
    published(account)
    neighbour = {place: text for place, text in everything(account).items() if "northwind2" in place}
    asked = ask({"action": "request", "whole_tenant": True})
    done = worked_off(ticket_of(asked))
    receipt = ask({"action": "status", "erasure_id": asked["erasure_id"]})["receipt"]
    after = everything(account)
    assert (done.status, receipt["receipt"]["decision"]) == ("SUCCEEDED", "erased"), receipt
    kept = {place for place in after if f":{TENANT}#" in place or f"/{TENANT}/" in place or f":{TENANT}/" in place}
    assert {place for place in kept if "tombstone" not in place} == set()
    assert mentioning(after, MARK, "alice-", ALICE) == {}
    assert {place: after.get(place) for place in neighbour} == neighbour


def test_a_canary_and_a_question_without_a_subject_are_refused(account: AwsAccount) -> None:
    canary = {"action": "request", "tenant_id": "canary-a", "whole_tenant": True}
    assert ask(canary)["error"]["field"] == "tenant_id"
    assert ask({"action": "request"})["error"]["field"] == "user_id"
    assert ask({"action": "forget", "user_id": ALICE})["error"]["field"] == "action"
