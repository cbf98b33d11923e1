"""The CDK app: `cdk synth -c env=dev`, or `python app.py -c env=dev` without the CLI."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import stacks.settings

# isort: split

import aws_cdk as cdk
from aws_cdk import cx_api

from stacks.access import AccessStack
from stacks.agentcore import AgentCoreStack
from stacks.consolidation import ConsolidationStack
from stacks.erasure import ErasureStack
from stacks.knowledge import KnowledgeStack
from stacks.lifecycle import LifecycleStack
from stacks.rules import DeploymentError
from stacks.stateful import ANY_MEMORY, ROOMS, ReplacementError, refuse_replacements
from stacks.storage import StorageStack

ROOT = Path(__file__).parent
GEOGRAPHIES = {"eu": "eu", "us": "us", "ca": "us", "ap-southeast-2": "au", "ap-northeast-1": "jp", "ap-south-1": "in"}


def committed_context() -> dict[str, Any]:
    """The context of cdk.json, which the CDK CLI would hand over."""
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return context


def build(context: Mapping[str, Any], *, outdir: str | None = None) -> tuple[cdk.App, stacks.settings.Deployment]:
    """The app of one environment, not yet synthesised. Raises DeploymentError."""
    app = cdk.App(context=committed_context(), post_cli_context=dict(context), outdir=outdir)
    asked = app.node.get_all_context()
    deployment = stacks.settings.deployment_from(_with_geography(asked), asked["envs"])
    knowledge = {"knowledge": KnowledgeStack} if deployment.makes_knowledge_base else {}
    kinds = {
        "storage": StorageStack,
        **knowledge,
        "consolidation": ConsolidationStack,
        "lifecycle": LifecycleStack,
        "erasure": ErasureStack,
        **({"agentcore": AgentCoreStack} if deployment.agentcore_entries else {}),
        "access": AccessStack,
    }
    rooms: dict[str, cdk.Stack] = {}
    for room, kind in kinds.items():
        name = f"agent-memory-{deployment.env}-{room}"
        rooms[room] = kind(app, name, deployment=deployment, synthesizer=_synthesizer(deployment))
    for before, after in pairwise(rooms.values()):
        after.add_stack_dependency(before)
    cdk.Tags.of(app).add("Component", "agent-memory")
    cdk.Tags.of(app).add("Environment", deployment.env)
    for number, warning in enumerate(deployment.warnings()):
        cdk.Annotations.of(rooms["storage"]).add_warning_v2(f"agent-memory:settings-{number}", warning)
    return app, deployment


def _with_geography(context: Mapping[str, Any]) -> dict[str, Any]:
    """An inference profile belongs to a geography: take that of the region the CLI deploys to."""
    region = os.environ.get("CDK_DEFAULT_REGION", "")
    geography = GEOGRAPHIES.get(region) or GEOGRAPHIES.get(region.partition("-")[0])
    if geography and "bedrockGeo" not in context:
        return {**context, "bedrockGeo": geography}
    return dict(context)


def _synthesizer(deployment: stacks.settings.Deployment) -> cdk.StackSynthesizer:
    if deployment.bootstrap_roles:
        return cdk.DefaultStackSynthesizer()
    return cdk.CliCredentialsStackSynthesizer()


def stateful_templates(environment: str, assembly: cx_api.CloudAssembly | None = None) -> dict[str, dict[str, Any]]:
    """The templates of the stateful stacks by room, for the record of what must not be replaced."""
    if assembly is None:
        app, _ = build({"env": environment, "agentcoreMemories": ANY_MEMORY, "aws:cdk:bundling-stacks": []})
        assembly = app.synth()
    names = {f"agent-memory-{environment}-{room}": room for room in ROOMS}
    return {names[stack.stack_name]: stack.template for stack in assembly.stacks if stack.stack_name in names}


def context_of(arguments: Sequence[str]) -> dict[str, str]:
    """`-c key=value` pairs of the command line. Raises DeploymentError for anything else."""
    context: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        key, equals, value = next(words, "").partition("=")
        if word not in {"-c", "--context"} or not key or not equals:
            raise DeploymentError("arguments", word, "must be pairs of -c key=value")
        context[key] = value
    return context


def main(arguments: Sequence[str]) -> int:
    """Synthesise; on a deployment that can't be, say why in one line."""
    try:
        app, deployment = build(context_of(arguments))
        assembly = app.synth()
        refuse_replacements(deployment.env, stateful_templates(deployment.env, assembly))
    except (DeploymentError, ReplacementError) as error:
        sys.stderr.write(f"agent-memory: {error}\n")
        return 1
    if "CDK_CLI_VERSION" not in os.environ:
        sys.stderr.writelines(f"agent-memory: warning: {warning}\n" for warning in deployment.warnings())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
