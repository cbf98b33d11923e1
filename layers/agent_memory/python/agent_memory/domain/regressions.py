"""Regression cases of a tenant: questions whose answers memory must still hold after a night.

A case is asked as a run would ask; its criteria are texts that what is recalled must say.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from agent_memory.contract import SCHEMA_VERSION
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import identifier, label
from agent_memory.domain.models import Model
from agent_memory.domain.plain_text import one_line, plain

# Both askings of one tenant must end within the time of a function, whichever scorer is asked.
MAX_CASES: Final = 50
MAX_CRITERIA: Final = 10
MAX_QUESTION: Final = 2_000
MAX_CRITERION: Final = 500
FIELDS: Final = frozenset({"case_id", "agent_id", "question", "criteria", "minimum", "domain", "user_id", "scorer"})


class Scorer(StrEnum):
    """`retrieval`: the criteria's words and meaning in what is recalled; needs no chat model. `judge`: a chat model
    (setting judgeModelId) says how well what is recalled meets them."""

    RETRIEVAL = "retrieval"
    JUDGE = "judge"


class RegressionCase(Model):
    """One question to memory. *minimum*: the least score in (0, 1] that passes. All text is scrubbed.

    *user_ref*: asked as this user, whose own facts count then.
    """

    case_id: str
    agent_id: str
    question: str
    criteria: tuple[str, ...]
    minimum: float
    domain: str | None = None
    user_ref: str | None = None
    scorer: Scorer = Scorer.RETRIEVAL
    added_at: int = 0
    schema_version: int = SCHEMA_VERSION

    def texts(self) -> tuple[str, ...]:
        """Everything in it that a person wrote."""
        return (self.question, *self.criteria)

    def said_with(self, texts: Sequence[str]) -> "RegressionCase":
        """The case with its texts replaced, in the order of `texts`."""
        return self.model_copy(update={"question": texts[0], "criteria": tuple(texts[1:])})


def regression_case(given: object, *, now: int, user_ref: str | None = None) -> RegressionCase:
    """Read a case as a person or a file gives it; its user_id was replaced by *user_ref* before.

    Raises RefusedInputError naming the field and the rule.
    """
    if not isinstance(given, Mapping):
        raise RefusedInputError("case", f"must be a JSON object with {', '.join(sorted(FIELDS))}")
    unknown = sorted(str(name)[:40] for name in given if name not in FIELDS)
    if unknown:
        raise RefusedInputError("case", f"has no field {unknown[0]!r}; known are {', '.join(sorted(FIELDS))}")
    domain = given.get("domain")
    return RegressionCase(
        case_id=identifier(given.get("case_id"), "case_id"),
        agent_id=identifier(given.get("agent_id"), "agent_id"),
        question=_text(given.get("question"), "question", MAX_QUESTION),
        criteria=_criteria(given.get("criteria")),
        minimum=_minimum(given.get("minimum")),
        domain=None if domain is None else label(domain, "domain"),
        user_ref=user_ref,
        scorer=_scorer(given.get("scorer", Scorer.RETRIEVAL)),
        added_at=now,
    )


def _criteria(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_CRITERIA:
        raise RefusedInputError("criteria", f"must be 1 to {MAX_CRITERIA} texts that the answer has to say")
    return tuple(dict.fromkeys(_text(one, "criteria", MAX_CRITERION) for one in value))


def _text(value: object, field: str, most: int) -> str:
    text = one_line(plain(value)) if isinstance(value, str) else ""
    if not text or len(text) > most:
        raise RefusedInputError(field, f"must be text of 1 to {most} characters")
    return text


def _minimum(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise RefusedInputError("minimum", "must be a number above 0 and at most 1: the least score that passes")
    return float(value)


def _scorer(value: object) -> Scorer:
    if not isinstance(value, str) or value not in tuple(Scorer):
        raise RefusedInputError("scorer", f"must be one of {', '.join(Scorer)}")
    return Scorer(value)
