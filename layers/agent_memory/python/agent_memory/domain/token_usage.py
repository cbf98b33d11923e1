"""Token counts as agents report them: only whole, believable numbers count; the rest is ignored and counted."""

import math
from collections import Counter
from collections.abc import Mapping

from agent_memory.domain.models import Model

MOST_TOKENS = 1_000_000_000
_INPUT = ("input_tokens", "prompt_tokens", "inputTokens")
_OUTPUT = ("output_tokens", "completion_tokens", "outputTokens")


class TokenUsage(Model):
    """Tokens that the run itself spent, as far as its messages say. None: unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None


def usage_of(message: Mapping[object, object]) -> Mapping[object, object]:
    """The first usage report of a message; the same figures often stand there twice."""
    metadata = message.get("response_metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    places = (message.get("usage_metadata"), message.get("usage"), metadata.get("usage"), metadata.get("token_usage"))
    return next((place for place in places if isinstance(place, Mapping) and place), {})


def token_usage(reports: list[Mapping[object, object]], counts: Counter[str]) -> TokenUsage:
    """Add the reports up."""
    return TokenUsage(input_tokens=_sum(reports, _INPUT, counts), output_tokens=_sum(reports, _OUTPUT, counts))


def _sum(reports: list[Mapping[object, object]], names: tuple[str, ...], counts: Counter[str]) -> int | None:
    total: int | None = None
    for report in reports:
        value = next((report[name] for name in names if report.get(name) is not None), None)
        tokens = _tokens(value)
        if tokens is not None:
            total = (total or 0) + tokens
        elif value is not None:
            counts["usage_ignored"] += 1
    return total


def _tokens(value: object) -> int | None:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, str) and len(value) <= 10 and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
        return value
    return None
