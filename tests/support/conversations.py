"""Transcripts, and chat models whose answers are written beforehand."""

from collections.abc import Mapping, Sequence

from agent_memory.domain.distillers import ModelDistiller
from agent_memory.domain.models import Claim, Distillation, Model
from agent_memory.domain.transcripts import Transcript, read_transcript
from support.builders import a_claim, some_messages


class Said(Model):
    """One answer of a chat model."""

    arguments: object | None = None
    text: str = ""
    stop_reason: str = "end_turn"
    input_tokens: int = 100
    output_tokens: int = 20


class ScriptedModel:
    """Answers in the order of the script, the last one again and again, and keeps what it was asked."""

    model = "scripted"

    def __init__(self, *script: Said | Exception) -> None:
        self._script = list(script)
        self.texts: list[str] = []
        self.instructions: list[str] = []
        self.max_tokens: list[int] = []

    def answer(self, *, instruction: str, text: str, schema: Mapping[str, object], max_tokens: int) -> Said:
        assert text.strip(), "a blank text was sent"
        assert schema["type"] == "object"
        self.instructions.append(instruction)
        self.texts.append(text)
        self.max_tokens.append(max_tokens)
        answer = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def a_transcript(*messages: object) -> Transcript:
    return read_transcript(messages or some_messages())


def a_record(**changes: object) -> dict[str, object]:
    """What a good model answers about a run; a change to None removes the field."""
    record: dict[str, object] = {
        "task_summary": "Moved booking K7 to Friday.",
        "outcome": "COMPLETED",
        "confidence": 0.9,
        "key_findings": ["Booking K7 could be moved."],
        "approach_used": "Looked it up, then moved it.",
        "reusable_patterns": [],
        "facts": [],
        **changes,
    }
    return {name: value for name, value in record.items() if value is not None}


def distilled(model: ScriptedModel, run: Claim | None = None, *, min_confidence: float = 0.6) -> Distillation:
    """Distil *run* (a short finished one when none is given) with *model*."""
    run = run or a_claim()
    distiller = ModelDistiller(model, max_tokens=1000, min_confidence=min_confidence)
    return distiller.distil(run, read_transcript(run.messages))


def a_run_that_said(*texts: str, **changes: object) -> Claim:
    """A run in which the user says all of *texts*, and the agent is done."""
    pairs: Sequence[tuple[str, object]] = [*(("user", text) for text in texts), ("assistant", "Done.")]
    return a_claim(messages=tuple(some_messages(*pairs)), **changes)
