"""From a scrubbed distillation to a stored episode: bounded in every part before the first write."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from agent_memory.domain import retention
from agent_memory.domain.decay import DecayRules, decays_at
from agent_memory.domain.errors import ModelAnswerError, RefusedInputError, TranscriptError
from agent_memory.domain.models import (
    Artifacts,
    Claim,
    Distillation,
    Episode,
    Model,
    Outcome,
    RunState,
    RunTicket,
    Vector,
)
from agent_memory.domain.plain_text import one_line, plain, shortened
from agent_memory.domain.ports import Claims, Embedder, Episodes, Ledger
from agent_memory.domain.retention import RetentionRules
from agent_memory.domain.tickets import claim_for

MAX_TASK, MAX_DIGEST = 500, 1_000
# What is embedded may be longer than what is shown; embedding models take some thousand tokens at most.
MAX_EMBEDDED = 6_000
MAX_LIST, MAX_ENTRY, MAX_TEXT, MAX_NAME = 20, 600, 2_000, 128
StoreDecision = Literal["stored", "duplicate", "expired_on_arrival", "erased", "parked"]


class StoreDoors(NamedTuple):
    """What storing a run of one tenant touches."""

    episodes: Episodes
    ledger: Ledger
    claims: Claims
    embedder: Embedder


class StoreRules(NamedTuple):
    """The deployment's rules that an episode is written under."""

    decay: DecayRules
    retention: RetentionRules


class StoredRun(Model):
    """What became of a run. *counts*: what was cut, left out or not embedded. *fact_indexes*: facts to confirm.
    *proposal*: whether there is a procedure to propose."""

    decision: StoreDecision
    reason: str | None = None
    counts: Mapping[str, int] = {}
    fact_indexes: tuple[int, ...] = ()
    proposal: Literal["candidate", "none"] = "none"


def store_run(ticket: RunTicket, doors: StoreDoors, rules: StoreRules, *, now: int) -> StoredRun:
    """Write the episode of a scrubbed run and settle its ledger row. Raises only what is worth another try."""
    if not ticket.scrubbed_key:
        return StoredRun(decision="parked", reason="not_scrubbed")
    try:
        claim = claim_for(ticket, doors.claims)
        distillation = doors.claims.get_distillation(ticket.scrubbed_key)
    except TranscriptError as error:
        return StoredRun(decision="parked", reason=error.reason)
    if not distillation.scrubbed:
        return StoredRun(decision="parked", reason="not_scrubbed")
    if retention.born_expired(claim.ended_at, rules.retention, now=now):
        return _settled(ticket, doors, StoredRun(decision="expired_on_arrival"))
    counts: Counter[str] = Counter()
    episode = compose(claim, distillation, doors.embedder, rules, counts, now=now)
    written = doors.episodes.put(episode)
    # A duplicate has them too: the run may have ended between its episode and its facts.
    teaches = written != "erased" and distillation.artifacts.outcome is Outcome.COMPLETED
    indexes = tuple(range(len(distillation.artifacts.facts))) if teaches else ()
    proposes = teaches and claim.task_type is not None and distillation.artifacts.procedure is not None
    stored = StoredRun(
        decision=written,
        counts=dict(counts),
        fact_indexes=indexes,
        proposal="candidate" if proposes else "none",
    )
    return _settled(ticket, doors, stored)


_STATES = {
    "stored": RunState.STORED,
    "duplicate": RunState.STORED,
    "expired_on_arrival": RunState.EXPIRED_ON_ARRIVAL,
    "erased": RunState.ERASED,
}


def _settled(ticket: RunTicket, doors: StoreDoors, stored: StoredRun) -> StoredRun:
    state = _STATES[stored.decision]
    doors.ledger.move(ticket.agent_id, ticket.run_id, state=state, attempt=ticket.attempt)
    parked = doors.ledger.parked_run(ticket.agent_id, ticket.run_id)
    if parked is not None and parked.attempt <= ticket.attempt:
        # The row goes last: while it stands, its content can still be found and removed.
        doors.claims.delete_parked(ticket.agent_id, ticket.run_id)
        doors.ledger.unpark(ticket.agent_id, ticket.run_id, attempt=ticket.attempt)
    return stored


def compose(
    claim: Claim,
    distillation: Distillation,
    embedder: Embedder,
    rules: StoreRules,
    counts: Counter[str],
    *,
    now: int,
) -> Episode:
    """Return the episode of a run. A text that can't be embedded costs its vector, never the run."""
    artifacts = distillation.artifacts
    task = plain(distillation.task) or plain(artifacts.task_summary)
    asked, findings = distillation.asked or distillation.task, artifacts.key_findings
    task_vector = embedded(task, embedder, counts)
    digest_vector = embedded(compose_digest(asked, findings, MAX_EMBEDDED), embedder, counts)
    return Episode(
        tenant_id=claim.tenant_id,
        agent_id=claim.agent_id,
        run_id=claim.run_id,
        task=shortened(one_line(task), MAX_TASK),
        digest=compose_digest(asked, findings, MAX_DIGEST),
        task_vector=task_vector,
        digest_vector=digest_vector,
        embedding_model=None if task_vector is None and digest_vector is None else embedder.model,
        **_bounded(artifacts, counts),
        outcome=artifacts.outcome,
        confidence=artifacts.confidence,
        distilled_by=distillation.distilled_by,
        names_unchecked=distillation.names_unchecked,
        withheld=distillation.withheld,
        domain=claim.domain,
        task_type=claim.task_type,
        user_ref=claim.user_ref,
        **_dates(claim.ended_at, artifacts.outcome, rules, now),
    )


def _dates(ended_at: int, outcome: Outcome, rules: StoreRules, now: int) -> dict[str, Any]:
    expiry = retention.expires_at(ended_at, rules.retention)
    due = decays_at(
        ended_at=ended_at,
        outcome=outcome,
        expires_at=expiry,
        decay=rules.decay,
        retention=rules.retention,
        now=now,
    )
    return {"created_at": now, "ended_at": ended_at, "expires_at": expiry, "decays_at": due}


def _bounded(artifacts: Artifacts, counts: Counter[str]) -> dict[str, Any]:
    return {
        "task_summary": _text(artifacts.task_summary, counts),
        "key_findings": _entries(artifacts.key_findings, MAX_ENTRY, counts),
        "approach_used": _text(artifacts.approach_used, counts),
        "tools_used": _entries(artifacts.tools_used, MAX_NAME, counts),
        "time_taken_steps": max(artifacts.time_taken_steps, 0),
        "reusable_patterns": _entries(artifacts.reusable_patterns, MAX_ENTRY, counts),
    }


def compose_digest(asked: str, findings: Sequence[str], limit: int) -> str:
    """Return *asked* and *findings* in at most *limit* characters; a long request leaves room for what was found."""
    request = one_line(plain(asked))
    found = "\n".join(text for text in (one_line(plain(finding)) for finding in findings) if text)
    room = min(len(found) + 1, limit * 2 // 5) if found else 0
    return shortened("\n".join(part for part in (shortened(request, limit - room), found) if part), limit)


def embedded(text: str, embedder: Embedder, counts: Counter[str]) -> Vector | None:
    """The vector of *text*; None, counted, when there is nothing to embed or the model has no answer to it."""
    if not text.strip():
        counts["blank_texts"] += 1
        return None
    try:
        return embedder.embed(text[:MAX_EMBEDDED])
    except (ModelAnswerError, RefusedInputError):
        counts["vectors_missing"] += 1
        return None


def _text(text: str, counts: Counter[str]) -> str:
    clean = plain(text)
    counts["texts_cut"] += len(clean) > MAX_TEXT
    return shortened(clean, MAX_TEXT)


def _entries(texts: Sequence[str], length: int, counts: Counter[str]) -> tuple[str, ...]:
    clean = [text for text in (one_line(plain(text)) for text in texts) if text]
    kept = clean[:MAX_LIST]
    counts["entries_left_out"] += len(clean) - len(kept)
    counts["entries_cut"] += sum(len(text) > length for text in kept)
    return tuple(shortened(text, length) for text in kept)
