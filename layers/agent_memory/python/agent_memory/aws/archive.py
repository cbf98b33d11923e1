"""The archive bucket: every memory that left a store, whole, under its tenant and the night in which it left.

Encryption is the bucket's own default; naming one here would override a deployment's KMS key.
"""

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import THERE_ALREADY, error_code, translating
from agent_memory.aws.missing import is_missing
from agent_memory.contract import SCHEMA_VERSION
from agent_memory.domain.archive import Archived, ArchiveError, Snapshot, Tier, memory_id
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.keys import archive_prefix, archive_root

# An item is 400 KB at most; a fact has as many observation rows as runs that speak for it.
MAX_BYTES = 64 * 1024 * 1024


class S3Archive:
    """The archived memories of one tenant, on credentials that reach no other."""

    def __init__(self, client: Any, *, bucket: str, tenant_id: str) -> None:
        self._client = client
        self._bucket = bucket
        self._tenant_id = tenant_id
        self._root = archive_root(tenant_id)

    def put(self, snapshot: Snapshot, *, night: str, reason: str, at: int) -> str:
        """Keep *snapshot* under a name made of its content: the same content is written once."""
        if snapshot.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a memory of another tenant reached the archive of {self._tenant_id}")
        key = f"{self._prefix(night, snapshot.tier, snapshot.place)}{snapshot.sha256[:32]}.json.gz"
        content = {"schema_version": SCHEMA_VERSION, "night": night, "reason": reason, "archived_at": at}
        content |= {"sha256": snapshot.sha256, "snapshot": snapshot.model_dump()}
        body = gzip.compress(json.dumps(content, separators=(",", ":")).encode("ascii"), mtime=0)
        with translating("s3:PutObject on the archive bucket"):
            try:
                self._client.put_object(
                    Bucket=self._bucket, Key=key, Body=body, ContentType="application/gzip", IfNoneMatch="*"
                )
            except ClientError as error:
                if error_code(error) not in THERE_ALREADY:
                    raise
        return key

    def get(self, key: str) -> Archived:
        """One archived memory, held against its hash and its name."""
        if not key.startswith(self._root) or "/../" in key:
            raise CrossTenantError(f"a key of another tenant reached the archive of {self._tenant_id}")
        with translating("s3:GetObject on the archive bucket"):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
                body = answer["Body"].read(MAX_BYTES + 1)
            except ClientError as error:
                if is_missing(self._client, error, bucket=self._bucket, key=key):
                    raise ArchiveError("an archived memory is missing") from None
                raise
        archived = _read(key, body)
        snapshot = archived.snapshot
        expected = f"{self._prefix(archived.night, snapshot.tier, snapshot.place)}{snapshot.sha256[:32]}.json.gz"
        if snapshot.tenant_id != self._tenant_id or expected != key:
            raise CrossTenantError(f"an archived memory of {self._tenant_id} does not belong where it lies")
        return archived

    def of_night(self, night: str) -> Iterator[str]:
        """The keys of all that left in *night*, every page."""
        return self._keys(archive_prefix(self._tenant_id, _name(night)))

    def of_memory(self, tier: Tier, place: tuple[str, str]) -> Iterator[str]:
        """The keys of every archived state of one memory, latest night first."""
        for night in self.nights():
            yield from self._keys(self._prefix(night, tier, place))

    def holds(self, tier: Tier, place: tuple[str, str], *, night: str) -> bool:
        """Whether a copy of one memory was made in *night*."""
        return any(True for _ in self._keys(self._prefix(night, tier, place)))

    def nights(self) -> list[str]:
        """The nights in which something left, latest first: their ids are dates."""
        found = {
            folder["Prefix"].removeprefix(self._root).rstrip("/")
            for page in self._pages(Prefix=self._root, Delimiter="/")
            for folder in page.get("CommonPrefixes", ())
        }
        return sorted(found, key=_night_and_attempt, reverse=True)

    def _keys(self, prefix: str) -> Iterator[str]:
        for page in self._pages(Prefix=prefix):
            yield from (found["Key"] for found in page.get("Contents", ()))

    def _pages(self, **request: Any) -> list[dict[str, Any]]:
        with translating("s3:ListBucket on the archive bucket"):
            return list(self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, **request))

    def _prefix(self, night: str, tier: Tier, place: tuple[str, str]) -> str:
        # Ids may hold addresses, and keys end in audit trails.
        named = hashlib.sha256(memory_id(tier, place).encode()).hexdigest()[:32]
        return f"{archive_prefix(self._tenant_id, _name(night))}{tier}/{named}-"


def _night_and_attempt(night: str) -> tuple[str, int]:
    date, _, attempt = night.partition(".")
    return date, int(attempt) if attempt.isdigit() else 1


def _name(night: str) -> str:
    if "/" in night or not night.strip("."):
        raise CrossTenantError("a night that is no name reached the archive")
    return night


def _read(key: str, body: bytes) -> Archived:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
            content: dict[str, Any] = json.loads(stream.read(MAX_BYTES))
        held = {name: content[name] for name in ("night", "reason", "archived_at", "snapshot")}
        archived = Archived.model_validate({**held, "key": key})
    except (OSError, EOFError, zlib.error, ValueError, RecursionError, TypeError, KeyError, ValidationError):
        raise ArchiveError("an archived memory can't be read") from None
    if content["sha256"] != archived.snapshot.sha256:
        raise ArchiveError("an archived memory is not what its hash says")
    return archived
