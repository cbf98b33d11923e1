"""The contracts of the example, and the two tools by which an agent reads them."""

import re
from functools import cache
from pathlib import Path

from langchain_core.tools import tool

FOLDER = Path(__file__).parent / "contracts"
_HEADING = re.compile(r"^# (\w+) (.+)$", re.MULTILINE)


def names() -> list[str]:
    """The contracts that there are."""
    return sorted(file.stem for file in FOLDER.glob("*.txt"))


@cache
def sections(contract: str) -> dict[str, tuple[str, str]]:
    """Title and text of each section of a contract, by its number or letter. Empty for one that is not there."""
    if contract not in names():
        return {}
    parts = _HEADING.split((FOLDER / f"{contract}.txt").read_text(encoding="utf-8"))[1:]
    numbers, titles, texts = parts[::3], parts[1::3], parts[2::3]
    return {n: (title, " ".join(text.split())) for n, title, text in zip(numbers, titles, texts, strict=True)}


@tool
def list_sections(contract: str) -> str:
    """List the sections of a contract: number or letter, and title."""
    found = sections(contract)
    return "\n".join(f"{number} {title}" for number, (title, _) in found.items()) or f"There is no contract {contract}."


@tool
def read_section(contract: str, section: str) -> str:
    """Read one section of a contract, by its number or letter."""
    found = sections(contract).get(section)
    return found[1] if found else f"There is no section {section} in {contract}."
