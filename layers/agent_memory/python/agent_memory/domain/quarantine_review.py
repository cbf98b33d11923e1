"""What a person does with held texts: release one into its ordinary gate, once, or reject it."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from agent_memory.domain.artifact_reading import MAX_FACT
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.fact_confirming import ConfirmDoors, ConfirmRules, confirm_released
from agent_memory.domain.models import Claim, Model
from agent_memory.domain.ports import WithheldEpisodes
from agent_memory.domain.quarantine import HeldContent, Part, Quarantine, Quarantined, QuarantineState, cleared_mark

Released = Literal["released", "unchanged", "not_found", "rejected", "episode_gone", "refused", "erased"]
Rejected = Literal["rejected", "unchanged", "not_found", "released"]
# The field of an episode that a part goes back to; a list is appended to, a text is set.
FIELDS = {
    Part.TASK: "task",
    Part.SUMMARY: "task_summary",
    Part.APPROACH: "approach_used",
    Part.FINDING: "key_findings",
    Part.PATTERN: "reusable_patterns",
}


class ReleaseDoors(NamedTuple):
    """What a release touches. *propose* None: this deployment keeps no procedures."""

    quarantine: Quarantine
    episodes: WithheldEpisodes
    confirming: Callable[[], ConfirmDoors]
    propose: Callable[[Quarantined, HeldContent], str] | None = None


class ReleasedText(Model):
    """What became of a release. *gate*: the word of the gate that the text went through."""

    result: Released
    gate: str | None = None


def release(quarantine_id: str, doors: ReleaseDoors, rules: ConfirmRules, *, now: int) -> ReleasedText:
    """Let a held text go on as if it had never been held. A second release changes nothing; one that broke off is
    taken up again. Raises RefusedInputError for a procedure where none are kept, and what is worth retrying."""
    row = doors.quarantine.get(quarantine_id)
    if row is None:
        return ReleasedText(result="not_found")
    if row.part is Part.PROCEDURE and doors.propose is None:
        raise RefusedInputError("QUARANTINE_ID", "names a procedure, which this deployment does not keep; reject it")
    if row.state is QuarantineState.REJECTED:
        return ReleasedText(result="rejected")
    if row.applied:
        return ReleasedText(result="unchanged")
    content = doors.quarantine.content(row)
    if row.state is QuarantineState.HELD and not doors.quarantine.decide(
        quarantine_id, QuarantineState.RELEASED, at=now
    ):
        # Somebody else decided at the same moment: their word stands.
        return release(quarantine_id, doors, rules, now=now)
    done = _applied(row, content, doors, rules, now)
    doors.quarantine.mark_applied(quarantine_id)
    doors.quarantine.forget_text(row)
    return done


def reject(quarantine_id: str, quarantine: Quarantine, *, now: int) -> Rejected:
    """Keep a text out for good. Its row stays until it expires, its text goes."""
    row = quarantine.get(quarantine_id)
    if row is None:
        return "not_found"
    if row.state is QuarantineState.RELEASED:
        return "released"
    changed = quarantine.decide(quarantine_id, QuarantineState.REJECTED, at=now)
    if row.state is QuarantineState.HELD and not changed:
        return reject(quarantine_id, quarantine, now=now)
    quarantine.forget_text(row)
    return "rejected" if changed else "unchanged"


def _applied(
    row: Quarantined, content: HeldContent, doors: ReleaseDoors, rules: ConfirmRules, now: int
) -> ReleasedText:
    if row.part is Part.FACT:
        return _observed(row, content, doors.confirming(), rules, now)
    if row.part is Part.PROCEDURE and doors.propose is not None:
        gate = doors.propose(row, content)
        if gate == "erased":
            return ReleasedText(result="erased")
        return ReleasedText(result="refused" if gate in ("refused", "unreadable") else "released", gate=gate)
    if row.part is Part.ASKED:
        # It was part of what finds the episode, not of what is shown.
        return ReleasedText(result="released", gate="not_shown")
    back = doors.episodes.give_back(
        row.agent_id, row.run_id, field=FIELDS[row.part], text=content.text, mark=cleared_mark(content.text)
    )
    return ReleasedText(result="released" if back else "episode_gone")


def claim_of(row: Quarantined, content: HeldContent) -> Claim:
    """What is still known of the run whose text was held: its own claim expires sooner."""
    return Claim(
        tenant_id=row.tenant_id,
        agent_id=row.agent_id,
        run_id=row.run_id,
        ended_at=row.ended_at,
        domain=content.domain,
        task_type=content.task_type,
        user_ref=row.user_ref,
        content_sha256="",
    )


def _observed(
    row: Quarantined, content: HeldContent, doors: ConfirmDoors, rules: ConfirmRules, now: int
) -> ReleasedText:
    if content.fact is None or len(content.fact.content) > MAX_FACT:
        return ReleasedText(result="refused", gate="unreadable")
    claim = claim_of(row, content)
    source = f"quarantine:{row.quarantine_id}"
    confirmed = confirm_released(source, claim, content.fact, content.outcome, doors, rules, now=now)
    if confirmed.decision == "erased":
        return ReleasedText(result="erased")
    result: Released = "refused" if confirmed.decision == "refused" else "released"
    return ReleasedText(result=result, gate=confirmed.decision if result == "released" else confirmed.reason)
