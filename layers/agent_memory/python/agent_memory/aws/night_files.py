"""The lifecycle's own objects in the archive bucket, under `lifecycle/`: ids, scores and words, no content."""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import translating
from agent_memory.aws.missing import is_missing
from agent_memory.domain.errors import CrossTenantError, UnreadableItemError
from agent_memory.domain.lifecycle import latest_first
from agent_memory.domain.models import Model

M = TypeVar("M", bound=Model)
ROOT = "lifecycle/"
SIDE_BY_SIDE = 16


class S3NightFiles:
    """Slices, plans and results, on the function's own role: nothing here is what a tenant said."""

    def __init__(self, client: Any, *, bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def put(self, key: str, content: Model) -> None:
        """Write *content* as JSON, over what was there."""
        body = content.model_dump_json().encode()
        with translating("s3:PutObject on the archive bucket"):
            self._client.put_object(Bucket=self.bucket, Key=_own(key), Body=body, ContentType="application/json")

    def put_many(self, contents: Iterable[tuple[str, Model]]) -> None:
        """Write several, side by side."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(pool.map(lambda one: self.put(*one), contents))

    def get(self, key: str, model: type[M]) -> M | None:
        """The object of *key*; None when it is not there."""
        with translating("s3:GetObject on the archive bucket"):
            try:
                body = self._client.get_object(Bucket=self.bucket, Key=_own(key))["Body"].read()
            except ClientError as error:
                if is_missing(self._client, error, bucket=self.bucket, key=key):
                    return None
                raise
        try:
            return model.model_validate(json.loads(body))
        except (ValueError, RecursionError, ValidationError):
            raise UnreadableItemError(f"{key} in the archive bucket is not what this release writes") from None

    def get_many(self, keys: Iterable[str], model: type[M]) -> Sequence[M]:
        """The objects of *keys* that are there, in this order, read side by side."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            found = list(pool.map(lambda key: self.get(key, model), keys))
        return [one for one in found if one is not None]

    def keys(self, prefix: str, *, after: str = "") -> Sequence[str]:
        """Every key under *prefix* in order, those up to *after* left out; every page."""
        start = {"StartAfter": after} if after else {}
        with translating("s3:ListBucket on the archive bucket"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=_own(prefix), **start
            )
            return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def put_text(self, key: str, text: str) -> None:
        """Write *text* for people, over what was there."""
        with translating("s3:PutObject on the archive bucket"):
            self._client.put_object(
                Bucket=self.bucket, Key=_own(key), Body=text.encode(), ContentType="text/plain; charset=utf-8"
            )

    def runs(self) -> Sequence[str]:
        """The ids of all runs that left something here, latest first."""
        with translating("s3:ListBucket on the archive bucket"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=ROOT, Delimiter="/"
            )
            found = [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", ())]
        return latest_first(prefix.removeprefix(ROOT).rstrip("/") for prefix in found)


def _own(key: str) -> str:
    if not key.startswith(ROOT) or "/../" in key:
        raise CrossTenantError("a key outside lifecycle/ reached the lifecycle's own objects")
    return key
