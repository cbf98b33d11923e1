"""Objects of a versioned bucket with all their versions and delete markers."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating

AT_ONCE = 1000
_GONE = frozenset({"NoSuchKey", "NoSuchVersion", "NoSuchBucket", "404", "MethodNotAllowed"})


class Version(NamedTuple):
    """One version of an object. *marker*: it only says that the object was deleted. *latest*: what a reader gets."""

    key: str
    version_id: str
    marker: bool = False
    latest: bool = False


class ObjectVersions:
    """One bucket, on the credentials of one tenant."""

    def __init__(self, client: Any, *, bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def all(self, prefix: str) -> Iterator[Version]:
        """Every version and every delete marker under *prefix*, every page."""
        with translating(f"s3:ListBucketVersions on {self.bucket}"):
            pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix=prefix)
            for page in pages:
                for found in page.get("Versions", ()):
                    yield Version(found["Key"], found["VersionId"], latest=bool(found.get("IsLatest")))
                for found in page.get("DeleteMarkers", ()):
                    yield Version(found["Key"], found["VersionId"], marker=True)

    def body(self, version: Version) -> bytes | None:
        """What a version holds; None when it is gone or a marker."""
        if version.marker:
            return None
        with translating(f"s3:GetObjectVersion on {self.bucket}"):
            try:
                answer = self._client.get_object(Bucket=self.bucket, Key=version.key, VersionId=version.version_id)
                body: bytes = answer["Body"].read()
            except ClientError as error:
                if error_code(error) in _GONE:
                    return None
                raise
        return body

    def put(self, key: str, body: bytes, content_type: str) -> None:
        """Write the newest version."""
        with translating(f"s3:PutObject on {self.bucket}"):
            self._client.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)

    def delete(self, versions: Sequence[Version]) -> list[Version]:
        """Delete versions for good. Returns those that S3 could not delete."""
        failed: list[Version] = []
        for start in range(0, len(versions), AT_ONCE):
            part = versions[start : start + AT_ONCE]
            asked = [{"Key": one.key, "VersionId": one.version_id} for one in part]
            with translating(f"s3:DeleteObjectVersion on {self.bucket}"):
                answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": asked, "Quiet": True})
            bad = {(one.get("Key"), one.get("VersionId")) for one in answer.get("Errors", ())}
            failed += [one for one in part if (one.key, one.version_id) in bad]
        return failed
