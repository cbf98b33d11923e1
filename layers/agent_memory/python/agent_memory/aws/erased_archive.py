"""What an erasure removes from the archive of AgentCore records: every version, delete markers too."""

import json
from collections.abc import Callable
from typing import Any

from agent_memory.aws.archive import S3Archive
from agent_memory.aws.failures import translating
from agent_memory.domain.archive import ArchiveError
from agent_memory.domain.keys import archive_root

BATCH = 1000


class S3ErasableArchive:
    """The archive of one entry of agentcoreMemories."""

    def __init__(self, client: Any, *, bucket: str, tenant_id: str) -> None:
        self._client = client
        self._bucket = bucket
        self._root = archive_root(tenant_id)
        self._archive = S3Archive(client, bucket=bucket, tenant_id=tenant_id)

    def remove(self, places: Callable[[str, str], bool]) -> int:
        """Remove every archived record for whose place and namespace this holds. What can't be read is removed as
        well: nobody could bring it back, and nobody can say whose it is."""
        chosen = {key for key in {key for key, _ in self._versions()} if self._is(key, places)}
        gone = [{"Key": key, "VersionId": version} for key, version in self._versions() if key in chosen]
        for start in range(0, len(gone), BATCH):
            with translating("s3:DeleteObjects on the AgentCore bucket"):
                answer = self._client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": gone[start : start + BATCH], "Quiet": True}
                )
            if answer.get("Errors"):
                raise ArchiveError(f"{len(answer['Errors'])} archived records could not be removed")
        return len(chosen)

    def _versions(self) -> list[tuple[str, str]]:
        with translating("s3:ListBucketVersions on the AgentCore bucket"):
            pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=self._root)
            return [
                (one["Key"], one["VersionId"])
                for page in pages
                for kind in ("Versions", "DeleteMarkers")
                for one in page.get(kind, ())
            ]

    def _is(self, key: str, places: Callable[[str, str], bool]) -> bool:
        try:
            snapshot = self._archive.get(key).snapshot
            namespace = json.loads(snapshot.items[0]).get("namespace", "")
        except (ArchiveError, ValueError, IndexError, AttributeError):
            return True
        return places(snapshot.place[0], str(namespace))
