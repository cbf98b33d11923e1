"""What a reviewer does to procedures: look, approve, reject, edit, retire, pin. Each decision on what is stored now."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from agent_memory.domain import procedure_transitions as transitions
from agent_memory.domain.errors import ModelAnswerError, RefusedInputError, StoreBusyError, UnsupportedLanguageError
from agent_memory.domain.models import Model, Vector
from agent_memory.domain.ports import Embedder
from agent_memory.domain.procedure_hygiene import (
    MAX_CHARACTERS,
    MAX_STEP,
    MAX_STEPS,
    MAX_TITLE,
    Proposed,
    cleaned_procedure,
)
from agent_memory.domain.procedure_matching import MAX_EMBEDDED, procedure_text
from agent_memory.domain.procedure_notices import Publish, announce
from agent_memory.domain.procedure_ports import Procedures
from agent_memory.domain.procedure_records import in_review_order, record, summary
from agent_memory.domain.procedures import Procedure, ProcedureRules, ProcedureState, Reviewer, Verdict, Wording
from agent_memory.domain.review_request import ReviewRequest

ROUNDS: Final = 8
LONGEST_REST: Final = 1.0
# What a second agent may do; it proposes no words of its own, and what is kept or ended is for people.
FOR_AGENTS: Final = ("list", "show", "approve", "reject")
NEXT: Final[Mapping[str, str]] = {
    "changed": "its title or steps changed since you read them: show it again and decide on what it says now",
    "own_proposal": "an agent can't approve what it proposed itself: a person or another agent has to",
    "persons_decision": "a person decided on it, and an agent can't overrule that",
    "for_people": "a reviewing agent approves and rejects; the rest is for people",
    "retired": "it is retired: edit it to bring it back into the queue",
    "approved_before": "somebody approved these steps already: its approval says who and when",
    "rejected_before": "it was rejected already: its history says by whom and why",
    "retired_before": "it was retired already",
    "pinned_before": "it was pinned already",
    "not_pinned": "it was not pinned",
    "same_steps": "these are the words that it has",
    "not_found": "no such procedure of this tenant: procedures list has their ids",
    "edited": "it waits for approval again, under its new hash",
    "approved": "runs are offered it from now on",
    "rejected": "no run is offered it, and proposals that mean the same are counted here",
}


# What words must be to be kept, by the code that refuses them.
WORDS: Final[Mapping[str, str]] = {
    "no_title": "a procedure has a title",
    "no_steps": "a procedure has at least one step",
    "too_many_steps": f"at most {MAX_STEPS} steps; make two procedures of it",
    "too_long": f"title, step and all together have at most {MAX_TITLE}, {MAX_STEP} and {MAX_CHARACTERS} characters",
    "memory_quoted_back": "no words of a memory context; say what is to be done",
    "instruction": "no orders about an agent's own instructions; say what is to be done",
}


class ReviewDoors(NamedTuple):
    """What a review touches. *scrub*: takes personal data out of texts. *rest*: waits for a part of so many seconds."""

    procedures: Procedures
    scrub: Callable[[Sequence[str]], Sequence[str]]
    embedder: Callable[[], Embedder]
    publish: Publish
    rest: Callable[[float], None]


class ReviewRules(NamedTuple):
    """The deployment's part. *environment*: for the event that tells reviewers."""

    procedures: ProcedureRules
    environment: str


class Reviewed(Model):
    """The answer. *reason*: a code; *next*: what it means for the reviewer. *total*: listed or not, all that fit."""

    decision: Literal["done", "unchanged", "refused", "not_found", "shown", "listed"]
    reason: str = ""
    next: str = ""
    procedure: Mapping[str, object] | None = None
    procedures: tuple[Mapping[str, object], ...] | None = None
    total: int | None = None
    unreadable: int | None = None

    def words(self) -> dict[str, str]:
        """What may be logged of it."""
        return {"decision": self.decision, "reason": self.reason}


def review(request: ReviewRequest, reviewer: Reviewer, doors: ReviewDoors, rules: ReviewRules, *, now: int) -> Reviewed:
    """Do what *request* asks. Raises RefusedInputError for words that can't be kept, StoreBusyError to try again."""
    if request.action == "list":
        return _listed(request, doors.procedures, rules.procedures)
    if request.action == "show":
        return _shown(request, doors.procedures, rules.procedures)
    if reviewer.kind == "agent" and request.action not in FOR_AGENTS:
        return _answer("refused", "for_people")
    request = _scrubbed(request, doors.scrub)
    for _ in range(ROUNDS):
        known = doors.procedures.find(request.procedure_id)
        if known is None:
            return _answer("not_found", "not_found")
        verdict = _verdict(known, request, reviewer, doors, rules.procedures, now)
        after = verdict.procedure
        if after is None:
            return _answer(verdict.decision, verdict.reason, summary(known, rules.procedures))
        if doors.procedures.save(after, former=_former(known, after, reviewer, now)):
            if request.action == "edit":
                announce(after, doors.publish, environment=rules.environment)
            return _answer(verdict.decision, verdict.reason, summary(after, rules.procedures))
        doors.rest(LONGEST_REST)
    raise StoreBusyError("the procedure kept changing while it was reviewed")


def _verdict(
    known: Procedure, request: ReviewRequest, reviewer: Reviewer, doors: ReviewDoors, rules: ProcedureRules, now: int
) -> Verdict:
    why = request.reason
    if request.action == "approve":
        expected = request.steps_sha256
        return transitions.approve(known, reviewer, expected_sha256=expected, now=now, rules=rules, why=why)
    if request.action == "reject":
        return transitions.reject(known, reviewer, now=now, why=why)
    if request.action == "retire":
        return transitions.retire(known, reviewer, now=now, why=why)
    if request.action == "edit":
        return _edited(known, request, reviewer, doors, now)
    return transitions.pin(known, reviewer, pinned=request.action == "pin", now=now, why=why)


def _edited(known: Procedure, request: ReviewRequest, reviewer: Reviewer, doors: ReviewDoors, now: int) -> Verdict:
    words = _words(known, request)
    embedder = doors.embedder()
    vector: Vector | None = None
    # Not every text can be embedded: then the words alone tell whether a run proposes the same.
    with suppress(ModelAnswerError, RefusedInputError):
        vector = embedder.embed(procedure_text(words.title, words.steps)[:MAX_EMBEDDED])
    verdict = transitions.edit(
        known,
        reviewer,
        title=words.title,
        steps=words.steps,
        expected_sha256=request.steps_sha256,
        now=now,
        vector=vector,
        embedding_model=known.embedding_model if vector is None else embedder.model,
        why=request.reason,
    )
    if verdict.procedure is None:
        return verdict
    warned = verdict.procedure.model_copy(update={"warnings": words.warnings})
    return verdict.model_copy(update={"procedure": warned})


def _words(known: Procedure, request: ReviewRequest) -> Proposed:
    """The words of an edit, held to what a run's proposal is held to."""
    title = known.title if request.title is None else request.title
    words = cleaned_procedure(title, known.steps if request.steps is None else request.steps)
    if words.refusal is not None:
        raise RefusedInputError(
            "title" if words.refusal == "no_title" else "steps",
            f"can't be kept: {words.refusal} ({WORDS[words.refusal]})",
        )
    return words


def _scrubbed(request: ReviewRequest, scrub: Callable[[Sequence[str]], Sequence[str]]) -> ReviewRequest:
    """What a person writes holds names as well as what a run says."""
    title, steps = request.title, request.steps
    texts = [request.reason, *([] if title is None else [title]), *(steps or ())]
    if not any(texts):
        return request
    try:
        clean = iter(scrub(texts))
    except UnsupportedLanguageError:
        rule = "must be in a language that the detector of personal data knows: piiUnsupportedLanguage is park"
        raise RefusedInputError("steps" if steps or title else "reason", rule) from None
    return request.model_copy(
        update={
            "reason": next(clean),
            "title": None if title is None else next(clean),
            "steps": None if steps is None else tuple(clean),
        }
    )


def _former(known: Procedure, after: Procedure, reviewer: Reviewer, now: int) -> Wording | None:
    if known.steps_sha256 == after.steps_sha256:
        return None
    held = {"title": known.title, "steps": known.steps, "steps_sha256": known.steps_sha256}
    return Wording.model_validate({**held, "at": now, "who": reviewer.by})


def _listed(request: ReviewRequest, procedures: Procedures, rules: ProcedureRules) -> Reviewed:
    found = [procedures.in_state(state) for state in request.states or ProcedureState]
    held = in_review_order(_once(one for read in found for one in read))
    return Reviewed(
        decision="listed",
        procedures=tuple(summary(one, rules) for one in held[: request.limit]),
        total=len(held),
        unreadable=sum(read.unreadable for read in found),
    )


def _once(procedures: Iterable[Procedure]) -> Iterable[Procedure]:
    """A procedure that moves on while the states are read one by one may be met twice."""
    return {one.procedure_id: one for one in procedures}.values()


def _shown(request: ReviewRequest, procedures: Procedures, rules: ProcedureRules) -> Reviewed:
    known = procedures.find(request.procedure_id)
    if known is None:
        return _answer("not_found", "not_found")
    found = record(known, rules, procedures.proposed_by(known), procedures.wordings(known))
    return Reviewed(decision="shown", procedure=found)


def _answer(
    decision: Literal["done", "unchanged", "refused", "not_found"],
    reason: str,
    procedure: Mapping[str, object] | None = None,
) -> Reviewed:
    return Reviewed(decision=decision, reason=reason, next=NEXT.get(reason, ""), procedure=procedure)
