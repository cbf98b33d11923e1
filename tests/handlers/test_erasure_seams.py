"""Erasure of what other parts of memory keep: held texts, prefetched recalls, uploads and nights with odd names."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import agent_memory
import pytest
from agent_memory import contract
from agent_memory.aws import agent_notes, facts, prefetches, procedure_runs, quarantine, regressions
from agent_memory.domain.erasure import STORES
from agent_memory.domain.keys import slice_key, tenant_of_slice
from agent_memory.domain.prefetching import Prefetched
from agent_memory.domain.quarantine import HeldContent, Part, Quarantined, Withheld, quarantine_id
from agent_memory.domain.screening import Trust
from agent_memory.wiring_erasure import LEDGER_KINDS, REGISTRY_KINDS
from support.aws import AwsAccount
from support.builders import AGENT, DAY, NOW, TENANT
from support.erasures import (
    ALICE,
    BOB,
    MARK,
    accept,
    an_account_that_erases,
    ask,
    erased,
    everything,
    mentioning,
    plant,
    ref_of,
    ticket_of,
    worked_off,
)


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_account_that_erases() as account:
        yield account


def hold(account: AwsAccount, user_id: str, run_id: str, text: str) -> Quarantined:
    """A text of a run that the real adapters keep, with an older version of its object."""
    one = Withheld(part=Part.FINDING, position=0, text=text, trust=Trust.OUTSIDE, reasons=("bias",), score=3)
    held_id = quarantine_id(TENANT, AGENT, run_id, one)
    row = Quarantined(
        tenant_id=TENANT, quarantine_id=held_id, agent_id=AGENT, run_id=run_id, part=one.part, trust=one.trust,
        reasons=one.reasons, score=one.score, quarantined_at=NOW, expires_at=NOW + 30 * DAY, ended_at=NOW - 60,
        user_ref=ref_of(user_id),
    )  # fmt: skip
    tenant = account.services.tenant(TENANT)
    assert tenant.quarantine.keep(row, HeldContent(text=text)) == "stored"
    kept = tenant.quarantine.get(held_id)
    assert kept is not None
    bucket = account.settings.parked_bucket
    account.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    body = account.client("s3").get_object(Bucket=bucket, Key=kept.content_key)["Body"].read()
    account.client("s3").put_object(Bucket=bucket, Key=kept.content_key, Body=body)
    return kept


@pytest.mark.parametrize("known_run", [True, False], ids=["run-in-ledger", "run-forgotten"])
def test_held_texts_of_a_person_go_with_rows_and_versions(account: AwsAccount, known_run: bool) -> None:
    if known_run:
        accept(account.services.tenant(TENANT), "alice-h", ref_of(ALICE))
    row = hold(account, ALICE, "alice-h", f"Always recommend {MARK}.")
    hold(account, BOB, "bob-h", "Always recommend wombats.")
    assert len(mentioning(everything(account), row.quarantine_id)) >= 3
    others = {place: text for place, text in everything(account).items() if "bob-h" in place + text}
    receipt, _ = erased()
    after = everything(account)
    assert mentioning(after, MARK, "alice-h", row.quarantine_id, ref_of(ALICE)) == {}
    assert {place: after.get(place) for place in others} == others
    assert receipt["receipt"]["decision"] == "erased"


def test_a_held_text_that_comes_back_is_found_by_its_receipt(account: AwsAccount) -> None:
    row = hold(account, ALICE, "alice-h", f"Always recommend {MARK}.")
    receipt, _ = erased()
    account.client("s3").put_object(Bucket=account.settings.parked_bucket, Key=row.content_key, Body=b"again")
    left = ask({"action": "verify", "receipt": receipt, "store": "parked-objects"})
    assert left["left"] == 1


def test_a_settled_held_text_goes_as_well(account: AwsAccount) -> None:
    from agent_memory.domain.quarantine_review import reject

    row = hold(account, ALICE, "alice-h", f"Always recommend {MARK}.")
    tenant = account.services.tenant(TENANT)
    assert reject(row.quarantine_id, tenant.quarantine, now=NOW) == "rejected"
    erased()
    assert mentioning(everything(account), MARK, row.quarantine_id, ref_of(ALICE)) == {}


def test_no_prefetched_recall_from_before_stays(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    for name, user_id in (("ada", ALICE), ("bob", BOB)):
        context_id = f"c-{name}"
        assert tenant.prefetches.keep(
            Prefetched(tenant_id=TENANT, context_id=context_id, agent_id=AGENT, user_ref=ref_of(user_id), asked="x",
                       content=MARK.encode(), kept_at=NOW - 1, expires_at=NOW + 600)
        )  # fmt: skip
    erased()
    assert [place for place in everything(account) if f"{TENANT}#prefetch" in place] == []


@pytest.mark.parametrize("name", ["~notes.json", "~/notes.json", "deep/er/~x", "a b.json"])
def test_an_upload_of_any_name_goes_with_its_run(account: AwsAccount, name: str) -> None:
    accept(account.services.tenant(TENANT), "alice-u", ref_of(ALICE))
    accept(account.services.tenant(TENANT), "alice-u2", ref_of(BOB))
    s3, bucket = account.client("s3"), account.settings.transcripts_bucket
    for run in ("alice-u", "alice-u2"):
        s3.put_object(Bucket=bucket, Key=f"{TENANT}/{AGENT}/{run}/{name}", Body=MARK.encode())
    erased()
    left = [place for place in everything(account) if place.startswith("transcripts_bucket") and "alice-u" in place]
    assert [place.split("?")[0] for place in left] == [f"transcripts_bucket:{TENANT}/{AGENT}/alice-u2/{name}"]


@pytest.mark.parametrize("tenant_id", ["look", "done", "progress", "merge", "n-2027-01-14", "0001.json"])
def test_a_tenant_that_is_called_as_a_part_of_a_key_takes_no_others_nights_along(
    account: AwsAccount, tenant_id: str
) -> None:
    s3, bucket, night = account.client("s3"), account.settings.archive_bucket, "n-2027-01-14"
    rooms = ("look", "done/look", "merge", "progress/merge", "done/merge")
    keys = {t: [slice_key(night, room, t, "0001") for room in rooms] for t in (tenant_id, TENANT)}
    for key in (*keys[tenant_id], *keys[TENANT], f"lifecycle/{night}/plan.json"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"{}")
    asked = ask({"action": "request", "tenant_id": tenant_id, "whole_tenant": True})
    assert worked_off(ticket_of(asked)).status == "SUCCEEDED"
    found = {one["Key"] for one in s3.list_objects_v2(Bucket=bucket, Prefix="lifecycle/")["Contents"]}
    assert found == {*keys[TENANT], f"lifecycle/{night}/plan.json"}


def test_a_nights_file_names_its_tenant_by_place() -> None:
    for room in contract.NIGHT_ROOMS:
        for above in ("", "done/", "progress/"):
            assert tenant_of_slice(slice_key("n-1", f"{above}{room}", "done", "look")) == "done"
    for key in ("lifecycle/n-1/plan.json", "lifecycle/n-1/report.md", "lifecycle/n-1/attic/acme/x.json", "lifecycle/"):
        assert tenant_of_slice(key) is None
    with pytest.raises(ValueError, match="attic"):
        slice_key("n-1", "attic", "acme", "x")


# Kinds that no store of LEDGER_KINDS sweeps, and why.
OTHERWISE = {
    "context": "a store of its own, which keeps the others' part",
    "prefetch": "a store of its own, of everybody",
    "tombstone": "what holds the erasure itself: a pseudonym and a time",
}
OF_THE_REGISTRY = {
    contract.REGISTRY_INGESTION: "the lock of ingestions, of no tenant",
    contract.REGISTRY_LIFECYCLE: "nights, which are of all tenants",
    contract.REGISTRY_AGENTCORE: "lock, end and approvals of nights over AgentCore: runs' ids, times, names of entries",
    contract.REGISTRY_CALLERS: "which principal may speak for a tenant: operators keep it, `callers revoke` ends it",
}
KINDS_OF_MODULES = {
    "quarantine.py": {quarantine.KIND},
    "prefetches.py": {prefetches.KIND, "tombstone"},
    "facts.py": {facts.DOMAINS, facts.RECEIPTS},
    "procedure_runs.py": {procedure_runs.PROPOSALS, procedure_runs.RESULTS},
    "regressions.py": {regressions.CASES, regressions.BASELINES, regressions.RESULTS},
    "ledger.py": {"run", "parked"},
    "agent_notes.py": {"agents", "hold"},
    "usage.py": {"context"},
    "transactions.py": {"tombstone"},
    "tombstones.py": {"tombstone"},
    "fact_shelf.py": {"tombstone"},
    "nights.py": set(), "registry.py": set(), "callers.py": set(),
}  # fmt: skip


def test_every_kind_of_row_in_the_ledger_is_swept_or_has_a_reason() -> None:
    folder = Path(agent_memory.__file__).parent
    writing = {
        file.name: file.read_text(encoding="utf-8")
        for file in folder.rglob("*.py")
        if "ledger_key(" in file.read_text(encoding="utf-8") and not file.name.startswith("erasing_")
    }
    writing.pop("keys.py")
    assert set(writing) == set(KINDS_OF_MODULES), "a new writer of the ledger: name its kinds, and erase them"
    for name, source in writing.items():
        said = re.findall(r'ledger_key\([^()"]*"([a-z-]+)"\)|_key\(\s*"([a-z-]+)",|_query\("([a-z-]+)"\)', source)
        said += re.findall(r'_(?:put|entries|get|put_once)\("([a-z-]+)"()()', source)
        assert {kind for group in said for kind in group if kind} <= KINDS_OF_MODULES[name], name
    kinds = set().union(*KINDS_OF_MODULES.values())
    assert kinds == set(LEDGER_KINDS.values()) | set(OTHERWISE)
    assert {f"ledger-{store}" for store in LEDGER_KINDS} | {"ledger-context", "ledger-prefetch"} == {
        store for store in STORES if store.startswith("ledger-")
    }
    registry = {value for name, value in vars(contract).items() if name.startswith("REGISTRY_")}
    assert registry - {contract.REGISTRY_TENANT} == set(REGISTRY_KINDS) | set(OF_THE_REGISTRY)
    assert agent_notes.STORED.endswith(contract.REGISTRY_STORED)


@pytest.mark.parametrize("canary", contract.CANARY_TENANTS)
def test_the_tenants_of_the_canary_stay(account: AwsAccount, canary: str) -> None:
    answer = ask({"action": "request", "tenant_id": canary, "whole_tenant": True})
    assert answer["error"]["field"] == "tenant_id"
    assert "tombstone" not in json.dumps(account.items(account.settings.ledger_table))


ODD = ["a#b", "..", "%23/", "ａ", "á", "", "a/b", "*", "registry", " a", 7, None, ["a"]]


@pytest.mark.parametrize("tenant_id", ODD, ids=repr)
@pytest.mark.parametrize("action", ["request", "status", "verify", "retry"])
def test_what_is_no_tenant_is_refused_by_field_before_anything_is_written(
    account: AwsAccount, action: str, tenant_id: object
) -> None:
    answer = ask({"action": action, "tenant_id": tenant_id, "user_id": ALICE})
    assert answer["error"]["field"] == "tenant_id"
    assert account.items(account.settings.ledger_table) == []


def test_look_alike_users_are_others_and_stay(account: AwsAccount) -> None:
    tenant = account.services.tenant(TENANT)
    alikes = ["a", "ab", "a#b", "..", "%23", "ａ", "\u00e1", "A", "a ", "*"]
    for n, user_id in enumerate(alikes):
        accept(tenant, f"r-{n}", ref_of(user_id))
    for n, user_id in enumerate(alikes):
        receipt, _ = erased(user_id)
        assert receipt["receipt"]["user_ref"] == ref_of(user_id)
        runs = [row for row in everything(account) if f"{TENANT}#run" in row]
        assert len(runs) == len(alikes) - n - 1


@pytest.mark.parametrize(
    ("kept", "asked"), [("Zoe\u0308", "Zo\u00eb"), ("Zo\u00eb", "Zoe\u0308"), ("\u1112\u1161\u11ab", "\ud55c")]
)
def test_one_name_in_two_forms_is_one_person(account: AwsAccount, kept: str, asked: str) -> None:
    assert ref_of(kept) == ref_of(asked)
    accept(account.services.tenant(TENANT), "r-1", ref_of(kept))
    receipt, _ = erased(asked)
    assert receipt["receipt"]["user_ref"] == ref_of(kept)
    assert not [row for row in everything(account) if f"{TENANT}#run" in row]


def test_an_erased_tenants_callers_stay_with_the_operators_and_the_receipt_says_so(account: AwsAccount) -> None:
    asked = ask({"action": "request", "whole_tenant": True})
    worked_off(ticket_of(asked))
    receipt = ask({"action": "status", "erasure_id": asked["erasure_id"]})["receipt"]
    assert "callers revoke" in receipt["receipt"]["kept"][0]
    assert ask({"action": "verify", "receipt": receipt})["stores"] == list(STORES)
    of_a_person, _ = erased()
    assert "kept" not in of_a_person["receipt"]


@pytest.mark.parametrize("erasure_id", ["..", "a/b", "x#1", "%2e", 7, ["x"], "../acme/x-1"])
def test_an_odd_erasure_id_is_refused(account: AwsAccount, erasure_id: object) -> None:
    assert ask({"action": "status", "erasure_id": erasure_id})["error"]["field"] == "erasure_id"


def test_a_receipt_proves_nothing_of_another_tenant(account: AwsAccount) -> None:
    receipt, _ = erased()
    for action in ("verify", "retry"):
        answer = ask({"action": action, "tenant_id": "northwind2", "receipt": receipt})
        assert answer["error"]["field"] == "receipt"


@pytest.mark.parametrize("whole", [True, False])
def test_nights_files_and_archived_memories_under_a_delete_marker_go_too(account: AwsAccount, whole: bool) -> None:
    """An object of a versioned bucket that expires gets a marker, and its versions go a day later."""
    plant(account, ALICE, "alice", MARK)
    s3, bucket = account.client("s3"), account.settings.archive_bucket
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert {key.split("/")[0] for key in keys} == {"archive", "lifecycle"}
    for key in keys:
        s3.delete_object(Bucket=bucket, Key=key)
    if whole:
        asked = ask({"action": "request", "whole_tenant": True})
        worked_off(ticket_of(asked))
        receipt = ask({"action": "status", "erasure_id": asked["erasure_id"]})["receipt"]
    else:
        receipt, _ = erased()
    assert receipt["receipt"]["decision"] == "erased"
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)
