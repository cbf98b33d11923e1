"""Who reaches what: every principal, every action, every key, as the table in docs/security.md says and not otherwise.

The laptop's emulator lets every call through, so this is where isolation at the storage layer is proven.
"""

import pytest
from support.deployments import flat, resources, templates
from support.policies import Request, allowed
from support.reach import ERASURE_ROLE, OPERATOR, OWN, SESSION_ROLES, TENANT_ROLE, Row, may, principals, rows

TABLE = rows()
# Neighbours in every way in which one id can be mistaken for another.
STRANGERS = ["ab", "b", "A", "a.", "a#b", "registry", "", "a/b", "*", "?", "plan", "n-1", "agent", "domain", "x.json"]


def as_id(row: Row) -> str:
    return f"{row.store} {row.key}"


@pytest.mark.parametrize("role", [TENANT_ROLE, ERASURE_ROLE])
@pytest.mark.parametrize("row", TABLE, ids=as_id)
def test_a_tenants_session_does_this_to_its_own_and_nothing_else(row: Row, role: str) -> None:
    done = {action for action in row.actions if may(role, row.request(action, of="a", session="a"))}
    assert done == row.may.get(OWN if role == TENANT_ROLE else role, frozenset())


@pytest.mark.parametrize("role", [TENANT_ROLE, ERASURE_ROLE])
@pytest.mark.parametrize("row", TABLE, ids=as_id)
def test_a_session_of_another_tenant_or_of_none_does_nothing(row: Row, role: str) -> None:
    for stranger in (*STRANGERS, None):
        done = {action for action in row.actions if may(role, row.request(action, of="a", session=stranger))}
        assert not done, f"session of {stranger!r}"


@pytest.mark.parametrize("row", TABLE, ids=as_id)
def test_by_its_own_role_each_principal_does_what_the_table_says(row: Row) -> None:
    for principal in set(principals()) - set(SESSION_ROLES.values()):
        done = {action for action in row.actions if may(principal, row.request(action, of="a", session=None))}
        assert done == row.may.get(principal, frozenset()), principal


def test_the_table_names_principals_that_exist() -> None:
    named = {name for row in TABLE for name in row.may} - {OWN}
    assert named <= set(principals())
    assert {OPERATOR, TENANT_ROLE} <= set(principals())


def test_the_table_speaks_of_every_table_index_and_bucket() -> None:
    found = set()
    storage = templates({"env": "prod"})["storage"]
    for table in resources(storage, "AWS::DynamoDB::GlobalTable").values():
        name = table["Properties"]["TableName"].removesuffix("-prod")
        found.add(f"table {name}")
        found |= {f"table {name} / {i['IndexName']}" for i in table["Properties"].get("GlobalSecondaryIndexes", [])}
    for bucket in resources(storage, "AWS::S3::Bucket").values():
        found.add("bucket " + flat(bucket["Properties"]["BucketName"]).removeprefix("agent-memory-").split("-prod")[0])
    assert found == {row.store for row in TABLE}


def test_a_call_that_names_no_key_is_refused_to_everybody() -> None:
    for row in TABLE:
        if row.store.startswith("bucket "):
            continue
        for action in row.actions:
            request = row.request(action, of="a", session="a")
            context = {key: value for key, value in request.context.items() if key != "dynamodb:LeadingKeys"}
            bare = Request(action=request.action, resource=request.resource, context=context)
            allowed_without = [name for name in principals() if may(name, bare)]
            assert not allowed_without or "due-index" in row.store, f"{row.store} {action}"


def test_a_whole_bucket_is_listed_by_nobodys_session() -> None:
    for row in TABLE:
        if row.store.startswith("bucket "):
            bare = row.request("ListBucket", of="a", session="a")
            for prefix in ("", "~runs/", "parked/", "semantic-memory/", "ab/", "a"):
                context = {**bare.context, "s3:prefix": prefix}
                for role in (TENANT_ROLE, ERASURE_ROLE):
                    assert not may(role, Request(action=bare.action, resource=bare.resource, context=context))


def assumed(tag: str | None) -> Request:
    context: dict[str, str | tuple[str, ...]] = {} if tag is None else {"aws:RequestTag/tenant_id": tag}
    keys = () if tag is None else ("tenant_id",)
    return Request(action="sts:TagSession", resource="*", context={**context, "aws:TagKeys": keys})


@pytest.mark.parametrize(("room", "ending"), [("storage", "-tenant-data"), ("erasure", "-erasure-data")])
def test_a_tenants_role_can_be_taken_for_a_tenant_and_not_as_the_registry_a_path_or_nobody(
    room: str, ending: str
) -> None:
    [role] = [
        role["Properties"]
        for role in resources(templates({"env": "prod"})[room], "AWS::IAM::Role").values()
        if str(flat(role["Properties"].get("RoleName", ""))).endswith(ending)
    ]
    trust = [{**one, "Resource": "*"} for one in role["AssumeRolePolicyDocument"]["Statement"]]
    assert allowed(trust, assumed("a"))
    for tag in ("registry", "a/b", "", "*", "a*", "?", None):
        assert not allowed(trust, assumed(tag)), tag
