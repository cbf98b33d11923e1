"""Every key of every store is made here, tenant first. Ids can't hold the separator, so keys can't collide."""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from agent_memory.contract import ARCHIVE_PREFIX, LIFECYCLE_PREFIX, NIGHT_ROOMS, REGISTRY_TENANT, WORK_ROOT
from agent_memory.domain.errors import RefusedInputError

SEPARATOR = "#"
SIDECAR = ".metadata.json"
_IDENTIFIER = re.compile(r"[A-Za-z0-9._:@-]{1,128}")
_LABEL = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_USER_IDENTITY = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,256}")
# As it comes: a letter may be written as a base and several marks.
MAX_USER_IDENTITY = 1024
USER_IDENTITY_RULE = "must be text of 1 to 256 characters without control characters"
IDENTIFIER_RULE = "must be 1 to 128 of A-Z a-z 0-9 . _ : @ -, and not dots alone"
TENANT_RULE = f"must not be {REGISTRY_TENANT}, which is reserved"
LABEL_RULE = "must be 1 to 128 of A-Z a-z 0-9 . _ : -, and not dots alone"


def identifier(value: object, field: str) -> str:
    """Return *value* as an id, or raise RefusedInputError naming *field* and the rule."""
    if value is None or value == "":
        raise RefusedInputError(field, "is required")
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value) or not value.strip("."):
        raise RefusedInputError(field, IDENTIFIER_RULE)
    return value


def tenant_identifier(value: object, field: str = "tenant_id") -> str:
    """Like identifier, and never the reserved tenant: every door that takes a tenant asks here."""
    tenant_id = identifier(value, field)
    if tenant_id == REGISTRY_TENANT:
        raise RefusedInputError(field, TENANT_RULE)
    return tenant_id


def label(value: object, field: str) -> str:
    """Like identifier, for domain and task_type: no `@`, because an address is personal data."""
    if not isinstance(value, str) or not _LABEL.fullmatch(value) or not value.strip("."):
        raise RefusedInputError(field, LABEL_RULE)
    return value


def user_identity(value: object, field: str = "user_id") -> str | None:
    """Return a user_id as the text that its pseudonym is made of; absent and empty are None.

    Every door must read it the same way, or a person's memories would hang under two pseudonyms: composed letters
    (NFC), because keyboards and file systems write one name in two forms. Look-alikes stay different people.
    """
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_USER_IDENTITY or not value.strip():
        raise RefusedInputError(field, USER_IDENTITY_RULE)
    composed = unicodedata.normalize("NFC", value)
    if not _USER_IDENTITY.fullmatch(composed):
        raise RefusedInputError(field, USER_IDENTITY_RULE)
    return composed


def agent_key(tenant_id: str, agent_id: str) -> str:
    """Partition key of the episodes of one agent."""
    return f"{tenant_id}{SEPARATOR}{agent_id}"


def user_key(tenant_id: str, user_ref: str) -> str:
    """Partition key of user-index."""
    return f"{tenant_id}{SEPARATOR}{user_ref}"


def ledger_key(tenant_id: str, kind: str) -> str:
    """Partition key of a ledger row of *kind* (`run`, `context`, `tombstone`, `parked`, ...)."""
    return f"{tenant_id}{SEPARATOR}{kind}"


def run_entry(agent_id: str, run_id: str) -> str:
    """Sort key of a run in the ledger."""
    return f"{agent_id}{SEPARATOR}{run_id}"


def domain_key(tenant_id: str, domain: str) -> str:
    """Partition key of the facts of one domain."""
    return f"{tenant_id}{SEPARATOR}{domain}"


def observation_entry(fact_id: str, agent_id: str, run_id: str, said: str) -> str:
    """Sort key of what a run said for a fact; *said* is everything that tells its observations apart."""
    digest = hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return SEPARATOR.join((fact_id, f"{agent_id}/{run_id}", digest))


def task_key(tenant_id: str, task_type: str) -> str:
    """Partition key of the procedures of one task type."""
    return f"{tenant_id}{SEPARATOR}{task_type}"


def procedure_key(tenant_id: str, procedure_id: str) -> str:
    """Partition key of procedure-index."""
    return f"{tenant_id}{SEPARATOR}{procedure_id}"


def review_key(tenant_id: str, state: str) -> str:
    """Partition key of review-index."""
    return f"{tenant_id}{SEPARATOR}{state}"


def proposal_entry(procedure_id: str, agent_id: str, run_id: str) -> str:
    """Sort key of a run that proposed a procedure: a run has one say."""
    digest = hashlib.sha256(run_entry(agent_id, run_id).encode()).hexdigest()[:16]
    return SEPARATOR.join((procedure_id, f"{agent_id}/{run_id}", digest))


def wording_entry(procedure_id: str, steps_sha256: str) -> str:
    """Sort key of words that a procedure had before; `~` is in no id, so no run's say can lie among them."""
    return SEPARATOR.join(("~words", procedure_id, steps_sha256))


def document_key(prefix: str, tenant_id: str, domain: str, fact_id: str) -> str:
    """S3 key of a fact's document in the knowledge bucket; its sidecar's is this and SIDECAR."""
    return f"{prefix}{tenant_id}/{domain}/{fact_id}.txt"


def tenant_of(key: str) -> str:
    """The tenant that a partition key belongs to."""
    return key.split(SEPARATOR, 1)[0]


def run_prefix(tenant_id: str, agent_id: str, run_id: str) -> str:
    """S3 prefix of what agents upload about one run in the transcripts bucket, with its closing slash."""
    return f"{tenant_id}/{agent_id}/{run_id}/"


def work_prefix(tenant_id: str, agent_id: str, run_id: str) -> str:
    """S3 prefix of what the pipeline itself keeps about one run, with its closing slash.

    `~` can't be in an id, so no tenant owns this prefix, and agents are never allowed to write there.
    """
    return f"{WORK_ROOT}/{tenant_id}/{agent_id}/{run_id}/"


def claim_key(tenant_id: str, agent_id: str, run_id: str, content_sha256: str) -> str:
    """S3 key of a run's claim: its ids and the hash of its content, so that neither can be exchanged unseen."""
    return f"{work_prefix(tenant_id, agent_id, run_id)}claim-{content_sha256[:32]}.json.gz"


def parked_prefix(tenant_id: str, agent_id: str, run_id: str) -> str:
    """S3 prefix of a parked run in the parked bucket, with its closing slash."""
    return f"parked/{tenant_id}/{agent_id}/{run_id}/"


def held_key(tenant_id: str, agent_id: str, run_id: str, quarantine_id: str) -> str:
    """S3 key of a held text in the parked bucket. `~` is in no id, so no agent's parked runs lie there."""
    return f"parked/{tenant_id}/~quarantine/{agent_id}/{run_id}/{quarantine_id}.json.gz"


def archive_root(tenant_id: str) -> str:
    """S3 prefix of everything of a tenant in the archive bucket, with its closing slash; below it the night's id."""
    return f"{ARCHIVE_PREFIX}{tenant_id}/"


def summary_id(sources: Iterable[tuple[str, str]]) -> str:
    """Id of what was merged from these (agent_id, run_id): m- and 32 hex digits, whatever their order."""
    parts = "\n".join(sorted(run_entry(*source) for source in sources))
    return "m-" + hashlib.sha256(parts.encode()).hexdigest()[:32]


def execution_name(tenant_id: str, agent_id: str, run_id: str, attempt: int) -> str:
    """Deterministic name of a consolidation execution (64 hex digits): a re-delivered event finds it taken."""
    parts = SEPARATOR.join((tenant_id, agent_id, run_id, str(attempt)))
    return hashlib.sha256(parts.encode()).hexdigest()


def due_shard(partition: str, sort: str, shards: int) -> str:
    """Shard of due-index for an item: sha256(keys) mod *shards*."""
    digest = hashlib.sha256(f"{partition}{SEPARATOR}{sort}".encode()).digest()
    return str(int.from_bytes(digest[:8], "big") % shards)


def user_ref(secret: bytes, tenant_id: str, user_id: str) -> str:
    """Pseudonym of a user (u- and 32 hex digits): HMAC-SHA256 under a key derived per tenant, of the composed text."""
    user_id = unicodedata.normalize("NFC", user_id)
    tenant_secret = hmac.digest(secret, f"tenant:{tenant_id}".encode(), "sha256")
    return "u-" + hmac.digest(tenant_secret, user_id.encode("utf-8", "replace"), "sha256").hex()[:32]


def fact_id(tenant_id: str, domain: str, agent_id: str, run_id: str, position: int) -> str:
    """Id of the fact that the candidate at *position* of a run opens (f- and 32 hex digits)."""
    parts = SEPARATOR.join((tenant_id, domain, agent_id, run_id, str(position)))
    return "f-" + hashlib.sha256(parts.encode()).hexdigest()[:32]


def procedure_id(tenant_id: str, task_type: str, steps: Sequence[str]) -> str:
    """Id of the procedure that opens with *steps* (p- and 32 hex digits)."""
    digest = hashlib.sha256(f"{tenant_id}{SEPARATOR}{task_type}".encode())
    for step in steps:
        encoded = step.encode("utf-8", "backslashreplace")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return "p-" + digest.hexdigest()[:32]


def night_of(now: int) -> str:
    """Id of the night that begins at *now* (epoch seconds), by its date in UTC."""
    return datetime.fromtimestamp(now, UTC).strftime("n-%Y-%m-%d")


def night_prefix(run_id: str) -> str:
    """S3 prefix of a lifecycle run's own objects in the archive bucket, with its closing slash."""
    return f"{LIFECYCLE_PREFIX}{run_id}/"


def room_prefix(run_id: str, room: str) -> str:
    """S3 prefix of one kind of slices of a run (`look`, `plan`, `expire`, `merge`, `prune`, `facts`, `rollback`,
    `done/<step>`), with its closing slash."""
    return f"{night_prefix(run_id)}{room}/"


def slice_key(run_id: str, room: str, tenant_id: str, name: str) -> str:
    """S3 key of a slice of one tenant. Raises ValueError for a room that the role of erasures does not reach."""
    if room.rpartition("/")[2] not in NIGHT_ROOMS:
        raise ValueError(f"{room} is no room of contract.NIGHT_ROOMS")
    return f"{room_prefix(run_id, room)}{tenant_id}/{name}.json"


def tenant_of_slice(key: str) -> str | None:
    """The tenant whose slice or result a night's file is; None: it is of no single tenant. Read by its place in the
    key, because a tenant may be called as a room is."""
    _, *parts = key.removeprefix(LIFECYCLE_PREFIX).split("/")
    if parts and parts[0] in ("done", "progress", "changed"):
        parts = parts[1:]
    return parts[1] if len(parts) > 2 and parts[0] in NIGHT_ROOMS else None


def room_of(key: str) -> str:
    """The room that the key of a slice names."""
    return key.split("/")[2]


def result_key(run_id: str, room: str, tenant_id: str, name: str) -> str:
    """S3 key of what a step did with the slice *name* of *room*."""
    return slice_key(run_id, f"done/{room}", tenant_id, name)


def plan_key(run_id: str) -> str:
    """S3 key of a run's plan."""
    return f"{night_prefix(run_id)}plan.json"


def archive_prefix(tenant_id: str, run_id: str) -> str:
    """S3 prefix of what a lifecycle run archived of one tenant, with its closing slash."""
    return f"{archive_root(tenant_id)}{run_id}/"
