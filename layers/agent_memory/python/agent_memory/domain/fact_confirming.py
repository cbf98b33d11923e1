"""Takes the candidates of a run through the gate and keeps what follows from each.

All candidates of a run go into one transaction: the head of a domain orders its writes, and ten writes of a run would
be ten turns in the queue of everybody else. The run's receipt tells the decision on each when it is asked for again.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agent_memory.domain import retention
from agent_memory.domain.confirmation import confirm
from agent_memory.domain.errors import (
    ModelAnswerError,
    ModelBusyError,
    RefusedInputError,
    StoreBusyError,
    TranscriptError,
)
from agent_memory.domain.fact_batch import Batch
from agent_memory.domain.fact_guards_text import Relation
from agent_memory.domain.fact_judge import MAX_CALLS, judged
from agent_memory.domain.fact_writes import Confirmed, FactWrite, Receipt
from agent_memory.domain.facts import Action, Candidate, ConfirmationSettings, Decision
from agent_memory.domain.knowledge_ports import DirtyDomains, FactDocuments
from agent_memory.domain.models import (
    Artifacts,
    CandidateFact,
    Claim,
    Distillation,
    DistilledBy,
    Model,
    Outcome,
    RunTicket,
)
from agent_memory.domain.plain_text import one_line
from agent_memory.domain.ports import ChatModel, Claims, Embedder, Facts
from agent_memory.domain.promotion import concerns_knowledge, publish
from agent_memory.domain.retention import RetentionRules
from agent_memory.domain.tickets import claim_for

ROUNDS = 14
# What scrubbing left behind: "[NAME] signs the orders" would be confirmed by runs about three different people.
REDACTED = re.compile(r"\[[A-Z][A-Z_]{2,40}\]")
FIRST_REST, LONGEST_REST = 0.1, 1.5
# Whoever confirms in a busy domain waits for a turn first: reading a whole domain in vain costs more than asking.
TURNS, TURN_SECONDS = 60, 5


class ConfirmDoors(NamedTuple):
    """What confirming touches. *rest*: waits for a random part of so many seconds. *time*: whole seconds, to wait by.
    *judge* None: nobody is asked."""

    facts: Facts
    documents: FactDocuments
    claims: Claims
    dirty: DirtyDomains
    embedder: Embedder
    judge: ChatModel | None
    rest: Callable[[float], None]
    time: Callable[[], int]


class ConfirmRules(NamedTuple):
    """The deployment's rules."""

    gate: ConfirmationSettings
    retention: RetentionRules


class FactsConfirmed(Model):
    """The answer for one candidate, and what this call decided, of the run's others too."""

    asked: Confirmed
    fresh: tuple[Confirmed, ...] = ()
    counts: Mapping[str, int] = {}


def confirm_fact(
    ticket: RunTicket, index: int, doors: ConfirmDoors, rules: ConfirmRules, *, now: int
) -> FactsConfirmed:
    """Decide what the candidate at *index* does, and those of its run that are open. Raises what is worth retrying."""
    if not ticket.scrubbed_key:
        return _not_confirmed(index, "not_scrubbed")
    receipt = doors.facts.receipt(ticket.agent_id, ticket.run_id)
    if receipt is not None and receipt.source == ticket.scrubbed_key and (known := receipt.of(index)):
        return FactsConfirmed(asked=known)
    try:
        claim = claim_for(ticket, doors.claims)
        distillation = doors.claims.get_distillation(ticket.scrubbed_key)
    except TranscriptError as error:
        return _not_confirmed(index, error.reason)
    if not distillation.scrubbed:
        return _not_confirmed(index, "not_scrubbed")
    if not 0 <= index < len(distillation.artifacts.facts):
        return _not_confirmed(index, "no_such_fact")
    return _Confirming(ticket.scrubbed_key, claim, distillation, doors, rules, now).answer(index)


def confirm_released(
    source: str,
    claim: Claim,
    fact: CandidateFact,
    outcome: Outcome,
    doors: ConfirmDoors,
    rules: ConfirmRules,
    *,
    now: int,
) -> Confirmed:
    """Observe a fact that a person let out of quarantine, as its run would have. *source* names the decision."""
    artifacts = Artifacts(task_summary="", outcome=outcome, facts=(fact.model_copy(update={"cleared": True}),))
    released = Distillation(task="", asked="", artifacts=artifacts, distilled_by=DistilledBy.MODEL, scrubbed=True)
    return _Confirming(source, claim, released, doors, rules, now, receipt=source).answer(0).asked


def confirm_for(
    entry: str, claim: Claim, distillation: Distillation, doors: ConfirmDoors, rules: ConfirmRules, *, now: int
) -> tuple[Confirmed, ...]:
    """Take what something else than its end says for a run (*claim*) through the gate; *entry* names its own receipt.

    The gate counts the run once, whoever speaks for it. Raises what is worth retrying."""
    asked = _Confirming(entry, claim, distillation, doors, rules, now, receipt=entry).answer(0)
    return asked.fresh


def _not_confirmed(index: int, reason: str) -> FactsConfirmed:
    return FactsConfirmed(asked=Confirmed(index=index, decision="not_confirmed", reason=reason))


class _Confirming:
    """The candidates of one run on their way."""

    def __init__(
        self,
        source: str,
        claim: Claim,
        distillation: Distillation,
        doors: ConfirmDoors,
        rules: ConfirmRules,
        now: int,
        *,
        receipt: str | None = None,
    ) -> None:
        self._source = source
        self._entry = receipt or claim.run_id
        self._claim = claim
        self._distillation = distillation
        self._doors = doors
        self._rules = rules
        self._now = now
        self._embedded: dict[int, Candidate | Confirmed] = {}
        self._judgements: dict[tuple[int, str], Relation | None] = {}
        self._fresh: dict[int, Confirmed] = {}
        self._counts: Counter[str] = Counter()

    def answer(self, index: int) -> FactsConfirmed:
        busy = self._embed()
        receipt = self._receipt()
        for attempt in range(ROUNDS):
            left = [i for i in sorted(self._embedded) if receipt.of(i) is None]
            if not left:
                break
            self._await_turn()
            written = self._write(receipt, left)
            if written == "erased":
                return FactsConfirmed(asked=Confirmed(index=index, decision="erased", reason="tombstone"))
            if written == "conflict":
                self._counts["conflicts"] += 1
                self._doors.rest(min(LONGEST_REST, FIRST_REST * 2**attempt))
            receipt = self._receipt()
        asked = receipt.of(index)
        if asked is not None:
            return FactsConfirmed(asked=asked, fresh=tuple(self._fresh.values()), counts=dict(self._counts))
        raise busy.get(index) or StoreBusyError("the facts of a domain kept changing while a run was confirmed")

    def _await_turn(self) -> None:
        for attempt in range(TURNS):
            now = self._doors.time()
            if self._doors.facts.take_turn(self._claim.domain, self._source, now=now, until=now + TURN_SECONDS):
                return
            self._counts["waits"] += 1
            self._doors.rest(min(LONGEST_REST, FIRST_REST * 2**attempt))

    def _embed(self) -> dict[int, ModelBusyError]:
        """Embed what is open. One text that can't be embedded now holds up no other; it is tried again by itself."""
        receipt, busy = self._receipt(), {}
        for index, fact in enumerate(self._distillation.artifacts.facts):
            if receipt.of(index) is not None:
                continue
            try:
                self._embedded[index] = self._candidate(index, fact)
            except ModelBusyError as error:
                busy[index] = error
            except (ModelAnswerError, RefusedInputError):
                self._embedded[index] = Confirmed(index=index, decision="refused", reason="not_embedded")
        self._counts["embeddings_busy"] += len(busy)
        return busy

    def _candidate(self, index: int, fact: CandidateFact) -> Candidate:
        claim, embedder = self._claim, self._doors.embedder
        # One form for composed and decomposed letters, or equal sentences would not even be compared.
        content = one_line(unicodedata.normalize("NFC", fact.content))
        return Candidate(
            tenant_id=claim.tenant_id,
            domain=claim.domain,
            agent_id=claim.agent_id,
            run_id=claim.run_id,
            position=index,
            outcome=self._distillation.artifacts.outcome,
            content=content,
            confidence=fact.confidence,
            evidence=fact.evidence,
            scope=fact.scope,
            user_ref=claim.user_ref,
            source=fact.source,
            source_hash=fact.source_hash,
            vector=embedder.embed(content),
            embedding_model=embedder.model,
            valid_until=fact.valid_until,
            cleared=fact.cleared,
        )

    def _receipt(self) -> Receipt:
        claim = self._claim
        known = self._doors.facts.receipt(claim.agent_id, self._entry)
        if known is not None and known.source == self._source:
            return known
        return Receipt(
            agent_id=claim.agent_id,
            run_id=self._entry,
            source=self._source,
            ended_at=claim.ended_at,
            expires_at=retention.ledger_expires_at(self._rules.retention, now=self._now),
            user_ref=claim.user_ref,
            revision=known.revision if known else 0,
        )

    def _write(self, receipt: Receipt, left: list[int]) -> str:
        """Decide as many of *left* as one transaction takes, against the domain as it is now, and keep that."""
        seen = self._doors.facts.domain(self._claim.domain)
        batch = Batch(seen)
        for index in left:
            batch.add(index, self._decided(index, batch))
            if batch.full:
                break
        receipt = receipt.model_copy(update={"decided": (*receipt.decided, *batch.decided)})
        changed = tuple(batch.changed.values())
        if not changed:
            written = self._doors.facts.keep_receipt(receipt)
        else:
            if concerns_knowledge(changed):
                # Before the write: a mark too many is cleared, a mark too few would leave a fact out of sight.
                self._doors.dirty.note(self._claim.tenant_id, self._claim.domain, now=self._now)
            change = FactWrite(seen=seen, facts=changed, observations=tuple(batch.observations), receipt=receipt)
            written = self._doors.facts.write(change)
        if written == "erased" or not changed:
            self._doors.facts.give_turn(self._claim.domain, self._source)
        if written == "written":
            self._fresh |= {one.index: one for one in batch.decided}
            for fact in batch.promoted:
                publish(fact, self._doors.facts, self._doors.documents)
        return written

    def _decided(self, index: int, batch: Batch) -> Confirmed | Decision:
        candidate = self._embedded[index]
        if isinstance(candidate, Confirmed):
            return candidate
        decision = self._confirm(candidate, batch)
        unasked = [known for known in decision.close_calls if (index, known) not in self._judgements]
        if self._doors.judge is None or decision.action in (Action.REFUSED, Action.REPEATED) or not unasked:
            return decision
        contents = {fact.fact_id: fact.content for fact in batch.facts.values()}
        for known in unasked[:MAX_CALLS]:
            self._counts["judge_calls"] += 1
            self._judgements[index, known] = judged(self._doors.judge, contents[known], candidate.content)
        return self._confirm(candidate, batch)

    def _confirm(self, candidate: Candidate, batch: Batch) -> Decision:
        if REDACTED.search(candidate.content):
            return Decision(action=Action.REFUSED, reason="redacted")
        words = {
            known: relation
            for (index, known), relation in self._judgements.items()
            if index == candidate.position and relation is not None
        }
        known = list(batch.facts.values())
        return confirm(candidate, known=known, settings=self._rules.gate, now=self._now, judgements=words)
