"""Quarantine: texts of a run that give orders are taken out before anything is stored, and kept for a person to judge.

The run goes on without them. What is kept is scrubbed already, lies under the tenant like everything else, and expires
with the parked runs.
"""

import hashlib
import re
from enum import StrEnum
from typing import Protocol

from agent_memory.domain.keys import SEPARATOR
from agent_memory.domain.models import (
    CandidateFact,
    CandidateProcedure,
    Episode,
    Model,
    Outcome,
)
from agent_memory.domain.ports import Written
from agent_memory.domain.procedures import Procedure
from agent_memory.domain.screening import Trust, screen, screen_all

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


def episode_trust(episode: Episode) -> Trust:
    """How far what *episode* concluded is trusted: a run that used tools speaks for them too."""
    return Trust.OUTSIDE if episode.tools_used else Trust.AGENT


def clean_episode(episode: Episode) -> tuple[Episode, int]:
    """*episode* as it may be shown, and how many texts were left out: rows of earlier releases are screened here."""
    trust = episode_trust(episode)
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
    the word of an agent that reviews is an agent's. Words that one person let out of quarantine and a person approved
    are shown; other words that they were edited into are screened again."""
    approval = procedure.approval
    by_person = approval is not None and approval.kind == "person"
    if by_person and procedure.cleared_sha256 == procedure.steps_sha256:
        return False
    return screen_all((procedure.title, *procedure.steps), Trust.USER if by_person else Trust.AGENT).held


def shown_id(identifier: str) -> str:
    """*identifier* as a heading may show it: callers choose ids, and words can be tied together in one."""
    return "withheld" if screen(identifier, Trust.OUTSIDE).held else identifier
