"""Sizes that keep a room readable: handlers 40 lines, functions 40, modules 300."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("layers/agent_memory/python", "lambdas", "stacks", "local")


def modules() -> list[Path]:
    found = [f for room in ROOMS for f in (ROOT / room).rglob("*.py") if "__pycache__" not in f.parts]
    assert found
    return [*found, ROOT / "app.py"]


def test_handlers_are_at_most_40_lines_and_modules_300() -> None:
    over = {}
    for file in modules():
        lines = [line for line in file.read_text().splitlines() if line.strip()]
        budget = 40 if file.name == "handler.py" else 300
        if len(lines) > budget:
            over[str(file.relative_to(ROOT))] = len(lines)
    assert over == {}


def test_functions_are_at_most_40_lines() -> None:
    over = {}
    for file in modules():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > 40:
                    over[f"{file.relative_to(ROOT)}:{node.name}"] = length
    assert over == {}
