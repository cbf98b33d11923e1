"""The files that CloudTrail delivers to S3, and the reports of agents' sides beside them."""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.contract import TRAIL_PREFIX
from agent_memory.domain.cloudtrail import (
    REPORTS,
    Access,
    AccessReport,
    Window,
    accesses_of,
    may_hold,
    records_in,
    reported,
)
from agent_memory.domain.json_text import read_json
from agent_memory.domain.recalled import iso

CHUNK = 256 * 1024
MAX_REPORT = 64 * 1024
_GONE = frozenset({"NoSuchKey", "404"})
# AWSLogs/<account>/CloudTrail/ or AWSLogs/<organisation>/<account>/CloudTrail/
_DEPTH = 3


class S3TrailLogs:
    """The bucket of the trail. *ignored*: roles whose reads do not count, by name or ARN."""

    def __init__(self, client: Any, *, bucket: str, ignored: Collection[str]) -> None:
        self._client = client
        self._bucket = bucket
        self._ignored = frozenset(ignored)

    def accesses(self, window: Window, *, memories: Collection[str], counts: Counter[str]) -> Iterator[Access]:
        """Every access in *window* to one of *memories*, as often as files show it."""
        for key in self._files(window):
            counts["files"] += 1
            for event in records_in(self._chunks(key), counts):
                found = accesses_of(event, window=window, ignored=self._ignored, memories=memories)
                yield from found
        for key in self._reports(window):
            counts["reports"] += 1
            yield from reported(self._report(key), window=window, memories=memories)

    def report(self, report: AccessReport) -> None:
        """Keep what an agent's side says that it was shown; the same report again changes nothing."""
        key = f"{REPORTS}{_day(report.at)}/{report.report_id}.json"
        with translating("s3:PutObject on the trail's bucket"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=report.model_dump_json().encode())

    def _files(self, window: Window) -> Iterator[str]:
        for folder in self._days(TRAIL_PREFIX, 0, window):
            yield from (key for key in self._keys(folder) if may_hold(key, window))

    def _days(self, prefix: str, depth: int, window: Window) -> Iterator[str]:
        """The folders of the window's days, in every region of every account."""
        for folder in self._folders(prefix):
            if folder.endswith("/CloudTrail/"):
                for region in self._folders(folder):
                    yield from (f"{region}{day}/" for day in window.days())
            elif depth < _DEPTH and "/CloudTrail-" not in folder:
                yield from self._days(folder, depth + 1, window)

    def _reports(self, window: Window) -> Iterator[str]:
        for day in window.days():
            yield from self._keys(f"{REPORTS}{day}/")

    def _folders(self, prefix: str) -> list[str]:
        with translating("s3:ListBucket on the trail's bucket"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix, Delimiter="/"
            )
            return [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", ())]

    def _keys(self, prefix: str) -> list[str]:
        # A listing gives plain keys, whatever is in them; only notifications of S3 encode theirs.
        with translating("s3:ListBucket on the trail's bucket"):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def _chunks(self, key: str) -> Iterator[bytes]:
        with translating("s3:GetObject on the trail's bucket"):
            try:
                body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
            except ClientError as error:
                if error_code(error) in _GONE:
                    return
                raise
            yield from body.iter_chunks(CHUNK)

    def _report(self, key: str) -> object:
        body = b"".join(self._chunks(key))
        try:
            return read_json(body[:MAX_REPORT])
        except (ValueError, RecursionError):
            return None


def _day(at: int) -> str:
    return iso(at)[:10].replace("-", "/")
