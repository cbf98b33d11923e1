"""Retrieval from the laptop's Knowledge Base: the filter grammar, the shape of results, pages."""

import math

import pytest
from botocore.exceptions import ClientError
from support.local_knowledge import a_knowledge_base, equals

from local.aws_wire import AwsError
from local.knowledge_filters import chroma_where

SHELVES = {
    "one": {"tenant_id": "north", "level": 1, "open": True, "tags": ["dry", "cold"], "note": ""},
    "two": {"tenant_id": "north", "level": 2.5, "open": False},
    "three": {"tenant_id": "south", "level": 3, "chroma:document": "a name that ChromaDB has for itself"},
    "four": {"tenant_id": "süd 'or' \"1\"", "level": 1e15},
}
EXTENDED = {
    "tenant_id": {"value": {"type": "STRING", "stringValue": "west"}, "includeForEmbedding": False},
    "level": {"value": {"type": "NUMBER", "numberValue": 5}},
    "open": {"value": {"type": "BOOLEAN", "booleanValue": True}},
    "tags": {"value": {"type": "STRING_LIST", "stringListValue": ["dry"]}},
}
ALL = {"one", "two", "three", "four", "five", "bare"}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    with a_knowledge_base(tmp_path_factory.mktemp("retrieval")) as running:
        for name, attributes in (SHELVES | {"five": EXTENDED}).items():
            running.put(f"{name}.txt", f"Shelf {name} holds paper.", attributes)
        running.put("bare.txt", "Shelf bare holds paper.")
        assert running.sync()["statistics"]["numberOfNewDocumentsIndexed"] == 6
        yield running


def condition(operator, key, value):
    return {operator: {"key": key, "value": value}}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (equals("tenant_id", "north"), {"one", "two"}),
        (equals("tenant_id", "North"), set()),
        (equals("tenant_id", "süd 'or' \"1\""), {"four"}),
        (equals("level", 1), {"one"}),
        (equals("level", 3.0), {"three"}),
        (equals("level", "1"), set()),
        (equals("level", True), set()),
        (equals("open", True), {"one", "five"}),
        (equals("open", 1), set()),
        (equals("note", ""), {"one"}),
        (equals("tags", "dry"), {"one", "five"}),
        (equals("chroma:document", "a name that ChromaDB has for itself"), {"three"}),
        (equals("unknown", "x"), set()),
        (condition("notEquals", "tenant_id", "north"), {"three", "four", "five", "bare"}),
        (condition("notEquals", "tags", "cold"), ALL - {"one"}),
        (condition("notEquals", "open", False), ALL - {"two"}),
        (condition("in", "tenant_id", ["south", "west"]), {"three", "five"}),
        (condition("in", "level", [1, 2.5, "x", True]), {"one", "two"}),
        (condition("in", "tags", ["cold", "hot"]), {"one"}),
        (condition("notIn", "tenant_id", ["north", "south"]), {"four", "five", "bare"}),
        (condition("notIn", "level", [1, "x"]), ALL - {"one"}),
        (condition("greaterThan", "level", 2.5), {"three", "four", "five"}),
        (condition("greaterThanOrEquals", "level", 2.5), {"two", "three", "four", "five"}),
        (condition("lessThan", "level", 2.5), {"one"}),
        (condition("lessThanOrEquals", "level", 2.5), {"one", "two"}),
        ({"andAll": [equals("tenant_id", "north"), equals("open", True)]}, {"one"}),
        ({"orAll": [equals("tenant_id", "south"), equals("open", False)]}, {"two", "three"}),
        (
            {
                "andAll": [
                    {"orAll": [equals("tenant_id", "north"), equals("tenant_id", "west")]},
                    {"andAll": [equals("tags", "dry"), condition("greaterThan", "level", 1)]},
                ]
            },
            {"five"},
        ),
    ],
)
def test_a_filter_chooses(base, wanted, names):
    found = base.retrieve("paper", numberOfResults=100, filter=wanted)["retrievalResults"]
    assert {result["content"]["text"].split()[1] for result in found} == names
    assert len(found) == len(names)


def test_the_address_that_the_service_adds_can_be_filtered(base):
    uri = base.uri("two.txt")
    assert base.found("paper", filter=equals("x-amz-bedrock-kb-source-uri", uri)) == ["Shelf two holds paper."]


@pytest.mark.parametrize(
    "wanted",
    [
        condition("startsWith", "tenant_id", "no"),
        condition("stringContains", "tenant_id", "or"),
        condition("listContains", "tags", "dry"),
        condition("greaterThan", "tenant_id", "north"),
        condition("lessThan", "open", True),
        condition("in", "tenant_id", "north"),
        condition("in", "tenant_id", []),
        condition("in", "tenant_id", [["north"]]),
        condition("equals", "tenant_id", ["north"]),
        condition("equals", "tenant_id", {"$ne": ""}),
        condition("equals", "tenant_id", None),
        condition("equals", "k" * 101, "x"),
    ],
)
def test_a_filter_that_the_service_would_not_take_is_refused(base, wanted):
    with pytest.raises(ClientError) as refused:
        base.retrieve("paper", filter=wanted)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


DEEP = equals("a", "b")
for _ in range(10):
    DEEP = {"andAll": [DEEP, equals("a", "b")]}


@pytest.mark.parametrize(
    "wanted",
    [
        {"andAll": [equals("a", "b")]},
        {"orAll": []},
        {"andAll": [equals("a", "b"), {"orAll": [equals("a", "b")]}]},
        {"regex": {"key": "a", "value": "b"}},
        {"$where": {"key": "a", "value": "b"}},
        {},
        {"equals": {"key": "a", "value": "b"}, "in": {"key": "a", "value": ["b"]}},
        {"equals": {"key": "a"}},
        {"equals": {"key": "", "value": "b"}},
        {"equals": {"key": "a", "value": "\ud800"}},
        {"equals": {"key": "a", "value": math.nan}},
        {"equals": {"key": "a", "value": 10**400}},
        {"orAll": [equals("a", "b")] * 101},
        [equals("a", "b")],
        None,
        DEEP,
    ],
)
def test_what_botocore_would_not_even_send_is_refused_too(wanted):
    with pytest.raises(AwsError) as refused:
        chroma_where(wanted)
    assert refused.value.code == "ValidationException"


def test_a_result_tells_text_place_attributes_and_cosine(base):
    (result,) = base.retrieve("Shelf one holds paper.", filter=equals("note", ""))["retrievalResults"]
    assert result["content"] == {"type": "TEXT", "text": "Shelf one holds paper."}
    assert result["location"] == {"type": "S3", "s3Location": {"uri": base.uri("one.txt")}}
    own = {"x-amz-bedrock-kb-source-uri": base.uri("one.txt"), "x-amz-bedrock-kb-data-source-id": "DSLOCAL001"}
    assert result["metadata"] == SHELVES["one"] | own
    assert math.isclose(result["score"], 1.0, abs_tol=1e-4)
    scores = [result["score"] for result in base.retrieve("Where is the paper?")["retrievalResults"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 5
    assert all(0 < score < 1 for score in scores)


def test_pages_hold_every_result_once(base):
    seen, token = [], None
    while True:
        page = base.retrieve("paper", token=token, numberOfResults=4)
        seen += [result["content"]["text"].split()[1] for result in page["retrievalResults"]]
        token = page.get("nextToken")
        if token is None:
            break
    assert sorted(seen) == sorted(ALL)


@pytest.mark.parametrize(
    "options",
    [
        {"text": ""},
        {"text": " "},
        {"text": "x" * 20_001},
        {"numberOfResults": 101},
        {"overrideSearchType": "HYBRID"},
        {"token": "elsewhere"},
    ],
)
def test_a_query_that_the_service_would_not_take_is_refused(base, options):
    with pytest.raises(ClientError) as refused:
        base.retrieve(**{"text": "paper"} | options)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_semantic_search_may_be_named_and_the_longest_query_is_answered(base):
    assert len(base.found("x " * 10_000, overrideSearchType="SEMANTIC", numberOfResults=1)) == 1
