"""docker-compose.yml, which can only be read here: no Docker runs where the tests do."""

import re
from pathlib import Path

import pytest
import yaml

from local.layout import ROOT
from local.models import TOKENIZER_IN_PACKAGE, TOKENIZER_PACKAGE

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def test_emulator_ai_server_and_ollama_are_there():
    assert {"emulator", "ai-server", "ollama"} <= set(SERVICES)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_port_is_published_on_loopback_only(name):
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_image_is_pinned_and_every_named_volume_declared(name):
    tag = SERVICES[name]["image"].rpartition(":")[2]
    assert re.match(r"\d", tag)
    sources = [volume.partition(":")[0] for volume in SERVICES[name].get("volumes", [])]
    assert {source for source in sources if source != "."} <= set(COMPOSE["volumes"])


def test_files_and_pins_that_its_commands_name_are_the_projects():
    text = (ROOT / "docker-compose.yml").read_text()
    for file in re.findall(r"requirements-\w+\.txt|local/\w+\.py", text):
        assert (ROOT / file).exists()
    assert TOKENIZER_PACKAGE in text
    assert TOKENIZER_IN_PACKAGE in text
    assert Path(ROOT / "local" / "ai_server.py").exists()
