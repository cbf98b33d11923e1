"""Requests to Bedrock Agent and Bedrock Agent Runtime taken apart, refused as the services would refuse them."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from local.aws_wire import AwsError, sound_text
from local.knowledge_filters import Where, chroma_where

CLIENT_TOKEN: Final = re.compile(r"(?=.{33,256}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*")
KNOWLEDGE_BASE_ARN: Final = re.compile(r"arn:aws[^:]*:bedrock:[a-z0-9-]+:\d{12}:knowledge-base/([0-9a-zA-Z]{10})")
QUERY_CHARACTERS: Final = 20_000
MOST_RESULTS: Final = 100
DEFAULT_RESULTS: Final = 5
DOCUMENTS_PER_CALL: Final = 10
PAGE: Final = 1000
STATUSES: Final = ("STARTING", "IN_PROGRESS", "COMPLETE", "FAILED", "STOPPING", "STOPPED")
URI_CHARACTERS: Final = 2048
DESCRIPTION_CHARACTERS: Final = 200
Item = TypeVar("Item")
KeyOf = Callable[[str], str | None]


def refused(rule: str) -> AwsError:
    return AwsError("ValidationException", rule)


def only(request: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = sorted(set(request) - set(known))
    if unknown:
        raise refused(f"not served here: {', '.join(unknown)[:200]}")


def client_token(request: Mapping[str, Any]) -> str:
    token = request.get("clientToken", "")
    if token and not (isinstance(token, str) and CLIENT_TOKEN.fullmatch(token)):
        raise refused("clientToken has 33 to 256 letters, digits and hyphens")
    return str(token)


def description(request: Mapping[str, Any]) -> str:
    told = request.get("description", "")
    if not isinstance(told, str) or len(told) > DESCRIPTION_CHARACTERS or not sound_text(told):
        raise refused(f"description has 1 to {DESCRIPTION_CHARACTERS} characters")
    return told


def page_of(request: Mapping[str, Any], items: Sequence[Item]) -> tuple[Sequence[Item], dict[str, str]]:
    """One page, and the nextToken that belongs into the answer."""
    size = _within("maxResults", request.get("maxResults", PAGE), PAGE)
    start = _start(request)
    end = start + size
    return items[start:end], ({"nextToken": _token(end)} if end < len(items) else {})


def chosen_jobs(request: Mapping[str, Any], jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The jobs, which come oldest first, that the request asks for, in its order."""
    wanted = _statuses(request.get("filters") or [])
    sort = request.get("sortBy") or {"attribute": "STARTED_AT", "order": "DESCENDING"}
    fields = {"STARTED_AT": "startedAt", "STATUS": "status"}
    orders = ("ASCENDING", "DESCENDING")
    if not isinstance(sort, dict) or sort.get("attribute") not in fields or sort.get("order") not in orders:
        raise refused("sortBy takes STARTED_AT or STATUS, ASCENDING or DESCENDING")
    chosen = [job for job in jobs if job["status"] in wanted]
    return sorted(chosen, key=lambda job: str(job[fields[sort["attribute"]]]), reverse=sort["order"] == "DESCENDING")


def _statuses(filters: Any) -> tuple[str, ...]:
    if not filters:
        return STATUSES
    match filters:
        case [{"attribute": "STATUS", "operator": "EQ", "values": [*values]}] if set(values) <= set(STATUSES):
            return tuple(values)
    raise refused("filters takes one filter: attribute STATUS, operator EQ, values of it")


def identified(request: Mapping[str, Any], key_of: KeyOf) -> list[str]:
    """The addresses of documentIdentifiers."""
    return [_s3_uri(entry, key_of) for entry in _up_to_ten(request, "documentIdentifiers")]


def handed_in(request: Mapping[str, Any], key_of: KeyOf) -> list[tuple[str, bool]]:
    """The addresses of documents, each with whether its sidecar is named."""
    documents = []
    for entry in _up_to_ten(request, "documents"):
        match entry:
            case {"content": {"dataSourceType": "S3", "s3": {"s3Location": location}}}:
                uri = _s3_uri({"dataSourceType": "S3", "s3": location}, key_of)
            case _:
                raise refused("this is an S3 data source: the content of a document is its s3Location")
        documents.append((uri, _sidecar_named(entry.get("metadata"), uri)))
    return documents


def _sidecar_named(metadata: Any, uri: str) -> bool:
    match metadata:
        case None:
            return False
        case {"type": "S3_LOCATION", "s3Location": {"uri": named}} if named == f"{uri}.metadata.json":
            return True
    raise refused("the metadata of a document of an S3 data source is the S3_LOCATION of its .metadata.json")


def _s3_uri(entry: Any, key_of: KeyOf) -> str:
    match entry:
        case {"dataSourceType": "S3", "s3": {"uri": str(uri)}} if len(uri) <= URI_CHARACTERS and sound_text(uri):
            if key_of(uri) is not None:
                return uri
            raise refused("the document is not in the data source's bucket and prefix")
    raise refused("this is an S3 data source: a document is named by dataSourceType S3 and its s3 uri")


def _up_to_ten(request: Mapping[str, Any], name: str) -> list[Any]:
    entries = request.get(name)
    if not isinstance(entries, list) or not 1 <= len(entries) <= DOCUMENTS_PER_CALL:
        raise refused(f"{name} has 1 to {DOCUMENTS_PER_CALL} members")
    return entries


@dataclass(frozen=True)
class Query:
    """A Retrieve request."""

    text: str
    where: Where | None
    start: int
    size: int

    def next_token(self) -> str:
        return _token(self.start + self.size)


def query_of(request: Mapping[str, Any]) -> Query:
    only(request, ("retrievalQuery", "retrievalConfiguration", "nextToken"))
    asked = request.get("retrievalQuery")
    text = asked.get("text") if isinstance(asked, dict) else None
    if not isinstance(text, str) or not text.strip() or len(text) > QUERY_CHARACTERS:
        raise refused(f"retrievalQuery.text has 1 to {QUERY_CHARACTERS} characters")
    configuration = request.get("retrievalConfiguration") or {"vectorSearchConfiguration": {}}
    if not isinstance(configuration, dict):
        raise refused("retrievalConfiguration is an object")
    only(configuration, ("vectorSearchConfiguration",))
    search = configuration.get("vectorSearchConfiguration")
    if not isinstance(search, dict):
        raise refused("vectorSearchConfiguration is an object")
    only(search, ("numberOfResults", "overrideSearchType", "filter"))
    if search.get("overrideSearchType", "SEMANTIC") != "SEMANTIC":
        raise refused("HYBRID search type is not supported for the vector store S3_VECTORS; leave it out")
    where = chroma_where(search["filter"]) if "filter" in search else None
    size = _within("numberOfResults", search.get("numberOfResults", DEFAULT_RESULTS), MOST_RESULTS)
    return Query(text=text, where=where, start=_start(request), size=size)


def knowledge_base_id(told: str) -> str:
    """The id, whether it was told alone or in an ARN."""
    arn = KNOWLEDGE_BASE_ARN.fullmatch(told)
    return arn.group(1) if arn else told


def _within(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise refused(f"{name} is a whole number from 1 to {most}")
    return value


def _token(start: int) -> str:
    return base64.urlsafe_b64encode(f"from {start}".encode()).decode()


def _start(request: Mapping[str, Any]) -> int:
    token = request.get("nextToken")
    if token is None:
        return 0
    try:
        word, _, start = base64.urlsafe_b64decode(token).decode().partition(" ")
        if word == "from" and re.fullmatch(r"\d{1,9}", start, re.ASCII):
            return int(start)
    except (ValueError, TypeError):
        pass
    raise refused("nextToken is not one that this operation gave out")
