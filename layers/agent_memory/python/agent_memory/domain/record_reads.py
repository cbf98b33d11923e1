"""Who was shown which records of AgentCore, as agents' sides say it: evidence that CloudTrail can't give.

A search (RetrieveMemoryRecords) leaves no event that names what it returned. So whoever searched reports it through
the client, and our own bootstrap, which returns what was imported from AgentCore, is taken at its word as well. A
report is kept as a file beside the trail's, and the night's refresh counts it: each record once for each context,
however often and in however many reports it is named.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal

from pydantic import Field, ValidationError

from agent_memory.contract import CLIENT_SOURCE_PREFIX, OWN_SOURCE, REPORTS_PREFIX, SCHEMA_VERSION
from agent_memory.domain.agentcore import MEMORY_ID, AgentCoreMemory
from agent_memory.domain.cloudtrail import READ_BY_REPORT, USED_BY_REPORT, Access
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import instant
from agent_memory.domain.json_text import read_json
from agent_memory.domain.keys import identifier, tenant_identifier
from agent_memory.domain.models import Model
from agent_memory.domain.recalled import iso
from agent_memory.domain.retention import DAY_SECONDS
from agent_memory.domain.retrievals import EPISODIC

MAX_RECORDS: Final = 100
MAX_DAYS: Final = 7
RECORD_ID: Final = r"^mem-[A-Za-z0-9_-]{36,46}$"
MEMORY_RULE: Final = "must be the id of a memory, NAME-XXXXXXXXXX"
RECORDS_RULE: Final = f"must be a list of 1 to {MAX_RECORDS} ids of records, mem-... of 40 to 50 characters"
USED_RULE: Final = "must be a list of ids that are in record_ids as well"
NOT_THEIRS_RULE: Final = "must be the one that agentcoreMemories names for this tenant_id"
LATE_RULE: Final = f"must not be more than {MAX_DAYS} days ago"
_RECORD_ID = re.compile(RECORD_ID.removesuffix("$") + r"\Z")
_MEMORY_ID = re.compile(MEMORY_ID.removesuffix("$") + r"\Z")


class RecordsRead(Model):
    """What one context was shown of a memory. *read_at*: epoch seconds."""

    tenant_id: str
    memory_id: str
    context_id: str
    record_ids: tuple[str, ...]
    used: tuple[str, ...] = ()
    read_at: int


class ReadsReport(Model):
    """A report as it is kept: ids only. *context*: a hash, because a context's id is an agent's own words.

    *by*: whose word it is. *at*: when the records were read, *received_at*: when we heard of it (epoch seconds)."""

    schema_version: Literal[1] = 1
    by: Literal["agent", "bootstrap"]
    tenant_id: str
    memory_id: str
    context: str = Field(pattern=r"^[0-9a-f]{32}$")
    record_ids: tuple[str, ...] = Field(max_length=MAX_RECORDS)
    used: tuple[str, ...] = Field(default=(), max_length=MAX_RECORDS)
    at: int = Field(ge=0)
    received_at: int = Field(ge=0)


def memory_identifier(value: object, field: str = "memory_id") -> str:
    """Return *value* as the id of a memory. Raises RefusedInputError."""
    if not isinstance(value, str) or not _MEMORY_ID.match(value):
        raise RefusedInputError(field, MEMORY_RULE)
    return value


def record_identifiers(value: object, field: str = "record_ids") -> tuple[str, ...]:
    """Return *value* as ids of records, each once. Raises RefusedInputError."""
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_RECORDS:
        raise RefusedInputError(field, RECORDS_RULE)
    if any(not isinstance(one, str) or not _RECORD_ID.match(one) for one in value):
        raise RefusedInputError(field, RECORDS_RULE)
    return tuple(dict.fromkeys(value))


def used_identifiers(value: object, among: Collection[str], field: str = "used") -> tuple[str, ...]:
    """Return those of *value*, which are all among what was read. Raises RefusedInputError."""
    given = () if value is None else value
    if not isinstance(given, list | tuple) or len(given) > MAX_RECORDS:
        raise RefusedInputError(field, USED_RULE)
    if any(not isinstance(one, str) or one not in among for one in given):
        raise RefusedInputError(field, USED_RULE)
    return tuple(dict.fromkeys(given))


def report_of(event: Mapping[str, object], memories: Iterable[AgentCoreMemory], *, now: int) -> ReadsReport | None:
    """The report in an event of the bus; None for a recall that returned nothing of AgentCore. Who put it is told by
    the event's source, which IAM holds to its caller. Raises RefusedInputError."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise RefusedInputError("detail", "must be an object")
    tenant_id = tenant_identifier(detail.get("tenant_id"))
    entry = next((one for one in memories if one.name == tenant_id), None)
    if event.get("source") == OWN_SOURCE:
        return None if entry is None else _by_bootstrap(detail, entry, now=now)
    if event.get("source") != CLIENT_SOURCE_PREFIX + tenant_id:
        raise RefusedInputError("source", f"must be {CLIENT_SOURCE_PREFIX} and the tenant_id of the detail")
    read = records_read(event, detail, now=now)
    if entry is None or entry.memory_id != read.memory_id:
        raise RefusedInputError("memory_id", NOT_THEIRS_RULE)
    return _report("agent", read, now=now)


def records_read(event: Mapping[str, object], detail: Mapping[str, object], *, now: int) -> RecordsRead:
    """What an agent says that it was shown, every field checked. Raises RefusedInputError."""
    version = detail.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise RefusedInputError("schema_version", f"must be {SCHEMA_VERSION}")
    identifier(detail.get("agent_id"), "agent_id")
    record_ids = record_identifiers(detail.get("record_ids"))
    said = detail.get("read_at")
    read_at = instant(event.get("time") if said is None else said, "read_at", now=now)
    if read_at < now - MAX_DAYS * DAY_SECONDS:
        raise RefusedInputError("read_at", LATE_RULE)
    return RecordsRead(
        tenant_id=tenant_identifier(detail.get("tenant_id")),
        memory_id=memory_identifier(detail.get("memory_id")),
        context_id=identifier(detail.get("context_id"), "context_id"),
        record_ids=record_ids,
        used=used_identifiers(detail.get("used"), record_ids),
        read_at=read_at,
    )


def _by_bootstrap(detail: Mapping[str, object], entry: AgentCoreMemory, *, now: int) -> ReadsReport | None:
    """What a recall returned of runs that `agentcore import` made: such a run's id is the record's."""
    items = detail.get("items")
    held = [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []
    names = [one.get("run_id") for one in held if one.get("tier") == EPISODIC]
    found = [one for one in dict.fromkeys(names) if isinstance(one, str) and _RECORD_ID.match(one)]
    read_at = instant(detail.get("at"), "at", now=now)
    if not found or read_at < now - MAX_DAYS * DAY_SECONDS:
        return None
    context_id = identifier(detail.get("context_id"), "context_id")
    read = RecordsRead(
        tenant_id=entry.name,
        memory_id=entry.memory_id,
        context_id=context_id,
        record_ids=tuple(found[:MAX_RECORDS]),
        read_at=read_at,
    )
    return _report("bootstrap", read, now=now)


def _report(by: Literal["agent", "bootstrap"], read: RecordsRead, *, now: int) -> ReadsReport:
    return ReadsReport(
        by=by,
        tenant_id=read.tenant_id,
        memory_id=read.memory_id,
        context=_digest(read.tenant_id, read.context_id),
        record_ids=read.record_ids,
        used=read.used,
        at=read.read_at,
        received_at=now,
    )


def report_prefix(tenant_id: str, day: str) -> str:
    """S3 prefix of what a tenant's side reported on *day* (YYYY/MM/DD, UTC), with its closing slash."""
    return f"{REPORTS_PREFIX}{tenant_id}/{day}/"


def report_key(report: ReadsReport) -> str:
    """S3 key of a report: under its tenant and the day it was received; the same said again has the same one."""
    said = json.dumps([report.by, report.memory_id, report.context, sorted(report.record_ids), sorted(report.used)])
    day = iso(report.received_at)[:10].replace("-", "/")
    return f"{report_prefix(report.tenant_id, day)}{hashlib.sha256(said.encode()).hexdigest()[:32]}.json"


def tenant_of_report(key: str) -> str | None:
    """The tenant under which a report lies; None: it is no report."""
    parts = key.removeprefix(REPORTS_PREFIX).split("/")
    return parts[0] if key.startswith(REPORTS_PREFIX) and len(parts) > 1 else None


def read_report(body: bytes, tenant_id: str) -> ReadsReport | None:
    """A stored report of *tenant_id*; None for what can't be read, or lies under another's name."""
    try:
        report = ReadsReport.model_validate(read_json(body))
    except (ValueError, RecursionError, ValidationError):
        return None
    return report if report.tenant_id == tenant_id else None


def reported(report: ReadsReport, *, known: Collection[str], counts: Counter[str]) -> Iterator[Access]:
    """The accesses in a report. *known*: ids of the records of the tenant's own entry; of others nothing counts, so
    that nobody keeps a neighbour's records young, or fills the ledger with ids that were never any."""
    for record_id in dict.fromkeys(report.record_ids):
        if record_id not in known:
            counts["reads_of_unknown"] += 1
            continue
        named = _digest(report.tenant_id, f"{report.context}\n{record_id}")
        yield Access(f"{READ_BY_REPORT}{named}", report.memory_id, record_id, report.at)
        if record_id in report.used:
            yield Access(f"{USED_BY_REPORT}{named}", report.memory_id, record_id, report.at, used=True)


def _digest(tenant_id: str, text: str) -> str:
    return hashlib.sha256(f"{tenant_id}\n{text}".encode("utf-8", "backslashreplace")).hexdigest()[:32]


def records_read_schema() -> dict[str, object]:
    """The detail of the event as JSON Schema (docs/events)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "agent-memory/agentcore-records-read/1",
        "title": "AgentCore Records Read, version 1",
        "description": "Detail of the event by which an agent says which records of Amazon Bedrock AgentCore Memory "
        "a search returned to it. Source: agent-memory.client/<tenant_id>; detail type: AgentCore Records Read. Each "
        "record counts once for each context. Fields not named here are ignored.",
        "type": "object",
        "required": ["tenant_id", "agent_id", "memory_id", "context_id", "record_ids"],
        "properties": _fields(),
    }


def _fields() -> dict[str, object]:
    ids = {"type": "string", "pattern": RECORD_ID}
    name = r"^(?!\.*$)[A-Za-z0-9._:@-]{1,128}$"
    return {
        "schema_version": {"const": SCHEMA_VERSION},
        "tenant_id": {"type": "string", "pattern": r"^(?!registry$)" + name[1:]},
        "agent_id": {"type": "string", "pattern": name},
        "memory_id": {
            "type": "string",
            "pattern": MEMORY_ID,
            "description": "The memory of the entry of agentcoreMemories whose tenant_id this is.",
        },
        "context_id": {
            "type": "string",
            "pattern": name,
            "description": "What the records were read for: a run, a turn. Said twice, it counts once.",
        },
        "record_ids": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_RECORDS,
            "items": ids,
            "description": "What was returned.",
        },
        "used": {
            "type": ["array", "null"],
            "maxItems": MAX_RECORDS,
            "items": ids,
            "description": "Those of record_ids that helped. A signal of its own, and no second access.",
        },
        "read_at": {
            "type": ["string", "number", "null"],
            "description": f"ISO 8601 with a zone (or epoch seconds or milliseconds), at most {MAX_DAYS} days ago. "
            "Never taken later than now. Default: the time of the event.",
        },
    }
