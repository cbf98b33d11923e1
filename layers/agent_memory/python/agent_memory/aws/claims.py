"""The run's objects in S3: uploads to read; claim, artifacts and parked copies, all gzip JSON and written once.

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

from agent_memory.aws.failures import THERE_ALREADY, error_code, translating
from agent_memory.aws.missing import is_missing
from agent_memory.contract import WORK_ROOT
from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    CrossTenantError,
    RefusedInputError,
    RetryableError,
    TranscriptError,
)
from agent_memory.domain.json_text import read_json
from agent_memory.domain.keys import claim_key, parked_prefix, work_prefix
from agent_memory.domain.models import Claim, Distillation, Model

# What the functions survive: a value costs up to 200 bytes of memory, and accept_run holds three copies of it.
MAX_JSON_BYTES = 8 * 1024 * 1024
MAX_JSON_VALUES = 1_000_000
# What we wrote ourselves comes from that, with every character beyond ASCII as an escape three times its size.
MAX_OWN_BYTES = 4 * MAX_JSON_BYTES
GZIP_MAGIC = b"\x1f\x8b"
_POINTER = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/([^\x00-\x1f\x7f\ud800-\udfff]{1,1024})")


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
        return self._put(self._bucket, _key_of(claim), claim.model_dump())

    def get_claim(self, key: str) -> Claim:
        """The claim under *key*. Raises TranscriptError `claim_missing`, `claim_unreadable` or `claim_of_another`."""
        try:
            claim = Claim.model_validate(self._get(self._bucket, self._own(key), missing="claim_missing"))
        except ValidationError:
            raise TranscriptError("claim_unreadable") from None
        if _key_of(claim) != key:
            raise TranscriptError("claim_of_another")
        return claim

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
        try:
            return self._get(self._bucket, self._uploaded(s3_uri), missing="transcript_missing", most=MAX_JSON_BYTES)
        except (RetryableError, TranscriptError, RefusedInputError):
            raise
        except AccessRefusedError:
            # Most often an upload under a key of the agent's own: no later try will mend it.
            raise TranscriptError("transcript_refused") from None
        except AgentMemoryError:
            raise TranscriptError("transcript_unavailable") from None

    def park_transcript(self, s3_uri: str, agent_id: str, run_id: str) -> str | None:
        """Copy an uploaded transcript to the parked run; None when it can't be copied."""
        name = hashlib.sha256(s3_uri.encode()).hexdigest()[:32]
        try:
            return self._park_copy(self._uploaded(s3_uri), agent_id, run_id, f"transcript-{name}")
        except RetryableError:
            raise
        except AgentMemoryError:
            return None

    def park_claim(self, key: str, agent_id: str, run_id: str) -> str:
        """Copy the claim under *key* to the parked run, unread. Raises TranscriptError `claim_missing`."""
        folder, _, file = self._own(key).rpartition("/")
        if f"{folder}/" != work_prefix(self._tenant_id, agent_id, run_id):
            raise TranscriptError("claim_of_another")
        name = file.removesuffix(".json.gz")
        return self._park_copy(key, agent_id, run_id, name, missing="claim_missing")

    def park(self, agent_id: str, run_id: str, content: object) -> str:
        """Keep a run's input in the parked bucket and return its key; the same input has the same key."""
        body = _json(content)
        name = hashlib.sha256(body).hexdigest()[:32]
        return self._put_body(self._parked_bucket, f"{self._parked_folder(agent_id, run_id)}{name}.json.gz", body)

    def get_parked(self, key: str) -> object:
        """The input of a parked run. Raises TranscriptError `parked_content_missing`."""
        return self._get(self._parked_bucket, self._own_parked(key), missing="parked_content_missing")

    def get_parked_transcript(self, key: str) -> object:
        """The copy of an uploaded transcript. Raises TranscriptError as read_transcript does."""
        return self._get(self._parked_bucket, self._own_parked(key), missing="transcript_missing", most=MAX_JSON_BYTES)

    def delete_parked(self, agent_id: str, run_id: str) -> None:
        """Remove all that is kept of a run that is parked no longer."""
        prefix = self._parked_folder(agent_id, run_id)
        with translating("s3:ListBucket and s3:DeleteObject on the parked bucket"):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._parked_bucket, Prefix=prefix)
            for found in (found for page in pages for found in page.get("Contents", ())):
                self._client.delete_object(Bucket=self._parked_bucket, Key=found["Key"])

    def hold(self, key: str, content: Model) -> str:
        """Keep a text that is held in quarantine, once, and return its key."""
        return self._put(self._parked_bucket, self._own_parked(key), content.model_dump())

    def held(self, key: str) -> object:
        """A held text. Raises TranscriptError `quarantined_text_missing`."""
        return self._get(self._parked_bucket, self._own_parked(key), missing="quarantined_text_missing")

    def drop_held(self, key: str) -> None:
        """Remove a held text; what is not there is removed."""
        with translating("s3:DeleteObject on the parked bucket"):
            self._client.delete_object(Bucket=self._parked_bucket, Key=self._own_parked(key))

    def _uploaded(self, s3_uri: str) -> str:
        found = _POINTER.fullmatch(s3_uri)
        bucket, key = (found[1], found[2]) if found else ("", "")
        inside = bucket == self._bucket and key.startswith(f"{self._tenant_id}/")
        if not inside or not all(segment.strip(".") for segment in key.split("/")):
            raise RefusedInputError("transcript.s3_uri", "must be inside the tenant's prefix of the transcripts bucket")
        return key

    def _park_copy(self, key: str, agent_id: str, run_id: str, name: str, *, missing: str = "missing") -> str:
        to = f"{self._parked_folder(agent_id, run_id)}{name}.json.gz"
        with translating("s3:CopyObject to the parked bucket"):
            try:
                self._client.copy_object(
                    Bucket=self._parked_bucket, Key=to, CopySource={"Bucket": self._bucket, "Key": key}
                )
            except ClientError as error:
                if is_missing(self._client, error, bucket=self._bucket, key=key):
                    raise TranscriptError(missing) from None
                raise
        return to

    def _own(self, key: str) -> str:
        if not key.startswith(f"{WORK_ROOT}/{self._tenant_id}/") or "/../" in key:
            raise CrossTenantError(f"a key of another tenant reached the claims of {self._tenant_id}")
        return key

    def _own_parked(self, key: str) -> str:
        if not key.startswith(f"parked/{self._tenant_id}/") or "/../" in key:
            raise CrossTenantError(f"a key of another tenant reached the parked runs of {self._tenant_id}")
        return key

    def _parked_folder(self, agent_id: str, run_id: str) -> str:
        if any("/" in one or not one.strip(".") for one in (agent_id, run_id)):
            raise CrossTenantError(f"an id that is a path reached the parked runs of {self._tenant_id}")
        return parked_prefix(self._tenant_id, agent_id, run_id)

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
                if error_code(error) not in THERE_ALREADY:
                    raise
        return key

    def _get(self, bucket: str, key: str, *, missing: str, most: int | None = None) -> object:
        with translating("s3:GetObject"):
            try:
                answer = self._client.get_object(Bucket=bucket, Key=key)
                if answer["ContentLength"] > (most or MAX_OWN_BYTES):
                    raise TranscriptError("too_large")
                body = answer["Body"].read()
            except ClientError as error:
                if is_missing(self._client, error, bucket=bucket, key=key):
                    raise TranscriptError(missing) from None
                raise
        return _decoded(body, most or MAX_OWN_BYTES)


def _json(content: object) -> bytes:
    # ASCII: lone surrogates in outside text survive as escapes and break no encoder.
    return json.dumps(content, separators=(",", ":")).encode("ascii")


def _key_of(claim: Claim) -> str:
    return claim_key(claim.tenant_id, claim.agent_id, claim.run_id, claim.content_sha256)


def _decoded(body: bytes, most: int) -> object:
    try:
        if body.startswith(GZIP_MAGIC):
            with gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
                body = stream.read(most + 1)
    except (OSError, EOFError, zlib.error):
        raise TranscriptError("not_gzip") from None
    # A megabyte of gzip can hold a gigabyte of zeros, and a megabyte of brackets becomes sixty in memory.
    if len(body) > most or sum(map(body.count, (b",", b"[", b"{"))) > MAX_JSON_VALUES * (most // MAX_JSON_BYTES):
        raise TranscriptError("too_large")
    try:
        return read_json(body)
    except (ValueError, RecursionError):
        raise TranscriptError("not_json") from None
