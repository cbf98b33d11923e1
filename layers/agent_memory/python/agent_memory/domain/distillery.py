"""Chooses the distiller of a run by what the deployment has and what the event brought."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agent_memory.domain.deadlines import Budget
from agent_memory.domain.distillers import AgentDistiller, ExtractiveDistiller, ModelDistiller
from agent_memory.domain.errors import AgentMemoryError, TranscriptError, UnsupportedLanguageError
from agent_memory.domain.models import Claim, Distillation
from agent_memory.domain.ports import ChatModel, Distiller
from agent_memory.domain.remembered import WithRemembered, only_remembered
from agent_memory.domain.transcripts import Transcript, read_transcript

Scrub = Callable[[Sequence[str]], Sequence[str]]


class Distillery(NamedTuple):
    """What a deployment distils with. *model* None: no model. *scrub*: applied before the model reads a transcript."""

    model: ChatModel | None
    max_tokens: int
    min_confidence: float
    scrub: Scrub | None = None

    def distil(self, run: Claim, budget: Budget | None = None) -> Distillation:
        """Distil *run* within *budget*. Raises TranscriptError when nothing in it can become a memory, ModelBusyError
        to retry."""
        return self.distiller_of(run, budget).distil(run, readable_transcript(run))

    def distiller_of(self, run: Claim, budget: Budget | None = None) -> Distiller:
        """What the agent made itself is used before anything is asked of a model."""
        if run.artifacts is not None and not only_remembered(run.artifacts):
            return AgentDistiller(min_confidence=self.min_confidence)
        own = self._own_distiller(budget)
        return own if run.artifacts is None else WithRemembered(own, min_confidence=self.min_confidence)

    def _own_distiller(self, budget: Budget | None) -> Distiller:
        if self.model is None:
            return ExtractiveDistiller()
        asking = ModelDistiller(
            self.model, max_tokens=self.max_tokens, min_confidence=self.min_confidence, budget=budget
        )
        return ScrubbedFirst(asking, self.scrub) if self.scrub else asking


def readable_transcript(run: Claim) -> Transcript:
    """The transcript of *run*. Raises TranscriptError when nothing in it can become a memory."""
    transcript = read_transcript(run.messages)
    if not transcript.turns and not run.artifacts:
        raise TranscriptError("nothing_readable" if run.messages else "no_messages")
    return transcript


class ScrubbedFirst:
    """A distiller that sees the transcript only after its personal data were removed."""

    def __init__(self, inner: Distiller, scrub: Scrub) -> None:
        self._inner = inner
        self._scrub = scrub

    def distil(self, run: Claim, transcript: Transcript) -> Distillation:
        texts = [run.task or "", *_texts_of(transcript)]
        clean = dict(zip(texts, self._scrub(texts), strict=True))
        task = clean[run.task] if run.task else None
        return self._inner.distil(run.model_copy(update={"task": task}), _replaced(transcript, clean))


def reason_not_distilled(error: AgentMemoryError) -> str:
    """The code under which a run is parked."""
    if isinstance(error, TranscriptError):
        return error.reason
    return "unsupported_language" if isinstance(error, UnsupportedLanguageError) else type(error).__name__


def _texts_of(transcript: Transcript) -> list[str]:
    texts: list[str] = []
    for turn in transcript.turns:
        texts += (turn.text, *turn.documents)
        for call in turn.calls:
            texts += (call.arguments, call.result or "")
    return texts


def _replaced(transcript: Transcript, clean: Mapping[str, str]) -> Transcript:
    turns = tuple(
        turn.model_copy(
            update={
                "text": clean[turn.text],
                "documents": tuple(clean[document] for document in turn.documents),
                "calls": tuple(
                    call.model_copy(
                        update={
                            "arguments": clean[call.arguments],
                            "result": None if call.result is None else clean[call.result],
                        }
                    )
                    for call in turn.calls
                ),
            }
        )
        for turn in transcript.turns
    )
    return transcript.model_copy(update={"turns": turns})
