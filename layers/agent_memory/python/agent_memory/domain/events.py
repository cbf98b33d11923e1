"""The run-ended event: outside text in, a typed RunEnded out, or a refusal that names the field and the rule."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import Field

from agent_memory.contract import CLIENT_SOURCE_PREFIX, SCHEMA_VERSION
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import identifier, label, tenant_identifier, user_identity
from agent_memory.domain.models import Model, Outcome

MAX_TASK_CHARACTERS = 20_000
MAX_USED = 50
MAX_MEMORY_ID_CHARACTERS = 260
MAX_POINTER_CHARACTERS = 2_048
MAX_DEPTH = 64
TIME_RULE = "must be ISO 8601 or epoch seconds or milliseconds"
# A date written as a number (20261201) or a lost one (0) would otherwise be a run of 1970 and expired.
EARLIEST = 946_684_800
EARLIEST_RULE = "must not be before 2000-01-01"
_NUMBER = re.compile(r"[0-9]{9,20}(\.[0-9]{1,9})?")
_MILLISECONDS_FROM = 100_000_000_000
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class RunIds(Model):
    """The three ids that name a run; with them an event can be parked, without them only refused."""

    tenant_id: str
    agent_id: str
    run_id: str


class RunEnded(RunIds):
    """A run-ended event whose every field was checked. *counts*: what was left out or mended.

    *user_id* leaves this object as a pseudonym only.
    """

    ended_at: int
    task: str | None = None
    task_type: str | None = None
    domain: str = "general"
    user_id: str | None = Field(default=None, repr=False)
    outcome: Outcome | None = None
    messages: tuple[object, ...] | None = Field(default=None, repr=False)
    transcript_uri: str | None = None
    artifacts: Mapping[str, object] | None = Field(default=None, repr=False)
    memory_context_id: str | None = None
    memory_used: tuple[str, ...] = ()
    procedure_id: str | None = None
    procedure_succeeded: bool | None = None
    counts: Mapping[str, int] = Field(default_factory=dict)


def run_ids(event: Mapping[str, object]) -> RunIds:
    """Return the ids of an EventBridge event whose source is bound to the tenant it names."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise RefusedInputError("detail", "must be an object")
    ids = RunIds(
        tenant_id=tenant_identifier(detail.get("tenant_id")),
        agent_id=identifier(detail.get("agent_id"), "agent_id"),
        run_id=identifier(detail.get("run_id"), "run_id"),
    )
    # IAM binds the source to the caller's tenant; the detail is only what the caller says.
    if event.get("source") != CLIENT_SOURCE_PREFIX + ids.tenant_id:
        raise RefusedInputError("source", f"must be {CLIENT_SOURCE_PREFIX} and the tenant_id of the detail")
    return ids


def run_ended(event: Mapping[str, object], ids: RunIds, *, now: int) -> RunEnded:
    """Return the whole event as a RunEnded. Raises RefusedInputError naming the field that can't be read."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise RefusedInputError("detail", "must be an object")
    version = detail.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise RefusedInputError("schema_version", f"must be {SCHEMA_VERSION}")
    counts: Counter[str] = Counter()
    messages, transcript_uri = _transcript(detail.get("transcript"), counts)
    context_id, used = _memory(detail.get("memory"), counts)
    procedure_id, succeeded = _procedure(detail.get("procedure"), counts)
    ended = _present(detail.get("ended_at"))
    return RunEnded(
        **dict(ids),
        ended_at=instant(ended if ended is not None else event.get("time"), "ended_at", now=now),
        task=_task(detail.get("task"), counts),
        task_type=_label(detail.get("task_type"), "task_type"),
        domain=_label(detail.get("domain"), "domain") or "general",
        user_id=user_identity(detail.get("user_id")),
        outcome=_outcome(detail.get("outcome"), counts),
        messages=messages,
        transcript_uri=transcript_uri,
        artifacts=_artifacts(detail.get("artifacts"), counts),
        memory_context_id=context_id,
        memory_used=used,
        procedure_id=procedure_id,
        procedure_succeeded=succeeded,
        counts={name: count for name, count in counts.items() if count},
    )


def instant(value: object, field: str, *, now: int) -> int:
    """Return a time as whole epoch seconds, never later than *now*. Without a zone it is UTC, whatever the host's."""
    try:
        seconds = _seconds(value)
    except (ValueError, OverflowError):
        seconds = None
    if seconds is None:
        raise RefusedInputError(field, TIME_RULE)
    if seconds < EARLIEST:
        raise RefusedInputError(field, EARLIEST_RULE)
    return min(seconds, now)


def _seconds(value: object) -> int | None:
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            moment = datetime.fromisoformat(text)
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
        value = float(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = int(value)
    return seconds // 1000 if abs(seconds) >= _MILLISECONDS_FROM else seconds


def clean(value: object, counts: Counter[str], depth: int = 0) -> object:
    """Return JSON without lone surrogates and NaN, which no store can hold. RefusedInputError: nested too deep."""
    if depth > MAX_DEPTH:
        raise RefusedInputError("transcript", f"must not be nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        mended, found = _SURROGATE.subn("\ufffd", value)
        counts["lone_surrogates"] += found
        return mended
    if isinstance(value, float) and not math.isfinite(value):
        counts["numbers_not_finite"] += 1
        return None
    if isinstance(value, Mapping):
        return {str(clean(str(k), counts)): clean(v, counts, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, counts, depth + 1) for item in value]
    return value


def messages_of(transcript: object, counts: Counter[str]) -> tuple[object, ...]:
    """Return the messages of a transcript: a list, or an object that holds `messages`."""
    found = transcript.get("messages") if isinstance(transcript, Mapping) else transcript
    if not isinstance(found, list | tuple):
        raise RefusedInputError("transcript.messages", "must be a list")
    return tuple(clean(message, counts) for message in found)


def body_digest(body: str) -> str:
    """Name of a body that can't be shown."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def without_user_id(event: Mapping[str, object]) -> dict[str, object]:
    """Return an event without the user that its detail names; a `user_id` deeper down belongs to what the run said."""
    kept = {name: value for name, value in event.items() if name != "user_id"}
    detail = event.get("detail")
    if isinstance(detail, Mapping):
        kept["detail"] = {name: value for name, value in detail.items() if name != "user_id"}
    return kept


def _present(value: object) -> object | None:
    return None if isinstance(value, str) and not value.strip() else value


def _label(value: object, field: str) -> str | None:
    present = _present(value)
    return None if present is None else label(present, field)


def _task(value: object, counts: Counter[str]) -> str | None:
    present = _present(value)
    if present is None:
        return None
    if not isinstance(present, str):
        counts["task_ignored"] += 1
        return None
    text = _CONTROL.sub(" ", str(clean(present, counts))).strip()
    if len(text) > MAX_TASK_CHARACTERS:
        counts["task_cut"] += 1
    return text[:MAX_TASK_CHARACTERS] or None


def _outcome(value: object, counts: Counter[str]) -> Outcome | None:
    present = _present(value)
    if present is None:
        return None
    word = present.strip().upper() if isinstance(present, str) else ""
    if word in Outcome.__members__:
        return Outcome(word)
    counts["outcome_ignored"] += 1
    return None


def _artifacts(value: object, counts: Counter[str]) -> Mapping[str, object] | None:
    if not value:
        return None
    if not isinstance(value, Mapping):
        counts["artifacts_ignored"] += 1
        return None
    cleaned = clean(value, counts)
    return cleaned if isinstance(cleaned, dict) else None


def _transcript(value: object, counts: Counter[str]) -> tuple[tuple[object, ...] | None, str | None]:
    if value is None:
        return None, None
    if not isinstance(value, Mapping):
        raise RefusedInputError("transcript", "must be an object with messages or s3_uri")
    messages, uri = value.get("messages"), _present(value.get("s3_uri"))
    if uri is None:
        return (None if messages is None else messages_of(messages, counts)), None
    if messages:
        raise RefusedInputError("transcript", "must hold messages or s3_uri, not both")
    if not isinstance(uri, str) or len(uri) > MAX_POINTER_CHARACTERS:
        raise RefusedInputError("transcript.s3_uri", "must be an s3:// address")
    return None, uri


def _memory(value: object, counts: Counter[str]) -> tuple[str | None, tuple[str, ...]]:
    """Feedback is a courtesy: what can't be read of it is ignored and counted, the run goes on."""
    if not isinstance(value, Mapping):
        counts["memory_ignored"] += value is not None
        return None, ()
    try:
        context_id = identifier(value.get("context_id"), "memory.context_id")
    except RefusedInputError:
        counts["memory_ignored"] += 1
        return None, ()
    used = value.get("used")
    offered = used if isinstance(used, list) else []
    ids = dict.fromkeys(i for i in offered if isinstance(i, str) and 0 < len(i) <= MAX_MEMORY_ID_CHARACTERS)
    kept = tuple(i for i in ids if not _SURROGATE.search(i) and not _CONTROL.search(i))[:MAX_USED]
    counts["memory_ids_ignored"] += len(offered) - len(kept)
    return context_id, kept


def _procedure(value: object, counts: Counter[str]) -> tuple[str | None, bool | None]:
    if not isinstance(value, Mapping):
        counts["procedure_ignored"] += value is not None
        return None, None
    succeeded = value.get("succeeded")
    try:
        procedure_id = identifier(value.get("procedure_id"), "procedure.procedure_id")
    except RefusedInputError:
        counts["procedure_ignored"] += 1
        return None, None
    return procedure_id, succeeded if isinstance(succeeded, bool) else None
