"""Who reaches what where memories of AgentCore are named: the second table in docs/security.md, and not otherwise."""

from typing import Any

import pytest
from support.deployments import flat, resources, statements, templates
from support.policies import Request, allowed
from support.reach import (
    AGENTCORE,
    OWN,
    RECORDS,
    WITH_AGENTCORE,
    Row,
    differences,
    principals,
    rows,
)

TABLE = rows(WITH_AGENTCORE)
HARBOUR = "arn:<AWS::Partition>:bedrock-agentcore:<AWS::Region>:<AWS::AccountId>:memory/harbour-Abc1234567"
BUCKET = "arn:<AWS::Partition>:s3:::agent-memory-agentcore-prod-<AWS::AccountId>"
TRAIL = "arn:<AWS::Partition>:s3:::agent-memory-trail-prod-<AWS::AccountId>"
STEPS = {
    "agentcore_refresh_records": {"ListMemoryRecords"},
    "agentcore_examine_memories": {"GetMemoryRecord", "ListMemoryRecords"},
    "agentcore_prune_memories": {"BatchDeleteMemoryRecords", "GetMemoryRecord", "ListMemoryRecords"},
    "agentcore_merge_memories": {
        "BatchCreateMemoryRecords", "BatchDeleteMemoryRecords", "GetMemoryRecord", "ListMemoryRecords",
    },
    "agentcore_restore_memories": {
        "BatchCreateMemoryRecords", "BatchDeleteMemoryRecords", "GetMemoryRecord", "ListMemoryRecords",
    },
    "agentcore_quality_check": {"RetrieveMemoryRecords"},
}  # fmt: skip


def test_every_principal_does_what_the_second_table_says_and_nothing_else() -> None:
    assert differences(TABLE, principals(AGENTCORE)) == []


def test_the_stack_over_agentcore_takes_nothing_away_from_the_first_table_and_adds_nothing_to_it() -> None:
    assert differences(rows(), principals(AGENTCORE)) == []


def test_without_a_memory_nobody_may_anything_of_agentcore() -> None:
    nothing = [row.model_copy(update={"may": {}}) for row in TABLE]
    assert differences(nothing, principals()) == []


def test_the_second_table_names_principals_that_exist_and_every_bucket_and_memory() -> None:
    named = {name for row in TABLE for name in row.may} - {OWN}
    assert named <= set(principals(AGENTCORE))
    template = templates({"env": "prod", "agentcoreMemories": AGENTCORE})["agentcore"]
    names = [flat(one["Properties"]["BucketName"]) for one in resources(template, "AWS::S3::Bucket").values()]
    buckets = {"bucket " + name.removeprefix("agent-memory-").split("-prod")[0] for name in names}
    assert buckets == {row.store for row in TABLE if row.store.startswith("bucket ")}
    assert {"memory harbour-Abc1234567", "memory quays-Abc1234567 in eu-west-1"} <= {row.store for row in TABLE}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_does_with_records_what_it_is_for_on_the_named_memories_only(step: str) -> None:
    held = principals(AGENTCORE)[step]

    def may(memory: str, key: str) -> set[str]:
        row = Row(store=f"memory {memory}", key=key, may={})
        return {one for one in RECORDS if allowed(held, row.request(one, of="a", session=None))}

    by_id = {"BatchDeleteMemoryRecords", "GetMemoryRecord"}
    for memory, named, other in (
        ("harbour-Abc1234567", "/actors/alice/", "/actorsx/"),
        ("quays-Abc1234567 in eu-west-1", "/tenants/b/x/", "/tenants/"),
    ):
        assert may(memory, named) == STEPS[step]
        # IAM sees no namespace where a record is named by its id.
        assert may(memory, other) == STEPS[step] & by_id
    for stranger in ("stranger-Abc1234567", "harbour-Abc12345678", "harbour-Abc1234567 in eu-west-1", "*"):
        assert may(stranger, "/actors/alice/") == set(), stranger


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("space", ["/", "", "/actor", "/actors/../", "/tenants/b/", "*"])
def test_the_older_prefix_reaches_no_other_namespace_either(step: str, space: str) -> None:
    for action in ("ListMemoryRecords", "RetrieveMemoryRecords"):
        asked = Request(
            action=f"bedrock-agentcore:{action}", resource=HARBOUR, context={"bedrock-agentcore:namespace": space}
        )
        # IAM compares text: what lies below a named prefix by its letters is let through, and AgentCore knows no `..`.
        if not space.startswith("/actors/"):
            assert not allowed(principals(AGENTCORE)[step], asked)


def test_one_record_of_another_namespace_in_a_batch_refuses_the_batch() -> None:
    def created(*spaces: str) -> bool:
        context: dict[str, str | tuple[str, ...]] = {"bedrock-agentcore:namespace": spaces}
        asked = Request(action="bedrock-agentcore:BatchCreateMemoryRecords", resource=HARBOUR, context=context)
        return allowed(principals(AGENTCORE)["agentcore_merge_memories"], asked)

    assert created("/actors/alice", "/actors/bob/")
    assert not created("/actors/alice", "/elsewhere/")


WIDENED: dict[str, tuple[str, dict[str, Any]]] = {
    "the scorer deletes": (
        "agentcore_examine_memories",
        {"Action": "bedrock-agentcore:BatchDeleteMemoryRecords", "Resource": HARBOUR},
    ),
    "the pruner creates": (
        "agentcore_prune_memories",
        {"Action": ["bedrock-agentcore:BatchCreateMemoryRecords"], "Resource": [HARBOUR]},
    ),
    "any memory": (
        "agentcore_merge_memories",
        {"Action": "bedrock-agentcore:BatchCreateMemoryRecords", "Resource": "*"},
    ),
    "any region": (
        "agentcore_refresh_records",
        {"Action": "bedrock-agentcore:ListMemoryRecords", "Resource": HARBOUR.replace("<AWS::Region>", "*")},
    ),
    "any namespace": (
        "agentcore_examine_memories",
        {"Action": "bedrock-agentcore:ListMemoryRecords", "Resource": HARBOUR},
    ),
    "the scorer reads the archive": (
        "agentcore_examine_memories",
        {"Action": "s3:GetObject", "Resource": f"{BUCKET}/*"},
    ),
    "the pruner rewrites an index": (
        "agentcore_prune_memories",
        {"Action": "s3:PutObject", "Resource": f"{BUCKET}/agentcore/*"},
    ),
    "the merger empties the archive": (
        "agentcore_merge_memories",
        {"Action": "s3:DeleteObjectVersion", "Resource": f"{BUCKET}/archive/*"},
    ),
    "the report reads the trail": ("agentcore_lifecycle_report", {"Action": "s3:GetObject", "Resource": f"{TRAIL}/*"}),
    "the refresh forges the trail": ("agentcore_refresh_records", {"Action": "s3:PutObject", "Resource": f"{TRAIL}/*"}),
    "bootstrap reads records": ("bootstrap", {"Action": "bedrock-agentcore:GetMemoryRecord", "Resource": HARBOUR}),
    "an agent lists the archive": ("agent", {"Action": "s3:ListBucket", "Resource": BUCKET}),
    "a tenant's session reads the archive": ("tenant role", {"Action": "s3:GetObject", "Resource": f"{BUCKET}/*"}),
}


@pytest.mark.parametrize("case", WIDENED)
def test_a_grant_that_was_widened_is_seen(case: str) -> None:
    principal, more = WIDENED[case]
    held = principals(AGENTCORE)[principal]
    assert differences(TABLE, {principal: held}) == []
    assert differences(TABLE, {principal: [*held, {"Effect": "Allow", "Condition": {}, **more}]}), case


@pytest.mark.parametrize("principal", [*STEPS, "agentcore-operator", "agentcore_decay"])
def test_a_grant_that_was_taken_away_is_seen(principal: str) -> None:
    left = [one for one in principals(AGENTCORE)[principal] if "agentcore" not in str(one["Resource"])]
    assert differences(TABLE, {principal: left})


def delivery(action: str, key: str, **context: str) -> bool:
    """Whether the trail's bucket lets CloudTrail do this, by its own policy."""
    template = templates({"env": "prod", "agentcoreMemories": AGENTCORE})["agentcore"]
    found = []
    for policy in resources(template, "AWS::S3::BucketPolicy").values():
        if "Trail" in policy["Properties"]["Bucket"]["Ref"]:
            for one in policy["Properties"]["PolicyDocument"]["Statement"]:
                listed = one["Resource"] if isinstance(one["Resource"], list) else [one["Resource"]]
                conditions = {
                    operator: {key: flat(value) for key, value in keys.items()}
                    for operator, keys in one.get("Condition", {}).items()
                }
                found.append({**one, "Resource": [flat(arn) for arn in listed], "Condition": conditions})
    [bucket] = {one["Resource"][0] for one in found if one["Action"] == "s3:GetBucketAcl"}
    secure = {"aws:SecureTransport": "true", "s3:TlsVersion": "1.3"}
    resource = f"{bucket}/{key}" if key else bucket
    return allowed(found, Request(action=action, resource=resource, context={**secure, **context}))


OURS = "arn:<AWS::Partition>:cloudtrail:<AWS::Region>:<AWS::AccountId>:trail/agent-memory-accesses-prod"
ACL = {"s3:x-amz-acl": "bucket-owner-full-control"}
LOG = "AWSLogs/<AWS::AccountId>/CloudTrail/eu-west-1/2026/12/01/x.json.gz"


def test_cloudtrail_delivers_this_trail_of_this_account_below_its_prefix_and_nothing_else() -> None:
    assert delivery("s3:PutObject", LOG, **ACL, **{"aws:SourceArn": OURS})
    assert delivery("s3:GetBucketAcl", "", **{"aws:SourceArn": OURS})
    assert not delivery("s3:PutObject", LOG, **ACL, **{"aws:SourceArn": f"{OURS}x"})
    assert not delivery("s3:PutObject", LOG, **ACL)
    assert not delivery("s3:PutObject", "reports/a/2026/12/01/x.json", **ACL, **{"aws:SourceArn": OURS})
    assert not delivery("s3:PutObject", LOG.replace("<AWS::AccountId>", "999"), **ACL, **{"aws:SourceArn": OURS})
    assert not delivery("s3:PutObject", LOG, **ACL, **{"aws:SourceArn": OURS, "aws:SecureTransport": "false"})
    assert not delivery("s3:GetObject", LOG, **{"aws:SourceArn": OURS})


def test_no_statement_of_the_stack_is_a_denial_that_the_table_would_have_to_name() -> None:
    template = templates({"env": "prod", "agentcoreMemories": AGENTCORE})["agentcore"]
    assert {one["Effect"] for _, one in statements(template)} == {"Allow"}
