"""The table "Who reaches what" of docs/security.md, and the principals of the synthesised app that it speaks of."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from support.deployments import as_list, flat, resources, statements, templates
from support.policies import Request, allowed

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "security.md"
HEADING: Final = "## Who reaches what"
ITEMS: Final = (
    "BatchGetItem", "BatchWriteItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PartiQLDelete", "PartiQLInsert",
    "PartiQLSelect", "PartiQLUpdate", "PutItem", "Query", "Scan", "UpdateItem",
)  # fmt: skip
OBJECTS: Final = (
    "DeleteObject", "DeleteObjectVersion", "GetObject", "GetObjectVersion", "ListBucket", "ListBucketVersions",
    "PutObject",
)  # fmt: skip
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
        return OBJECTS if self.store.startswith("bucket ") else ITEMS

    def request(self, action: str, *, of: str, session: str | None) -> Request:
        """The call of *action* on this row's key as it is for the tenant *of*, by a session tagged *session*."""
        key = self.key.replace("<tenant>", of)
        context: dict[str, str | tuple[str, ...]] = {} if session is None else {"aws:PrincipalTag/tenant_id": session}
        kind, name = self.store.split(" ", 1)
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


def rows() -> list[Row]:
    """The lines of the table, in order."""
    lines = DOCUMENT.read_text().split(HEADING, 1)[1].split("\n## ", 1)[0].splitlines()
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
def principals() -> dict[str, list[dict[str, Any]]]:
    """Every identity of the app in prod, with the statements of its policies, tokens by name.

    A function goes by its folder, a managed policy by the last word of its name (`operator`), a machine by
    `lifecycle machine`, any other role by its logical id."""
    found: dict[str, list[dict[str, Any]]] = {}
    for template in templates({"env": "prod"}).values():
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
        return [str(flat(resource["Properties"]["ManagedPolicyName"])).rpartition("-")[2]]
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
