"""The README says of settings and commands what the code says."""

import re
from pathlib import Path

import pytest
from agent_memory.cli.commands import COMMANDS

from stacks import rules
from stacks.setting_types import as_text
from stacks.settings import KEYS, Deployment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| ([^|(]*?)(?: \([^|]*\))? \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_every_setting_is_in_the_table() -> None:
    assert sorted(row[0] for row in ROW.findall(README)) == sorted(KEYS)


def test_the_defaults_of_the_table_are_those_of_the_code() -> None:
    defaults = {
        field.alias or name: as_text(field.default) or "empty" for name, field in Deployment.model_fields.items()
    }
    assert {key: default for key, default, *_ in ROW.findall(README)}.items() <= defaults.items()


@pytest.mark.parametrize("preset", rules.PRESETS)
def test_the_days_of_each_preset_are_those_of_the_formula(preset: str) -> None:
    prune_days, ttl_days = rules.PRESETS[preset]
    unread = rules.unread_days(Deployment(pruneDays=prune_days, memoryTtlDays=ttl_days))
    assert f"| {preset} | {prune_days} | {ttl_days} | {unread:.1f} days |" in README


def test_every_command_is_in_the_readme() -> None:
    for word in COMMANDS:
        assert re.search(rf"^\| `{word}\b", README, re.MULTILINE), word
