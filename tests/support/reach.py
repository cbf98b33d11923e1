"""The tables "Who reaches what" of docs/security.md, and the principals of the synthesised app that they speak of."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from support.deployments import as_list, flat, resources, statements, templates
from support.policies import Request, allowed

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "security.md"
HEADING: Final = "## Who reaches what"
WITH_AGENTCORE: Final = "### With AgentCore"
# What the second table speaks of: two tenants, the memory of the other in another region.
AGENTCORE: Final = json.dumps(
    [
        {"memory_id": "harbour-Abc1234567", "namespaces": ["/actors/"], "tenant_id": "a"},
        {
            "memory_id": "quays-Abc1234567",
            "namespaces": ["/shared/", "/tenants/b/"],
            "tenant_id": "b",
            "region": "eu-west-1",
        },
    ]
)
ITEMS: Final = (
    "BatchGetItem", "BatchWriteItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PartiQLDelete", "PartiQLInsert",
    "PartiQLSelect", "PartiQLUpdate", "PutItem", "Query", "Scan", "UpdateItem",
)  # fmt: skip
OBJECTS: Final = (
    "DeleteObject", "DeleteObjectVersion", "GetObject", "GetObjectVersion", "ListBucket", "ListBucketVersions",
    "PutObject",
)  # fmt: skip
RECORDS: Final = (
    "BatchCreateMemoryRecords", "BatchDeleteMemoryRecords", "BatchUpdateMemoryRecords", "CreateEvent", "DeleteEvent",
    "DeleteMemory", "DeleteMemoryRecord", "GetEvent", "GetMemory", "GetMemoryRecord", "ListActors", "ListEvents",
    "ListMemoryRecords", "ListSessions", "RetrieveMemoryRecords", "StartMemoryExtractionJob", "UpdateMemory",
)  # fmt: skip
# The condition key by which a request says where: the rest names records by their ids, or no namespace at all.
PLACED: Final = {
    "BatchCreateMemoryRecords": "bedrock-agentcore:namespace",
    "BatchUpdateMemoryRecords": "bedrock-agentcore:namespace",
    "ListMemoryRecords": "bedrock-agentcore:namespacePath",
    "RetrieveMemoryRecords": "bedrock-agentcore:namespacePath",
}
LISTINGS: Final = {"ListBucket", "ListBucketVersions"}
OWN, TENANT_ROLE, ERASURE_ROLE, OPERATOR = "its own tenant", "tenant role", "erasure role", "operator"
# Roles that are taken with the tag of a tenant, by the end of their name.
SESSION_ROLES: Final = {"-tenant-data": TENANT_ROLE, "-erasure-data": ERASURE_ROLE}


class Row(BaseModel):
    """One line of the table. *key* names the tenant as `<tenant>`; *may*: principal -> actions without their service."""

    model_config = ConfigDict(frozen=True)

    store: str
    key: str
    may: dict[str, frozenset[str]]

    @property
    def actions(self) -> tuple[str, ...]:
        return {"bucket": OBJECTS, "memory": RECORDS}.get(self.store.split(" ", 1)[0], ITEMS)

    def request(self, action: str, *, of: str, session: str | None) -> Request:
        """The call of *action* on this row's key as it is for the tenant *of*, by a session tagged *session*."""
        key = self.key.replace("<tenant>", of)
        context: dict[str, str | tuple[str, ...]] = {} if session is None else {"aws:PrincipalTag/tenant_id": session}
        kind, name = self.store.split(" ", 1)
        if kind == "memory":
            memory_id, _, region = name.partition(" in ")
            arn = f"arn:<AWS::Partition>:bedrock-agentcore:{region or '<AWS::Region>'}:<AWS::AccountId>:memory/{memory_id}"
            placed = {PLACED[action]: key} if action in PLACED else {}
            return Request(action=f"bedrock-agentcore:{action}", resource=arn, context={**context, **placed})
        if kind == "bucket":
            bucket = f"arn:<AWS::Partition>:s3:::agent-memory-{name}-prod-<AWS::AccountId>"
            if action in LISTINGS:
                return Request(action=f"s3:{action}", resource=bucket, context={**context, "s3:prefix": key})
            return Request(action=f"s3:{action}", resource=f"{bucket}/{key}", context=context)
        table, _, index = name.partition(" / ")
        arn = f"arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/{table}-prod"
        if action != "Scan":
            # A scan has no leading keys, whatever it reads.
            context["dynamodb:LeadingKeys"] = (key,)
        resource = f"{arn}/index/{index}" if index else arn
        return Request(action=f"dynamodb:{action}", resource=resource, context=context)


def rows(heading: str = HEADING) -> list[Row]:
    """The lines of the table below *heading*, in order."""
    lines = DOCUMENT.read_text().split(heading, 1)[1].split("\n#", 1)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return [
        Row(store=store.strip("`"), key=key.strip("`"), may={OWN: frozenset(own.split()), **dict(_others(others))})
        for store, key, own, others in cells
    ]


def _others(cell: str) -> Iterator[tuple[str, frozenset[str]]]:
    for part in filter(None, (part.strip() for part in cell.split(";"))):
        name, _, actions = part.partition(": ")
        yield name.strip("`"), frozenset(actions.split())


@cache
def principals(agentcore: str = "[]") -> dict[str, list[dict[str, Any]]]:
    """Every identity of the app in prod, with the statements of its policies, tokens by name. *agentcore*: the setting
    agentcoreMemories.

    A function goes by its folder, a managed policy by its name after the environment (`operator`), a machine by
    `lifecycle machine`, any other role by its logical id."""
    found: dict[str, list[dict[str, Any]]] = {}
    context = {"env": "prod"} if agentcore == "[]" else {"env": "prod", "agentcoreMemories": agentcore}
    for template in templates(context).values():
        names = _names_of_roles(template)
        for holder, statement in statements(template):
            for name in _holders(template, holder, names):
                found.setdefault(name, []).append(_flat(statement))
        for name in names.values():
            found.setdefault(name, [])
    return found


def _names_of_roles(template: Mapping[str, Any]) -> dict[str, str]:
    names = {key: key for key in resources(template, "AWS::IAM::Role")}
    for key, role in resources(template, "AWS::IAM::Role").items():
        for ending, name in SESSION_ROLES.items():
            if str(flat(role["Properties"].get("RoleName", ""))).endswith(ending):
                names[key] = name
    for function in resources(template, "AWS::Lambda::Function").values():
        variables = function["Properties"].get("Environment", {}).get("Variables", {})
        role = function["Properties"]["Role"]
        if "POWERTOOLS_SERVICE_NAME" in variables and "Fn::GetAtt" in role:
            names[role["Fn::GetAtt"][0]] = variables["POWERTOOLS_SERVICE_NAME"]
    for machine in resources(template, "AWS::StepFunctions::StateMachine").values():
        name = str(flat(machine["Properties"]["StateMachineName"])).removeprefix("agent-memory-").removesuffix("-prod")
        names[machine["Properties"]["RoleArn"]["Fn::GetAtt"][0]] = f"{name} machine"
    return names


def _holders(template: Mapping[str, Any], holder: str, names: Mapping[str, str]) -> list[str]:
    resource = template["Resources"][holder]
    if resource["Type"] == "AWS::IAM::ManagedPolicy":
        return [str(flat(resource["Properties"]["ManagedPolicyName"])).removeprefix("agent-memory-prod-")]
    if resource["Type"] == "AWS::IAM::Role":
        return [names[holder]]
    return [names.get(role["Ref"], role["Ref"]) for role in resource["Properties"]["Roles"]]


def _flat(statement: Mapping[str, Any]) -> dict[str, Any]:
    listed = [flat(one) for one in as_list(statement["Resource"])]
    conditions = {
        operator: {key: [flat(one) for one in as_list(value)] for key, value in keys.items()}
        for operator, keys in statement.get("Condition", {}).items()
    }
    return {
        **statement,
        "Resource": [one.replace("<aws:", "${aws:") for one in listed],
        "Condition": {op: {k: v if len(v) > 1 else v[0] for k, v in keys.items()} for op, keys in conditions.items()},
    }


def may(principal: str, request: Request) -> bool:
    return allowed(principals()[principal], request)


def done(statements: list[dict[str, Any]], row: Row, *, session: str | None) -> set[str]:
    """What these statements allow of a row of tenant `a`, in a session tagged *session*."""
    return {one for one in row.actions if allowed(statements, row.request(one, of="a", session=session))}


def differences(table: list[Row], held: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Where what *held* allows is not what *table* says, one line each: by the principals' own roles, in a tenant's
    session, and in the session of another."""
    found = []
    for row in table:
        for name, policy in held.items():
            role = name in SESSION_ROLES.values()
            said = row.may.get(OWN if name == TENANT_ROLE else name, frozenset())
            found += _difference(row, name, said, done(policy, row, session="a" if role else None))
            if role:
                found += _difference(row, f"{name} of another", frozenset(), done(policy, row, session="b"))
    return found


def _difference(row: Row, name: str, said: frozenset[str], allowed_now: set[str]) -> list[str]:
    if allowed_now == said:
        return []
    more, less = sorted(allowed_now - said), sorted(said - allowed_now)
    return [f"{row.store} {row.key}: {name} may also {more}, may not {less}"]
