"""Synthesised templates of the app, without building layers, each once per test process."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app import build, committed_context
from stacks.settings import Deployment, deployment_from

ROOMS = ("storage", "knowledge", "consolidation", "lifecycle", "erasure", "access")
NO_BUNDLING = {"aws:cdk:bundling-stacks": []}


def a_deployment(**context: object) -> Deployment:
    """The validated deployment of `-c key=value`, without synthesis."""
    return deployment_from(context, committed_context()["envs"])


@cache
def _synthesised(context: str) -> dict[str, dict[str, Any]]:
    with TemporaryDirectory() as outdir:
        app, deployment = build({**json.loads(context), **NO_BUNDLING}, outdir=outdir)
        assembly = app.synth()
        found = {stack.stack_name: stack for stack in assembly.stacks}
        names = {room: f"agent-memory-{deployment.env}-{room}" for room in (*ROOMS, "agentcore")}
        return {
            room: json.loads(Path(found[name].template_full_path).read_text())
            for room, name in names.items()
            if name in found
        }


def templates(context: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """The template of every room; without `knowledge` where a Knowledge Base is given."""
    return _synthesised(json.dumps(dict(context), sort_keys=True))


def resources(template: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """The resources of one type, by logical id."""
    return {key: value for key, value in template["Resources"].items() if value["Type"] == kind}


def functions(environment: str = "dev") -> dict[str, dict[str, Any]]:
    """Properties of every function of ours, by its folder."""
    found = {}
    for template in templates({"env": environment}).values():
        for function in resources(template, "AWS::Lambda::Function").values():
            variables = function["Properties"].get("Environment", {}).get("Variables", {})
            if "POWERTOOLS_SERVICE_NAME" in variables:
                found[variables["POWERTOOLS_SERVICE_NAME"]] = function["Properties"]
    return found


def allow_statements(template: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every Allow statement of an identity policy, with the logical id of the policy or role that holds it."""
    return ((key, statement) for key, statement in statements(template) if statement["Effect"] == "Allow")


def statements(template: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every statement of an identity policy, with the logical id of the policy or role that holds it."""
    for key, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        documents = (
            [properties.get("PolicyDocument")]
            if resource["Type"] in {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}
            else []
        )
        documents += [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        for document in filter(None, documents):
            for statement in document["Statement"]:
                yield key, statement


def flat(value: object) -> str:
    """An ARN that CloudFormation joins, as one line: pseudo parameters by name."""
    if isinstance(value, dict):
        if "Fn::Join" in value:
            return "".join(flat(part) for part in value["Fn::Join"][1])
        if "Ref" in value:
            return f"<{value['Ref']}>"
        if "Fn::GetAtt" in value:
            return f"<{'.'.join(value['Fn::GetAtt'])}>"
    return str(value)


def as_list(value: object) -> list[Any]:
    """IAM writes one as itself and several as a list."""
    return value if isinstance(value, list) else [value]
