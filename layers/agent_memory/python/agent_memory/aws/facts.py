"""The facts table: facts, what each run said for them, and one head per domain that orders all its writes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.fact_items import HEAD, FactItems
from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, names, pages
from agent_memory.aws.transactions import Transactions, tombstone_checks
from agent_memory.contract import (
    FACTS_PARTITION_KEY,
    FACTS_SORT_KEY,
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
    PENDING_INDEX,
    PENDING_KEY,
    PROMOTED_AT,
    SCHEMA_VERSION,
)
from agent_memory.domain.errors import AgentMemoryError, CrossTenantError
from agent_memory.domain.fact_writes import DomainFacts, FactWrite, FoundFact, Receipt, StoreMarks
from agent_memory.domain.facts import Fact, FactChange, FactState
from agent_memory.domain.keys import SEPARATOR, ledger_key, run_entry
from agent_memory.domain.ports import FactsWritten

DOMAINS, RECEIPTS = "domains", "confirmed"


class DynamoFacts:
    """The facts of one tenant, on credentials that reach no other."""

    def __init__(
        self,
        client: Any,
        *,
        table: str,
        ledger_table: str,
        tenant_id: str,
        ttl_days: int,
        due_shards: int = 4,
        transactions: Callable[[Any], Transactions] = Transactions,
    ) -> None:
        self._client = client
        self._table = table
        self._ledger_table = ledger_table
        self._tenant_id = tenant_id
        self._items = FactItems(tenant_id=tenant_id, due_shards=due_shards, ttl_days=ttl_days)
        self._transactions = transactions(client)

    def take_turn(self, domain: str, owner: str, *, now: int, until: int) -> bool:
        """Ask to be the one who reads and writes the domain next. It only spares others a read in vain: what keeps
        facts right is the version of the head."""
        free = "attribute_not_exists(#turn_until) OR #turn_until < :now OR #turn_owner = :owner"
        values = item({":owner": owner, ":until": until, ":now": now})
        return self._update_head(domain, "SET #turn_owner = :owner, #turn_until = :until", free, values)

    def give_turn(self, domain: str, owner: str) -> None:
        """Let the next one in."""
        self._update_head(domain, "REMOVE #turn_owner, #turn_until", "#turn_owner = :owner", item({":owner": owner}))

    def _update_head(self, domain: str, update: str, condition: str, values: Item) -> bool:
        return self._update(
            Key=self._items.key(domain, HEAD),
            UpdateExpression=update,
            ConditionExpression=condition,
            ExpressionAttributeNames=names("turn_owner", "turn_until"),
            ExpressionAttributeValues=values,
        )

    def domain(self, domain: str) -> DomainFacts:
        """All facts of a domain with their observations, read consistently, every page."""
        # The head comes first: whatever is written after it was read makes the write that follows fail.
        head = self._get(self._table, self._items.key(domain, HEAD))
        rows = self._rows(domain)
        facts, marks = self._items.read_all(map(attributes, rows))
        version = int(head.get("version", 0)) if head else 0
        return DomainFacts(domain=domain, version=version, facts=tuple(facts), marks=marks)

    def write(self, change: FactWrite) -> FactsWritten:
        """Write everything of *change* or nothing: `conflict` when the domain is no longer as it was seen."""
        return self._write(change, self._checks(change.receipt))

    def _write(self, change: FactWrite, checks: Sequence[Item]) -> FactsWritten:
        """As `write`; *checks*: conditions whose failure means `erased`."""
        seen, receipt = change.seen, change.receipt
        actions = [*checks, self._head(seen), *self._fact_puts(change), *self._observation_puts(change)]
        actions += self._domain_put(seen) if seen.version == 0 else []
        if receipt is not None:
            actions.append(self._receipt_put(receipt))
        failed = self._transactions.write(actions)
        if any(failed[: len(checks)]):
            return "erased"
        return "conflict" if any(failed) else "written"

    def keep_receipt(self, receipt: Receipt) -> FactsWritten:
        """Write down decisions that change no fact."""
        checks = self._checks(receipt)
        failed = self._transactions.write([*checks, self._receipt_put(receipt)])
        if any(failed[: len(checks)]):
            return "erased"
        return "conflict" if any(failed) else "written"

    def receipt(self, agent_id: str, run_id: str) -> Receipt | None:
        """What was decided of a run's candidates, read consistently."""
        row = self._get(self._ledger_table, self._receipt_key(agent_id, run_id))
        if row is None:
            return None
        held = {name: row[name] for name in Receipt.model_fields if name in row}
        try:
            return Receipt.model_validate({**held, "agent_id": agent_id, "run_id": run_id})
        except ValidationError:
            raise AgentMemoryError(f"the receipt of run {run_id} can't be read") from None

    def get(self, domain: str, fact_id: str) -> Fact | None:
        """One fact with its observations, read consistently."""
        rows = self._rows(domain, starts_with=fact_id)
        facts, _ = self._items.read_all(map(attributes, rows))
        return next((fact for fact in facts if fact.fact_id == fact_id), None)

    def get_many(self, keys: Sequence[tuple[str, str]]) -> list[FoundFact]:
        """The facts of these (domain, fact_id), in this order; those that are gone or unreadable are left out."""
        wanted = list(dict.fromkeys(keys))
        read = self._transactions.batch_get(self._table, [self._items.key(*key) for key in wanted])
        found = {(one.fact.domain, one.fact.fact_id): one for row in read if (one := self._items.read(row)) is not None}
        return [found[key] for key in wanted if key in found]

    def facts(self, domain: str) -> list[FoundFact]:
        """Every fact of a domain without its observations, newest confirmation first."""
        rows = (attributes(row) for row in self._rows(domain, consistent=False))
        plain = (row for row in rows if SEPARATOR not in str(row[FACTS_SORT_KEY]) and row[FACTS_SORT_KEY] != HEAD)
        found = [one for row in plain if (one := self._items.read(row)) is not None]
        return sorted(found, key=lambda one: (-one.fact.last_confirmed_at, one.fact.fact_id))

    def pending(self, domain: str) -> list[FoundFact]:
        """Facts that the Knowledge Base has yet to follow, oldest promotion first: to be added (`waits`) or removed."""
        with translating(f"dynamodb:Query on {PENDING_INDEX}"):
            keys = [
                (domain, str(attributes(row)[FACTS_SORT_KEY]))
                for row in pages(
                    self._client,
                    TableName=self._table,
                    IndexName=PENDING_INDEX,
                    KeyConditionExpression="#key = :key",
                    ExpressionAttributeNames={"#key": PENDING_KEY},
                    ExpressionAttributeValues={":key": {"S": self._items.partition(domain)}},
                )
            ]
        return self.get_many(keys)

    def domains(self) -> list[str]:
        """The domains in which the tenant has, or had, facts."""
        with translating("dynamodb:Query on the ledger"):
            rows = list(
                pages(
                    self._client,
                    TableName=self._ledger_table,
                    KeyConditionExpression="#key = :key",
                    ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
                    ExpressionAttributeValues={":key": {"S": ledger_key(self._tenant_id, DOMAINS)}},
                )
            )
        return [str(attributes(row)[LEDGER_SORT_KEY]) for row in rows]

    def mark_published(self, fact: Fact) -> bool:
        """Note that the document of *fact* is written. False when it was withdrawn or promoted anew meanwhile."""
        return self._mark(fact, "SET #published = :true", {":true": True})

    def mark_ingested(self, fact: Fact, *, at: int) -> bool:
        """Note that the Knowledge Base has it. A contested fact stays contested."""
        state = FactState.INGESTED if fact.state is FactState.PROMOTED else fact.state
        change = FactChange(at=at, state=state, reason="indexed").model_dump(exclude_none=True)
        update = (
            f"SET #state = :new, #ingested_at = :at, #history = list_append(#history, :change) REMOVE #{PENDING_KEY}"
        )
        values: dict[str, object] = {":new": state, ":at": at, ":change": [change]}
        return self._mark(fact, update, values, "ingested_at", "history", PENDING_KEY)

    def mark_gone(self, fact: Fact) -> bool:
        """Note that the Knowledge Base was seen without a withdrawn fact."""
        return self._mark(fact, f"SET #gone = :true REMOVE #{PENDING_KEY}", {":true": True}, "gone", PENDING_KEY)

    def _mark(self, fact: Fact, update: str, values: dict[str, object], *words: str) -> bool:
        """Change what the store keeps beside a fact, as long as it is in the state and promotion that were seen."""
        used = {name: word for name, word in names("published", *words).items() if name in update}
        return self._update(
            Key=self._items.key(fact.domain, fact.fact_id),
            UpdateExpression=f"{update} ADD #revision :one",
            ConditionExpression=f"#state = :state AND #{PROMOTED_AT} = :promoted_at",
            ExpressionAttributeNames=used | names("state", "revision", PROMOTED_AT),
            ExpressionAttributeValues=item(
                values | {":one": 1, ":state": fact.state, ":promoted_at": fact.promoted_at or 0}
            ),
        )

    def _update(self, **request: Any) -> bool:
        with translating("dynamodb:UpdateItem on the facts table"):
            try:
                self._client.update_item(TableName=self._table, **request)
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    def _rows(self, domain: str, *, starts_with: str = "", consistent: bool = True) -> Iterable[Item]:
        condition, values = "#key = :key", {":key": {"S": self._items.partition(domain)}}
        held = {"#key": FACTS_PARTITION_KEY}
        if starts_with:
            condition += " AND begins_with(#sort, :start)"
            held["#sort"] = FACTS_SORT_KEY
            values[":start"] = {"S": starts_with}
        with translating("dynamodb:Query on the facts table"):
            return list(
                pages(
                    self._client,
                    TableName=self._table,
                    KeyConditionExpression=condition,
                    ExpressionAttributeNames=held,
                    ExpressionAttributeValues=values,
                    ConsistentRead=consistent,
                )
            )

    def _get(self, table: str, key: Item) -> dict[str, Any] | None:
        with translating(f"dynamodb:GetItem on {table}"):
            answer = self._client.get_item(TableName=table, Key=key, ConsistentRead=True)
        return attributes(answer["Item"]) if answer.get("Item") else None

    def _checks(self, receipt: Receipt | None) -> list[Item]:
        if receipt is None:
            return []
        return tombstone_checks(self._ledger_table, self._tenant_id, receipt.user_ref, ended_at=receipt.ended_at)

    def _head(self, seen: DomainFacts) -> Item:
        return {
            "Update": {
                "TableName": self._table,
                "Key": self._items.key(seen.domain, HEAD),
                "UpdateExpression": "SET #version = :next, #schema_version = :schema REMOVE #turn_owner, #turn_until",
                "ConditionExpression": "#version = :seen" if seen.version else "attribute_not_exists(#version)",
                "ExpressionAttributeNames": names("version", "schema_version", "turn_owner", "turn_until"),
                "ExpressionAttributeValues": item(
                    {":next": seen.version + 1, ":schema": SCHEMA_VERSION}
                    | ({":seen": seen.version} if seen.version else {})
                ),
            }
        }

    def _fact_puts(self, change: FactWrite) -> list[Item]:
        return [
            self._put(
                self._table,
                self._items.fact(fact, change.seen.marks.get(fact.fact_id, StoreMarks())),
                known=change.seen.marks[fact.fact_id].revision if fact.fact_id in change.seen.marks else None,
                key=FACTS_PARTITION_KEY,
            )
            for fact in change.facts
        ]

    def _observation_puts(self, change: FactWrite) -> list[Item]:
        domain = change.seen.domain
        rows = (self._items.observation(domain, one.fact_id, one.observation) for one in change.observations)
        return [self._put(self._table, row, known=None, key=FACTS_PARTITION_KEY) for row in rows]

    def _domain_put(self, seen: DomainFacts) -> list[Item]:
        row = {LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, DOMAINS), LEDGER_SORT_KEY: seen.domain}
        put = {"TableName": self._ledger_table, "Item": item(row | {"schema_version": SCHEMA_VERSION})}
        return [{"Put": put}]

    def _receipt_put(self, receipt: Receipt) -> Item:
        held = receipt.model_dump(exclude={"agent_id", "run_id"}) | {"revision": receipt.revision + 1}
        held["decided"] = [one.model_dump(exclude_none=True) for one in receipt.decided]
        row = self._receipt_key(receipt.agent_id, receipt.run_id) | item(held | {"schema_version": SCHEMA_VERSION})
        return self._put(self._ledger_table, row, known=receipt.revision or None, key=LEDGER_PARTITION_KEY)

    def _receipt_key(self, agent_id: str, run_id: str) -> Item:
        if SEPARATOR in agent_id or SEPARATOR in run_id:
            raise CrossTenantError("an id that holds the separator reached the ledger")
        entry = run_entry(agent_id, run_id)
        return item({LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, RECEIPTS), LEDGER_SORT_KEY: entry})

    def _put(self, table: str, row: Item, *, known: int | None, key: str) -> Item:
        """A put over the revision that was read, or of what was not there."""
        put: Item = {"TableName": table, "Item": row}
        if known is None:
            put |= {"ConditionExpression": "attribute_not_exists(#key)", "ExpressionAttributeNames": {"#key": key}}
        else:
            put |= {
                "ConditionExpression": "#revision = :known",
                "ExpressionAttributeNames": names("revision"),
                "ExpressionAttributeValues": item({":known": known}),
            }
        return {"Put": put}
