"""Every bench that the Makefile names can be started: its imports follow the code."""

import importlib
import re
from pathlib import Path

import pytest
from agent_memory.settings import settings_from
from benchmarks.cold_start import environment

ROOT = Path(__file__).parents[2]


def named_in_the_makefile() -> list[str]:
    (names,) = re.findall(r"^bench:.*NAME=([a-z|-]+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [name.replace("-", "_") for name in names.split("|")]


@pytest.mark.parametrize("name", named_in_the_makefile())
def test_a_bench_that_is_named_can_be_started(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{name}").main)


def test_every_module_beside_the_benches_can_be_imported() -> None:
    for file in sorted((ROOT / "tests" / "benchmarks").glob("*.py")):
        importlib.import_module(f"benchmarks.{file.stem}")


def test_the_cold_start_bench_gives_the_function_all_the_settings_it_requires() -> None:
    assert settings_from(environment()).environment == "bench"
