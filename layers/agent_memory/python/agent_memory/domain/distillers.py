"""The three distillers behind one port: extractive (no model), agent (the event's own artifacts), model."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from threading import Semaphore

from agent_memory.domain.answers import Matches, complete_part, decoded_once, read_answer
from agent_memory.domain.artifact_reading import looks_like_artifacts, read_artifacts
from agent_memory.domain.deadlines import Budget, started
from agent_memory.domain.distillation import distillation_of, fallback, gated
from agent_memory.domain.distillation_prompt import (
    ARTIFACTS_SCHEMA,
    INSTRUCTION,
    NOTES_SCHEMA,
    SLICE_INSTRUCTION,
    fenced,
    head_middle_tail,
    is_long,
    question,
    transcript_text,
)
from agent_memory.domain.errors import ModelAnswerError
from agent_memory.domain.extraction import extract
from agent_memory.domain.models import Claim, Distillation, DistilledBy
from agent_memory.domain.ports import ChatAnswer, ChatModel
from agent_memory.domain.transcripts import Transcript

GOOD_STOPS = frozenset({"end_turn", "tool_use"})
# The service's words for other ends; anything else becomes `other`, because reasons name metrics.
BAD_STOPS = frozenset(
    {
        "max_tokens",
        "stop_sequence",
        "guardrail_intervened",
        "content_filtered",
        "malformed_model_output",
        "malformed_tool_use",
        "model_context_window_exceeded",
    }
)
SLICE_ANSWER_TOKENS = 1_500
LATE = "late"
UNUSABLE = "model_answer_"
# All slices at once would be throttled together, and every one of them asked again.
PARALLEL_SLICES = 4
# Shares of the time by which each step must be over; what is left is for the record from the messages alone.
NOTES_BY, ANSWER_BY = 0.5, 0.9


class ExtractiveDistiller:
    """No model: the run's record from its messages alone. Never fails, never teaches."""

    def distil(self, run: Claim, transcript: Transcript) -> Distillation:
        counts: Counter[str] = Counter()
        artifacts = extract(run, transcript, counts)
        return distillation_of(run, transcript, artifacts, DistilledBy.EXTRACTIVE, counts)


class AgentDistiller:
    """The artifacts that came with the event, held to the same rules; unusable ones give way to the messages."""

    def __init__(self, *, min_confidence: float) -> None:
        self._min_confidence = min_confidence

    def distil(self, run: Claim, transcript: Transcript) -> Distillation:
        counts: Counter[str] = Counter()
        given = run.artifacts
        if not given or not looks_like_artifacts(given):
            return fallback(run, transcript, counts, "agent_artifacts_unusable")
        artifacts = read_artifacts(given, transcript, counts)
        artifacts = gated(artifacts, run, transcript, self._min_confidence, counts)
        return distillation_of(run, transcript, artifacts, DistilledBy.AGENT, counts)


class ModelDistiller:
    """One question to a chat model; a bad answer is asked for once more, then the messages speak for themselves.

    *budget*: the time that is left for all of it. A model that does not answer within it counts as a bad answer.
    """

    def __init__(
        self, model: ChatModel, *, max_tokens: int, min_confidence: float, budget: Budget | None = None
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._min_confidence = min_confidence
        self._budget = budget
        self._places = Semaphore(PARALLEL_SLICES)

    def distil(self, run: Claim, transcript: Transcript) -> Distillation:
        """Raises ModelBusyError when the model can't be asked now."""
        counts: Counter[str] = Counter()
        try:
            value = self._answered(run, self._shown(transcript, counts), counts)
        except ModelAnswerError as error:
            return fallback(run, transcript, counts, UNUSABLE + error.reason)
        artifacts = read_artifacts(value, transcript, counts)
        artifacts = gated(artifacts, run, transcript, self._min_confidence, counts)
        return distillation_of(run, transcript, artifacts, DistilledBy.MODEL, counts)

    def _answered(self, run: Claim, text: str, counts: Counter[str]) -> object:
        """The value of the first usable answer. A cut answer's complete entries count when the retry fails as well."""
        note, max_tokens, cut = "", self._max_tokens, None
        reason = ""
        for attempt in range(2):
            counts["model_retries"] += attempt
            asked = self._asked(INSTRUCTION, question(run, text, note), ARTIFACTS_SCHEMA, max_tokens, ANSWER_BY)
            try:
                answer = self._awaited(asked, ANSWER_BY, counts)
            except ModelAnswerError as error:
                # Refused or late: to ask again changes nothing.
                reason = error.reason
                break
            try:
                return _read(answer, looks_like_artifacts, counts)
            except ModelAnswerError as error:
                reason = error.reason
            if reason in ("truncated", "stop_reason_max_tokens"):
                counts["answers_truncated"] += 1
                cut, max_tokens = answer, self._max_tokens * 2
            note = (
                f"Your last answer could not be used ({reason}). Answer again, with the whole object and nothing else."
            )
        if cut is None:
            raise ModelAnswerError(reason)
        return read_answer(*complete_part(cut.arguments, cut.text), looks_like_artifacts)[0]

    def _asked(
        self, instruction: str, text: str, schema: dict[str, object], max_tokens: int, share: float
    ) -> "Future[ChatAnswer]":
        """Begin to ask. A question whose turn comes when the time is over is not asked any more."""

        def ask() -> ChatAnswer:
            # Only slices wait for a place: one that hangs must not keep the record from being asked for.
            with self._places if share == NOTES_BY else nullcontext():
                if self._budget and not self._budget.left(share):
                    raise ModelAnswerError(LATE)
                return self._model.answer(instruction=instruction, text=text, schema=schema, max_tokens=max_tokens)

        return started(ask)

    def _awaited(self, asked: "Future[ChatAnswer]", share: float, counts: Counter[str]) -> ChatAnswer:
        try:
            answer = asked.result(timeout=self._budget.left(share) if self._budget else None)
        except TimeoutError:
            raise ModelAnswerError(LATE) from None
        counts["model_calls"] += 1
        counts["model_input_tokens"] += answer.input_tokens
        counts["model_output_tokens"] += answer.output_tokens
        return answer

    def _shown(self, transcript: Transcript, counts: Counter[str]) -> str:
        """What the model reads: the whole transcript, or head, notes on the middle, tail."""
        text = transcript_text(transcript)
        if not is_long(text):
            return text
        head, middle, tail, left_out = head_middle_tail(text)
        counts["characters_left_out"] += left_out
        asked = [self._asked(SLICE_INSTRUCTION, fenced(p), NOTES_SCHEMA, SLICE_ANSWER_TOKENS, NOTES_BY) for p in middle]
        notes = [self._notes(part, answer, counts) for part, answer in zip(middle, asked, strict=True)]
        if left_out:
            notes.append(f"[{left_out} characters of the middle were left out]")
        return "\n".join((head, "[notes on the middle of the transcript]", *notes, "[end of the notes]", tail))

    def _notes(self, part: str, asked: "Future[ChatAnswer]", counts: Counter[str]) -> str:
        counts["slices"] += 1
        try:
            value = _read(self._awaited(asked, NOTES_BY, counts), _has_notes, counts)
        except ModelAnswerError as error:
            counts["slices_unread"] += 1
            counts["slices_late"] += error.reason == LATE
            return f"[a part of {len(part)} characters could not be read]"
        notes = decoded_once(value["notes"]) if isinstance(value, Mapping) else []
        return "\n".join(note for note in notes if isinstance(note, str)) if isinstance(notes, list) else ""


def _read(answer: ChatAnswer, matches: Matches, counts: Counter[str]) -> object:
    if answer.stop_reason not in GOOD_STOPS:
        raise ModelAnswerError(f"stop_reason_{answer.stop_reason if answer.stop_reason in BAD_STOPS else 'other'}")
    value, repaired = read_answer(answer.arguments, answer.text, matches)
    counts["answers_repaired"] += repaired
    return value


def _has_notes(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(decoded_once(value.get("notes")), list)
