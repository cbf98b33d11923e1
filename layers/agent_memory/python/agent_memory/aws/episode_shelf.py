"""The episodes table as the night and an undo handle it: merged, put away, brought back."""

from collections.abc import Mapping, Sequence

from botocore.exceptions import ClientError

from agent_memory.aws.episodes import DynamoEpisodes
from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, names
from agent_memory.aws.snapshots import item_of, item_text
from agent_memory.aws.transactions import tombstone_checks
from agent_memory.contract import DECAYS_AT, DUE_SHARD, EPISODES_PARTITION_KEY, EPISODES_TTL, USER_KEY
from agent_memory.domain.archive import ArchiveError, Lease, PutBack, Removed, Snapshot
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.models import Episode
from agent_memory.domain.shelves import Merged

# Whatever an episode may hold: what the archived copy lacks must be missing in the table too when it is removed.
_KNOWN = (frozenset(Episode.model_fields) - {"tenant_id"}) | {DUE_SHARD, USER_KEY}
_MARKS = ("merged_into", "review")


class DynamoEpisodeShelf(DynamoEpisodes):
    """The episodes of one tenant, on credentials that may remove them."""

    def snapshot(self, place: tuple[str, str]) -> Snapshot | None:
        """The raw item, read consistently; None when it is gone."""
        stored = self._raw(place)
        return None if stored is None else self._snapshot(place, stored)

    def remove(self, snapshot: Snapshot) -> Removed:
        """Delete the item if every attribute is still what *snapshot* says."""
        archived = self._archived(snapshot)
        if attributes(archived).get("pinned"):
            return "pinned"
        condition, placeholders, values = _unchanged(archived)
        with translating("dynamodb:DeleteItem on the episodes table"):
            try:
                self._client.delete_item(
                    TableName=self._table,
                    Key=self._key(*snapshot.place),
                    ConditionExpression=condition,
                    ExpressionAttributeNames=placeholders,
                    ExpressionAttributeValues=values,
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise
                return self._why_kept(snapshot.place)
        return "removed"

    def put_back(self, snapshot: Snapshot, lease: Lease | None = None) -> PutBack:
        """Write the item as it was, unless what it was made of was erased; one that is still there gets the lease."""
        stored = self._archived(snapshot)
        if lease is not None:
            kept = {name: held for name, held in stored.items() if name not in _MARKS}
            stored = kept | self._dates(snapshot.place, attributes(stored), lease)
        put = {
            "Put": {
                "TableName": self._table,
                "Item": stored,
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": EPISODES_PARTITION_KEY},
            }
        }
        failed = self._transactions.write([put, *self._tombstones(snapshot.user_refs, snapshot.since)])
        if any(failed[1:]):
            return "erased"
        if any(failed):
            if lease is not None:
                self._extend(snapshot.place, lease)
            return "present"
        return "restored"

    def merge(self, summary: Episode, sources: Sequence[Episode]) -> Merged:
        """Write *summary* and mark every one of *sources* as merged into it, together or not at all."""
        put = {
            "Put": {
                "TableName": self._table,
                "Item": self._item(summary),
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": EPISODES_PARTITION_KEY},
            }
        }
        written = self._merged(put, summary, sources)
        if written != "duplicate":
            return written
        # It was written before: by a try that broke off, or for sources that were brought back since.
        left = [one for one in sources if self._mark_of(one) != summary.run_id]
        there = {
            "ConditionCheck": {
                "TableName": self._table,
                "Key": self._key(summary.agent_id, summary.run_id),
                "ConditionExpression": "attribute_exists(#key)",
                "ExpressionAttributeNames": {"#key": EPISODES_PARTITION_KEY},
            }
        }
        again = self._merged(there, summary, left)
        return "duplicate" if again == "stored" else "changed" if again == "duplicate" else again

    def collapse(self, survivor: Episode, seen: Episode, others: Sequence[Episode]) -> Merged:
        """Write what *survivor* holds now over what was *seen* of it, and mark *others* as merged into it."""
        dates = {
            DECAYS_AT: survivor.decays_at,
            DUE_SHARD: None if survivor.decays_at is None else self._shard(survivor.agent_id, survivor.run_id),
        }
        changes: dict[str, object] = {
            "sources": survivor.sources,
            "access_count": survivor.access_count,
            "last_access_at": survivor.last_access_at,
            "oldest_source_at": survivor.oldest_source_at,
            "kept_until": survivor.kept_until,
            **dates,
        }
        kept = item(changes)
        gone = [f"#{name}" for name in changes if name not in kept]
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in kept)
        put = self._guarded(
            seen,
            update + (f" REMOVE {', '.join(gone)}" if gone else ""),
            names(*changes),
            {f":{name}": held for name, held in kept.items()},
        )
        return self._merged(put, survivor, others)

    def unmark(self, place: tuple[str, str], target: str) -> bool:
        """Take the mark of a merge into *target* off; False when the episode is gone or has another."""
        return self._update(
            *place,
            condition="#merged_into = :target",
            UpdateExpression="REMOVE #merged_into",
            ExpressionAttributeNames=names("merged_into"),
            ExpressionAttributeValues=item({":target": target}),
        )

    def hold_for_review(self, place: tuple[str, str], *, review: str, kept_until: int, decays_at: int) -> bool:
        """Note why a merge was refused, and leave the episode alone for a while. False when it is gone or pinned."""
        changes = {
            "review": review,
            "kept_until": kept_until,
            DECAYS_AT: decays_at,
            DUE_SHARD: self._shard(*place),
        }
        return self._update(
            *place,
            condition="#pinned = :no",
            UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in changes),
            ExpressionAttributeNames=names(*changes, "pinned"),
            ExpressionAttributeValues=item({f":{name}": held for name, held in changes.items()} | {":no": False}),
        )

    def _merged(self, first: Item, target: Episode, sources: Sequence[Episode]) -> Merged:
        since = target.oldest_source_at if target.oldest_source_at is not None else target.ended_at
        checks = self._tombstones((target.user_ref,) if target.user_ref else (), since)
        marks = [
            self._guarded(one, "SET #merged_into = :target", names("merged_into"), item({":target": target.run_id}))
            for one in sources
        ]
        failed = self._transactions.write([first, *checks, *marks])
        if not any(failed):
            return "stored"
        if any(failed[1 : len(checks) + 1]):
            return "erased"
        return "duplicate" if failed[0] else "changed"

    def _guarded(self, seen: Episode, update: str, placeholders: Mapping[str, str], values: Item) -> Item:
        """An update of an episode that nobody pinned, read or merged since it was seen."""
        condition = "#pinned = :no AND #access_count = :seen AND attribute_not_exists(#merged_into)"
        return {
            "Update": {
                "TableName": self._table,
                "Key": self._key(seen.agent_id, seen.run_id),
                "UpdateExpression": update,
                "ConditionExpression": condition,
                "ExpressionAttributeNames": {**placeholders, **names("pinned", "access_count", "merged_into")},
                "ExpressionAttributeValues": values | item({":no": False, ":seen": seen.access_count}),
            }
        }

    def _mark_of(self, episode: Episode) -> str | None:
        now = self.get(episode.agent_id, episode.run_id)
        return None if now is None else now.merged_into

    def _raw(self, place: tuple[str, str]) -> Item | None:
        with translating("dynamodb:GetItem on the episodes table"):
            answer = self._client.get_item(TableName=self._table, Key=self._key(*place), ConsistentRead=True)
        return answer.get("Item") or None

    def _snapshot(self, place: tuple[str, str], stored: Item) -> Snapshot:
        plain = attributes(stored)
        user = plain.get("user_ref")
        since = plain.get("oldest_source_at", plain.get("ended_at", 0))
        return Snapshot(
            tenant_id=self._tenant_id,
            tier="episodic",
            place=place,
            items=(item_text(stored),),
            user_refs=(user,) if user else (),
            since=int(since),
            represented_by=plain.get("merged_into"),
        )

    def _archived(self, snapshot: Snapshot) -> Item:
        """The raw item of *snapshot*, which must be of this tenant and of the very place that it names."""
        try:
            (text,) = snapshot.items
            stored = item_of(text)
        except ValueError:
            raise ArchiveError(f"the archived copy of {snapshot.memory_id} holds no episode") from None
        key = self._key(*snapshot.place)
        if snapshot.tenant_id != self._tenant_id or any(stored.get(name) != held for name, held in key.items()):
            raise CrossTenantError(f"an archived episode does not belong to {self._tenant_id}")
        return stored

    def _dates(self, place: tuple[str, str], plain: Mapping[str, object], lease: Lease) -> Item:
        before = plain.get(EPISODES_TTL)
        expiry = max(before, lease.expires_at) if isinstance(before, int) else None
        dates = {"kept_until": lease.kept_until, DECAYS_AT: lease.kept_until, DUE_SHARD: self._shard(*place)}
        return item({**dates, EPISODES_TTL: expiry})

    def _extend(self, place: tuple[str, str], lease: Lease) -> None:
        stored = self._raw(place)
        if stored is None:
            return
        dates = self._dates(place, attributes(stored), lease)
        self._update(
            *place,
            # One that somebody pinned meanwhile has no dates.
            condition="#pinned = :no",
            UpdateExpression="SET "
            + ", ".join(f"#{name} = :{name}" for name in dates)
            + " REMOVE #merged_into, #review",
            ExpressionAttributeNames=names(*dates, *_MARKS, "pinned"),
            ExpressionAttributeValues={f":{name}": held for name, held in dates.items()} | item({":no": False}),
        )

    def _tombstones(self, user_refs: Sequence[str], since: int) -> list[Item]:
        user = next(iter(user_refs), None)
        return tombstone_checks(self._ledger_table, self._tenant_id, user, ended_at=since)

    def _why_kept(self, place: tuple[str, str]) -> Removed:
        now = self._raw(place)
        if now is None:
            return "gone"
        return "pinned" if attributes(now).get("pinned") else "changed"


def _unchanged(stored: Item) -> tuple[str, dict[str, str], Item]:
    """The condition that an item is *stored* and nothing else: expression, names, values."""
    held = sorted(stored)
    absent = sorted(_KNOWN - set(stored))
    placeholders = {f"#n{i}": name for i, name in enumerate((*held, *absent))}
    values = {f":v{i}": stored[name] for i, name in enumerate(held)}
    terms = [f"#n{i} = :v{i}" for i in range(len(held))]
    terms += [f"attribute_not_exists(#n{i})" for i in range(len(held), len(placeholders))]
    return " AND ".join(terms), placeholders, values
