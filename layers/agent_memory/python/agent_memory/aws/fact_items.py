"""Rows of the facts table: facts, observations, heads."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from agent_memory.aws.item_codec import Item, item
from agent_memory.contract import (
    DECAYS_AT,
    DUE_SHARD,
    FACTS_PARTITION_KEY,
    FACTS_SORT_KEY,
    PENDING_KEY,
    SCHEMA_VERSION,
    USER_KEY,
)
from agent_memory.domain.errors import AgentMemoryError, CrossTenantError
from agent_memory.domain.fact_writes import FoundFact, StoreMarks, awaits_ingestion, awaits_removal
from agent_memory.domain.facts import BELIEVED, WITHDRAWN, Fact, Observation
from agent_memory.domain.keys import SEPARATOR, domain_key, due_shard, observation_entry, tenant_of, user_key
from agent_memory.domain.vectors import pack, unpack

HEAD = "~head"
_FACT_FIELDS = frozenset(Fact.model_fields) - {"tenant_id", "domain", "observations"}
_OBSERVATION_FIELDS = frozenset(Observation.model_fields)


class FactItems:
    """The rows of one tenant."""

    def __init__(self, *, tenant_id: str, due_shards: int, ttl_days: int) -> None:
        self._tenant_id = tenant_id
        self.due_shards = due_shards
        self.ttl_days = ttl_days

    def partition(self, domain: str) -> str:
        if SEPARATOR in domain:
            raise CrossTenantError("a domain that holds the separator reached the facts table")
        return domain_key(self._tenant_id, domain)

    def key(self, domain: str, entry: str) -> Item:
        return item({FACTS_PARTITION_KEY: self.partition(domain), FACTS_SORT_KEY: entry})

    def fact(self, fact: Fact, marks: StoreMarks) -> Item:
        """The row of *fact*; *marks* as they were read, their revision raised by one."""
        if fact.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a fact of another tenant reached the facts of {self._tenant_id}")
        partition = self.partition(fact.domain)
        # Whoever comes back from withdrawal needs a new document, and whoever is withdrawn has to be looked for again.
        published = marks.published and fact.state in BELIEVED
        gone = marks.gone and fact.state in WITHDRAWN
        pending = awaits_ingestion(fact) or awaits_removal(fact, gone=gone)
        due = fact.due_at(self.ttl_days)
        worded = _worded(fact)
        return item(
            {name: getattr(fact, name) for name in _FACT_FIELDS}
            | {"history": [change.model_dump(exclude_none=True) for change in fact.history]}
            | {
                FACTS_PARTITION_KEY: partition,
                "vector": pack(worded.vector) if worded else None,
                "embedding_model": worded.embedding_model if worded else None,
                "runs": len(fact.runs),
                "revision": marks.revision + 1,
                "published": published or None,
                "gone": gone or None,
                PENDING_KEY: partition if pending else None,
                DECAYS_AT: due,
                DUE_SHARD: None if due is None else due_shard(partition, fact.fact_id, self.due_shards),
            }
        )

    def observation(self, domain: str, fact_id: str, observation: Observation) -> Item:
        """The row of what one run said. Its key is made of all of that, so that saying it again changes nothing."""
        held = {name: getattr(observation, name) for name in _OBSERVATION_FIELDS}
        said = "\x00".join((observation.source, observation.source_hash or "", observation.content))
        entry = observation_entry(fact_id, observation.agent_id, observation.run_id, said)
        user = user_key(self._tenant_id, observation.user_ref) if observation.user_ref else None
        return self.key(domain, entry) | item(
            held | {"vector": pack(observation.vector), USER_KEY: user, "schema_version": SCHEMA_VERSION}
        )

    def read_all(self, rows: Iterable[Mapping[str, Any]]) -> tuple[list[Fact], dict[str, StoreMarks]]:
        """The facts with their observations. An unreadable row raises: leaving it out would open its fact again."""
        facts: dict[str, FoundFact] = {}
        said: dict[str, list[Observation]] = {}
        for row in rows:
            fact_id, *rest = str(row[FACTS_SORT_KEY]).split(SEPARATOR)
            if rest:
                said.setdefault(fact_id, []).append(_observation(row))
            elif fact_id != HEAD:
                facts[fact_id] = self._required(row)
        found = [
            one.fact.model_copy(
                update={"observations": tuple(sorted(said.get(fact_id, ()), key=lambda known: known.observed_at))}
            )
            for fact_id, one in facts.items()
        ]
        return found, {fact_id: one.marks for fact_id, one in facts.items()}

    def _required(self, row: Mapping[str, Any]) -> FoundFact:
        found = self.read(row)
        if found is None:
            raise AgentMemoryError(f"fact {row.get(FACTS_SORT_KEY)} can't be read")
        return found

    def read(self, row: Mapping[str, Any]) -> FoundFact | None:
        """The fact of one row, without observations; None when another release wrote what this one can't read."""
        partition = str(row.get(FACTS_PARTITION_KEY, ""))
        if tenant_of(partition) != self._tenant_id:
            raise CrossTenantError(f"a fact of another tenant came back to {self._tenant_id}")
        held = {name: row[name] for name in _FACT_FIELDS if name in row}
        packed = row.get("vector")
        try:
            fact = Fact.model_validate(
                {**held, "tenant_id": self._tenant_id, "domain": partition.split(SEPARATOR, 1)[1]}
            )
            marks = StoreMarks.model_validate({name: row[name] for name in StoreMarks.model_fields if name in row})
        except ValidationError:
            return None
        return FoundFact(
            fact=fact,
            marks=marks,
            runs=int(row.get("runs", 0)),
            vector=unpack(packed) if isinstance(packed, bytes) else None,
            embedding_model=row.get("embedding_model"),
        )


def _worded(fact: Fact) -> Observation | None:
    """The observation in the fact's own wording."""
    same = (known for known in fact.observations if known.content == fact.content)
    return next(same, next(iter(fact.observations), None))


def _observation(row: Mapping[str, Any]) -> Observation:
    held = {name: row[name] for name in _OBSERVATION_FIELDS if name in row}
    packed = row.get("vector")
    held["vector"] = unpack(packed) if isinstance(packed, bytes) else None
    try:
        return Observation.model_validate(held)
    except ValidationError:
        raise AgentMemoryError(f"observation {row.get(FACTS_SORT_KEY)} can't be read") from None
