"""The receipt of an erasure: what was removed where, what is left, until when copies can exist; signed and provable."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import SerializerFunctionWrapHandler, ValidationError, model_serializer

from agent_memory.contract import SCHEMA_VERSION
from agent_memory.domain.erasure import EVERY_STORE, ErasableStore, Erasure, Swept, Traces
from agent_memory.domain.errors import AgentMemoryError, RefusedInputError, RetryableError
from agent_memory.domain.models import Model
from agent_memory.domain.retention import DAY_SECONDS

UNCHANGED = "must be a receipt exactly as agent-memory wrote it: get it again with agent-memory erase status"
# An erasure must not be able to write who speaks for whom: those rows are the operators' alone.
CALLERS_STAY = (
    "which principals operators let speak for the tenant (registry#callers): nothing of the tenant's people; "
    "agent-memory callers list, then callers revoke ARN --tenant TENANT"
)


class StoreReceipt(Model):
    """One store, both sweeps together. *left*: what a look after the last sweep still found."""

    store: str
    found: int = 0
    removed: int = 0
    changed: int = 0
    failed: tuple[str, ...] = ()
    left: int = 0
    error: str | None = None
    sha256: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not (self.failed or self.left or self.error)


class Copy(Model):
    """A copy that no erasure reaches, and the last day on which it can exist. *until*: ISO date, None: never made."""

    what: str
    until: str | None


class Receipt(Model):
    """What came of an erasure. *runs*: salted hashes of the runs, by which they are looked for again. *kept*: what
    stays on purpose, and how it goes."""

    erasure_id: str
    tenant_id: str
    user_ref: str | None
    erased_before: int
    finished_at: int
    decision: Literal["erased", "partial_failure"]
    stores: tuple[StoreReceipt, ...]
    copies: tuple[Copy, ...]
    kept: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    partitions: tuple[tuple[str, str], ...] = ()
    schema_version: int = SCHEMA_VERSION

    @model_serializer(mode="wrap")
    def _as_signed(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without an empty *kept*, which receipts of earlier releases do not have and were signed without."""
        found: dict[str, Any] = whole(self)
        return found if self.kept else {name: held for name, held in found.items() if name != "kept"}

    @property
    def erasure(self) -> Erasure:
        return Erasure(
            erasure_id=self.erasure_id,
            tenant_id=self.tenant_id,
            user_ref=self.user_ref,
            erased_before=self.erased_before,
        )

    @property
    def traces(self) -> Traces:
        return Traces(runs=frozenset(self.runs), facts=frozenset(self.facts), partitions=frozenset(self.partitions))

    @property
    def unclean(self) -> tuple[str, ...]:
        """The stores that have to be swept again."""
        return tuple(one.store for one in self.stores if not one.clean)


class Signature(Model):
    """*mac*: base64 of the HMAC of the receipt's canonical JSON."""

    key: str
    algorithm: str
    mac: str


class SignedReceipt(Model):
    receipt: Receipt
    signature: Signature


class ReceiptKey(Protocol):
    """A key that nobody can read: it signs and it verifies."""

    def sign(self, message: bytes) -> Signature: ...

    def verify(self, message: bytes, signature: Signature) -> bool: ...


class Retained(NamedTuple):
    """For how long the deployment keeps what no erasure reaches, in days. *elsewhere*: entries of agentcoreMemories
    without a tenant, where a person can be under another name."""

    pitr_days: int
    intake_days: int
    dead_letter_days: int
    transcript_days: int
    parked_days: int
    agentcore: "AgentCoreRetained | None" = None
    elsewhere: tuple[str, ...] = ()


class AgentCoreRetained(NamedTuple):
    """The same of a tenant whose records are in AgentCore. *event_days*: how long events of a memory that it shares
    can exist, 0 when it shares none. *all_named*: its entry names every namespace of the memory."""

    trail_days: int
    undo_days: int
    event_days: int = 0
    all_named: bool = True


def canonical(receipt: Receipt) -> bytes:
    """The one text of a receipt that is signed; its hash goes to the key, which takes 4,096 bytes."""
    text = json.dumps(receipt.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest().encode("ascii")


def signed(receipt: Receipt, key: ReceiptKey) -> SignedReceipt:
    return SignedReceipt(receipt=receipt, signature=key.sign(canonical(receipt)))


def receipt_of(document: object, key: ReceiptKey) -> Receipt:
    """The receipt in *document*. RefusedInputError: it is none, or not as it was signed."""
    try:
        found = SignedReceipt.model_validate(document)
        base64.b64decode(found.signature.mac, validate=True)
    except (ValidationError, ValueError):
        raise RefusedInputError("receipt", UNCHANGED) from None
    if found.model_dump(mode="json") != document or not key.verify(canonical(found.receipt), found.signature):
        raise RefusedInputError("receipt", UNCHANGED)
    return found.receipt


def composed(
    erasure: Erasure,
    traces: Traces,
    sweeps: Sequence[Swept],
    left: Mapping[str, int | None],
    retained: Retained,
    *,
    now: int,
) -> Receipt:
    """The receipt of all *sweeps*, oldest first. *left*: by every store that is deployed for the tenant; None where it
    could not be told."""
    names = [name for name in EVERY_STORE if name in left or any(one.store == name for one in sweeps)]
    stores = tuple(_store(name, [one for one in sweeps if one.store == name], left.get(name)) for name in names)
    clean = all(one.clean for one in stores)
    return Receipt(
        erasure_id=erasure.erasure_id,
        tenant_id=erasure.tenant_id,
        user_ref=erasure.user_ref,
        erased_before=erasure.erased_before,
        finished_at=now,
        decision="erased" if clean else "partial_failure",
        stores=stores,
        copies=copies(retained, now=now),
        kept=(CALLERS_STAY,) if erasure.whole else (),
        runs=tuple(sorted(traces.runs)),
        facts=tuple(sorted(traces.facts)),
        partitions=tuple(sorted(traces.partitions)) if erasure.whole else (),
    )


def _store(name: str, sweeps: Sequence[Swept], left: int | None) -> StoreReceipt:
    last = sweeps[-1] if sweeps else Swept(store=name, error="not_swept")
    return StoreReceipt(
        store=name,
        found=sum(one.removed + one.changed for one in sweeps) + len(last.failed),
        removed=sum(one.removed for one in sweeps),
        changed=sum(one.changed for one in sweeps),
        failed=last.failed,
        left=left or 0,
        error=last.error or ("not_probed" if left is None else None),
        sha256=tuple(one.sha256 for one in sweeps if one.sha256),
    )


def copies(retained: Retained, *, now: int) -> tuple[Copy, ...]:
    """What may outlive the erasure in places that nothing can be taken out of, and until when."""
    days = {
        "point-in-time recovery of the tables": retained.pitr_days,
        "messages in queues, dropped by the tombstone when they are read": retained.intake_days,
        "refused events, which name no user and can be found by none": retained.dead_letter_days,
        "uploads under no run's prefix, which nothing links to a user": retained.transcript_days + 1,
        **_of_agentcore(retained),
        "backups that the account makes by itself": 0,
    }
    return tuple(Copy(what=what, until=_date(now + n * DAY_SECONDS) if n else None) for what, n in days.items())


def _of_agentcore(retained: Retained) -> dict[str, int]:
    found = {}
    kept, dead_letter_days = retained.agentcore, retained.dead_letter_days
    if kept is not None:
        found["files of the trail and reports of reads, which may name actors and namespaces"] = kept.trail_days
        found["reports of reads in dead letters, of records that no store had any more"] = dead_letter_days
        found["former versions of the ledger of accesses: ids of records that are gone"] = kept.undo_days + 1
        if not kept.all_named:
            found["records in namespaces of the memory that agentcoreMemories does not name"] = 0
        if kept.event_days:
            found["events in a memory that tenants share, of actors whom no namespace names"] = kept.event_days
    if retained.elsewhere:
        names = ", ".join(retained.elsewhere)
        found[f"AgentCore memories that are of no tenant ({names}): erase there under that name"] = 0
    return found


def _date(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def probed(
    stores: Mapping[str, ErasableStore], erasure: Erasure, traces: Traces, names: Iterable[str] | None = None
) -> dict[str, int | None]:
    """What each store (or each of *names*) still holds; None where it could not be told. Raises RetryableError."""
    found: dict[str, int | None] = {}
    for name in stores if names is None else names:
        if name not in stores:
            found[name] = None
            continue
        try:
            found[name] = stores[name].left(erasure, traces)
        except RetryableError:
            raise
        except AgentMemoryError:
            found[name] = None
    return found


def plain(signed_receipt: SignedReceipt) -> dict[str, Any]:
    """As it is stored, printed and verified."""
    return signed_receipt.model_dump(mode="json")
