"""Erasures in the bucket of receipts: the request and what came of each step, then the receipt; one tenant each."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import translating
from agent_memory.aws.missing import is_missing
from agent_memory.aws.object_versions import ObjectVersions
from agent_memory.contract import ERASURE_WORK_PREFIX, RECEIPTS_PREFIX
from agent_memory.domain.erasure import Erasure, Swept, Traces
from agent_memory.domain.errors import UnreadableItemError
from agent_memory.domain.keys import identifier
from agent_memory.domain.models import Model

M = TypeVar("M", bound=Model)


class S3Erasures:
    """The erasures of one tenant, on credentials that reach no other."""

    def __init__(self, client: Any, *, bucket: str, tenant_id: str) -> None:
        self._client = client
        self._bucket = bucket
        self._objects = ObjectVersions(client, bucket=bucket)
        self._work = f"{ERASURE_WORK_PREFIX}{tenant_id}/"
        self._receipts = f"{RECEIPTS_PREFIX}{tenant_id}/"

    def keep_request(self, erasure: Erasure) -> None:
        self._put(self._name(erasure.erasure_id, "request"), erasure.model_dump(mode="json"))

    def request(self, erasure_id: str) -> Erasure | None:
        """What was asked; None when it is not known."""
        return self._get(self._name(erasure_id, "request"), Erasure)

    def traces(self, erasure_id: str) -> Traces:
        return self._get(self._name(erasure_id, "traces"), Traces) or Traces()

    def keep_traces(self, erasure_id: str, traces: Traces) -> None:
        held = {name: sorted(value) for name, value in traces.model_dump(exclude={"job_id"}).items()}
        self._put(self._name(erasure_id, "traces"), {**held, "job_id": traces.job_id})

    def keep_swept(self, erasure_id: str, sweep: int, swept: Swept) -> None:
        """Keep what a sweep did in a store, over what an earlier try of it did."""
        self._put(self._name(erasure_id, f"sweep-{sweep:012d}/{swept.store}"), swept.model_dump(mode="json"))

    def sweeps(self, erasure_id: str) -> list[Swept]:
        """What every sweep did in every store, oldest first."""
        keys = sorted(self._keys(f"{self._work}{identifier(erasure_id, 'erasure_id')}/sweep-"))
        found = (self._get(key, Swept) for key in keys)
        return [one for one in found if one is not None]

    def forget_work(self, erasure_id: str) -> None:
        """Remove what was only for the work, with all versions."""
        prefix = f"{self._work}{identifier(erasure_id, 'erasure_id')}/"
        self._objects.delete(list(self._objects.all(prefix)))

    def keep_receipt(self, erasure_id: str, receipt: Mapping[str, Any]) -> str:
        """Keep the receipt and return its key; that of a retry replaces the one before."""
        key = f"{self._receipts}{identifier(erasure_id, 'erasure_id')}.json"
        self._put(key, receipt)
        return key

    def receipt(self, erasure_id: str) -> dict[str, Any] | None:
        """The receipt as it was signed; None when there is none yet."""
        found = self._read(f"{self._receipts}{identifier(erasure_id, 'erasure_id')}.json")
        return found if isinstance(found, dict) else None

    def receipts(self) -> list[str]:
        """The ids of the erasures that ended."""
        return sorted(key.removeprefix(self._receipts).removesuffix(".json") for key in self._keys(self._receipts))

    def under_way(self) -> list[str]:
        """The ids of the erasures that did not end well yet."""
        return sorted({key.removeprefix(self._work).split("/")[0] for key in self._keys(self._work)})

    def _name(self, erasure_id: str, name: str) -> str:
        return f"{self._work}{identifier(erasure_id, 'erasure_id')}/{name}.json"

    def _keys(self, prefix: str) -> list[str]:
        with translating("s3:ListBucket on the bucket of receipts"):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def _put(self, key: str, content: Mapping[str, Any]) -> None:
        body = json.dumps(content, separators=(",", ":"), ensure_ascii=True).encode("ascii")
        with translating("s3:PutObject on the bucket of receipts"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType="application/json")

    def _read(self, key: str) -> object:
        with translating("s3:GetObject on the bucket of receipts"):
            try:
                body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
            except ClientError as error:
                if is_missing(self._client, error, bucket=self._bucket, key=key):
                    return None
                raise
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise UnreadableItemError(f"{key} in the bucket of receipts is not what this release writes") from None

    def _get(self, key: str, model: type[M]) -> M | None:
        held = self._read(key)
        try:
            return None if held is None else model.model_validate(held)
        except ValidationError:
            raise UnreadableItemError(f"{key} in the bucket of receipts is not what this release writes") from None
