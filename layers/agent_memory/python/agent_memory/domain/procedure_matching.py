"""Whether two step lists are the same procedure in other words.

The whole texts only open the question: "evict, then cordon" is as close to "cordon, then evict" as a text can be (0.98
for MiniLM). The decision is made step by step, in order, by the very rules that tell whether two sentences state the
same fact. A list with a step more, or with two steps swapped, is another procedure: a person may still reject it.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from agent_memory.domain.fact_guards_lexicon import SYNONYMS
from agent_memory.domain.fact_guards_replaced import content
from agent_memory.domain.fact_guards_text import Relation, folded
from agent_memory.domain.models import Vector
from agent_memory.domain.procedures import Procedure, ProcedureState
from agent_memory.domain.same_fact import Thresholds, same_fact, thresholds_of

# Procedures whose whole texts are further apart are not compared step by step.
RELATED = 0.6
# An embedder reads so much of a text at once.
MAX_EMBEDDED = 8_000
# "First", "then" and "finally" say what the order of the list says already.
_ORDER_WORD = re.compile(
    r"^(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|then|next|after that|afterwards|finally|lastly)\b[,:]?\s+", re.I
)
# Verbs that say the same at the head of a step; what follows them is compared.
_HEADS = tuple(
    (re.compile(rf"^(?:{said})\b", re.I), verb)
    for said, verb in (
        (r"look ((?:\S+ ){1,4}?)up", r"find \1"),
        ("look up|find|locate|retrieve|fetch", "find"),
        ("verify|make sure|ensure|double-check|check", "check"),
        ("tell|inform|notify", "tell"),
        ("roll out|release|deploy", "deploy"),
        ("update|modify|change", "change"),
    )
)


def procedure_text(title: str, steps: Sequence[str]) -> str:
    """The text whose vector stands for title and steps."""
    return "\n".join((title, *steps))


def standing(procedure: Procedure) -> tuple[int, int, str]:
    """Orders procedures that mean the same: a person's no first, then what is in use, then the oldest."""
    order = (ProcedureState.REJECTED, ProcedureState.ESTABLISHED, ProcedureState.APPROVED, ProcedureState.NEEDS_REVIEW,
             ProcedureState.PENDING, ProcedureState.RETIRED)  # fmt: skip
    return order.index(procedure.state), procedure.created_at, procedure.procedure_id


def same_steps(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether both lists say the same in the same words."""
    return [folded(_bare(step)) for step in a] == [folded(_bare(step)) for step in b]


def same_procedure(
    known: Procedure, title: str, steps: Sequence[str], vector: Vector | None, embed: Callable[[str], Vector]
) -> bool:
    """Whether *steps* are those of *known*. *vector*: of *title* and *steps*, by the model that made the known one's
    (None when it can't be compared). *embed*: that model, asked about single steps."""
    if same_steps(known.steps, steps):
        return True
    if len(known.steps) != len(steps) or not _related(known, vector):
        return False
    thresholds = thresholds_of(known.embedding_model or "")
    spoken_of = _words((known.title, *known.steps)), _words((title, *steps))
    return all(
        _same_step(_bare(ours), _bare(theirs), spoken_of, thresholds, embed)
        for ours, theirs in zip(known.steps, steps, strict=True)
    )


def _same_step(
    a: str,
    b: str,
    spoken_of: tuple[frozenset[str], frozenset[str]],
    thresholds: Thresholds,
    embed: Callable[[str], Vector],
) -> bool:
    if folded(a) == folded(b):
        return True
    cosine = float(np.dot(embed(a), embed(b)))
    verdict = same_fact(a, b, cosine=cosine, thresholds=thresholds)
    if verdict.reason != "not_similar" or cosine < thresholds.related:
        return verdict.relation is Relation.SAME
    # "Change the date" and "Change the date of the booking" say the same where all steps are about a booking.
    ours, theirs = _words((a,)), _words((b,))
    nested = ours <= theirs or theirs <= ours
    return nested and theirs - ours <= spoken_of[0] and ours - theirs <= spoken_of[1]


def _related(known: Procedure, vector: Vector | None) -> bool:
    if vector is None or known.vector is None:
        return False
    return float(np.dot(known.vector, vector)) >= RELATED


def _words(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(SYNONYMS.get(token.stem, token.stem) for text in texts for token in content(text))


def _bare(step: str) -> str:
    """*step* without its place in the order, and with one of the verbs that mean the same at the head of a step."""
    text = _ORDER_WORD.sub("", step)
    for said, verb in _HEADS:
        changed = said.sub(verb, text)
        if changed != text:
            return changed
    return text
