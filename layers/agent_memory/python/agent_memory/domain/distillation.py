"""The gates that every distiller's result passes, and its assembly."""

from collections import Counter

from agent_memory.domain.extraction import asked_in, extract, task_of
from agent_memory.domain.models import Artifacts, Claim, Distillation, DistilledBy, Outcome
from agent_memory.domain.transcripts import Speaker, Transcript


def gated(
    artifacts: Artifacts, run: Claim, transcript: Transcript, min_confidence: float, counts: Counter[str]
) -> Artifacts:
    """Let only confident, completed runs teach; the caller's outcome wins over anything inferred."""
    outcome = run.outcome or artifacts.outcome
    if run.outcome is None and outcome is Outcome.COMPLETED and transcript.has_unanswered_calls:
        outcome = Outcome.PARTIAL
        counts["outcomes_lowered"] += 1
    facts, procedure = artifacts.facts, artifacts.procedure
    if outcome is not Outcome.COMPLETED or artifacts.confidence < min_confidence:
        counts["facts_withheld"] += len(facts)
        counts["procedures_withheld"] += procedure is not None
        facts, procedure = (), None
    elif procedure is not None and not run.task_type:
        counts["procedures_withheld"] += 1
        procedure = None
    return artifacts.model_copy(update={"outcome": outcome, "facts": facts, "procedure": procedure})


def distillation_of(
    run: Claim, transcript: Transcript, artifacts: Artifacts, by: DistilledBy, counts: Counter[str]
) -> Distillation:
    """Put together what is the same for all distillers: the task, what was asked, and the counts."""
    counts.update(transcript.counts)
    counts["run_input_tokens"] = transcript.usage.input_tokens or 0
    counts["run_output_tokens"] = transcript.usage.output_tokens or 0
    task = task_of(run, transcript, counts) or artifacts.task_summary
    if by is not DistilledBy.EXTRACTIVE:
        artifacts = _filled(artifacts, extract(run, transcript, Counter()), counts)
    return Distillation(
        task=task,
        asked=asked_in(transcript, counts) or task,
        artifacts=artifacts,
        distilled_by=by,
        counts={name: count for name, count in counts.items() if count},
        read_outside=_read_outside(transcript),
    )


def _read_outside(transcript: Transcript) -> bool:
    """Whether somebody else than user and agent had a say."""
    return any(
        turn.documents or turn.speaker in (Speaker.TOOL, Speaker.OTHER) or any(call.result for call in turn.calls)
        for turn in transcript.turns
    )


def fallback(run: Claim, transcript: Transcript, counts: Counter[str], reason: str) -> Distillation:
    """The run's record from its messages, because of *reason*: a run is never lost."""
    counts[reason] += 1
    counts["fallbacks"] += 1
    artifacts = extract(run, transcript, counts)
    return distillation_of(run, transcript, artifacts, DistilledBy.EXTRACTIVE, counts)


def _filled(artifacts: Artifacts, extracted: Artifacts, counts: Counter[str]) -> Artifacts:
    """Fill what an answer left blank from the messages, so that an episode always says what it was about."""
    names = ("task_summary", "key_findings", "approach_used")
    blank = {name: getattr(extracted, name) for name in names if not getattr(artifacts, name)}
    counts["fields_filled"] += sum(bool(value) for value in blank.values())
    return artifacts.model_copy(update=blank)
