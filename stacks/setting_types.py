"""What a setting can be, and how its value is read from a context and written into a variable."""

import json
from typing import Annotated, Any

from pydantic import Field

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Some = Annotated[int, Field(ge=1, le=1_000_000)]
Days = Annotated[int, Field(ge=1, le=3650)]
JsonText = Annotated[str, Field(description="a JSON object")]
JsonList = Annotated[str, Field(description="a JSON list")]
KnowledgeId = Annotated[str, Field(pattern=r"^([0-9A-Za-z]{10})?$")]
ModelId = Annotated[str, Field(pattern=r"^[A-Za-z0-9.:/_-]*$")]


def json_text(value: Any, kind: type, name: str) -> str:
    """*value* as compact JSON of *kind*. Raises ValueError for what is none; *name* says what it must be."""
    try:
        decoded = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        decoded = None
    if not isinstance(decoded, kind):
        raise ValueError(f"must be a JSON {name}")  # noqa: TRY004 - pydantic turns only ValueError into a finding
    return json.dumps(decoded, sort_keys=True, separators=(",", ":"))


def as_text(value: object) -> str:
    """Text for a variable: 7.0 and 7 are the same setting, and true is written as JSON writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
