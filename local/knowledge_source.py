"""The data source of the Knowledge Base: documents and their sidecars, read from the emulator's S3."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from local.aws_wire import TITAN_MAX_CHARACTERS, sound_text
from local.knowledge_filters import number

SIDECAR: Final = ".metadata.json"
SIDECAR_MAX_BYTES: Final = 10 * 1024
DOCUMENT_MAX_BYTES: Final = 50 * 1024 * 1024
FILTERABLE_MAX_BYTES: Final = 2048
MOST_KEYS: Final = 50
KEY_CHARACTERS: Final = 200
RESERVED: Final = "x-amz-bedrock-kb-"
FORMATS: Final = (".txt", ".md")
EXTENDED: Final = {
    "STRING": "stringValue",
    "NUMBER": "numberValue",
    "BOOLEAN": "booleanValue",
    "STRING_LIST": "stringListValue",
}
Attribute = str | float | bool | list[str]


class DocumentError(Exception):
    """Why a document can not be indexed; names no content."""


class DocumentGoneError(Exception):
    """The object was deleted after it was listed."""


@dataclass(frozen=True)
class Document:
    """A document and what its sidecar says about it."""

    uri: str
    text: str
    etag: str
    sidecar_etag: str
    attributes: Mapping[str, Attribute]


@dataclass
class Listing:
    """What the prefix held: etag and size of each document, etag of each sidecar by its document."""

    documents: dict[str, tuple[str, int]] = field(default_factory=dict)
    sidecars: dict[str, str] = field(default_factory=dict)


class S3Source:
    """One bucket and prefix."""

    def __init__(self, *, endpoint: str, region: str, bucket: str, prefix: str) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self._s3 = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=region,
            aws_access_key_id="local",
            aws_secret_access_key="local",  # noqa: S106 - the emulator asks for some credentials and believes any
            config=Config(
                retries={"mode": "standard"}, connect_timeout=5, read_timeout=60, s3={"addressing_style": "path"}
            ),
        )

    def uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def key_of(self, uri: str) -> str | None:
        """The key of a document of this data source, None for any other address."""
        start = f"s3://{self.bucket}/"
        key = uri.removeprefix(start)
        outside = not uri.startswith(start) or not key.startswith(self.prefix) or key.endswith(SIDECAR)
        return None if outside else key

    def listing(self) -> Listing:
        found = Listing()
        for entry in self._objects():
            key, etag = entry["Key"], entry["ETag"]
            if key.endswith(SIDECAR):
                found.sidecars[self.uri(key.removesuffix(SIDECAR))] = etag
            elif not key.endswith("/"):
                found.documents[self.uri(key)] = (etag, entry["Size"])
        return found

    def _objects(self) -> Iterator[Any]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix)
        for page in pages:
            yield from page.get("Contents", [])

    def read(self, uri: str, *, sidecar: bool = True) -> Document:
        """Raises DocumentGoneError, or DocumentError with the reason that the document's status will tell."""
        key = uri.removeprefix(f"s3://{self.bucket}/")
        found = self._get(key, at_most=DOCUMENT_MAX_BYTES)
        if found is None:
            raise DocumentGoneError(uri)
        beside = self._get(key + SIDECAR, at_most=SIDECAR_MAX_BYTES) if sidecar else None
        attributes = attributes_of(beside[0]) if beside else {}
        if filterable_bytes(uri, attributes) > FILTERABLE_MAX_BYTES:
            raise DocumentError(
                f"Filterable metadata must have at most {FILTERABLE_MAX_BYTES} bytes "
                "(Service: S3Vectors, Status Code: 400)"
            )
        return Document(
            uri=uri,
            text=document_text(found[0]),
            etag=found[1],
            sidecar_etag=beside[1] if beside else "",
            attributes=attributes,
        )

    def _get(self, key: str, *, at_most: int) -> tuple[bytes, str] | None:
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise
        with answer["Body"] as body:
            if answer["ContentLength"] > at_most:
                kind = "metadata file" if key.endswith(SIDECAR) else "document"
                raise DocumentError(f"The {kind} is larger than {at_most} bytes.")
            return body.read(), answer["ETag"]


def document_text(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError("The document is not UTF-8 text.") from None
    if not text.strip():
        raise DocumentError("The document is empty.")
    # Without chunking a document is one vector, so it has to fit the embedding model.
    if len(text) > TITAN_MAX_CHARACTERS:
        raise DocumentError(f"The document has more than the {TITAN_MAX_CHARACTERS} characters of the embedding model.")
    return text


def attributes_of(sidecar: bytes) -> dict[str, Attribute]:
    """The attributes of a sidecar in the simple or the extended form."""
    try:
        body = json.loads(sidecar.decode("utf-8-sig"))
        stated = body["metadataAttributes"]
        return {_key(key): _value(stated[key]) for key in stated}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DocumentError("The metadata file is malformed.") from None


def _key(key: str) -> str:
    if not 1 <= len(key) <= KEY_CHARACTERS or key.startswith(RESERVED) or not sound_text(key):
        raise ValueError("not a key")
    return key


def _value(stated: Any) -> Attribute:
    if isinstance(stated, dict):
        value = stated["value"]
        kind = value["type"]
        stated = value[EXTENDED[kind]]
        if _kind(stated) != kind:
            raise ValueError("another type than stated")
    if _kind(stated) == "NUMBER":
        return number(stated)
    texts = stated if isinstance(stated, list) else [stated]
    if not all(sound_text(text) for text in texts if isinstance(text, str)):
        raise ValueError("half a surrogate pair")
    kept: Attribute = stated
    return kept


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int | float):
        return "NUMBER"
    if isinstance(value, str):
        return "STRING"
    if isinstance(value, list) and value and all(isinstance(member, str) for member in value):
        return "STRING_LIST"
    raise ValueError("not a type of attribute")


def filterable_bytes(uri: str, attributes: Mapping[str, Attribute]) -> int:
    """Size of the attributes as the vector index counts them, with the one that the service adds for the address."""
    if len(attributes) > MOST_KEYS:
        raise DocumentError(f"Metadata must have at most {MOST_KEYS} keys (Service: S3Vectors, Status Code: 400)")
    stated = {f"{RESERVED}source-uri": uri, **attributes}
    return len(json.dumps(stated, ensure_ascii=False, separators=(",", ":")).encode())
