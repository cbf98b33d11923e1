"""The facts of a tenant without what one person's runs said for them."""

import time
from collections.abc import Callable, Iterator, Sequence

from agent_memory.aws.erasing_rows import run_test
from agent_memory.aws.fact_shelf import ROWS_AT_ONCE, DynamoFactShelf
from agent_memory.aws.item_codec import Item, attributes
from agent_memory.contract import FACTS_PARTITION_KEY, FACTS_SORT_KEY
from agent_memory.domain.erasing_facts import Reduced, reduced, uncontested
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces, belongs
from agent_memory.domain.errors import StoreBusyError
from agent_memory.domain.fact_writes import DomainFacts, StoreMarks
from agent_memory.domain.facts import ConfirmationSettings, Fact, Observation
from agent_memory.domain.keys import SEPARATOR
from agent_memory.domain.knowledge_ports import DirtyDomains

ROUNDS = 12


class ErasingFacts(DynamoFactShelf):
    """The facts table, where observations may be deleted in one transaction with the fact that they spoke for."""

    def reduce(self, seen: DomainFacts, changes: Sequence[tuple[Fact, Reduced]]) -> bool:
        """Write what is left of facts and delete what is gone, together. False when the domain changed since *seen*."""
        # The facts first: whoever finds the rest of the rows after a break knows that they go.
        actions = [self._main(seen, fact, change) for fact, change in changes]
        deletes = [
            self._delete(self._items.observation(seen.domain, fact.fact_id, one))
            for fact, change in changes
            for one in change.gone
        ]
        room = ROWS_AT_ONCE - len(actions)
        if any(self._transactions.write([self._head(seen), *actions, *deletes[:room]])):
            return False
        for start in range(room, len(deletes), ROWS_AT_ONCE):
            self._transactions.write(deletes[start : start + ROWS_AT_ONCE])
        return True

    def _main(self, seen: DomainFacts, fact: Fact, change: Reduced) -> Item:
        if change.fact is None:
            return {"Delete": {"TableName": self._table, "Key": self._items.key(seen.domain, fact.fact_id)}}
        row = self._items.fact(change.fact, change.marks)
        return self._put(self._table, row, known=seen.marks[fact.fact_id].revision, key=FACTS_PARTITION_KEY)

    def wipe(self, domain: str) -> Iterator[str]:
        """Delete every row of a domain."""
        for row in self._rows(domain):
            self._transactions.write([self._delete(row)])
            yield str(row[FACTS_SORT_KEY]["S"])

    def count(self, domain: str) -> int:
        return sum(1 for _ in self._rows(domain))

    def orphans(self, seen: DomainFacts, theirs: Callable[[Observation], bool]) -> Sequence[str]:
        """The entries of theirs whose fact is gone: observations that a break left."""
        known = {fact.fact_id for fact in seen.facts}
        found = []
        for row in self._rows(seen.domain):
            fact_id, *rest = row[FACTS_SORT_KEY]["S"].split(SEPARATOR)
            plain = attributes(row)
            if rest and fact_id not in known and theirs(_observation_like(plain)):
                found.append(str(row[FACTS_SORT_KEY]["S"]))
        return found

    def drop(self, domain: str, entry: str) -> None:
        self._transactions.write([self._delete(self._items.key(domain, entry))])


def _observation_like(plain: dict[str, object]) -> Observation:
    held = {name: plain.get(name) for name in Observation.model_fields if name != "vector"}
    return Observation.model_construct(**held)  # type: ignore[arg-type]  # only ids and times are looked at


class FactStore:
    """*gate*: how many runs a fact needs. Domains that the Knowledge Base has to follow are noted before."""

    def __init__(
        self,
        facts: ErasingFacts,
        dirty: DirtyDomains,
        gate: ConfirmationSettings,
        *,
        now: Callable[[], int],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._facts = facts
        self._dirty = dirty
        self._gate = gate
        self._now = now
        self._pause = pause

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally, known = Tally("facts"), self._known(erasure, traces)
        for domain in self._domains(known):
            if erasure.whole:
                entries = list(self._facts.wipe(domain))
                tally.remove(*(f"{domain}/{entry}" for entry in entries))
            else:
                known = self._sweep_domain(domain, erasure, known, tally)
        return tally.swept(), known

    def left(self, erasure: Erasure, traces: Traces) -> int:
        if erasure.whole:
            return sum(self._facts.count(domain) for domain in self._domains(self._known(erasure, traces)))
        found = 0
        theirs = is_theirs(erasure, traces)
        for domain in self._facts.domains():
            seen = self._facts.domain(domain)
            changes = (self._change(fact, seen, erasure, traces) for fact in seen.facts)
            found += sum(1 for one in changes if one) + len(self._facts.orphans(seen, theirs))
        return found

    def _known(self, erasure: Erasure, traces: Traces) -> Traces:
        return traces.with_partitions("facts", self._facts.domains())

    def _domains(self, traces: Traces) -> list[str]:
        return traces.partitions_of("facts")

    def _change(self, fact: Fact, seen: DomainFacts, erasure: Erasure, traces: Traces) -> Reduced | None:
        marks = seen.marks.get(fact.fact_id, StoreMarks())
        theirs, their_run = is_theirs(erasure, traces), run_test(erasure, traces)
        return reduced(fact, marks, erasure.user_ref or "", theirs, their_run, self._gate, now=self._now())

    def _sweep_domain(self, domain: str, erasure: Erasure, traces: Traces, tally: Tally) -> Traces:
        known, gone = traces, set[str]()
        for attempt in range(ROUNDS):
            seen = self._facts.domain(domain)
            found = [
                (fact, change)
                for fact in seen.facts
                if (
                    change := self._change(fact, seen, erasure, traces)
                    or uncontested(fact, gone, seen.marks, self._now())
                )
            ]
            for fact, change in found:
                known = self._noted(erasure, fact, change, known)
            held = self._write(seen, found, gone, tally)
            if not found:
                for entry in self._facts.orphans(seen, is_theirs(erasure, known)):
                    self._facts.drop(seen.domain, entry)
                    tally.remove(entry)
                return known
            # Once more after a change: what it contested, and what came meanwhile.
            self._pause(0 if held else min(1.0, 0.05 * 2**attempt))
        raise StoreBusyError("the facts of a domain kept changing while a person was erased")

    def _write(self, seen: DomainFacts, found: Sequence[tuple[Fact, Reduced]], gone: set[str], tally: Tally) -> bool:
        for part in _parts(found):
            if not self._facts.reduce(seen, part):
                return False
            seen = seen.model_copy(update={"version": seen.version + 1})
            for fact, change in part:
                gone |= _told(tally, fact, change)
        return True

    def _noted(self, erasure: Erasure, fact: Fact, change: Reduced, traces: Traces) -> Traces:
        known = traces.with_runs(erasure.run_hash(*one.run) for one in change.gone)
        if not change.unpublish:
            return known
        self._dirty.note(erasure.tenant_id, fact.domain, now=self._now())
        return known.with_facts([(fact.domain, fact.fact_id)])


def _parts(found: Sequence[tuple[Fact, Reduced]]) -> Iterator[list[tuple[Fact, Reduced]]]:
    """As many facts together as a transaction takes; one with more than that goes by itself."""
    part: list[tuple[Fact, Reduced]] = []
    size = 0
    for one in found:
        rows = 1 + len(one[1].gone)
        if part and size + rows > ROWS_AT_ONCE:
            yield part
            part, size = [], 0
        part.append(one)
        size += rows
    if part:
        yield part


def _told(tally: Tally, fact: Fact, change: Reduced) -> set[str]:
    place = f"{fact.domain}/{fact.fact_id}"
    tally.remove(*(f"{place}/{'/'.join(one.run)}" for one in change.gone))
    if change.fact is not None:
        tally.change(place)
        return set()
    tally.remove(place)
    return {fact.fact_id}


def is_theirs(erasure: Erasure, traces: Traces) -> Callable[[Observation], bool]:
    """Whether an observation is of a run of the person."""

    def theirs(one: Observation) -> bool:
        row = {name: getattr(one, name) for name in ("agent_id", "run_id", "user_ref", "observed_at")}
        return belongs(row, erasure, traces)

    return theirs
