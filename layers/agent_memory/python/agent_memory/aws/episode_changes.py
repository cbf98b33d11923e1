"""The episodes table as a rollback puts single attributes right that a night had changed."""

from collections.abc import Mapping
from typing import Any

from agent_memory.aws.episodes import DynamoEpisodes
from agent_memory.aws.item_codec import item, names
from agent_memory.contract import DECAYS_AT, DUE_SHARD, EPISODES_TTL
from agent_memory.domain.night_changes import Changed

# What a read changes.
READS = frozenset({"access_count", "last_access_at"})


class DynamoEpisodeChanges(DynamoEpisodes):
    """The episodes of one tenant."""

    def take_back(self, change: Changed) -> bool:
        """Undo *change*; False when the episode is gone or is not what the night made of it."""
        if change.what == "expiry":
            return self._lengthened(change)
        if self._undone(change, change.before, change.after):
            return True
        if not READS & set(change.before):
            return False
        # Read since: the reads stay, what the night had added goes.
        before, after = ({k: v for k, v in held.items() if k not in READS} for held in (change.before, change.after))
        return self._undone(change, before, after, reads=_number(change.before) - _number(change.after))

    def _lengthened(self, change: Changed) -> bool:
        """Whatever date it has by now, it is not to be an earlier one; its date for the nights is a lower bound."""
        return self._update(
            change.agent_id,
            change.run_id,
            condition=f"#pinned = :no AND #{EPISODES_TTL} < :before",
            UpdateExpression=f"SET #{EPISODES_TTL} = :before",
            ExpressionAttributeNames=names("pinned", EPISODES_TTL),
            ExpressionAttributeValues=item({":no": False, ":before": change.before[EPISODES_TTL]}),
        )

    def _undone(
        self, change: Changed, before: Mapping[str, object], after: Mapping[str, object], *, reads: int = 0
    ) -> bool:
        before, after = self._whole(change, before), self._whole(change, after)
        kept, found = item(before), item(after)
        gone = [f"#{name}" for name in before if name not in kept]
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in kept) if kept else ""
        update += f" REMOVE {', '.join(gone)}" if gone else ""
        update += " ADD #access_count :reads" if reads else ""
        unchanged = [f"#{name} = :is_{name}" if name in found else f"attribute_not_exists(#{name})" for name in before]
        values: dict[str, Any] = {f":{name}": held for name, held in kept.items()}
        values |= {f":is_{name}": held for name, held in found.items()}
        return self._update(
            change.agent_id,
            change.run_id,
            condition=" AND ".join(("attribute_exists(#agent_id)", *unchanged)),
            UpdateExpression=update.strip(),
            ExpressionAttributeNames=names(*before, "agent_id", *(("access_count",) if reads else ())),
            ExpressionAttributeValues=values | (item({":reads": reads}) if reads else {}),
        )

    def _whole(self, change: Changed, held: Mapping[str, object]) -> dict[str, object]:
        """With the shard that belongs to its date, and without empty lists, which are not stored."""
        whole: dict[str, object] = {name: None if value == () else value for name, value in held.items()}
        if DECAYS_AT in whole:
            due = whole[DECAYS_AT] is not None
            whole[DUE_SHARD] = self._shard(change.agent_id, change.run_id) if due else None
        return whole


def _number(held: Mapping[str, object]) -> int:
    count = held.get("access_count")
    return count if isinstance(count, int) else 0
