"""A deployment that would replace a store is refused before CloudFormation sees it."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from stacks.stateful import RECORD, ReplacementError, refuse_replacements
from support.deployments import templates

Change = Callable[[dict[str, Any]], object]


def a_template() -> dict[str, Any]:
    return copy.deepcopy(templates({"env": "prod"})["storage"])


def logical_id(template: dict[str, Any], prefix: str) -> str:
    return next(key for key in template["Resources"] if key.startswith(prefix))


def episodes(template: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = template["Resources"][logical_id(template, "Episodes")]["Properties"]
    return properties


def transcripts(template: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = template["Resources"][logical_id(template, "Transcripts7")]["Properties"]
    return properties


def moved(template: dict[str, Any]) -> None:
    template["Resources"]["Elsewhere"] = template["Resources"].pop(logical_id(template, "Ledger"))


@pytest.mark.parametrize("environment", ["dev", "staging", "prod", "local"])
def test_what_is_deployed_today_is_on_the_record(environment: str) -> None:
    refuse_replacements(environment, templates({"env": environment})["storage"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: episodes(t).update(TableName="other"), "TableName"),
        (lambda t: episodes(t)["KeySchema"].reverse(), "KeySchema"),
        (lambda t: episodes(t)["GlobalSecondaryIndexes"].pop(), "GlobalSecondaryIndexes"),
        (lambda t: transcripts(t).update(BucketName="other"), "BucketName"),
        (lambda t: transcripts(t).pop("BucketName"), "BucketName"),
        (lambda t: t["Resources"].pop(logical_id(t, "UserKey")), "dropped"),
        (moved, "dropped"),
        (lambda t: t["Resources"][logical_id(t, "Episodes")].update(Type="AWS::DynamoDB::Table"), "Type"),
        (lambda t: t["Resources"].update(New={"Type": "AWS::S3::Bucket"}), "not in stacks/stateful.json"),
    ],
)
def test_a_change_that_would_replace_a_store_is_refused(change: Change, named: str) -> None:
    template = a_template()
    change(template)
    with pytest.raises(ReplacementError) as refused:
        refuse_replacements("prod", template)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_does_not_replace_passes() -> None:
    template = a_template()
    transcripts(template)["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"] = 2
    template["Resources"]["Role"] = {"Type": "AWS::IAM::Role", "Properties": {}}
    refuse_replacements("prod", template)


def test_the_record_names_every_environment() -> None:
    assert set(json.loads(RECORD.read_text())) == {"dev", "staging", "prod", "local"}
