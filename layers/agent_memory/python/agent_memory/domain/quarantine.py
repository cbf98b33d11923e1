"""Quarantine: texts of a run that give orders are taken out before anything is stored, and kept for a person to judge.

The run goes on without them. What is kept is scrubbed already, lies under the tenant like everything else, and expires
with the parked runs.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol

from agent_memory.domain.keys import SEPARATOR
from agent_memory.domain.models import (
    Artifacts,
    CandidateFact,
    CandidateProcedure,
    Distillation,
    Episode,
    Model,
    Outcome,
)
from agent_memory.domain.ports import Written
from agent_memory.domain.procedures import Procedure
from agent_memory.domain.screening import Screened, Trust, screen, screen_all, trust_of

# Why a stored text is not shown.
GIVES_ORDERS = "gives_orders"
QUARANTINE_ID = re.compile(r"q-[0-9a-f]{32}")


class Part(StrEnum):
    """Which text of a run it is."""

    TASK = "task"
    ASKED = "asked"
    SUMMARY = "summary"
    FINDING = "finding"
    APPROACH = "approach"
    PATTERN = "pattern"
    FACT = "fact"
    PROCEDURE = "procedure"


class QuarantineState(StrEnum):
    """HELD until a person decides."""

    HELD = "held"
    RELEASED = "released"
    REJECTED = "rejected"


class Withheld(Model):
    """One text that was taken out of a run. *position*: its place among the texts of its part."""

    part: Part
    position: int
    text: str
    trust: Trust
    reasons: tuple[str, ...]
    score: int
    fact: CandidateFact | None = None
    procedure: CandidateProcedure | None = None


class Quarantined(Model):
    """The row of a held text: everything but the text. *applied*: what its release changes is written."""

    tenant_id: str
    quarantine_id: str
    agent_id: str
    run_id: str
    part: Part
    trust: Trust
    reasons: tuple[str, ...]
    score: int
    state: QuarantineState = QuarantineState.HELD
    quarantined_at: int
    expires_at: int
    ended_at: int
    content_key: str = ""
    user_ref: str | None = None
    decided_at: int | None = None
    applied: bool = False


class HeldContent(Model):
    """The held text, and what its gate needs when it is released: the run's own claim expires sooner."""

    text: str
    domain: str = "general"
    task_type: str | None = None
    outcome: Outcome = Outcome.UNKNOWN
    fact: CandidateFact | None = None
    procedure: CandidateProcedure | None = None


class Quarantine(Protocol):
    """The held texts of ONE tenant. A key of another tenant raises CrossTenantError."""

    def keep(self, row: Quarantined, content: HeldContent) -> Written:
        """Write once; a tombstone newer than the run wins and nothing of the text stays."""

    def all(self) -> list[Quarantined]:
        """Every row of the tenant, newest first, every page."""

    def get(self, quarantine_id: str) -> Quarantined | None: ...

    def content(self, row: Quarantined) -> HeldContent:
        """The text of a row. Raises TranscriptError `quarantined_text_missing`."""

    def decide(self, quarantine_id: str, state: QuarantineState, *, at: int) -> bool:
        """Settle a held row. False when it is gone or was settled before."""

    def mark_applied(self, quarantine_id: str) -> bool:
        """Note that a released row is written where it belongs. False when it is gone."""

    def forget_text(self, row: Quarantined) -> None:
        """Remove the text of a settled row."""


def quarantine_id(tenant_id: str, agent_id: str, run_id: str, one: Withheld) -> str:
    """Id of a held text (q- and 32 hex digits): the same text of the same run is held once."""
    parts = SEPARATOR.join((tenant_id, agent_id, run_id, one.part, str(one.position), one.text))
    return "q-" + hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def cleared_mark(text: str) -> str:
    """How an episode remembers that a person let *text* in, without a second copy of it."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def without_orders(distillation: Distillation) -> tuple[Distillation, tuple[Withheld, ...]]:
    """*distillation* without the texts that belong in quarantine, and those."""
    artifacts, found = distillation.artifacts, _Sieve(_trust_in(distillation))
    task = found.one(Part.TASK, distillation.task, Trust.USER)
    asked = found.lines(distillation.asked, known=distillation.task)
    kept = artifacts.model_copy(
        update={
            "task_summary": found.one(Part.SUMMARY, artifacts.task_summary),
            "key_findings": found.each(Part.FINDING, artifacts.key_findings),
            "approach_used": found.one(Part.APPROACH, artifacts.approach_used),
            "reusable_patterns": found.each(Part.PATTERN, artifacts.reusable_patterns),
            "facts": found.facts(artifacts.facts),
            "procedure": found.procedure(artifacts),
        }
    )
    if not found.withheld:
        return distillation, ()
    counts = {**distillation.counts, "texts_quarantined": len(found.withheld)}
    changes = {"task": task, "asked": asked, "artifacts": kept, "counts": counts, "withheld": len(found.withheld)}
    return distillation.model_copy(update=changes), tuple(found.withheld)


def _trust_in(distillation: Distillation) -> Trust:
    """What a run concludes is worth what went into it: a run that read tools or documents speaks for them too."""
    outside = distillation.read_outside or distillation.artifacts.tools_used
    return Trust.OUTSIDE if outside else Trust.AGENT


class _Sieve:
    """Takes out what is held, text by text."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self.withheld: list[Withheld] = []

    def one(self, part: Part, text: str, trust: Trust | None = None) -> str:
        return text if self._kept(part, 0, text, trust or self._trust) else ""

    def each(self, part: Part, texts: Sequence[str]) -> tuple[str, ...]:
        """Each by itself, then neighbours: half an order in each of two findings is an order."""
        held = {at for at, text in enumerate(texts) if screen(text, self._trust).held}
        for at in range(len(texts) - 1):
            if not {at, at + 1} & held and screen(f"{texts[at]} {texts[at + 1]}", self._trust).held:
                held |= {at, at + 1}
        for at in sorted(held):
            found = screen(texts[at], self._trust)
            self._withhold(part, at, texts[at], self._trust, found if found.held else _IN_PARTS)
        return tuple(text for at, text in enumerate(texts) if at not in held)

    def lines(self, asked: str, *, known: str) -> str:
        lines = asked.split("\n")
        held = [line for line in lines if screen(line, Trust.USER).held]
        # What is held as the task is not held a second time as what was asked.
        novel = "\n".join(line for line in held if line not in known)
        if novel:
            self._withhold(Part.ASKED, 0, novel, Trust.USER, screen(novel, Trust.USER))
        return "\n".join(line for line in lines if line not in held) if held else asked

    def facts(self, facts: Iterable[CandidateFact]) -> tuple[CandidateFact, ...]:
        return tuple(
            fact
            for at, fact in enumerate(facts)
            if self._kept(Part.FACT, at, fact.content, trust_of(fact.source), fact=fact)
        )

    def procedure(self, artifacts: Artifacts) -> CandidateProcedure | None:
        proposed = artifacts.procedure
        if proposed is None:
            return None
        texts = (proposed.title, *proposed.steps)
        found = screen_all(texts, self._trust)
        if not found.held:
            return proposed
        self._withhold(Part.PROCEDURE, 0, "\n".join(texts), self._trust, found, procedure=proposed)
        return None

    def _kept(self, part: Part, at: int, text: str, trust: Trust, fact: CandidateFact | None = None) -> bool:
        found = screen(text, trust)
        if found.held:
            self._withhold(part, at, text, trust, found, fact=fact)
        return not found.held

    def _withhold(
        self,
        part: Part,
        at: int,
        text: str,
        trust: Trust,
        found: Screened,
        *,
        fact: CandidateFact | None = None,
        procedure: CandidateProcedure | None = None,
    ) -> None:
        self.withheld.append(
            Withheld(
                part=part,
                position=at,
                text=text,
                trust=trust,
                reasons=found.reasons,
                score=found.score,
                fact=fact,
                procedure=procedure,
            )
        )


_IN_PARTS = Screened(held=True, reasons=("order_in_parts",))


def clean_episode(episode: Episode) -> tuple[Episode, int]:
    """*episode* as it may be shown, and how many texts were left out: rows of earlier releases are screened here."""
    trust = Trust.OUTSIDE if episode.tools_used else Trust.AGENT
    cleared, left_out = set(episode.cleared), 0

    def kept(text: str, of: Trust) -> bool:
        nonlocal left_out
        held = bool(text) and screen(text, of).held and cleared_mark(text) not in cleared
        left_out += held
        return not held

    changes = {
        "task": episode.task if kept(episode.task, Trust.USER) else "",
        "approach_used": episode.approach_used if kept(episode.approach_used, trust) else "",
        "key_findings": tuple(text for text in episode.key_findings if kept(text, trust)),
        "reusable_patterns": tuple(text for text in episode.reusable_patterns if kept(text, trust)),
    }
    return (episode.model_copy(update=changes) if left_out else episode), left_out


def gives_orders(content: str, *, cleared: bool) -> bool:
    """Whether a believed fact must not be shown. Runs enough said it, so it is judged as leniently as a user's word."""
    return not cleared and screen(content, Trust.USER).held


def procedure_gives_orders(procedure: Procedure) -> bool:
    """Whether an approved procedure must not be shown. What a person approved is judged as leniently as a user's word;
    the word of an agent that reviews is an agent's."""
    approval = procedure.approval
    by_person = approval is not None and approval.kind == "person"
    return screen_all((procedure.title, *procedure.steps), Trust.USER if by_person else Trust.AGENT).held


def shown_id(identifier: str) -> str:
    """*identifier* as a heading may show it: callers choose ids, and words can be tied together in one."""
    return "withheld" if screen(identifier, Trust.OUTSIDE).held else identifier
