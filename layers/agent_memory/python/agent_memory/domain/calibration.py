"""Floors: how alike a memory must be to be shown. They belong to (embedding model, kind of memory, form of query).

Calibrated with `python -m benchmarks.calibrate_floors` and `python -m benchmarks.calibrate_procedures`;
docs/calibration.md holds the tables that came out.
"""

from enum import StrEnum
from typing import Final, NamedTuple

LOCAL_MODEL: Final = "local.all-minilm-l6-v2"
TITAN_V2: Final = "amazon.titan-embed-text-v2:0"
LONG_QUERY_TOKENS: Final = 40


class QueryForm(StrEnum):
    """`request`: as a user opens a run, one or two sentences. `statement`: the task written out."""

    REQUEST = "request"
    STATEMENT = "statement"


class Floor(NamedTuple):
    """A memory is shown when its fused score reaches *score* or its better cosine reaches *cosine*."""

    score: float
    cosine: float


# An unknown model has a cosine floor only: the starting value of Titan v2. Its fused scores are not calibrated.
NEVER: Final = 2.0
_STARTING: Final = Floor(score=NEVER, cosine=0.75)
_EPISODES: Final = {
    (LOCAL_MODEL, QueryForm.REQUEST): Floor(score=0.66, cosine=0.85),
    (LOCAL_MODEL, QueryForm.STATEMENT): Floor(score=0.66, cosine=0.75),
}
# Without a vector the score is what the words say, and that does not depend on the model.
_WORDS: Final = {
    QueryForm.REQUEST: Floor(score=0.58, cosine=NEVER),
    QueryForm.STATEMENT: Floor(score=0.72, cosine=NEVER),
}

# One sentence against a task: what is the same in meaning is far apart in MiniLM. A model that nobody calibrated gets
# the starting value of Titan v2.
_FACTS: Final = {LOCAL_MODEL: 0.30, TITAN_V2: 0.60}
# Task against task, where no task type is named. Being told to follow the wrong steps costs more than being told none.
_PROCEDURES: Final = {LOCAL_MODEL: 0.85, TITAN_V2: 0.75}


def form_of(query_tokens: int) -> QueryForm:
    """The form of a query, by its length: nobody tells us."""
    return QueryForm.STATEMENT if query_tokens > LONG_QUERY_TOKENS else QueryForm.REQUEST


def episode_floor(model: str | None, form: QueryForm, *, override: float = 0.0) -> Floor:
    """The floor of episodes under *model*, None when the query could not be embedded.

    A positive *override* (setting episodeFloor) replaces it by a floor on the score.
    """
    if override > 0:
        return Floor(score=override, cosine=NEVER)
    return _WORDS[form] if model is None else _EPISODES.get((model, form), _STARTING)


def fact_floor(model: str, *, override: float = 0.0) -> float:
    """The lowest score at which a fact is shown; a positive *override* (setting factFloor) replaces the calibrated."""
    return override if override > 0 else _FACTS.get(model, _FACTS[TITAN_V2])


def procedure_floor(model: str, *, override: float = 0.0) -> float:
    """The lowest likeness of two tasks at which one is told the other's procedure; a positive *override* (setting
    procedureFloor) replaces the calibrated."""
    return override if override > 0 else _PROCEDURES.get(model, _PROCEDURES[TITAN_V2])
