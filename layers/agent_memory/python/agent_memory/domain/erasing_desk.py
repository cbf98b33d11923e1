"""Where people ask for erasures: the tombstone first, then the machine; and where receipts are shown and proved."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from agent_memory.contract import CANARY_TENANTS
from agent_memory.domain.erasure import SWEEPS, ErasableStore, Erasure, ErasureTicket, Traces, first_sweep
from agent_memory.domain.erasure_receipts import ReceiptKey, probed, receipt_of
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import identifier, tenant_identifier, user_identity


class Cutoffs(Protocol):
    def set(self, entry: str, *, erased_before: int) -> int: ...


class DeskFiles(Protocol):
    def keep_request(self, erasure: Erasure) -> None: ...

    def request(self, erasure_id: str) -> Erasure | None: ...

    def receipt(self, erasure_id: str) -> dict[str, Any] | None: ...

    def receipts(self) -> list[str]: ...

    def under_way(self) -> list[str]: ...


class Machine(Protocol):
    def start_named(self, name: str, ticket: Mapping[str, object]) -> bool: ...

    def state(self, name: str) -> str: ...


class DeskDoors(NamedTuple):
    """What the desk touches of one tenant."""

    tombstones: Cutoffs
    files: DeskFiles
    machine: Machine
    key: ReceiptKey
    stores: Mapping[str, ErasableStore]
    user_ref: Callable[[str], str]


Attended = dict[str, Any]


def attend(event: object, doors_of: Callable[[str], DeskDoors], *, now: int) -> Attended:
    """Answer one question of a person. Raises RefusedInputError. No answer names a user other than by pseudonym."""
    if not isinstance(event, Mapping):
        raise RefusedInputError("event", "must be a JSON object")
    tenant_id = tenant_identifier(event.get("tenant_id"))
    action = _ACTIONS.get(str(event.get("action")))
    if action is None:
        raise RefusedInputError("action", f"must be one of {', '.join(_ACTIONS)}")
    return action(event, tenant_id, doors_of(tenant_id), now)


def _request(event: Mapping[str, Any], tenant_id: str, doors: DeskDoors, now: int) -> Attended:
    """The tombstone is written before anything else: from then on nothing older than it can be stored."""
    user_ref = _user_ref(event, tenant_id, doors)
    entry = Erasure(erasure_id="", tenant_id=tenant_id, user_ref=user_ref, erased_before=now).tombstone_entry
    before = doors.tombstones.set(entry, erased_before=now)
    name = hashlib.sha256(f"{tenant_id}\n{entry}\n{before}".encode()).hexdigest()[:32]
    erasure = Erasure(erasure_id=f"x-{name}", tenant_id=tenant_id, user_ref=user_ref, erased_before=before)
    if doors.files.receipt(erasure.erasure_id) is None:
        doors.files.keep_request(erasure)
        stores = first_sweep(doors.stores)
        ticket = ErasureTicket(erasure_id=erasure.erasure_id, tenant_id=tenant_id, stores=stores)
        doors.machine.start_named(erasure.erasure_id, ticket.model_dump(mode="json"))
    return {**erasure.model_dump(mode="json"), "execution": erasure.erasure_id}


def _user_ref(event: Mapping[str, Any], tenant_id: str, doors: DeskDoors) -> str | None:
    if event.get("whole_tenant") is True:
        if tenant_id in CANARY_TENANTS:
            raise RefusedInputError("tenant_id", "must not be a canary, which proves that tenants are apart")
        if event.get("user_id") is not None:
            raise RefusedInputError("user_id", "must be absent when a whole tenant is erased")
        return None
    user = user_identity(event.get("user_id"))
    if user is None:
        raise RefusedInputError("user_id", "is required, or whole_tenant true")
    return doors.user_ref(user)


def _status(event: Mapping[str, Any], tenant_id: str, doors: DeskDoors, now: int) -> Attended:
    if event.get("erasure_id") is None:
        return {"ended": doors.files.receipts(), "under_way": doors.files.under_way()}
    erasure_id = identifier(event["erasure_id"], "erasure_id")
    execution = str(event.get("execution") or erasure_id)
    state = doors.machine.state(identifier(execution, "execution"))
    return {"erasure_id": erasure_id, "state": state, "receipt": doors.files.receipt(erasure_id)}


def _retry(event: Mapping[str, Any], tenant_id: str, doors: DeskDoors, now: int) -> Attended:
    """Sweep the stores again that were left unclean, and only those."""
    receipt = receipt_of(event.get("receipt"), doors.key)
    _own(receipt.tenant_id, tenant_id)
    if not receipt.unclean or doors.files.request(receipt.erasure_id) is None:
        return {"erasure_id": receipt.erasure_id, "execution": None}
    ticket = ErasureTicket(
        erasure_id=receipt.erasure_id,
        tenant_id=tenant_id,
        sweep=SWEEPS + receipt.finished_at - receipt.erased_before,
        stores=receipt.unclean,
    )
    execution = f"{receipt.erasure_id}-{receipt.finished_at}"
    doors.machine.start_named(execution, ticket.model_dump(mode="json"))
    return {"erasure_id": receipt.erasure_id, "execution": execution}


def _verify(event: Mapping[str, Any], tenant_id: str, doors: DeskDoors, now: int) -> Attended:
    """Check the signature; with *store*, look into that one again. The stores are those of the receipt: one that is
    not deployed any more can't be looked into, and one that came since proves nothing of it."""
    receipt = receipt_of(event.get("receipt"), doors.key)
    _own(receipt.tenant_id, tenant_id)
    store = event.get("store")
    answer: Attended = {"erasure_id": receipt.erasure_id, "decision": receipt.decision, "at": now}
    stores = [one.store for one in receipt.stores]
    if store is None:
        return answer | {"stores": stores}
    if store not in stores:
        raise RefusedInputError("store", f"must be one of {', '.join(stores)}")
    traces: Traces = receipt.traces
    return answer | {"store": store, "left": probed(doors.stores, receipt.erasure, traces, [store])[store]}


def _own(named: str, tenant_id: str) -> None:
    if named != tenant_id:
        raise RefusedInputError("receipt", "must be of the tenant that is asked for")


_ACTIONS: dict[str, Callable[[Mapping[str, Any], str, DeskDoors, int], Attended]] = {
    "request": _request,
    "status": _status,
    "retry": _retry,
    "verify": _verify,
}
