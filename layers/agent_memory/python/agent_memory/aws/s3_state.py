"""One object in S3 that several may change: read with its ETag, written only over what was read."""

import gzip
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from agent_memory.aws.failures import THERE_ALREADY, error_code, translating
from agent_memory.aws.missing import GONE, is_missing

MAX_BYTES = 256 * 1024 * 1024
_TAKEN = THERE_ALREADY | {"ConditionalRequestConflict", "409"}


class State(NamedTuple):
    """What an object holds, decompressed; *tag* None when there is none."""

    body: bytes
    tag: str | None


class S3State:
    """One gzipped object, with its earlier versions."""

    def __init__(self, client: Any, *, bucket: str, key: str) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key

    def read(self) -> State:
        """What it holds now; b"" when it is not there, or is no gzip."""
        with translating("s3:GetObject on the AgentCore bucket"):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._key)
            except ClientError as error:
                if is_missing(self._client, error, bucket=self._bucket, key=self._key):
                    return State(b"", None)
                raise
            return State(_unpacked(answer["Body"].read(MAX_BYTES)), str(answer["ETag"]))

    def write(self, body: bytes, *, over: str | None) -> bool:
        """Write *body* over the state that has the tag *over* (None: over nothing). False: it changed since."""
        condition = {"IfMatch": over} if over else {"IfNoneMatch": "*"}
        with translating("s3:PutObject on the AgentCore bucket"):
            try:
                self._client.put_object(
                    Bucket=self._bucket,
                    Key=self._key,
                    Body=gzip.compress(body, mtime=0),
                    ContentType="application/gzip",
                    **condition,
                )
            except ClientError as error:
                # An object that was deleted since has no state that could be matched.
                if error_code(error) in _TAKEN | GONE:
                    return False
                raise
        return True

    def earlier(self) -> Iterator[bytes]:
        """Its versions, latest first."""
        with translating("s3:ListBucketVersions on the AgentCore bucket"):
            pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=self._key)
            versions = [one for page in pages for one in page.get("Versions", ()) if one["Key"] == self._key]
        for one in sorted(versions, key=lambda found: found["LastModified"], reverse=True):
            with translating("s3:GetObjectVersion on the AgentCore bucket"):
                answer = self._client.get_object(Bucket=self._bucket, Key=self._key, VersionId=one["VersionId"])
                yield _unpacked(answer["Body"].read(MAX_BYTES))


def _unpacked(body: bytes) -> bytes:
    """An object that is no gzip holds nothing that we wrote: a byte that no JSON begins with stands for it."""
    try:
        return gzip.decompress(body) if body else b""
    except (OSError, EOFError, zlib.error):
        return b"\x00"
