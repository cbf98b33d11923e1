"""S3 answers 403 for a key that is not there to whoever may list below a prefix only, and so do all roles of ours."""

from collections.abc import Callable
from typing import Any

import pytest
from agent_memory.aws.access_ledger import S3AccessLedger
from agent_memory.aws.archive import S3Archive
from agent_memory.aws.night_files import S3NightFiles
from agent_memory.aws.record_book import S3RecordBook
from agent_memory.domain.accesses import AccessLedger
from agent_memory.domain.agentcore_index import Note, RecordIndex
from agent_memory.domain.archive import ArchiveError
from agent_memory.domain.errors import AccessRefusedError
from agent_memory.domain.lifecycle import SliceResult
from botocore.exceptions import ClientError
from support.aws import an_aws_account


class ListsBelowPrefixes:
    """moto's S3, answering as S3 does to a role whose ListBucket is held to *prefixes*. *lost*: GetObject is denied."""

    def __init__(self, client: Any, *prefixes: str, lost: bool = False) -> None:
        self._client, self._prefixes, self._lost = client, prefixes, lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_object(self, **asked: Any) -> Any:
        if self._lost:
            raise denied("GetObject")
        try:
            return self._client.get_object(**asked)
        except ClientError:
            raise denied("GetObject") from None

    def list_objects_v2(self, **asked: Any) -> Any:
        if not asked.get("Prefix", "").startswith(self._prefixes):
            raise denied("ListObjectsV2")
        return self._client.list_objects_v2(**asked)


def denied(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}, operation)


MISSING: dict[str, tuple[str, Callable[[Any, str], object], object]] = {
    "night file": (
        "lifecycle/",
        lambda s3, bucket: S3NightFiles(s3, bucket=bucket).get("lifecycle/n-1/done/x.json", SliceResult),
        None,
    ),
    "index": ("agentcore/", lambda s3, bucket: S3RecordBook(s3, bucket=bucket, name="pier").index(), RecordIndex()),
    "ledger": ("agentcore/", lambda s3, bucket: S3AccessLedger(s3, bucket=bucket).ledger(), AccessLedger()),
}


@pytest.mark.parametrize("kind", MISSING)
def test_what_is_not_there_yet_is_told_from_what_may_not_be_read(kind: str) -> None:
    prefix, read, nothing = MISSING[kind]
    with an_aws_account() as aws:
        s3, bucket = aws.client("s3"), aws.settings.archive_bucket
        assert read(ListsBelowPrefixes(s3, prefix), bucket) == nothing
        with pytest.raises(AccessRefusedError):
            read(ListsBelowPrefixes(s3, "elsewhere/"), bucket)


def test_an_object_that_is_there_and_may_not_be_read_is_no_missing_one() -> None:
    with an_aws_account() as aws:
        s3, bucket = aws.client("s3"), aws.settings.archive_bucket
        s3.put_object(Bucket=bucket, Key="lifecycle/n-1/done/x.json", Body=b"{}")
        files = S3NightFiles(ListsBelowPrefixes(s3, "lifecycle/", lost=True), bucket=bucket)
        with pytest.raises(AccessRefusedError):
            files.get("lifecycle/n-1/done/x.json", SliceResult)


def test_a_note_that_was_written_anew_or_is_gone_is_forgotten_without_a_fault() -> None:
    with an_aws_account() as aws:
        book = S3RecordBook(
            ListsBelowPrefixes(aws.client("s3"), "agentcore/"), bucket=aws.settings.archive_bucket, name="pier"
        )
        book.forget([Note(kind="kept", name="mem-1", place="a-1")])
        assert book.notes() == []


def test_an_archived_memory_that_is_gone_is_said_to_be() -> None:
    with an_aws_account() as aws:
        s3 = ListsBelowPrefixes(aws.client("s3"), "archive/pier/")
        archive = S3Archive(s3, bucket=aws.settings.archive_bucket, tenant_id="pier")
        with pytest.raises(ArchiveError, match="missing"):
            archive.get("archive/pier/n-1/episodic/x.json.gz")
