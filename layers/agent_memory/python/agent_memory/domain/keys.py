"""Every key of every store is made here, tenant first. Ids can't hold the separator, so keys can't collide."""

import hashlib
import hmac
import re

from agent_memory.contract import REGISTRY_TENANT, WORK_ROOT
from agent_memory.domain.errors import RefusedInputError

SEPARATOR = "#"
SIDECAR = ".metadata.json"
_IDENTIFIER = re.compile(r"[A-Za-z0-9._:@-]{1,128}")
_LABEL = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_USER_IDENTITY = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,256}")
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

    Every door must read it the same way, or a person's memories would hang under two pseudonyms.
    """
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not value.strip() or not _USER_IDENTITY.fullmatch(value):
        raise RefusedInputError(field, USER_IDENTITY_RULE)
    return value


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


def execution_name(tenant_id: str, agent_id: str, run_id: str, attempt: int) -> str:
    """Deterministic name of a consolidation execution (64 hex digits): a re-delivered event finds it taken."""
    parts = SEPARATOR.join((tenant_id, agent_id, run_id, str(attempt)))
    return hashlib.sha256(parts.encode()).hexdigest()


def due_shard(partition: str, sort: str, shards: int) -> str:
    """Shard of due-index for an item: sha256(keys) mod *shards*."""
    digest = hashlib.sha256(f"{partition}{SEPARATOR}{sort}".encode()).digest()
    return str(int.from_bytes(digest[:8], "big") % shards)


def user_ref(secret: bytes, tenant_id: str, user_id: str) -> str:
    """Pseudonym of a user (u- and 32 hex digits): HMAC-SHA256 under a key derived per tenant."""
    tenant_secret = hmac.digest(secret, f"tenant:{tenant_id}".encode(), "sha256")
    return "u-" + hmac.digest(tenant_secret, user_id.encode("utf-8", "replace"), "sha256").hex()[:32]


def fact_id(tenant_id: str, domain: str, agent_id: str, run_id: str, position: int) -> str:
    """Id of the fact that the candidate at *position* of a run opens (f- and 32 hex digits)."""
    parts = SEPARATOR.join((tenant_id, domain, agent_id, run_id, str(position)))
    return "f-" + hashlib.sha256(parts.encode()).hexdigest()[:32]
