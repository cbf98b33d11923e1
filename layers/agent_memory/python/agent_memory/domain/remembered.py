"""Facts that an agent asked to be remembered: they join what the deployment's own distiller makes of the run.

They pass the gates of any other fact: a quote that stands in the transcript, a completed and confident run, other runs.
"""

from collections import Counter
from collections.abc import Mapping

from agent_memory.domain.answers import decoded_once
from agent_memory.domain.artifact_reading import read_artifacts
from agent_memory.domain.distillation import gated
from agent_memory.domain.evidence import normalised
from agent_memory.domain.models import Claim, Distillation, DistilledBy, Outcome
from agent_memory.domain.ports import Distiller
from agent_memory.domain.transcripts import Transcript


def only_remembered(artifacts: Mapping[str, object]) -> bool:
    """Whether *artifacts* hold facts and nothing else: the agent remembered something, but distilled nothing."""
    return set(artifacts) == {"facts"} and isinstance(decoded_once(artifacts["facts"]), list)


class WithRemembered:
    """A distiller whose result the remembered facts join. A run that it can't judge is judged by them."""

    def __init__(self, inner: Distiller, *, min_confidence: float) -> None:
        self._inner = inner
        self._min_confidence = min_confidence

    def distil(self, run: Claim, transcript: Transcript) -> Distillation:
        """Raises what the inner distiller raises."""
        made = self._inner.distil(run.model_copy(update={"artifacts": None}), transcript)
        counts: Counter[str] = Counter()
        remembered = read_artifacts(run.artifacts, transcript, counts)
        judged = made.distilled_by is not DistilledBy.EXTRACTIVE
        # The extractive distiller is sure of nothing and knows no outcome but the caller's.
        confidence = made.artifacts.confidence if judged else remembered.confidence
        outcome = made.artifacts.outcome if judged else run.outcome or Outcome.UNKNOWN
        claimed = remembered.model_copy(update={"confidence": confidence, "outcome": outcome, "procedure": None})
        known = {normalised(fact.content) for fact in made.artifacts.facts}
        passed = gated(claimed, run, transcript, self._min_confidence, counts).facts
        new = tuple(fact for fact in passed if normalised(fact.content) not in known)
        counts["facts_remembered"] += len(new)
        return made.model_copy(
            update={
                "artifacts": made.artifacts.model_copy(update={"facts": (*made.artifacts.facts, *new)}),
                "counts": {**made.counts, **_named(counts, made.counts)},
            }
        )


def _named(counts: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Counts of facts; what the inner distiller counted under the same name is added to."""
    return {name: n + before.get(name, 0) for name, n in counts.items() if n and name.startswith("facts")}
