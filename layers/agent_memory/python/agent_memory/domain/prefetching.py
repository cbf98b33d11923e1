"""Prefetch: a recall made while its run is queued, kept under its context_id, and picked up when the run starts.

What is kept is the answer itself, for minutes and under the tenant's keys. It is handed out for the same question of
the same agent and user only, and never once anything of the tenant was erased after it was kept. Whatever is wrong with
it, a pick-up that names the task is answered by a recall of its own. Memories count as read when they are picked up.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from pydantic import ValidationError

from agent_memory.contract import MEMORY_RETRIEVED, SCHEMA_VERSION
from agent_memory.domain.deadlines import Budget, Reads, started
from agent_memory.domain.models import Model
from agent_memory.domain.ports import UserRefs
from agent_memory.domain.recall import RECORD_BY, Recall, RecallDoors, Recalled, retrieved
from agent_memory.domain.recall_request import RecallRequest, RecallRules

TIER = "prefetch"
MISSING = "prefetch_missing"
# DynamoDB takes 400 KB; the rest is for the names and keys.
MAX_BYTES = 350_000
MAX_UNPACKED = 8_000_000
# Shares of the budget by which the look-up must be over, and the keeping.
LOOKED_UP_BY, KEPT_BY = 0.3, 1.0


class Prefetched(Model):
    """A recall that waits for its run. *content*: the answer, gzipped JSON. *asked*: hash of the question.

    *user_ref*: the user that it was asked for. Times are epoch seconds.
    """

    tenant_id: str
    agent_id: str
    context_id: str
    user_ref: str | None = None
    asked: str
    content: bytes
    kept_at: int
    expires_at: int
    schema_version: int = SCHEMA_VERSION


class Prefetches(Protocol):
    """The prefetched recalls of ONE tenant."""

    def keep(self, prefetched: Prefetched) -> bool:
        """Keep it once. False when something is kept under its context_id, or was erased since it was asked for."""

    def get(self, context_id: str) -> Prefetched | None:
        """What is kept, unless something of the tenant was erased since."""


class PrefetchDoors(NamedTuple):
    """What prefetching touches beside the recall itself."""

    store: Callable[[], Prefetches]
    user_refs: Callable[[], UserRefs]


class Desk:
    """Answers one question to bootstrap: a recall, a prefetch or a pick-up."""

    def __init__(
        self, recall: RecallDoors, prefetch: PrefetchDoors, *, rules: RecallRules, now: int, keep_minutes: int
    ) -> None:
        self._recall = recall
        self._prefetch = prefetch
        self._rules = rules
        self._now = now
        self._keep_seconds = keep_minutes * 60

    def answer(self, request: RecallRequest, budget: Budget, context_id: str) -> Recalled:
        """*context_id*: the id of a context that is made now."""
        if request.pick_up is not None:
            return self._picked_up(request, budget, request.pick_up, context_id)
        found = self._recalled(request, budget, context_id)
        return self._kept(request, budget, found) if request.prefetch else found

    def _recalled(self, request: RecallRequest, budget: Budget, context_id: str) -> Recalled:
        return Recall(request, self._recall, budget, now=self._now, rules=self._rules).answer(context_id)

    def _kept(self, request: RecallRequest, budget: Budget, found: Recalled) -> Recalled:
        """Keep *found* and say so. What could not be read whole is better asked anew when the run starts."""
        reads = Reads(budget)
        reads.degraded += [dict(one) for one in found.degraded]
        whole = all(one["reason"] == "not_deployed" for one in found.degraded)
        content = gzip.compress(found.model_dump_json(exclude_none=True).encode(), mtime=0)
        if len(content) > MAX_BYTES:
            reads.degraded.append({"tier": TIER, "reason": "too_large"})
            whole = False

        def keep() -> bool:
            user_ref = self._user_ref(request)
            asked = fingerprint(request, user_ref)
            times = {"kept_at": self._now, "expires_at": self._now + self._keep_seconds}
            ids = {"tenant_id": request.tenant_id, "agent_id": request.agent_id, "context_id": found.context_id}
            return self._prefetch.store().keep(
                Prefetched(**ids, user_ref=user_ref, asked=asked, content=content, **times)
            )

        kept = whole and bool(reads.result(started(keep), KEPT_BY, tier=TIER))
        return Recalled(
            context_id=found.context_id,
            degraded=tuple(reads.degraded),
            timings={**found.timings, "total_ms": budget.spent_ms},
            considered=found.considered,
            prefetched=kept,
        )

    def _picked_up(self, request: RecallRequest, budget: Budget, wanted: str, context_id: str) -> Recalled:
        reads = Reads(budget)
        found = reads.result(started(lambda: self._held(request, wanted)), LOOKED_UP_BY, tier=TIER)
        if found is not None:
            self._record(request, reads, found)
            timings = {"total_ms": budget.spent_ms}
            return found.model_copy(update={"degraded": tuple(reads.degraded), "prefetched": True, "timings": timings})
        if not request.task:
            degraded = reads.degraded or [{"tier": TIER, "reason": "missing"}]
            return Recalled(context_id=wanted, degraded=tuple(degraded))
        anew = self._recalled(request, budget, context_id)
        note = {"tier": TIER, "note": MISSING}
        return anew.model_copy(update={"degraded": (*reads.degraded, *anew.degraded), "notes": (*anew.notes, note)})

    def _held(self, request: RecallRequest, context_id: str) -> Recalled | None:
        held = self._prefetch.store().get(context_id)
        if held is None or held.agent_id != request.agent_id or held.expires_at <= self._now:
            return None
        user_ref = self._user_ref(request)
        if held.user_ref != user_ref or (request.task and held.asked != fingerprint(request, user_ref)):
            return None
        return unpacked(held.content)

    def _user_ref(self, request: RecallRequest) -> str | None:
        if request.user_id is None:
            return None
        return self._prefetch.user_refs().user_ref(request.tenant_id, request.user_id)

    def _record(self, request: RecallRequest, reads: Reads, found: Recalled) -> None:
        if not found.items:
            return
        detail = retrieved(request, found.context_id, found.items, at=self._now)
        reads.result(started(lambda: self._recall.publish(MEMORY_RETRIEVED, detail)), RECORD_BY, tier="recording")


# Of a request: who asks and how, not what is asked. A run may pick up what was kept before it had an id.
NOT_ASKED = {"user_id", "run_id", "budget_ms", "explain", "prefetch", "pick_up"}


def fingerprint(request: RecallRequest, user_ref: str | None) -> str:
    """Hash of everything that changes what a recall finds; the user by the pseudonym."""
    asked = request.model_dump(mode="json", exclude=NOT_ASKED)
    text = json.dumps([asked, user_ref], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def unpacked(content: bytes) -> Recalled | None:
    """The answer in *content*; None when another release, or nobody of ours, wrote it."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        text = unzip.decompress(content, MAX_UNPACKED)
        held: object = json.loads(text)
        known = {k: v for k, v in held.items() if k in Recalled.model_fields} if isinstance(held, Mapping) else {}
        return Recalled.model_validate(known)
    except (zlib.error, ValueError, ValidationError, RecursionError):
        return None
