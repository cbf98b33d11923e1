"""Facts for a task: what the Knowledge Base finds, and what is believed but not searchable there yet.

The Knowledge Base finds, the rows decide: its copy of a fact may be older than the fact's retirement, expiry or
dispute. Without a domain the whole tenant is asked, on the fast path domain by domain as the tenant's own list has
them: the registry of dirty domains is not for functions that serve one tenant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from agent_memory.domain.deadlines import Reads, started
from agent_memory.domain.fact_writes import FoundFact
from agent_memory.domain.facts import BELIEVED, WITHDRAWN, Fact, FactState
from agent_memory.domain.knowledge import MAX_RESULTS, KnowledgeQuery, Passages
from agent_memory.domain.knowledge_ports import Knowledge
from agent_memory.domain.models import FactScope, Vector
from agent_memory.domain.ports import Facts, UserRefs
from agent_memory.domain.quarantine import GIVES_ORDERS, gives_orders, shown_id
from agent_memory.domain.recall_request import FactRules, RecallRequest
from agent_memory.domain.recalled import RecalledItem, Remembered, iso

# Some of what is found may turn out to be withdrawn or expired.
WIDER = 3
# Domains that are read at the same time when none is named.
AT_ONCE = 8
# Shares of the budget by which the facts, and what is asked about them then, must be there.
FACTS_BY, ABOUT_BY = 0.9, 0.95
ELSEWHERE = "domain_matched_nothing"
Source = Literal["knowledge_base", "fast_path"]


class FactDoors(NamedTuple):
    """What a recall of facts touches. Functions, because opening a door may be slow or refused as well."""

    facts: Callable[[], Facts]
    knowledge: Callable[[], Knowledge]
    user_refs: Callable[[], UserRefs]


class FactCandidate(NamedTuple):
    """A fact that was found. *row* None: only its document is left. *reason*: why it is not shown; None: it may be."""

    fact_id: str
    score: float
    source: Source
    row: FoundFact | None
    reason: str | None


class FoundFacts(NamedTuple):
    """The answer of the tier. *passing*: facts that fit, before the limit. *foreign*: results of another tenant or user
    that were dropped. *elsewhere*: facts of other domains that fit, when the domain that was named holds nothing.
    *stored*: everything that could have been compared with the task, if it had been readable."""

    memories: tuple[Remembered, ...] = ()
    passing: int = 0
    stored: int = 0
    explain: tuple[Mapping[str, object], ...] = ()
    foreign: int = 0
    unreadable: int = 0
    skipped_vectors: int = 0
    elsewhere: int = 0
    withheld: int = 0


class _Hits(NamedTuple):
    passages: Passages
    rows: Mapping[str, FoundFact]


class SemanticRecall:
    """The facts for one request; the reads begin when it is made."""

    def __init__(self, request: RecallRequest, doors: FactDoors, reads: Reads, *, now: int, rules: FactRules) -> None:
        self._request = request
        self._doors = doors
        self._reads = reads
        self._now = now
        self._rules = rules
        self._user = started(self._named_user)
        self._knowledge = started(lambda: self._hits(request.domain))
        self._pending = started(self._waiting)

    def found(self, vector: Vector | None, model: str) -> FoundFacts:
        """The facts that may be shown, best first. *vector* None: what is not searchable yet can't be compared."""
        user_ref = self._reads.result(self._user, FACTS_BY, tier="user")
        hits = self._reads.result(self._knowledge, FACTS_BY, tier="semantic")
        pending = self._reads.result(self._pending, FACTS_BY, tier="semantic") or []
        comparable = [one for one in pending if _comparable(one, vector, model)]
        waiting = [self._judged(one, _cosine(one, vector), "fast_path", user_ref) for one in comparable]
        ranked = _ranked([*self._candidates(hits, user_ref), *waiting])
        passing = [one for one in ranked if one.reason is None]
        nothing = hits is not None and not hits.passages.found and not pending
        passages = hits.passages if hits else Passages()
        return FoundFacts(
            memories=self._remembered([one.row for one in passing if one.row], [one.score for one in passing]),
            passing=len(passing),
            stored=len(passages.found) + passages.unreadable + len(pending),
            explain=tuple(_explained(one) for one in ranked),
            foreign=passages.foreign,
            unreadable=passages.unreadable,
            withheld=sum(one.reason == GIVES_ORDERS for one in ranked),
            skipped_vectors=len(pending) - len(comparable) if vector is not None else 0,
            elsewhere=self._elsewhere(user_ref) if nothing and self._request.domain is not None else 0,
        )

    def _named_user(self) -> str | None:
        user_id = self._request.user_id
        return None if user_id is None else self._doors.user_refs().user_ref(self._request.tenant_id, user_id)

    def _known_user(self) -> str | None:
        try:
            return self._user.result()
        except Exception:
            # Named in `degraded` where it is waited for; what is everybody's is found all the same.
            return None

    def _hits(self, domain: str | None) -> _Hits:
        """What the Knowledge Base finds, with the rows of what comes near enough."""
        query = KnowledgeQuery(
            tenant_id=self._request.tenant_id,
            text=self._request.task,
            domain=domain,
            user_ref=self._known_user(),
            limit=min(MAX_RESULTS, WIDER * self._request.max_facts),
        )
        passages = self._doors.knowledge().retrieve(query)
        keys = [(one.domain, one.fact_id) for one in passages.found if one.score >= self._rules.floor]
        rows = self._doors.facts().get_many(keys) if keys else []
        return _Hits(passages, {one.fact.fact_id: one for one in rows})

    def _waiting(self) -> list[FoundFact]:
        """What is believed and not searchable yet, in the domain or in all of the tenant's."""
        facts = self._doors.facts()
        domains = [self._request.domain] if self._request.domain is not None else facts.domains()
        shares = [domains[start::AT_ONCE] for start in range(min(AT_ONCE, len(domains)))]
        parts = [started(_pending_of(facts, share)) for share in shares]
        return [one for part in parts for one in part.result() if one.waits]

    def _candidates(self, hits: _Hits | None, user_ref: str | None) -> Iterable[FactCandidate]:
        for passage in hits.passages.found if hits else ():
            row = hits.rows.get(passage.fact_id) if hits else None
            if row is None:
                reason = "below_floor" if passage.score < self._rules.floor else "gone"
                yield FactCandidate(passage.fact_id, passage.score, "knowledge_base", None, reason)
            else:
                yield self._judged(row, passage.score, "knowledge_base", user_ref)

    def _judged(self, row: FoundFact, score: float, source: Source, user_ref: str | None) -> FactCandidate:
        reason = "below_floor" if score < self._rules.floor else self._objection(row.fact, user_ref)
        return FactCandidate(row.fact.fact_id, score, source, row, reason)

    def _objection(self, fact: Fact, user_ref: str | None) -> str | None:
        """Why a fact must not be shown, by what its row says now."""
        if fact.scope is FactScope.USER and (user_ref is None or fact.user_ref != user_ref):
            return "of_another_user"
        if fact.state in WITHDRAWN:
            return fact.state.value
        if fact.state not in BELIEVED:
            return "not_believed"
        due = fact.due_at(self._rules.ttl_days)
        expired = due is not None and due <= self._now
        past = fact.valid_until is not None and fact.valid_until <= self._now
        if expired or past:
            return "expired"
        return GIVES_ORDERS if gives_orders(fact.content, cleared=fact.cleared) else None

    def _elsewhere(self, user_ref: str | None) -> int:
        """How many facts of other domains fit. Asked only when the named domain holds nothing; late is no matter."""
        hits = self._reads.result(started(lambda: self._hits(None)), ABOUT_BY, tier="semantic")
        return sum(one.reason is None for one in self._candidates(hits, user_ref))

    def _remembered(self, rows: Sequence[FoundFact], scores: Sequence[float]) -> tuple[Remembered, ...]:
        limit = self._request.max_facts
        against = self._against([one.fact for one in rows[:limit]])
        return tuple(
            _fact(one, score, against.get(one.fact.fact_id))
            for one, score in zip(rows[:limit], scores[:limit], strict=True)
        )

    def _against(self, facts: Sequence[Fact]) -> dict[str, int]:
        """Of each contested fact, how many runs say otherwise."""
        contested = [fact for fact in facts if fact.state is FactState.CONTESTED]
        keys = [(fact.domain, other) for fact in contested for other in fact.contested_by]
        if not keys:
            return {}
        read = started(lambda: self._doors.facts().get_many(keys))
        runs = {one.fact.fact_id: one.runs for one in self._reads.result(read, ABOUT_BY, tier="semantic") or []}
        return {fact.fact_id: max((runs.get(other, 0) for other in fact.contested_by), default=0) for fact in contested}


def _pending_of(facts: Facts, domains: Sequence[str]) -> Callable[[], list[FoundFact]]:
    return lambda: [one for domain in domains for one in facts.pending(domain)]


def _comparable(one: FoundFact, vector: Vector | None, model: str) -> bool:
    same_space = vector is not None and one.vector is not None and one.embedding_model == model
    return same_space and vector is not None and one.vector is not None and one.vector.shape == vector.shape


def _cosine(one: FoundFact, vector: Vector | None) -> float:
    if vector is None or one.vector is None:
        return 0.0
    cosine = float(np.dot(one.vector, vector))
    return min(max(cosine, 0.0), 1.0) if np.isfinite(cosine) else 0.0


def _ranked(candidates: Iterable[FactCandidate]) -> list[FactCandidate]:
    """Best first, no fact twice: of two finds of one, the row that may be shown, then the better score."""
    found: dict[str, FactCandidate] = {}
    for one in sorted(candidates, key=lambda one: (one.reason is not None, -one.score)):
        found.setdefault(one.fact_id, one)
    return sorted(found.values(), key=lambda one: (-one.score, one.fact_id))


def _fact(one: FoundFact, score: float, against: int | None) -> Remembered:
    fact = one.fact
    return Remembered(
        kind="fact",
        about=_about(one, against),
        values=(("fact", fact.content),),
        item=RecalledItem(
            id=fact.fact_id,
            tier="semantic",
            text=fact.content,
            score=round(score, 4),
            provenance={
                "domain": fact.domain,
                "scope": fact.scope.value,
                "state": fact.state.value,
                "confidence": round(float(fact.confidence), 4),
                "runs": one.runs,
                "first_confirmed_at": iso(fact.created_at),
                "last_confirmed_at": iso(fact.last_confirmed_at),
                **({} if against is None else {"runs_against": against}),
            },
        ),
    )


def _about(one: FoundFact, against: int | None) -> str:
    fact = one.fact
    said = f"domain {shown_id(fact.domain)}, confirmed by {_runs(one.runs)}, last on {iso(fact.last_confirmed_at)[:10]}"
    subject = ", about this user" if fact.scope is FactScope.USER else ""
    dispute = "" if against is None else f", contested: a newer claim of {_runs(against)} says otherwise"
    return said + subject + dispute


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"


def _explained(one: FactCandidate) -> dict[str, object]:
    return {
        "id": one.fact_id,
        "tier": "semantic",
        "score": round(one.score, 4),
        "passes": one.reason is None,
        "source": one.source,
        "reason": one.reason,
        "state": one.row.fact.state.value if one.row else None,
    }
