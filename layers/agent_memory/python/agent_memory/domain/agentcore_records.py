"""A record of an AgentCore memory, typed at the border, and what becomes of it in the lifecycle's nouns.

Texts and metadata were written by models and by whoever may write to the memory. What our own metadata say is
provenance for people: the night believes only its own book of them (agentcore_index).
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

from agent_memory.domain.agentcore import MAX_NAMESPACE, MAX_TEXT, AgentCoreMemory, place_of
from agent_memory.domain.episodes import MAX_DIGEST, MAX_TASK, compose_digest
from agent_memory.domain.lexical import tokens
from agent_memory.domain.models import DistilledBy, Episode, EpisodeKind, Model, Outcome
from agent_memory.domain.plain_text import one_line, plain, shortened
from agent_memory.domain.retention import DAY_SECONDS

MAX_ID: Final = 50
MAX_METADATA: Final = 20
SYSTEM: Final = "x-amz-"
# Values of metadata take letters, digits and these only; a list holds five texts of 64 characters.
LIST_LENGTH: Final = 5
# What a merge writes. 50 sources take ten lists, and five keys say the rest.
MERGE_ID: Final = "agent-memory:merge-id"
NIGHT: Final = "agent-memory:night"
CREATED_AT: Final = "agent-memory:created-at"
ENDED_AT: Final = "agent-memory:ended-at"
OLDEST_AT: Final = "agent-memory:oldest-source-at"
SOURCES: Final = "agent-memory:sources-"
# What a restore adds, when there is room.
RESTORED_FROM: Final = "agent-memory:restored-from"
MAX_SOURCES: Final = 50
_KINDS: Final = ("stringValue", "stringListValue", "numberValue", "dateTimeValue")


class Record(Model):
    """One record. *created_at*: epoch seconds, None when the service gave no date that can be read.

    *metadata*: by key, each the union that the service speaks, with times as ISO 8601 text.
    """

    record_id: str
    text: str
    namespace: str
    strategy_id: str = ""
    created_at: int | None = None
    metadata: Mapping[str, Mapping[str, object]] = {}

    @property
    def sources(self) -> tuple[str, ...]:
        """The records that it says it was merged from."""
        found: list[str] = []
        for number in range(MAX_SOURCES // LIST_LENGTH):
            listed = self.metadata.get(f"{SOURCES}{number}", {}).get("stringListValue", ())
            found += [str(one) for one in listed] if isinstance(listed, list | tuple) else []
        return tuple(found)

    @property
    def merge_id(self) -> str:
        """The id of the merge that it says it came from, or nothing."""
        return str(self.metadata.get(MERGE_ID, {}).get("stringValue", ""))

    def number(self, key: str) -> int | None:
        """A whole number of the metadata."""
        value = self.metadata.get(key, {}).get("numberValue")
        return int(value) if isinstance(value, int | float) and math.isfinite(value) else None


class NewRecord(NamedTuple):
    """A record that is to be created. *request_id*: `[a-zA-Z0-9_-]`, 1 to 80, by which its result is known."""

    request_id: str
    text: str
    namespace: str
    strategy_id: str
    at: int
    metadata: Mapping[str, Mapping[str, object]]


def read_record(raw: object) -> Record | None:
    """The record in an answer of the service; None for what has no id, no text or no namespace of its own."""
    if not isinstance(raw, Mapping):
        return None
    record_id, content, spaces = raw.get("memoryRecordId"), raw.get("content"), raw.get("namespaces")
    text = content.get("text") if isinstance(content, Mapping) else None
    if not isinstance(record_id, str) or not 1 <= len(record_id) <= MAX_ID or not isinstance(text, str) or not text:
        return None
    if not isinstance(spaces, list | tuple) or len(spaces) != 1 or not isinstance(spaces[0], str):
        return None
    if len(spaces[0]) > MAX_NAMESPACE or len(text) > MAX_TEXT:
        return None
    strategy = raw.get("memoryStrategyId")
    return Record(
        record_id=record_id,
        text=text,
        namespace=spaces[0],
        strategy_id=strategy if isinstance(strategy, str) else "",
        created_at=read_time(raw.get("createdAt")),
        metadata=_metadata(raw.get("metadata")),
    )


def read_time(value: object) -> int | None:
    """Whole epoch seconds of a time. Nothing is not 1970, and neither is 1970."""
    if isinstance(value, datetime):
        value = value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if value > 0 else None


def _metadata(value: object) -> dict[str, Mapping[str, object]]:
    if not isinstance(value, Mapping):
        return {}
    found: dict[str, Mapping[str, object]] = {}
    # What the service adds is not ours to create again.
    own = [(key, union) for key, union in value.items() if not str(key).startswith(SYSTEM)]
    for key, union in own[:MAX_METADATA]:
        known = {kind: _value(union[kind]) for kind in _KINDS if kind in union} if isinstance(union, Mapping) else {}
        if isinstance(key, str) and len(known) == 1:
            found[key] = known
    return found


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    return value


class Known(NamedTuple):
    """What our own book and ledger say of a record. *name*: under which plans, archive and reports know it."""

    name: str
    access_count: int = 0
    last_access_at: int | None = None
    kept_until: int | None = None
    expires_after: int | None = None
    review: str | None = None
    merged_into: str | None = None
    sources: tuple[str, ...] = ()
    summary_days: int = 45


def expiry_of(created_at: int, strategy_id: str, known: Known, memory: AgentCoreMemory) -> int:
    """When a record expires by today's settings; what was brought back not before the date that it got then."""
    days = known.summary_days if known.sources else memory.days_of(strategy_id)
    return max(created_at + days * DAY_SECONDS, known.expires_after or 0)


def episode_of(record: Record, known: Known, memory: AgentCoreMemory, *, now: int) -> Episode | None:
    """The record as the night judges it; None without a date: it is kept and reported, not taken for ancient.

    The domain is its strategy, so that a preference and a summary never become one."""
    if record.created_at is None:
        return None
    created = min(record.created_at, now)
    oldest = record.number(OLDEST_AT) if known.sources else None
    ended = record.number(ENDED_AT) if known.sources else None
    text = one_line(plain(record.text))
    return Episode(
        tenant_id=memory.name,
        agent_id=place_of(memory.memory_id, record.namespace),
        run_id=known.name,
        kind=EpisodeKind.SUMMARY if known.sources else EpisodeKind.RUN,
        task=shortened(text, MAX_TASK),
        digest=shortened(text, MAX_DIGEST),
        task_summary=text,
        outcome=Outcome.UNKNOWN,
        distilled_by=DistilledBy.MODEL,
        domain=record.strategy_id or "general",
        created_at=created,
        ended_at=min(ended, now) if ended is not None else created,
        expires_at=expiry_of(created, record.strategy_id, known, memory),
        access_count=known.access_count,
        last_access_at=known.last_access_at,
        sources=known.sources,
        oldest_source_at=oldest,
        merged_into=known.merged_into,
        kept_until=known.kept_until,
        review=known.review,
    )


def words_of(record: Record) -> str:
    """A hash of the words of a record, whatever their order and case (16 hex digits); nothing without a word."""
    words = sorted(set(tokens(one_line(plain(record.text)))))
    return sha256("\n".join(words).encode()).hexdigest()[:16] if words else ""


def canonical(record: Record) -> str:
    """The record as an archive holds it: the same text for the same record."""
    return json.dumps(record.model_dump(), sort_keys=True, separators=(",", ":"))


def merged_record(summary: Episode, namespace: str, strategy_id: str, *, night: str) -> NewRecord:
    """What stands for several records, as it is created: its text, and whence it comes and from when."""
    text = compose_digest(summary.task_summary, summary.key_findings, MAX_TEXT)
    oldest = summary.oldest_source_at if summary.oldest_source_at is not None else summary.ended_at
    metadata: dict[str, Mapping[str, object]] = {
        MERGE_ID: {"stringValue": summary.run_id},
        NIGHT: {"stringValue": night},
        CREATED_AT: {"numberValue": summary.created_at},
        ENDED_AT: {"numberValue": summary.ended_at},
        OLDEST_AT: {"numberValue": oldest},
        **_lists(summary.sources),
    }
    return NewRecord(summary.run_id, text, namespace, strategy_id, summary.created_at, metadata)


def _lists(sources: Sequence[str]) -> dict[str, Mapping[str, object]]:
    if len(sources) > MAX_SOURCES:
        raise ValueError(f"a merge takes at most {MAX_SOURCES} records")
    return {
        f"{SOURCES}{number}": {"stringListValue": list(sources[start : start + LIST_LENGTH])}
        for number, start in enumerate(range(0, len(sources), LIST_LENGTH))
    }


def restored_record(record: Record, request_id: str) -> NewRecord:
    """A record as it is created again: all that it was, and its first date where the service may set a new one."""
    metadata = dict(record.metadata)
    added: dict[str, Mapping[str, object]] = {
        CREATED_AT: {"numberValue": record.created_at or 0},
        RESTORED_FROM: {"stringValue": record.record_id},
    }
    for key, value in added.items():
        if len(metadata) < MAX_METADATA and key not in metadata:
            metadata[key] = value
    return NewRecord(request_id, record.text, record.namespace, record.strategy_id, record.created_at or 0, metadata)


def exported(episode: Episode, namespace: str, strategy_id: str, request_id: str) -> NewRecord:
    """An episode as a record of a memory: what it says, and whence it comes."""
    said = (episode.task_summary or episode.task, *episode.key_findings, *episode.reusable_patterns)
    text = compose_digest(said[0], said[1:], MAX_TEXT) or episode.digest
    metadata: dict[str, Mapping[str, object]] = {
        "agent-memory:tenant": {"stringValue": episode.tenant_id},
        "agent-memory:agent": {"stringValue": episode.agent_id},
        "agent-memory:run": {"stringValue": episode.run_id},
        CREATED_AT: {"numberValue": episode.ended_at},
    }
    return NewRecord(request_id, text, namespace, strategy_id, episode.ended_at, metadata)


def plain_metadata(metadata: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, Any]]:
    """Metadata as the service takes them: times as datetimes."""
    found = {}
    for key, union in metadata.items():
        found[key] = {
            kind: datetime.fromisoformat(str(value)) if kind == "dateTimeValue" else value
            for kind, value in union.items()
        }
    return found
