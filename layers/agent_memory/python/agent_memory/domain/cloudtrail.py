"""Accesses to records of AgentCore memories, read from the files that CloudTrail delivers to S3.

CloudTrail shows GetMemoryRecord, one event for each record. What RetrieveMemoryRecords and ListMemoryRecords returned
is in no event, so agents report that themselves (record_reads); both kinds meet in the ledger (accesses). Files
come late, twice, cut off and with lines that are none; a file that is no log at all is passed by.
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from agent_memory.domain.json_text import read_json

EVENT_SOURCE: Final = "bedrock-agentcore.amazonaws.com"
# Ids of what agents' sides report begin like this; CloudTrail's are UUIDs.
READ_BY_REPORT: Final = "r-"
USED_BY_REPORT: Final = "u-"
REPORTED: Final = (READ_BY_REPORT, USED_BY_REPORT)
READS: Final = frozenset({"GetMemoryRecord", "BatchGetMemoryRecords"})
# Of one file, decompressed: CloudTrail writes some hundred KB; more is not its doing.
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_ID: Final = 64
MAX_NAMED: Final = 100
# A file carries events of some minutes before the time in its name.
DELIVERY_SECONDS: Final = 3600
_STAMP = re.compile(r"_(\d{8})T(\d{4})Z_[^/]*$")
_FOLDERS = re.compile(r"(?:^|/)(\d{4})/(\d{2})/(\d{2})/[^/]+$")
_RECORDS = re.compile(r'"Records"\s*:\s*\[')
_GZIP: Final = b"\x1f\x8b"
_DECODER = json.JSONDecoder(strict=False)


class Access(NamedTuple):
    """One read of one record. *event_id*: of the event, with the record's place in it when it names several. *used*:
    not another read, but word that this one helped."""

    event_id: str
    memory_id: str
    record_id: str
    at: int
    used: bool = False


class Window(NamedTuple):
    """The time that is read, in epoch seconds: *begin* <= event < *end*."""

    begin: int
    end: int

    def takes(self, at: int) -> bool:
        """Whether an event of *at* is in it."""
        return self.begin <= at < self.end

    def days(self) -> list[str]:
        """The folders YYYY/MM/DD of its days, the day after included: files are named by their delivery."""
        day = datetime.fromtimestamp(self.begin, UTC).date()
        last = datetime.fromtimestamp(self.end + DELIVERY_SECONDS, UTC).date()
        found = []
        while day <= last:
            found.append(day.strftime("%Y/%m/%d"))
            day += timedelta(days=1)
        return found


def may_hold(key: str, window: Window) -> bool:
    """Whether an object may hold events of *window*: a log by its name, delivered in it or just after."""
    if "-Digest/" in key or "-Insight/" in key or not key.endswith((".json.gz", ".json")):
        return False
    stamp = _STAMP.search(key)
    if stamp:
        at = _epoch(f"{stamp[1]}{stamp[2]}", "%Y%m%d%H%M")
        return at is None or window.begin <= at <= window.end + DELIVERY_SECONDS
    folders = _FOLDERS.search(key)
    return folders is None or "/".join(folders.groups()) in window.days()


def _epoch(text: str, form: str) -> int | None:
    try:
        return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def records_in(chunks: Iterable[bytes], counts: Counter[str]) -> Iterator[Mapping[str, object]]:
    """The records of one file, as far as it can be read. What is none is counted, never raised."""
    text, whole = _text(chunks)
    counts["files_cut"] += not whole
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        yield from _one_by_one(text, counts)
        return
    if isinstance(value, Mapping) and isinstance(value.get("Records"), list):
        yield from _mappings(value["Records"], counts)
    elif isinstance(value, Mapping) and "eventID" in value:
        yield value
    else:
        counts["files_without_records"] += 1


def _text(chunks: Iterable[bytes]) -> tuple[str, bool]:
    """The text of a file, gzip or plain, and whether it came to its end."""
    gathered, whole = bytearray(), True
    try:
        for piece in _unpacked(chunks):
            gathered += piece
            if len(gathered) > MAX_BYTES:
                whole = False
                break
    except zlib.error:
        whole = False
    return gathered[:MAX_BYTES].decode("utf-8", "replace"), whole


def _unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """What a file holds, piece by piece; gzip files may be several put together. Raises zlib.error: it is cut off."""
    pieces, first = iter(chunks), b""
    while len(first) < len(_GZIP) and (piece := next(pieces, None)) is not None:
        first += piece
    if not first.startswith(_GZIP):
        yield first
        yield from pieces
        return
    inflate = zlib.decompressobj(wbits=31)
    for packed in chain([first], pieces):
        left = packed
        while left:
            inflate = zlib.decompressobj(wbits=31) if inflate.eof else inflate
            yield inflate.decompress(left, MAX_BYTES + 1)
            left = inflate.unused_data
    if not inflate.eof:
        raise zlib.error("cut off")


def _one_by_one(text: str, counts: Counter[str]) -> Iterator[Mapping[str, object]]:
    """Records of a file that is no whole JSON: one that was cut off, or lines."""
    opening = _RECORDS.search(text)
    if opening is None:
        for line in filter(str.strip, text.splitlines()):
            try:
                value = read_json(line)
            except (ValueError, RecursionError):
                counts["bad_lines"] += 1
                continue
            yield from _mappings(_held(value), counts)
        return
    place = opening.end()
    while (place := text.find("{", place)) >= 0:
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            counts["bad_lines"] += 1
            # The next record begins with an object as well; what is inside a broken one is none.
            following = text.find("\n{", place + 1)
            following = following if following >= 0 else text.find('{"event', place + 1)
            if following < 0:
                return
            place = following
            continue
        yield from _mappings(_held(value), counts)


def _held(value: object) -> list[object]:
    """The records of one of several JSON texts in a file, or the record that it is."""
    held = value.get("Records", [value]) if isinstance(value, Mapping) else [value]
    return held if isinstance(held, list) else [held]


def _mappings(values: Iterable[object], counts: Counter[str]) -> Iterator[Mapping[str, object]]:
    for value in values:
        if isinstance(value, Mapping):
            yield value
        else:
            counts["bad_lines"] += 1


def accesses_of(
    event: Mapping[str, object], *, window: Window, ignored: Collection[str], memories: Collection[str]
) -> tuple[Access, ...]:
    """The reads in one event on behalf of an agent; none for failed reads, other services, other memories, our own
    roles and AWS's own services. *ignored*: role names or ARNs, from the deployment."""
    asked = event.get("requestParameters")
    if event.get("eventSource") != EVENT_SOURCE or event.get("eventName") not in READS or event.get("errorCode"):
        return ()
    if not isinstance(asked, Mapping) or _on_our_own(event.get("userIdentity"), ignored):
        return ()
    event_id, at = event.get("eventID"), _time(event.get("eventTime"))
    memory_id = str(asked.get("memoryId") or "").rpartition("/")[2]
    if not isinstance(event_id, str) or not 1 <= len(event_id) <= MAX_ID or at is None or not window.takes(at):
        return ()
    if memory_id not in memories:
        return ()
    names = tuple(dict.fromkeys(_named(asked)))[:MAX_NAMED]
    ids = [event_id] if len(names) == 1 else [f"{event_id}.{number}" for number in range(len(names))]
    return tuple(Access(one, memory_id, name, at) for one, name in zip(ids, names, strict=True))


def _named(asked: Mapping[object, object]) -> Iterator[str]:
    several = asked.get("records") or asked.get("memoryRecordIds") or ()
    ones = [asked.get("memoryRecordId"), *(several if isinstance(several, list | tuple) else ())]
    for one in ones:
        name = one.get("memoryRecordId") if isinstance(one, Mapping) else one
        if isinstance(name, str) and 1 <= len(name) <= MAX_ID:
            yield name


def _time(value: object) -> int | None:
    return _epoch(value, "%Y-%m-%dT%H:%M:%SZ") if isinstance(value, str) else None


def _on_our_own(identity: object, ignored: Collection[str]) -> bool:
    """Whether nobody's agent read: our own functions do every night, and would keep every record young."""
    if not isinstance(identity, Mapping):
        return False
    if identity.get("type") == "AWSService" or identity.get("invokedBy"):
        return True
    session = identity.get("sessionContext")
    issuer = session.get("sessionIssuer") if isinstance(session, Mapping) else None
    issuer = issuer if isinstance(issuer, Mapping) else {}
    arn = str(issuer.get("arn") or "")
    names = {str(issuer.get("userName") or ""), arn, arn.rpartition("/")[2], str(identity.get("arn") or "")}
    return bool(names & set(ignored) - {""})
