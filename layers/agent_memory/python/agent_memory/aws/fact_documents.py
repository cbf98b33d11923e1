"""Facts as documents in the knowledge bucket, each with the sidecar that its filter attributes stand in."""

import json
from collections.abc import Mapping
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.contract import KNOWLEDGE_PREFIX
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.keys import SIDECAR, document_key
from agent_memory.domain.knowledge import FactDocument


class S3FactDocuments:
    """The documents of one tenant, on credentials that reach no other."""

    def __init__(self, client: Any, *, bucket: str, tenant_id: str) -> None:
        self._client = client
        self._bucket = bucket
        self._tenant_id = tenant_id

    def put(self, document: FactDocument) -> None:
        """Write the sidecar, then the document: a sync must never see a document without its scope."""
        if document.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a document of another tenant reached the documents of {self._tenant_id}")
        key = self._key(document.domain, document.fact_id)
        sidecar = {"metadataAttributes": dict(document.attributes)}
        self._put(key + SIDECAR, json.dumps(sidecar, ensure_ascii=True).encode("ascii"), "application/json")
        # A lone surrogate has no UTF-8; the service would refuse the whole document.
        self._put(key, document.text.encode("utf-8", "replace"), "text/plain; charset=utf-8")

    def delete(self, domain: str, fact_id: str) -> None:
        """Delete the document, then its sidecar; a delete marker is only set where something is."""
        key = self._key(domain, fact_id)
        with translating("s3:DeleteObject on the knowledge bucket"):
            listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix=key)
            there = {found["Key"] for found in listed.get("Contents", ())}
            for name in (key, key + SIDECAR):
                if name in there:
                    self._client.delete_object(Bucket=self._bucket, Key=name)

    def texts(self, domain: str, fact_id: str) -> dict[str, str]:
        """What is stored of a fact's document and sidecar, by their keys."""
        key = self._key(domain, fact_id)
        with translating("s3:GetObject on the knowledge bucket"):
            listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix=key)
            there = sorted({found["Key"] for found in listed.get("Contents", ())} & {key, key + SIDECAR})
            bodies = {name: self._client.get_object(Bucket=self._bucket, Key=name)["Body"].read() for name in there}
        return {name: body.decode("utf-8", "replace") for name, body in bodies.items()}

    def put_texts(self, domain: str, fact_id: str, texts: Mapping[str, str]) -> None:
        """Write a document and its sidecar back as they were, the sidecar first."""
        key = self._key(domain, fact_id)
        for name, kind in ((key + SIDECAR, "application/json"), (key, "text/plain; charset=utf-8")):
            if name in texts:
                self._put(name, texts[name].encode("utf-8"), kind)

    def _put(self, key: str, body: bytes, content_type: str) -> None:
        with translating("s3:PutObject on the knowledge bucket"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType=content_type)

    def _key(self, domain: str, fact_id: str) -> str:
        if "/" in domain or "/" in fact_id or not domain.strip("."):
            raise CrossTenantError("a domain or fact id that holds a slash reached the knowledge bucket")
        return document_key(KNOWLEDGE_PREFIX, self._tenant_id, domain, fact_id)
