"""The files that CloudTrail delivers to S3, and the reports of agents' sides beside them."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from botocore.exceptions import ClientError

from agent_memory.aws.failures import THERE_ALREADY, error_code, translating
from agent_memory.contract import TRAIL_PREFIX
from agent_memory.domain.agentcore_ports import Judged
from agent_memory.domain.cloudtrail import Access, Window, accesses_of, may_hold, records_in
from agent_memory.domain.record_reads import ReadsReport, read_report, report_key, report_prefix, reported
from agent_memory.domain.record_reads import tenant_of_report as tenant_of

CHUNK = 256 * 1024
MAX_REPORT = 64 * 1024
# One is read while others are waited for. Each may hold 64 MB, so not many at once.
SIDE_BY_SIDE = 8
_GONE = frozenset({"NoSuchKey", "404"})
# AWSLogs/<account>/CloudTrail/ or AWSLogs/<organisation>/<account>/CloudTrail/
_DEPTH = 3


class S3TrailLogs:
    """The bucket of the trail. *ignored*: roles whose reads do not count, by name or ARN."""

    def __init__(self, client: Any, *, bucket: str, ignored: Collection[str]) -> None:
        self._client = client
        self._bucket = bucket
        self._ignored = frozenset(ignored)

    def files(self, window: Window, tenants: Collection[str]) -> Sequence[str]:
        """Every file that may tell of accesses in *window*, and every report of *tenants*, in the order of their
        keys."""
        return sorted({*self._files(window), *self._reports(window, tenants)})

    def accesses(self, files: Sequence[str], window: Window, judged: Judged, counts: Counter[str]) -> Sequence[Access]:
        """What *files* tell, in their order, as often as they show it."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            told = list(pool.map(lambda key: self._told(key, window, judged), files))
        for _, counted in told:
            counts.update(counted)
        return [one for found, _ in told for one in found]

    def _told(self, key: str, window: Window, judged: Judged) -> tuple[list[Access], Counter[str]]:
        counts: Counter[str] = Counter()
        tenant_id = tenant_of(key)
        if tenant_id is not None:
            return self._reported(key, tenant_id, window, judged, counts), counts
        counts["files"] += 1
        found: list[Access] = []
        for event in records_in(self._chunks(key), counts):
            found += accesses_of(event, window=window, ignored=self._ignored, memories=judged.memories)
        return found, counts

    def _reported(self, key: str, tenant_id: str, window: Window, judged: Judged, counts: Counter[str]) -> list[Access]:
        report = read_report(b"".join(self._chunks(key))[: MAX_REPORT + 1], tenant_id)
        counts["reports" if report else "reports_unreadable"] += 1
        # When it was heard of decides, not when it says that was read: one that comes late counts all the same.
        if report is None or not window.takes(report.received_at):
            return []
        known = judged.records.get((tenant_id, report.memory_id), ())
        found = list(reported(report, known=known, counts=counts))
        counts[f"reads_by_{report.by}"] += sum(not one.used for one in found)
        return found

    def report(self, report: ReadsReport) -> Literal["stored", "duplicate"]:
        """Keep what an agent's side says that it was shown; the same report again changes nothing."""
        body = report.model_dump_json().encode()
        with translating("s3:PutObject on the trail's bucket"):
            try:
                self._client.put_object(Bucket=self._bucket, Key=report_key(report), Body=body, IfNoneMatch="*")
            except ClientError as error:
                if error_code(error) in THERE_ALREADY:
                    return "duplicate"
                raise
        return "stored"

    def digests(self, window: Window) -> int:
        """How many digests of the trail lie in the days of *window*. It writes one an hour, also of no event: none at
        all says that it does not deliver."""
        return sum(len(self._keys(folder)) for folder in self._days(TRAIL_PREFIX, 0, window, "/CloudTrail-Digest/"))

    def _files(self, window: Window) -> Iterator[str]:
        for folder in self._days(TRAIL_PREFIX, 0, window, "/CloudTrail/"):
            yield from (key for key in self._keys(folder) if may_hold(key, window))

    def _days(self, prefix: str, depth: int, window: Window, kind: str) -> Iterator[str]:
        """The folders of the window's days, in every region of every account, of one *kind* of files."""
        for folder in self._folders(prefix):
            if folder.endswith(kind):
                for region in self._folders(folder):
                    yield from (f"{region}{day}/" for day in window.days())
            elif depth < _DEPTH and "/CloudTrail" not in folder:
                yield from self._days(folder, depth + 1, window, kind)

    def _reports(self, window: Window, tenants: Collection[str]) -> Iterator[str]:
        for tenant_id in tenants:
            for day in window.days():
                yield from self._keys(report_prefix(tenant_id, day))

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
