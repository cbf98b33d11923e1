"""Stored items as text and back, byte for byte: DynamoDB's own JSON, its bytes as base64, its keys in order."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from agent_memory.aws.item_codec import Item


def item_text(item: Mapping[str, Any]) -> str:
    """One raw item as ASCII text; equal items give equal texts."""
    return json.dumps({name: _spelled(held) for name, held in item.items()}, sort_keys=True, separators=(",", ":"))


def item_of(text: str) -> Item:
    """The raw item that item_text made *text* of. Raises ValueError when it made no such text."""
    stored = json.loads(text)
    if not isinstance(stored, dict):
        raise ValueError("not an item")  # noqa: TRY004 - one error for all that is no item
    return {name: _unspelled(held) for name, held in stored.items()}


def _spelled(value: Mapping[str, Any]) -> Item:
    (kind, held), *_ = value.items()
    match kind:
        case "B":
            return {"B": base64.b64encode(held).decode("ascii")}
        case "BS":
            return {"BS": sorted(base64.b64encode(one).decode("ascii") for one in held)}
        case "NS" | "SS":
            return {kind: sorted(held)}
        case "M":
            return {"M": {name: _spelled(inner) for name, inner in held.items()}}
        case "L":
            return {"L": [_spelled(inner) for inner in held]}
    return {kind: held}


def _unspelled(value: Mapping[str, Any]) -> Item:
    (kind, held), *_ = value.items()
    match kind:
        case "B":
            return {"B": base64.b64decode(held)}
        case "BS":
            return {"BS": [base64.b64decode(one) for one in held]}
        case "M":
            return {"M": {name: _unspelled(inner) for name, inner in held.items()}}
        case "L":
            return {"L": [_unspelled(inner) for inner in held]}
    return {kind: held}
