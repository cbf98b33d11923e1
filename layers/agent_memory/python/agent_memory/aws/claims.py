"""The run's objects in S3: claim, artifacts, parked copies. All gzip JSON, written once, under the tenant's prefix.

Encryption is the buckets' own default; naming one here would override a deployment's KMS key.
"""

import gzip
import hashlib
import io
import json
import re
import zlib
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import REFUSED, error_code, translating
from agent_memory.domain.errors import CrossTenantError, RefusedInputError, TranscriptError
from agent_memory.domain.keys import parked_prefix, run_prefix
from agent_memory.domain.models import Claim, Distillation

MAX_STORED_BYTES = 24 * 1024 * 1024
# A megabyte of gzip can hold a gigabyte of zeros.
MAX_JSON_BYTES = 64 * 1024 * 1024
GZIP_MAGIC = b"\x1f\x8b"
_POINTER = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/([^\x00-\x1f\x7f\ud800-\udfff]{1,1024})")
_GONE = frozenset({"NoSuchKey", "NoSuchBucket", "404"})
_THERE_ALREADY = frozenset({"PreconditionFailed", "412"})


class S3Claims:
    """The objects of one tenant, on credentials that reach no other."""

    def __init__(self, client: Any, *, bucket: str, parked_bucket: str, tenant_id: str) -> None:
        self._client = client
        self._bucket = bucket
        self._parked_bucket = parked_bucket
        self._tenant_id = tenant_id

    def put_claim(self, claim: Claim) -> str:
        """Write the claim once and return its key."""
        if claim.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a claim of another tenant reached the claims of {self._tenant_id}")
        prefix = run_prefix(self._tenant_id, claim.agent_id, claim.run_id)
        return self._put(self._bucket, f"{prefix}claim-{claim.content_sha256[:32]}.json.gz", claim.model_dump())

    def get_claim(self, key: str) -> Claim:
        """The claim under *key*. Raises TranscriptError `claim_missing` or `claim_unreadable`."""
        try:
            return Claim.model_validate(self._get(self._bucket, self._own(key), missing="claim_missing"))
        except ValidationError:
            raise TranscriptError("claim_unreadable") from None

    def put_distillation(self, claim_key: str, attempt: int, distillation: Distillation) -> str:
        """Write a distillation once per attempt, beside its claim; the scrubbed one under a name of its own."""
        prefix, _, _ = self._own(claim_key).rpartition("/")
        kind = "scrubbed" if distillation.scrubbed else "artifacts"
        return self._put(self._bucket, f"{prefix}/{kind}-{attempt}.json.gz", distillation.model_dump())

    def get_distillation(self, key: str) -> Distillation:
        """The distillation under *key*. Raises TranscriptError `artifacts_missing` or `artifacts_unreadable`."""
        try:
            return Distillation.model_validate(self._get(self._bucket, self._own(key), missing="artifacts_missing"))
        except ValidationError:
            raise TranscriptError("artifacts_unreadable") from None

    def read_transcript(self, s3_uri: str) -> object:
        """The JSON of an uploaded transcript, gzip or plain. The address is judged before anything is read."""
        found = _POINTER.fullmatch(s3_uri)
        bucket, key = (found[1], found[2]) if found else ("", "")
        inside = bucket == self._bucket and key.startswith(f"{self._tenant_id}/")
        if not inside or not all(segment.strip(".") for segment in key.split("/")):
            raise RefusedInputError("transcript.s3_uri", "must be inside the tenant's prefix of the transcripts bucket")
        return self._get(bucket, key, missing="transcript_missing")

    def park(self, agent_id: str, run_id: str, content: object) -> str:
        """Keep a run's input in the parked bucket and return its key; the same input has the same key."""
        body = _json(content)
        name = hashlib.sha256(body).hexdigest()[:32]
        return self._put_body(
            self._parked_bucket, f"{parked_prefix(self._tenant_id, agent_id, run_id)}{name}.json.gz", body
        )

    def get_parked(self, key: str) -> object:
        """The input of a parked run. Raises TranscriptError `parked_content_missing`."""
        return self._get(self._parked_bucket, self._own_parked(key), missing="parked_content_missing")

    def delete_parked(self, key: str) -> None:
        """Remove the input of a run that is parked no longer."""
        with translating("s3:DeleteObject on the parked bucket"):
            self._client.delete_object(Bucket=self._parked_bucket, Key=self._own_parked(key))

    def _own(self, key: str) -> str:
        if not key.startswith(f"{self._tenant_id}/") or "/../" in key:
            raise CrossTenantError(f"a key of another tenant reached the claims of {self._tenant_id}")
        return key

    def _own_parked(self, key: str) -> str:
        if not key.startswith(f"parked/{self._tenant_id}/") or "/../" in key:
            raise CrossTenantError(f"a key of another tenant reached the parked runs of {self._tenant_id}")
        return key

    def _put(self, bucket: str, key: str, content: object) -> str:
        return self._put_body(bucket, key, _json(content))

    def _put_body(self, bucket: str, key: str, body: bytes) -> str:
        with translating("s3:PutObject"):
            try:
                self._client.put_object(
                    Bucket=bucket,
                    Key=key,
                    Body=gzip.compress(body, compresslevel=6, mtime=0),
                    ContentType="application/gzip",
                    IfNoneMatch="*",
                )
            except ClientError as error:
                if error_code(error) not in _THERE_ALREADY:
                    raise
        return key

    def _get(self, bucket: str, key: str, *, missing: str) -> object:
        with translating("s3:GetObject"):
            try:
                answer = self._client.get_object(Bucket=bucket, Key=key)
                if answer["ContentLength"] > MAX_STORED_BYTES:
                    raise TranscriptError("too_large")
                body = answer["Body"].read()
            except ClientError as error:
                if error_code(error) in _GONE or self._denied_because_missing(error, bucket, key):
                    raise TranscriptError(missing) from None
                raise
        return _decoded(body)

    def _denied_because_missing(self, error: ClientError, bucket: str, key: str) -> bool:
        """S3 answers 403 for a missing key to whoever may list under a prefix only; a listing tells them apart."""
        if error_code(error) not in REFUSED:
            return False
        listed = self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        return all(found["Key"] != key for found in listed.get("Contents", ()))


def _json(content: object) -> bytes:
    # ASCII: lone surrogates in outside text survive as escapes and break no encoder.
    return json.dumps(content, separators=(",", ":")).encode("ascii")


def _decoded(body: bytes) -> object:
    try:
        if body.startswith(GZIP_MAGIC):
            with gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
                body = stream.read(MAX_JSON_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise TranscriptError("not_gzip") from None
    if len(body) > MAX_JSON_BYTES:
        raise TranscriptError("too_large")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise TranscriptError("not_json") from None
