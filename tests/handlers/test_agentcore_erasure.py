"""A person, and a tenant, are forgotten in AgentCore too, by the machine of erasures."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from agent_memory.contract import ACCESS_LEDGER_KEY, REGISTRY_AGENTCORE, environment_variable
from agent_memory.domain.accesses import added
from agent_memory.domain.agentcore import place_of
from agent_memory.domain.cloudtrail import Access, Window
from agent_memory.domain.erasure import AGENTCORE_STORES, EVERY_STORE, READS_LETTERS, STORES
from agent_memory.wiring_agentcore import AgentCoreServices
from agent_memory.wiring_erasure import erasure_services
from support.agentcore import MEMORY_ID, AgentCore, an_error
from support.agentcore_erasures import (
    LETTERS,
    OWN,
    a_night,
    an_account_that_erases_in_agentcore,
    erased,
    fit,
    forget,
    kept,
    records_of,
    ticket_of_all,
)
from support.agentcore_nights import BUCKET, ENTRY
from support.aws import AwsAccount
from support.builders import AGENT, NOW, TENANT
from support.erasures import accept, ask, at, ref_of, worked_off
from support.merges import an_answer
from support.regressions import a_case

DAY = 86_400
ADA, ADAM, SESSION = "/actors/ada/", "/actors/ada2/", "/sessions/ada/s-1/"
Planted = tuple[AwsAccount, AgentCore]


@pytest.fixture
def planted() -> Iterator[Planted]:
    """Ada, and another whose id begins with hers: merged, archived, read, held and asked about; then a fresh note."""
    with an_account_that_erases_in_agentcore() as (account, plane):
        for space, mark in ((ADA, "quokka"), (ADAM, "wombat")):
            for text in ("Crane 4 lifts 40 tonnes", "Crane 4 needs two operators"):
                plane.put(f"{text} for the {mark}.", space, NOW - 50 * DAY)
        tenant = account.services.tenant(TENANT)
        for space in (ADA, ADAM):
            tenant.regressions.put(a_case(case_id=f"case-{space[8:-1]}", agent_id=place_of(MEMORY_ID, space)))
        merged = an_answer("Crane 4 lifts 40 tonnes and needs two operators.")
        assert a_night(account, plane, merged).status == "SUCCEEDED"
        for actor, session in (("ada", SESSION), ("ada2", "/sessions/ada2/s-1/")):
            plane.put(f"A fresh note of {actor}.", session, NOW - 60)
            plane.put_events(actor, "s-1", 130, at=NOW - 60)
        read(account, [*records_of(plane)])
        assert a_night(account, plane, now=NOW + DAY, execution="e-2").status == "SUCCEEDED"
        tenant = account.services.tenant(TENANT)
        for space in (ADA, ADAM):
            tenant.agent_notes.hold(place_of(MEMORY_ID, space), now=NOW)
        yield account, plane


def read(account: AwsAccount, ids: list[str]) -> None:
    """Somebody read these records."""
    found = [Access(f"e-{hash(one)}", MEMORY_ID, one, NOW) for one in ids]
    AgentCoreServices(account.services).accesses.change(
        lambda ledger: added(ledger, found, window=Window(NOW - DAY, NOW + 1), now=NOW)
    )


def of(plane: AgentCore, actor: str) -> dict[str, Any]:
    return {key: one for key, one in records_of(plane).items() if f"/{actor}/" in one["namespaces"][0]}


def marks_of(plane: AgentCore, account: AwsAccount, actor: str) -> set[str]:
    """What names them: namespaces, places, and the ids of records, of those that are gone as well."""
    spaces = [f"/actors/{actor}/", f"/sessions/{actor}/"]
    places = {place_of(MEMORY_ID, one) for one in (*spaces, f"/sessions/{actor}/s-1/")}
    word = {"ada": "quokka", "ada2": "wombat"}[actor]
    return {*spaces, *places, *of(plane, actor), word}


def test_nothing_of_a_person_stays_in_agentcore_and_all_of_the_others_stays_as_it_is(planted: Planted) -> None:
    account, plane = planted
    before, records, events = kept(account), of(plane, "ada2"), list(plane.events[MEMORY_ID, "ada2", "s-1"])
    marks, others = marks_of(plane, account, "ada"), marks_of(plane, account, "ada2")
    assert len(of(plane, "ada")) == len(records) == 2
    receipt, done = erased(user_id="ada")
    assert (done.status, receipt["receipt"]["decision"]) == ("SUCCEEDED", "erased")
    assert of(plane, "ada") == {}
    assert of(plane, "ada2") == records
    assert (plane.events[MEMORY_ID, "ada", "s-1"], plane.events[MEMORY_ID, "ada2", "s-1"]) == ([], events)
    after = kept(account)
    told = {place: text for place, text in after.items() if any(mark in place + text for mark in marks)}
    assert {place.split("?")[0] for place in told} <= {ACCESS_LEDGER_KEY}
    assert not any(mark in current(account, ACCESS_LEDGER_KEY) for mark in marks)
    theirs = [place for place, text in before.items() if not any(mark in place + text for mark in marks)]
    assert {place: after.get(place) for place in theirs} == {place: before[place] for place in theirs}
    assert any(mark in text for mark in others for text in after.values())
    index = json.loads(current(account, f"agentcore/{TENANT}/index.json.gz"))
    assert set(index["namespaces"].values()) == {ADAM, "/sessions/ada2/s-1/"}
    # As a word: three letters of a hash or a signature may spell it.
    assert not re.search(r"(?<![0-9A-Za-z])ada(?![0-9A-Za-z])", json.dumps(receipt))


def current(account: AwsAccount, key: str) -> str:
    import gzip

    return gzip.decompress(account.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()).decode()


def test_the_receipt_counts_the_stores_of_agentcore_and_is_proved_by_probing_them(planted: Planted) -> None:
    receipt, _ = erased(user_id="ada")
    stores = {one["store"]: one for one in receipt["receipt"]["stores"]}
    assert list(stores) == list(EVERY_STORE)
    removed = {name: stores[name]["removed"] + stores[name]["changed"] for name in AGENTCORE_STORES}
    assert removed["agentcore-events"] == 130
    assert (removed["agentcore-records"], removed["agentcore-archive"], removed["agentcore-rows"]) == (2, 2, 2)
    assert min(removed.values()) > 0
    question = {"action": "verify", "receipt": receipt}
    assert ask(question)["stores"] == list(EVERY_STORE)
    assert {ask({**question, "store": one})["left"] for one in AGENTCORE_STORES} == {0}
    copies = {one["what"]: one["until"] for one in receipt["receipt"]["copies"]}
    assert any("trail" in what for what in copies)


def test_what_comes_back_is_found_by_the_receipt(planted: Planted) -> None:
    _, plane = planted
    receipt, _ = erased(user_id="ada")
    plane.put("Brought back from elsewhere.", ADA, NOW - DAY)
    plane.put_events("ada", "s-9", 3, at=NOW - DAY)
    left = {one: ask({"action": "verify", "receipt": receipt, "store": one})["left"] for one in AGENTCORE_STORES}
    assert {name: number for name, number in left.items() if number} == {"agentcore-events": 3, "agentcore-records": 1}


def test_who_comes_back_later_is_remembered_again(planted: Planted) -> None:
    _account, plane = planted
    later = plane.put("Ada is back.", ADA, NOW + 2 * DAY)
    plane.put_events("ada", "s-2", 2, at=NOW + 2 * DAY)
    receipt, _ = erased(user_id="ada")
    assert receipt["receipt"]["decision"] == "erased"
    assert set(of(plane, "ada")) == {later}
    assert len(plane.events[MEMORY_ID, "ada", "s-2"]) == 2


def test_a_merged_record_goes_by_what_it_was_made_of_however_young_it_is(planted: Planted) -> None:
    _, plane = planted
    metadata = {"agent-memory:oldest-source-at": {"numberValue": NOW - DAY}}
    plane.put("Merged tonight of what was there.", ADA, NOW + 2 * DAY, metadata=metadata)
    assert erased(user_id="ada")[0]["receipt"]["decision"] == "erased"
    assert of(plane, "ada") == {}


def test_what_a_merge_made_elsewhere_goes_by_the_nights_own_book_and_by_no_claim(planted: Planted) -> None:
    from agent_memory.domain.agentcore_index import Note

    account, plane = planted
    source = next(iter(of(plane, "ada")))
    made, claims = (plane.put(f"{word} of Ada.", ADAM, NOW + 2 * DAY, metadata={
        "agent-memory:sources-0": {"stringListValue": [source]}}) for word in ("Made", "Claims to be"))  # fmt: skip
    services = AgentCoreServices(account.services)
    [memory] = services.memories
    note = Note(kind="merge", name="m-1", place=place_of(MEMORY_ID, ADAM), namespace=ADAM, record_id=made,
                sources=(source,), at=NOW)  # fmt: skip
    services.book(memory).note(note)
    receipt, _ = erased(user_id="ada")
    assert receipt["receipt"]["decision"] == "erased"
    assert made not in records_of(plane)
    assert claims in records_of(plane)
    assert len(of(plane, "ada2")) == 3


def test_what_was_still_being_extracted_goes_with_the_second_sweep(planted: Planted) -> None:
    _, plane = planted
    asked = ask({"action": "request", "user_id": "ada"})
    waits: list[int] = []

    def extracted(event: dict[str, Any]) -> dict[str, Any]:
        from support.erasures import _task

        done = _task(event)
        if done["decision"] == "wait" and not waits:
            waits.append(done["seconds"])
            plane.put("Extracted meanwhile.", ADA, NOW)
        return done

    worked_off(ticket_of_all(asked), Erase=extracted)
    assert waits == [900]
    assert of(plane, "ada") == {}


def test_the_second_sweep_waits_for_a_night_over_agentcore(planted: Planted) -> None:
    from agent_memory.aws.nights import DynamoNightDesk
    from agent_memory.domain.erasure import ErasureTicket, work

    account, _ = planted
    table = account.settings.ledger_table
    desk = DynamoNightDesk(account.client("dynamodb"), table=table, kind=REGISTRY_AGENTCORE)
    asked = ask({"action": "request", "user_id": "ada"})
    ticket = ErasureTicket(erasure_id=asked["erasure_id"], tenant_id=TENANT, stores=(), draining=True)
    now = account.services.now()
    desk.take("e-9", night="n-2027-01-20", now=now, until=now + 60)
    assert work(ticket, erasure_services().doors(TENANT)).decision == "wait"
    desk.release("e-9")
    assert work(ticket, erasure_services().doors(TENANT)).decision == "more"


def test_half_a_batch_that_fails_makes_a_partial_failure_that_is_retried_alone(planted: Planted) -> None:
    _, plane = planted
    stuck = min(of(plane, "ada"))
    plane.fails_in_batch = lambda operation, one: 400 if one == stuck else 0
    receipt, done = erased(user_id="ada")
    stores = {one["store"]: one for one in receipt["receipt"]["stores"]}
    assert (done.status, receipt["receipt"]["decision"]) == ("FAILED", "partial_failure")
    assert [name for name, one in stores.items() if one["failed"]] == ["agentcore-records"]
    assert stuck not in json.dumps(receipt)
    assert set(of(plane, "ada")) == {stuck}
    plane.fails_in_batch = lambda operation, one: 0
    swept: list[str] = []
    asked = ask({"action": "retry", "receipt": receipt})
    ticket = {
        "erasure_id": asked["erasure_id"], "tenant_id": TENANT, "sweep": 9, "rounds": 0, "draining": False,
        "stores": [name for name, one in stores.items() if one["failed"] or one["left"] or one["error"]],
        "decision": "more", "seconds": 0,
    }  # fmt: skip

    def noted(event: dict[str, Any]) -> dict[str, Any]:
        from support.erasures import _task

        swept.append(event["ticket"]["stores"][0])
        return _task(event)

    assert worked_off(ticket, Erase=noted).status == "SUCCEEDED"
    assert (swept, of(plane, "ada")) == (["agentcore-records"], {})
    assert ask({"action": "status", "erasure_id": asked["erasure_id"]})["receipt"]["receipt"]["decision"] == "erased"


def test_an_event_that_cannot_be_deleted_is_told_and_the_others_go(planted: Planted) -> None:
    _, plane = planted
    stuck = plane.events[MEMORY_ID, "ada", "s-1"][7]

    def refuse(operation: str, request: dict[str, Any]) -> None:
        if operation == "DeleteEvent" and request["eventId"] == stuck:
            raise an_error("ValidationException", operation)

    plane.fail = refuse
    receipt, _ = erased(user_id="ada")
    stores = {one["store"]: one for one in receipt["receipt"]["stores"]}
    assert (receipt["receipt"]["decision"], plane.events[MEMORY_ID, "ada", "s-1"]) == ("partial_failure", [stuck])
    assert (len(stores["agentcore-events"]["failed"]), stores["agentcore-events"]["left"]) == (1, 1)


def test_a_person_who_is_called_as_a_word_of_the_layout_takes_nobody_along(planted: Planted) -> None:
    _account, plane = planted
    plane.put("Of one who is called actors.", "/actors/actors/", NOW - 60)
    before = {one["content"]["text"] for one in records_of(plane).values()}
    receipt, _ = erased(user_id="actors")
    assert receipt["receipt"]["decision"] == "erased"
    after = {one["content"]["text"] for one in records_of(plane).values()}
    assert before - after == {"Of one who is called actors."}


def test_where_nobody_can_tell_whose_a_namespace_is_nothing_goes_and_the_receipt_says_so() -> None:
    with an_account_that_erases_in_agentcore({**OWN, "namespaces": ["/actors/ada/"]}) as (_, plane):
        plane.put("Spelled out by the configuration.", ADA, NOW - 60)
        receipt, _ = erased(user_id="ada")
        stores = {one["store"]: one for one in receipt["receipt"]["stores"]}
        assert receipt["receipt"]["decision"] == "partial_failure"
        assert (stores["agentcore-records"]["error"], len(stores["agentcore-records"]["failed"])) == ("contested", 1)
        assert len(of(plane, "ada")) == 1


SHARED = (
    {**ENTRY, "tenant_id": TENANT, "namespaces": ["/t/north/"]},
    {**ENTRY, "tenant_id": "south", "namespaces": ["/t/south/"]},
)


def test_another_tenant_of_the_same_memory_keeps_its_actors() -> None:
    with an_account_that_erases_in_agentcore(*SHARED) as (_account, plane):
        plane.put("Northern Ada.", "/t/north/ada/", NOW - 60)
        plane.put("Southern Ada.", "/t/south/ada/", NOW - 60)
        plane.put("Northern Bea.", "/t/north/bea/", NOW - 60)
        plane.put_events("ada", "s-1", 3)
        plane.put_events("bea", "s-1", 3)
        receipt, _ = erased(user_id="bea")
        assert receipt["receipt"]["decision"] == "erased"
        assert plane.events[MEMORY_ID, "bea", "s-1"] == []
        receipt, _ = erased(user_id="ada")
        assert plane.texts() == {"Southern Ada."}
        stores = {one["store"]: one for one in receipt["receipt"]["stores"]}
        assert (stores["agentcore-events"]["error"], len(plane.events[MEMORY_ID, "ada", "s-1"])) == ("contested", 3)


def test_a_whole_tenant_goes_from_a_memory_that_it_shares_and_the_other_stays() -> None:
    with an_account_that_erases_in_agentcore(*SHARED) as (account, plane):
        for side in ("north", "south"):
            ids = [plane.put(f"Berth {n} of {side}.", f"/t/{side}/{side}-{n}/", NOW - 60) for n in range(3)]
            plane.put_events(f"{side}-1", "s-1", 3)
            read(account, ids)
        plane.put_events("of-nobody", "s-1", 3)
        a_night(account, plane)
        others = {place: text for place, text in kept(account).items() if "/south/" in place}
        assert others
        receipt, _ = erased(whole_tenant=True)
        assert receipt["receipt"]["decision"] == "erased"
        assert plane.texts() == {f"Berth {n} of south." for n in range(3)}
        assert [len(plane.events[MEMORY_ID, one, "s-1"]) for one in ("north-1", "south-1", "of-nobody")] == [0, 3, 3]
        after = kept(account)
        assert {place: after.get(place) for place in others} == others
        assert not [place for place in after if f"/{TENANT}/" in place and not place.startswith("lifecycle/")]
        assert len(json.loads(current(account, ACCESS_LEDGER_KEY))["accesses"][MEMORY_ID]) == 3
        assert any("share" in one["what"] for one in receipt["receipt"]["copies"])


def test_an_entry_without_a_tenant_is_erased_by_the_name_of_its_memory() -> None:
    with an_account_that_erases_in_agentcore(ENTRY) as (_account, plane):
        plane.put("Ada's.", ADA, NOW - 60)
        receipt, _ = erased(user_id="ada")
        assert [one["store"] for one in receipt["receipt"]["stores"]] == [*STORES[:-2], READS_LETTERS, *STORES[-2:]]
        assert any(MEMORY_ID in one["what"] for one in receipt["receipt"]["copies"])
        assert plane.texts() == {"Ada's."}
        receipt, _ = erased(tenant_id=MEMORY_ID, user_id="ada")
        assert (receipt["receipt"]["decision"], plane.texts()) == ("erased", set())


def test_a_deployment_that_names_no_memory_has_no_such_stores_and_a_receipt_of_before_says_so(
    planted: Planted,
) -> None:
    account, plane = planted
    receipt, _ = erased(user_id="ada")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(environment_variable("agentcoreMemories"), "[]")
        patch.setenv(LETTERS, "")
        forget()
        fit(account, plane, NOW + DAY)
        at(account, NOW + 3 * DAY)
        assert [one["store"] for one in erased(user_id="bob")[0]["receipt"]["stores"]] == list(STORES)
        question = {"action": "verify", "receipt": receipt}
        assert ask({**question, "store": "agentcore-records"})["left"] is None
        assert ask({**question, "store": "episodes"})["left"] == 0
    forget()


def test_pseudonyms_are_per_tenant_so_an_actor_of_another_is_another() -> None:
    assert ref_of("ada", TENANT) != ref_of("ada", "south")


def a_report(agent: str = "desk", context: str = "c-1", **detail: object) -> str:
    """A report of reads that could not be kept, as its dead letter."""
    said = {"tenant_id": TENANT, "agent_id": agent, "memory_id": MEMORY_ID, "context_id": context, **detail}
    return json.dumps({"source": f"agent-memory.client/{said['tenant_id']}", "detail": said})


def letters(account: AwsAccount) -> set[str]:
    """The contexts of the letters that wait."""
    sqs, found = account.client("sqs"), {}
    url = account.variables[LETTERS]
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0).get("Messages", ())
    found = {json.loads(one["Body"])["detail"]["context_id"] for one in got}
    return set(found)


def send(account: AwsAccount, *bodies: str) -> None:
    for body in bodies:
        account.client("sqs").send_message(QueueUrl=account.variables[LETTERS], MessageBody=body)


def test_letters_of_reads_go_that_name_a_persons_records_or_were_for_their_runs(planted: Planted) -> None:
    account, plane = planted
    mine, others = ([*of(plane, actor)] for actor in ("ada", "ada2"))
    accept(account.services.tenant(TENANT), "run-of-ada", ref_of("ada"))
    send(
        account,
        a_report(context="hers-too", record_ids=[others[0], mine[0]]),
        a_report(agent=AGENT, context="run-of-ada", record_ids=others[:1]),
        a_report(context="others", record_ids=others),
        a_report(context="neighbour", tenant_id="northwind2", record_ids=mine),
        a_report(context="of-another-memory", memory_id="quays-Abc1234567", record_ids=mine),
        a_report(context="garbled", record_ids="mem-1"),
    )
    receipt, _ = erased(user_id="ada")
    assert letters(account) == {"others", "neighbour", "of-another-memory", "garbled"}
    [swept] = [one for one in receipt["receipt"]["stores"] if one["store"] == READS_LETTERS]
    assert (swept["removed"], swept["left"]) == (2, 0)
    [until] = [one["until"] for one in receipt["receipt"]["copies"] if "dead letters, of records" in one["what"]]
    assert until == datetime.fromtimestamp(receipt["receipt"]["finished_at"] + 4 * DAY, UTC).date().isoformat()
    send(account, a_report(context="back", record_ids=mine))
    assert ask({"action": "verify", "receipt": receipt, "store": READS_LETTERS})["left"] == 1


@pytest.mark.parametrize("tenant_id", [TENANT, "northwind2"], ids=["with-an-entry", "without"])
def test_of_a_whole_tenant_every_letter_of_reads_goes_up_to_the_cut_off(planted: Planted, tenant_id: str) -> None:
    account, _ = planted
    later = datetime.fromtimestamp(NOW + 2 * DAY, UTC).isoformat()
    for tenant in (TENANT, "northwind2"):
        old, new = f"old-{tenant}", f"new-{tenant}"
        send(account, a_report(context=old, tenant_id=tenant), a_report(context=new, tenant_id=tenant, read_at=later))
    receipt, _ = erased(tenant_id, whole_tenant=True)
    other = {TENANT: "northwind2", "northwind2": TENANT}[tenant_id]
    assert letters(account) == {f"new-{tenant_id}", f"old-{other}", f"new-{other}"}
    assert READS_LETTERS in {one["store"] for one in receipt["receipt"]["stores"]}
