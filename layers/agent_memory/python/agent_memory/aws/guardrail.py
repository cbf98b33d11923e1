"""An Amazon Bedrock Guardrail held over a text and the sources that it was made from."""

import re
from collections.abc import Sequence
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.domain.errors import ModelBusyError
from agent_memory.domain.guardrails import GuardrailVerdict

# What one grounding check takes, in characters.
MAX_SOURCES, MAX_QUERY, MAX_TEXT = 100_000, 1_000, 5_000
_VERSIONED = re.compile(r"(?P<id>.+?)(?::(?P<version>\d{1,8}|DRAFT))?")


class BedrockGuardrail:
    """One guardrail by its id or ARN; a version may follow after a colon, otherwise its working draft is used."""

    def __init__(self, client: Any, *, guardrail_id: str) -> None:
        named = _VERSIONED.fullmatch(guardrail_id)
        self._client = client
        self._id = named["id"] if named else guardrail_id
        self._version = (named["version"] if named else None) or "DRAFT"

    def check(self, text: str, sources: Sequence[str], *, query: str) -> GuardrailVerdict:
        """Hold *text* against the guardrail, and against *sources* where it has a grounding check.

        Raises ModelBusyError to retry, AccessRefusedError, AgentMemoryError for a guardrail that is not there."""
        source = "\n".join(sources)
        if len(text) > MAX_TEXT or len(source) > MAX_SOURCES:
            return GuardrailVerdict(passed=False, grounding_checked=False, reason="guardrail_too_long")
        with translating("bedrock:ApplyGuardrail", busy=ModelBusyError):
            answer = self._client.apply_guardrail(
                guardrailIdentifier=self._id,
                guardrailVersion=self._version,
                source="OUTPUT",
                content=[
                    _block(source, "grounding_source"),
                    _block(query[:MAX_QUERY], "query"),
                    _block(text, "guard_content"),
                ],
                # Without this only what intervened is told, and nobody would know whether grounding was looked at.
                outputScope="FULL",
            )
        return _verdict(answer)


def _block(text: str, qualifier: str) -> dict[str, Any]:
    return {"text": {"text": text, "qualifiers": [qualifier]}}


def _verdict(answer: dict[str, Any]) -> GuardrailVerdict:
    filters = [
        one
        for assessment in answer.get("assessments", [])
        for one in assessment.get("contextualGroundingPolicy", {}).get("filters", [])
        if one.get("type") == "GROUNDING"
    ]
    ungrounded = any(
        one.get("action") == "BLOCKED" or one.get("detected") or one.get("score", 1) < one.get("threshold", 0)
        for one in filters
    )
    # A guardrail that masks answers as one that blocks: what it would change is not stored.
    intervened = answer.get("action") != "NONE"
    reason = "ungrounded_by_guardrail" if ungrounded else "refused_by_guardrail" if intervened else ""
    return GuardrailVerdict(passed=not reason, grounding_checked=bool(filters), reason=reason)
