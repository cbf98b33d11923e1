"""The facts table as the night and an undo handle it: a fact with all that was said for it, and its document."""

from collections.abc import Sequence
from typing import Any

from agent_memory.aws.fact_documents import S3FactDocuments
from agent_memory.aws.fact_items import HEAD
from agent_memory.aws.facts import DynamoFacts
from agent_memory.aws.item_codec import Item, attributes, item, names
from agent_memory.aws.snapshots import item_of, item_text
from agent_memory.aws.transactions import tombstone_checks
from agent_memory.contract import (
    DECAYS_AT,
    DUE_SHARD,
    FACTS_PARTITION_KEY,
    FACTS_SORT_KEY,
    LEDGER_PARTITION_KEY,
    LEDGER_SORT_KEY,
)
from agent_memory.domain.archive import ArchiveError, Lease, PutBack, Removed, Snapshot
from agent_memory.domain.errors import CrossTenantError, StoreBusyError
from agent_memory.domain.fact_restoring import brought_back, missing
from agent_memory.domain.fact_writes import FactWrite, NewObservation
from agent_memory.domain.facts import Fact
from agent_memory.domain.keys import SEPARATOR, due_shard, ledger_key
from agent_memory.domain.knowledge_ports import DirtyDomains

# A transaction takes 100 actions; some are for the fact, the head and the domain.
ROWS_AT_ONCE = 90
# Each row may be of another user, for whom there is a condition.
USERS_AT_ONCE = 45
ROUNDS = 8
EVERYBODY = "*"


class DynamoFactShelf(DynamoFacts):
    """The facts of one tenant, on credentials that may remove them."""

    def __init__(self, client: Any, *, documents: S3FactDocuments, dirty: DirtyDomains, **facts: Any) -> None:
        super().__init__(client, **facts)
        self._documents = documents
        self._dirty = dirty

    def snapshot(self, place: tuple[str, str]) -> Snapshot | None:
        """The fact's row, its observations and its document, read consistently; None when the row is gone."""
        rows = sorted(self._rows_of(place), key=lambda row: str(row[FACTS_SORT_KEY]["S"]))
        if not any(row[FACTS_SORT_KEY]["S"] == place[1] for row in rows):
            return None
        plain = [attributes(row) for row in rows]
        seen = [int(row["observed_at"]) for row in plain if "observed_at" in row]
        return Snapshot(
            tenant_id=self._tenant_id,
            tier="semantic",
            place=place,
            items=tuple(item_text(row) for row in rows),
            documents=self._documents.texts(*place),
            user_refs=tuple(sorted({str(row["user_ref"]) for row in plain if row.get("user_ref")})),
            since=min(seen, default=int(plain[0].get("created_at", 0))),
        )

    def remove(self, snapshot: Snapshot) -> Removed:
        """Remove what was said for the fact, then the fact, as long as its row is what *snapshot* says."""
        fact, said = self._archived(snapshot)
        plain = attributes(fact)
        if plain.get("pinned"):
            return "pinned"
        unchanged = {
            "ConditionExpression": "#revision = :seen AND #pinned = :no",
            "ExpressionAttributeNames": names("revision", "pinned"),
            "ExpressionAttributeValues": item({":seen": plain["revision"], ":no": False}),
        }
        place = {"TableName": self._table, "Key": self._items.key(*snapshot.place)}
        for start in range(0, len(said), ROWS_AT_ONCE):
            deletes = [self._delete(row) for row in said[start : start + ROWS_AT_ONCE]]
            if any(self._transactions.write([{"ConditionCheck": {**place, **unchanged}}, *deletes])):
                return self._why_kept(snapshot.place)
        if any(self._transactions.write([{"Delete": {**place, **unchanged}}, self._raised_head(snapshot.place[0])])):
            return self._why_kept(snapshot.place)
        return "removed"

    def put_back(self, snapshot: Snapshot, lease: Lease | None = None) -> PutBack:
        """Write rows and document as they were; with a *lease*, believe the fact again and let it be ingested anew.

        Observations of users of whom anything was erased stay away, and with them the belief in the fact."""
        fact, said = self._archived(snapshot)
        for _ in range(ROUNDS):
            word = self._put_unless_erased(snapshot, fact, said, lease)
            if word is not None:
                return word
        raise StoreBusyError("people kept being erased while a fact was brought back")

    def _put_unless_erased(
        self, snapshot: Snapshot, fact: Item, said: Sequence[Item], lease: Lease | None
    ) -> PutBack | None:
        """None: a tombstone came after they were read, so that all has to be decided anew."""
        erased = self._erased(snapshot)
        if EVERYBODY in erased or attributes(fact).get("user_ref") in erased:
            return "erased"
        kept = [row for row in said if attributes(row).get("user_ref") not in erased]
        if said and not kept:
            return "erased"
        if lease is None and len(kept) == len(said):
            return self._put_rows(snapshot, fact, said)
        known, _ = self._items.read_all([attributes(fact), *(attributes(row) for row in kept)])
        back = lease or Lease(at=snapshot.since, kept_until=0, expires_at=0)
        return self._put_fact(known[0], snapshot, back, complete=len(kept) == len(said))

    def move(self, place: tuple[str, str], decays_at: int | None) -> bool:
        """Set the date at which a night looks at a fact; None: no night has to. False when the fact is gone."""
        partition = self._items.partition(place[0])
        dates = {
            DECAYS_AT: decays_at,
            DUE_SHARD: None if decays_at is None else due_shard(partition, place[1], self._items.due_shards),
        }
        held = item(dates)
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in held) if held else "REMOVE "
        gone = [f"#{name}" for name in dates if name not in held]
        return self._update(
            Key=self._items.key(*place),
            UpdateExpression=update + ", ".join(gone),
            ConditionExpression="attribute_exists(#revision)",
            ExpressionAttributeNames=names(*dates, "revision"),
            **({"ExpressionAttributeValues": {f":{name}": one for name, one in held.items()}} if held else {}),
        )

    def _put_rows(self, snapshot: Snapshot, fact: Item, said: Sequence[Item]) -> PutBack | None:
        put = self._put(self._table, fact, known=None, key=FACTS_PARTITION_KEY)
        for start in range(0, len(said), USERS_AT_ONCE):
            rows = said[start : start + USERS_AT_ONCE]
            checks = self._still_there(snapshot, _users(rows))
            puts = [{"Put": {"TableName": self._table, "Item": row}} for row in rows]
            if any(self._transactions.write([*checks, *puts])):
                return None
        still = self._all_still_there(snapshot, _users(said))
        if still is None:
            return None
        failed = self._transactions.write([*still, put, self._raised_head(snapshot.place[0])])
        if any(failed[: len(still)]):
            return None
        if any(failed):
            return "present"
        self._documents.put_texts(*snapshot.place, snapshot.documents)
        return "restored"

    def _put_fact(self, archived: Fact, snapshot: Snapshot, lease: Lease, *, complete: bool) -> PutBack | None:
        self._dirty.note(self._tenant_id, archived.domain, now=lease.at)
        word: PutBack | None = None
        for _ in range(ROUNDS + len(archived.observations) // USERS_AT_ONCE):
            seen = self.domain(archived.domain)
            current = next((one for one in seen.facts if one.fact_id == archived.fact_id), None)
            restored = brought_back(archived, current, seen.facts, lease, complete=complete)
            gone = archived.observations if current is None else missing(archived, current)
            new = tuple(NewObservation(archived.fact_id, one) for one in gone[:USERS_AT_ONCE])
            checks = self._all_still_there(snapshot, sorted(archived.users))
            change = FactWrite(seen=seen, facts=(restored,), observations=new)
            written = "erased" if checks is None else self._write(change, checks)
            if written == "erased":
                return None
            if written != "written":
                continue
            if word is None:
                word = "restored" if current is None or current.state is not restored.state or gone else "present"
            if len(gone) <= USERS_AT_ONCE:
                return word
        raise StoreBusyError("the facts of a domain kept changing while one was brought back")

    def _all_still_there(self, snapshot: Snapshot, users: Sequence[str]) -> list[Item] | None:
        """The conditions of a write that speaks for *users*. Those for which it has no room are asked right before;
        None: one of them was erased."""
        for start in range(USERS_AT_ONCE, len(users), ROWS_AT_ONCE):
            if any(self._transactions.write(self._still_there(snapshot, users[start : start + ROWS_AT_ONCE]))):
                return None
        return self._still_there(snapshot, users[:USERS_AT_ONCE])

    def _still_there(self, snapshot: Snapshot, users: Sequence[str]) -> list[Item]:
        """That nobody erased the tenant since, nor ever one of *users*: no date is below zero."""
        everybody = tombstone_checks(self._ledger_table, self._tenant_id, None, ended_at=snapshot.since)
        return everybody + [
            check
            for user in users
            for check in tombstone_checks(self._ledger_table, self._tenant_id, user, ended_at=0)[:1]
        ]

    def _rows_of(self, place: tuple[str, str]) -> list[Item]:
        rows = self._rows(place[0], starts_with=place[1])
        return [row for row in rows if str(row[FACTS_SORT_KEY]["S"]).split(SEPARATOR)[0] == place[1]]

    def _archived(self, snapshot: Snapshot) -> tuple[Item, list[Item]]:
        """The fact's own row and those of its observations, which must be of this tenant and this very fact."""
        domain, fact_id = snapshot.place
        try:
            rows = [item_of(text) for text in snapshot.items]
        except ValueError:
            raise ArchiveError(f"the archived copy of {fact_id} holds no fact") from None
        partition = {"S": self._items.partition(domain)}
        sorts = [str(row.get(FACTS_SORT_KEY, {}).get("S", "")) for row in rows]
        own = all(row.get(FACTS_PARTITION_KEY) == partition for row in rows)
        if snapshot.tenant_id != self._tenant_id or not own or {one.split(SEPARATOR)[0] for one in sorts} != {fact_id}:
            raise CrossTenantError(f"an archived fact does not belong to {self._tenant_id}")
        if fact_id not in sorts or fact_id == HEAD:
            raise ArchiveError(f"the archived copy of {fact_id} holds no fact")
        fact = rows[sorts.index(fact_id)]
        return fact, [row for row, sort in zip(rows, sorts, strict=True) if sort != fact_id]

    def _erased(self, snapshot: Snapshot) -> set[str]:
        """Whose tombstones stand against it. A user's counts whenever it is from: what was said is older than it, or
        nobody can tell any more."""
        entries = [EVERYBODY, *snapshot.user_refs]
        key = ledger_key(self._tenant_id, "tombstone")
        rows = self._transactions.batch_get(
            self._ledger_table, [item({LEDGER_PARTITION_KEY: key, LEDGER_SORT_KEY: entry}) for entry in entries]
        )
        found = {str(row[LEDGER_SORT_KEY]): int(row.get("erased_before", 0)) for row in rows}
        return {entry for entry, before in found.items() if entry != EVERYBODY or before >= snapshot.since}

    def _delete(self, row: Item) -> Item:
        key = {name: row[name] for name in (FACTS_PARTITION_KEY, FACTS_SORT_KEY)}
        return {"Delete": {"TableName": self._table, "Key": key}}

    def _raised_head(self, domain: str) -> Item:
        """Whoever read the domain before has to read it again."""
        return {
            "Update": {
                "TableName": self._table,
                "Key": self._items.key(domain, HEAD),
                "UpdateExpression": "ADD #version :one",
                "ExpressionAttributeNames": names("version"),
                "ExpressionAttributeValues": item({":one": 1}),
            }
        }

    def _why_kept(self, place: tuple[str, str]) -> Removed:
        row = self._get(self._table, self._items.key(*place))
        if row is None:
            return "gone"
        return "pinned" if row.get("pinned") else "changed"


def _users(rows: Sequence[Item]) -> list[str]:
    return sorted({str(user) for row in rows if (user := attributes(row).get("user_ref"))})
