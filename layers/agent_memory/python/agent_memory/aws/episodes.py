"""The episodes table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, names, pages
from agent_memory.aws.transactions import Transactions, tombstone_checks
from agent_memory.contract import (
    AGENT_TIME_INDEX,
    DECAYS_AT,
    DUE_SHARD,
    EPISODES_PARTITION_KEY,
    EPISODES_SORT_KEY,
    EPISODES_TTL,
    USER_KEY,
)
from agent_memory.domain.errors import CrossTenantError, UnreadableItemError
from agent_memory.domain.keys import SEPARATOR, agent_key, due_shard, tenant_of, user_key
from agent_memory.domain.models import Episode, EpisodeView
from agent_memory.domain.ports import Read, Written
from agent_memory.domain.vectors import pack, unpack

VECTORS = ("task_vector", "digest_vector")
_VIEW_FIELDS = frozenset(EpisodeView.model_fields)
_EPISODE_FIELDS = frozenset(Episode.model_fields)


class DynamoEpisodes:
    """The episodes of one tenant, on credentials that reach no other."""

    def __init__(
        self,
        client: Any,
        *,
        table: str,
        ledger_table: str,
        tenant_id: str,
        due_shards: int = 4,
        transactions: Callable[[Any], Transactions] = Transactions,
    ) -> None:
        self._client = client
        self._table = table
        self._ledger_table = ledger_table
        self._tenant_id = tenant_id
        self._due_shards = due_shards
        self._transactions = transactions(client)

    def put(self, episode: Episode) -> Written:
        """Write once; a tombstone newer than the run wins, inside the same transaction."""
        put = {
            "Put": {
                "TableName": self._table,
                "Item": self._item(episode),
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": EPISODES_PARTITION_KEY},
            }
        }
        checks = tombstone_checks(self._ledger_table, self._tenant_id, episode.user_ref, ended_at=episode.ended_at)
        failed = self._transactions.write([put, *checks])
        if any(failed[1:]):
            return "erased"
        return "duplicate" if any(failed) else "stored"

    def views(self, agent_id: str, *, now: int) -> Read[EpisodeView]:
        """All live views of one agent, every page, newest first; TTL deletes late, so expiry is judged here."""
        stored: list[Item] = []
        with translating("dynamodb:Query on agent-time-index"):
            stored += pages(
                self._client,
                TableName=self._table,
                IndexName=AGENT_TIME_INDEX,
                KeyConditionExpression="#key = :key",
                ExpressionAttributeNames={"#key": EPISODES_PARTITION_KEY},
                ExpressionAttributeValues={":key": {"S": self._partition(agent_id)}},
                ScanIndexForward=False,
            )
        read = [self._view(attributes(one)) for one in stored]
        live = (view for view in read if view and (view.expires_at is None or view.expires_at > now))
        return Read(live, unreadable=sum(view is None for view in read))

    def get(self, agent_id: str, run_id: str) -> Episode | None:
        """The whole episode, read consistently; None when it is gone."""
        with translating("dynamodb:GetItem on the episodes table"):
            answer = self._client.get_item(TableName=self._table, Key=self._key(agent_id, run_id), ConsistentRead=True)
        return self._episode(attributes(answer["Item"])) if answer.get("Item") else None

    def get_many(self, keys: Sequence[tuple[str, str]]) -> Read[Episode]:
        """The episodes of these (agent_id, run_id), in this order, without those that are gone or unreadable."""
        wanted = list(dict.fromkeys(keys))
        read = self._transactions.batch_get(self._table, [self._key(*key) for key in wanted])
        found: dict[tuple[str, str], Episode] = {}
        for one in read:
            # One item that an older or newer release wrote must not take recall away from all others.
            with suppress(UnreadableItemError):
                episode = self._episode(one)
                found[episode.agent_id, episode.run_id] = episode
        return Read((found[key] for key in wanted if key in found), unreadable=len(read) - len(found))

    def pin(self, agent_id: str, run_id: str, *, pinned: bool, expires_at: int | None, decays_at: int | None) -> bool:
        """Set or remove the pin, and with it the dates. False when the episode is gone."""
        dates = {
            EPISODES_TTL: expires_at,
            DECAYS_AT: decays_at,
            DUE_SHARD: None if decays_at is None else self._shard(agent_id, run_id),
        }
        kept = item({"pinned": pinned, **dates})
        gone = [f"#{name}" for name, date in dates.items() if date is None]
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in kept)
        return self._update(
            agent_id,
            run_id,
            UpdateExpression=update + (f" REMOVE {', '.join(gone)}" if gone else ""),
            ExpressionAttributeNames=names("pinned", *dates) | {"#key": EPISODES_PARTITION_KEY},
            ExpressionAttributeValues={f":{name}": held for name, held in kept.items()},
        )

    def give_back(self, agent_id: str, run_id: str, *, field: str, text: str, mark: str) -> bool:
        """Put *text* back into *field*, once per *mark*. False when the episode is gone."""
        listed = field in ("key_findings", "reusable_patterns")
        values: dict[str, object] = {
            ":text": [text] if listed else text,
            ":mark": mark,
            ":marks": [mark],
            ":none": [],
            ":one": 1,
        }
        new = f"list_append(if_not_exists(#{field}, :none), :text)" if listed else ":text"
        given = self._update(
            agent_id,
            run_id,
            condition="attribute_exists(#key) AND NOT contains(#cleared, :mark)",
            UpdateExpression=f"SET #{field} = {new}, #cleared = list_append(if_not_exists(#cleared, :none), :marks), "
            "#withheld = if_not_exists(#withheld, :one) - :one",
            ExpressionAttributeNames=names(field, "cleared", "withheld") | {"#key": EPISODES_PARTITION_KEY},
            ExpressionAttributeValues=item(values),
        )
        return given or self.get(agent_id, run_id) is not None

    def _update(
        self, agent_id: str, run_id: str, *, condition: str = "attribute_exists(#key)", **expression: Any
    ) -> bool:
        with translating("dynamodb:UpdateItem on the episodes table"):
            try:
                self._client.update_item(
                    TableName=self._table,
                    Key=self._key(agent_id, run_id),
                    ConditionExpression=condition,
                    **expression,
                )
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    def _partition(self, agent_id: str) -> str:
        if SEPARATOR in agent_id:
            raise CrossTenantError("an agent id that holds the separator reached the episodes table")
        return agent_key(self._tenant_id, agent_id)

    def _key(self, agent_id: str, run_id: str) -> Item:
        return item({EPISODES_PARTITION_KEY: self._partition(agent_id), EPISODES_SORT_KEY: run_id})

    def _shard(self, agent_id: str, run_id: str) -> str:
        return due_shard(self._partition(agent_id), run_id, self._due_shards)

    def _item(self, episode: Episode) -> Item:
        if episode.tenant_id != self._tenant_id:
            raise CrossTenantError(f"an episode of another tenant reached the store of {self._tenant_id}")
        held = {name: getattr(episode, name) for name in _EPISODE_FIELDS - {"tenant_id", "agent_id", *VECTORS}}
        vectors = {name: getattr(episode, name) for name in VECTORS}
        return item(
            held
            | {name: None if vector is None else pack(vector) for name, vector in vectors.items()}
            | {
                EPISODES_PARTITION_KEY: self._partition(episode.agent_id),
                "sources": episode.sources or None,
                USER_KEY: user_key(self._tenant_id, episode.user_ref) if episode.user_ref else None,
                DUE_SHARD: None if episode.decays_at is None else self._shard(episode.agent_id, episode.run_id),
            }
        )

    def _plain(self, read: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
        """What a model may be built from, with the key taken apart and the vectors unpacked."""
        partition = str(read.get(EPISODES_PARTITION_KEY, ""))
        if tenant_of(partition) != self._tenant_id:
            raise CrossTenantError(f"an item of another tenant came back to {self._tenant_id}")
        held: dict[str, Any] = {name: read[name] for name in fields if name in read}
        held["agent_id"] = partition.split(SEPARATOR, 1)[1]
        for name in VECTORS:
            held[name] = unpack(read[name]) if isinstance(read.get(name), bytes) else None
        return held

    def _episode(self, read: Mapping[str, Any]) -> Episode:
        held = self._plain(read, _EPISODE_FIELDS)
        try:
            return Episode.model_validate({**held, "tenant_id": self._tenant_id})
        except ValidationError:
            name = f"{held['agent_id']}/{read.get(EPISODES_SORT_KEY)}"
            raise UnreadableItemError(f"episode {name} can't be read") from None

    def _view(self, read: Mapping[str, Any]) -> EpisodeView | None:
        held = self._plain(read, _VIEW_FIELDS)
        held.setdefault("embedding_model", None)
        held.setdefault("expires_at", None)
        try:
            return EpisodeView.model_validate(held)
        except ValidationError:
            # One item that an older or newer release wrote must not take recall away from all others.
            return None
