"""A distillation on its way into the stores: without personal data, then without orders."""

from collections.abc import Mapping
from typing import NamedTuple

from agent_memory.domain import retention
from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    ConfigurationError,
    RetryableError,
    TranscriptError,
)
from agent_memory.domain.models import Claim, Distillation, Model, RunTicket
from agent_memory.domain.ports import Claims, PersonalDataDetector
from agent_memory.domain.privacy import Policy, before_scrubbing, reason_not_scrubbed, scrub_distillation
from agent_memory.domain.quarantine import HeldContent, Quarantine, Quarantined, Withheld, quarantine_id
from agent_memory.domain.retention import RetentionRules
from agent_memory.domain.sifting import without_orders
from agent_memory.domain.tickets import claim_for


class CleanseDoors(NamedTuple):
    """What cleansing a run of one tenant touches."""

    claims: Claims
    quarantine: Quarantine
    detector: PersonalDataDetector


class Cleansed(Model):
    """The ticket with the word that the next Choice reads. *entities*: personal data by type. *held*: texts that this
    call put into quarantine, by reason."""

    ticket: RunTicket
    entities: Mapping[str, int] = {}
    held: Mapping[str, int] = {}


def cleanse(ticket: RunTicket, doors: CleanseDoors, policy: Policy, rules: RetentionRules, *, now: int) -> Cleansed:
    """Scrub and screen the run of *ticket*. Raises only what is worth retrying, or what a deployment has to mend."""
    if not ticket.artifacts_key:
        return Cleansed(ticket=ticket.decided("parked", "not_distilled"))
    try:
        distillation = doors.claims.get_distillation(ticket.artifacts_key)
        scrubbed, entities = scrub_distillation(distillation, doors.detector, policy)
        clean, withheld = without_orders(scrubbed, before_scrubbing(distillation, scrubbed))
        held = _hold(ticket, clean, withheld, doors, rules, now) if withheld else {}
        key = doors.claims.put_distillation(ticket.claim_key, ticket.attempt, clean)
    except (RetryableError, AccessRefusedError, ConfigurationError):
        raise
    except TranscriptError as error:
        return Cleansed(ticket=ticket.decided("parked", error.reason))
    except AgentMemoryError as error:
        return Cleansed(ticket=ticket.decided("parked", reason_not_scrubbed(error)))
    return Cleansed(ticket=ticket.decided("scrubbed", scrubbed_key=key), entities=entities, held=held)


def _hold(
    ticket: RunTicket,
    clean: Distillation,
    withheld: tuple[Withheld, ...],
    doors: CleanseDoors,
    rules: RetentionRules,
    now: int,
) -> dict[str, int]:
    claim, held = claim_for(ticket, doors.claims), dict[str, int]()
    for one in withheld:
        row = _row(claim, one, rules, now)
        content = HeldContent(
            text=one.text,
            domain=claim.domain,
            task_type=claim.task_type,
            outcome=clean.artifacts.outcome,
            fact=one.fact,
            procedure=one.procedure,
        )
        if doors.quarantine.keep(row, content) == "stored":
            held[one.reasons[0]] = held.get(one.reasons[0], 0) + 1
    return held


def _row(claim: Claim, one: Withheld, rules: RetentionRules, now: int) -> Quarantined:
    return Quarantined(
        tenant_id=claim.tenant_id,
        quarantine_id=quarantine_id(claim.tenant_id, claim.agent_id, claim.run_id, one),
        agent_id=claim.agent_id,
        run_id=claim.run_id,
        part=one.part,
        trust=one.trust,
        reasons=one.reasons,
        score=one.score,
        quarantined_at=now,
        expires_at=retention.parked_expires_at(rules, now=now),
        ended_at=claim.ended_at,
        user_ref=claim.user_ref,
    )
