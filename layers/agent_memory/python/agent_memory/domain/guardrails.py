"""A second opinion on a text that a model wrote."""

from collections.abc import Sequence
from typing import Protocol

from agent_memory.domain.models import Model


class GuardrailVerdict(Model):
    """*grounding_checked*: the guardrail has a grounding check and it looked. *reason*: a code when not *passed*."""

    passed: bool
    grounding_checked: bool
    reason: str = ""


class Guardrail(Protocol):
    """Judges what a model wrote before it is stored."""

    def check(self, text: str, sources: Sequence[str], *, query: str) -> GuardrailVerdict:
        """Judge *text*, which was made from *sources* to answer *query*. Raises ModelBusyError to retry."""
