"""Memories of AgentCore that can't be: refused at synth in one line with the setting, the value and the rule."""

import json
from typing import Any

import pytest
from support.deployments import NO_BUNDLING, a_deployment, flat, resources, templates

from app import build, main
from stacks.rules import DeploymentError

ENTRY: dict[str, Any] = {"memory_id": "harbour-Abc1234567", "namespaces": ["/actors/"]}
QUAYS: dict[str, Any] = {"memory_id": "quays-Abc1234567", "namespaces": ["/"]}
TEXTS = {"[{": "JSON list", "": "JSON list", json.dumps(ENTRY): "JSON list", '"x"': "JSON list", "null": "JSON list"}
BAD: dict[str, tuple[list[Any], str]] = {
    "an unknown key": ([{**ENTRY, "namespace": "/a/"}], "entry 1: has no field namespace"),
    "no memory": ([{"namespaces": ["/a/"]}], "entry 1: memory_id"),
    "an ARN": (
        [{**ENTRY, "memory_id": "arn:aws:bedrock-agentcore:us-east-1:1:memory/harbour-Abc1234567"}],
        "memory_id",
    ),
    "no namespaces": ([{"memory_id": "harbour-Abc1234567"}], "namespaces must be 1 to 100"),
    "a namespace as text": ([{**ENTRY, "namespaces": "/a/"}], "namespaces must be 1 to 100"),
    "101 namespaces": ([{**ENTRY, "namespaces": [f"/{n}/" for n in range(101)]}], "1 to 100"),
    "a namespace without an end": ([{**ENTRY, "namespaces": ["/a"]}], "begin and end in /"),
    "a star": ([{**ENTRY, "namespaces": ["/a*/"]}], r"hold no \*"),
    "a template": ([{**ENTRY, "namespaces": ["/actors/{actorId}/"]}], "namespaces"),
    "a way up": ([{**ENTRY, "namespaces": ["/a/../"]}], "namespaces"),
    "the same memory twice": ([QUAYS, ENTRY, ENTRY], "entry 3: harbour-Abc1234567 stands there twice"),
    "the same tenant twice": ([{**ENTRY, "tenant_id": "t"}, {**QUAYS, "tenant_id": "t"}], "entry 2: t stands there"),
    "one inside another": ([{**ENTRY, "namespaces": ["/a/", "/a/b/"]}], "entry 1: its namespaces lie inside"),
    "one inside another's": ([ENTRY, {**ENTRY, "tenant_id": "t", "namespaces": ["/actors/b/"]}], "entry 2: its name"),
    "no days": ([{**ENTRY, "strategies": {"s": "semantic"}, "retention": {"semantic": 0}}], "1 to 3650 days"),
    "days as text": ([{**ENTRY, "strategies": {"s": "semantic"}, "retention": {"semantic": "9"}}], "1 to 3650 days"),
    "days of a type that nothing writes": ([{**ENTRY, "retention": {"semantic": 9}}], "hold for nothing"),
    "days of a misspelt type": ([{**ENTRY, "retention": {"semantics": 9}}], "did you mean semantic"),
    "an unknown type": ([{**ENTRY, "strategies": {"s": "dreams"}}], "strategies must be of the types episodic"),
    "a region that is none": ([{**ENTRY, "region": "somewhere"}], "like eu-west-1"),
    "a misspelt region": ([{**ENTRY, "region": "eu-wset-1"}], "did you mean eu-west-1"),
    "a region not there": ([{**ENTRY, "region": "eu-west-9"}], "did you mean eu-west-"),
    "a tenant in two parts": ([{**ENTRY, "tenant_id": "a#b"}], "tenant_id must be 1 to 128"),
    "the registry": ([{**ENTRY, "tenant_id": "registry"}], "not registry"),
    "the canary": ([{**ENTRY, "tenant_id": "canary-a"}], "canary"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(DeploymentError, match=rf"^agentcoreMemories: .*{TEXTS[text]}, got "):
        a_deployment(agentcoreMemories=text)


@pytest.mark.parametrize("case", BAD)
def test_a_bad_entry_is_refused_with_its_number_its_value_and_the_rule(case: str) -> None:
    entries, rule = BAD[case]
    with pytest.raises(DeploymentError, match=rule) as refused:
        a_deployment(agentcoreMemories=json.dumps(entries))
    said = str(refused.value)
    assert said.startswith("agentcoreMemories: entry ")
    assert ", got {" in said
    assert "\n" not in said


def test_the_command_says_it_in_one_line_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "env=dev", "-c", 'agentcoreMemories=[{"memory_id": "x", "namespaces": ["/"]}]']) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert [line for line in said if "agentcoreMemories: entry 1: memory_id" in line] == said[-1:]


def many(number: int, **more: object) -> list[dict[str, Any]]:
    return [{"memory_id": f"m{n}-Abc1234567", "namespaces": [f"/n{n}/"], **more} for n in range(number)]


@pytest.mark.parametrize(
    ("context", "rule"),
    [
        ({"agentcoreMemories": json.dumps([{**one, "namespaces": ["/"]} for one in many(34)])}, "bytes more than a func"),
        ({"agentcoreMemories": json.dumps(many(16))}, "characters more than an IAM policy"),
        (
            {"agentcoreMemories": json.dumps([{**ENTRY, "namespaces": [f"/n{n:02}/" for n in range(95)]}]),
             "agentcoreIgnoredRoles": ",".join(f"audit-role-of-a-long-name-{n:04}" for n in range(28))},
            "bytes more than a function",
        ),
    ],
)  # fmt: skip
def test_what_aws_would_not_take_is_refused_at_synth(context: dict[str, str], rule: str) -> None:
    with pytest.raises(DeploymentError, match=rule):
        build({"env": "staging", **context, **NO_BUNDLING})


MOST = (
    [{**one, "namespaces": ["/actors/"]} for one in many(18)],
    many(9),
    [{**ENTRY, "namespaces": [f"/t{n:02}/actors/" for n in range(62)]}],
)


@pytest.mark.parametrize("entries", MOST, ids=["memories", "memories and namespaces", "namespaces"])
def test_what_passes_fits_lambda_iam_and_the_parameter_store(entries: list[dict[str, Any]]) -> None:
    found = templates({"env": "staging", "agentcoreMemories": json.dumps(entries)})
    for room in ("agentcore", "access", "erasure"):
        for key, function in resources(found[room], "AWS::Lambda::Function").items():
            variables = function["Properties"].get("Environment", {}).get("Variables", {})
            assert sum(size(name) + size(value) for name, value in variables.items()) <= 4096, (room, key)
        for key, policy in resources(found[room], "AWS::IAM::ManagedPolicy").items():
            assert size(policy["Properties"]["PolicyDocument"]) <= 6144, (room, key)
        for key, policy in resources(found[room], "AWS::IAM::Policy").items():
            assert size(policy["Properties"]["PolicyDocument"]) <= 10_240, (room, key)
        for key, parameter in resources(found[room], "AWS::SSM::Parameter").items():
            tiers = {"Intelligent-Tiering": 8192, None: 4096}
            assert size(parameter["Properties"]["Value"]) <= tiers[parameter["Properties"].get("Tier")], (room, key)


def size(value: object) -> int:
    """Characters of what CloudFormation makes of *value*, with names of roles at their longest."""
    text = json.dumps(_filled(value), separators=(",", ":")) if not isinstance(value, str) else value
    for token, length in (("<AWS::AccountId>", 12), ("<AWS::Region>", 14), ("<AWS::Partition>", 3)):
        text = text.replace(token, "x" * length)
    return len(text.encode())


def _filled(value: object) -> object:
    if isinstance(value, dict):
        if set(value) & {"Fn::Join", "Fn::GetAtt"}:
            return "".join(_role(part) for part in value["Fn::Join"][1]) if "Fn::Join" in value else "x" * 110
        if "Ref" in value:
            return _role(value)
        return {key: _filled(one) for key, one in value.items()}
    return [_filled(one) for one in value] if isinstance(value, list) else value


def _role(part: object) -> str:
    if isinstance(part, dict) and "Ref" in part and "Role" in part["Ref"]:
        return "r" * 64
    return flat(part)
