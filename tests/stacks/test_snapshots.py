"""The templates of dev and prod as reviewed: UPDATE_SNAPSHOTS=1 writes them anew after a change that is meant."""

import json
import os
import re
from pathlib import Path

import pytest
from support.deployments import ROOMS, templates

SNAPSHOTS = Path(__file__).with_name("snapshots")


def blanked(template: dict[str, object]) -> str:
    """The template without the hashes of code and layers, which change with every edit of a handler."""
    return re.sub(r"\b[0-9a-f]{64}\b", "<asset>", json.dumps(template, indent=1, sort_keys=True)) + "\n"


@pytest.mark.parametrize("environment", ["dev", "prod"])
@pytest.mark.parametrize("room", ROOMS)
def test_the_template_is_the_one_reviewed(environment: str, room: str) -> None:
    found = blanked(templates({"env": environment})[room])
    snapshot = SNAPSHOTS / f"{environment}-{room}.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        snapshot.write_text(found)
    assert found == snapshot.read_text()
