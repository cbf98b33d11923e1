"""How long things are kept. All times are whole epoch seconds UTC; age counts from `ended_at`."""

from agent_memory.domain.models import Model, Outcome

DAY_SECONDS = 86_400
HOUR_SECONDS = 3_600
# An event can be delivered again from a dead letter queue or a client's outbox long after its episode is gone.
LEDGER_GRACE_DAYS = 30


class RetentionRules(Model):
    """A deployment's retention in days.

    DynamoDB TTL deletes without an archive, so the night sees an episode *archive_before_expiry_hours* before that.
    """

    memory_ttl_days: int = 90
    summary_ttl_days: int = 45
    semantic_ttl_days: int = 270
    archive_before_expiry_hours: int = 72
    failed_retention_days: int = 7
    parked_days: int = 30
    transcript_days: int = 3


def expires_at(ended_at: int, rules: RetentionRules) -> int:
    """When the episode of a run that ended at *ended_at* expires."""
    return ended_at + rules.memory_ttl_days * DAY_SECONDS


def born_expired(ended_at: int, rules: RetentionRules, *, now: int) -> bool:
    """Whether an episode written now would be expired already."""
    return expires_at(ended_at, rules) <= now


def parked_expires_at(rules: RetentionRules, *, now: int) -> int:
    """When a run that is parked now is given up."""
    return now + rules.parked_days * DAY_SECONDS


def transcript_expires_at(accepted_at: int, rules: RetentionRules) -> int:
    """When what a run brought along is removed from the transcripts bucket."""
    return accepted_at + rules.transcript_days * DAY_SECONDS


def ledger_expires_at(rules: RetentionRules, *, now: int) -> int:
    """When the ledger may forget a run accepted now: after its episode and its parked copy."""
    return now + (rules.memory_ttl_days + rules.parked_days + LEDGER_GRACE_DAYS) * DAY_SECONDS


def archived_from(expiry: int, rules: RetentionRules) -> int:
    """When the night archives what expires at *expiry*."""
    return expiry - rules.archive_before_expiry_hours * HOUR_SECONDS


def removal_due_at(ended_at: int, outcome: Outcome, expiry: int, rules: RetentionRules) -> int:
    """The latest time at which the nightly plan must look at an episode, however relevant it is."""
    before_expiry = archived_from(expiry, rules)
    if outcome is Outcome.FAILED:
        return min(before_expiry, ended_at + rules.failed_retention_days * DAY_SECONDS)
    return before_expiry
