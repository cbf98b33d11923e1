"""Held texts: their rows in the ledger, the texts themselves in the parked bucket."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.claims import S3Claims
from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import attributes, item, names, pages
from agent_memory.aws.transactions import Transactions, tombstone_checks
from agent_memory.contract import LEDGER_PARTITION_KEY, LEDGER_SORT_KEY, SCHEMA_VERSION
from agent_memory.domain.errors import AgentMemoryError, CrossTenantError, TranscriptError
from agent_memory.domain.keys import held_key, ledger_key
from agent_memory.domain.ports import Written
from agent_memory.domain.quarantine import HeldContent, Quarantined, QuarantineState

KIND = "quarantine"


class DynamoQuarantine:
    """The held texts of one tenant, on credentials that reach no other."""

    def __init__(
        self,
        client: Any,
        *,
        table: str,
        tenant_id: str,
        claims: S3Claims,
        transactions: Callable[[Any], Transactions] = Transactions,
    ) -> None:
        self._client = client
        self._table = table
        self._tenant_id = tenant_id
        self._claims = claims
        self._transactions = transactions(client)

    def keep(self, row: Quarantined, content: HeldContent) -> Written:
        """Write text and row once. The text goes first: a row without one could not be judged."""
        if row.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a held text of another tenant reached the quarantine of {self._tenant_id}")
        if self.get(row.quarantine_id) is not None:
            return "duplicate"
        key = self._claims.hold(held_key(row.tenant_id, row.agent_id, row.run_id, row.quarantine_id), content)
        held = row.model_copy(update={"content_key": key}).model_dump(mode="json")
        put = {
            "TableName": self._table,
            "Item": self._key(row.quarantine_id) | item(held | {"schema_version": SCHEMA_VERSION}),
            "ConditionExpression": "attribute_not_exists(#key)",
            "ExpressionAttributeNames": {"#key": LEDGER_PARTITION_KEY},
        }
        checks = tombstone_checks(self._table, self._tenant_id, row.user_ref, ended_at=row.ended_at)
        failed = self._transactions.write([{"Put": put}, *checks])
        if any(failed[1:]):
            self._claims.drop_held(key)
            return "erased"
        return "duplicate" if any(failed) else "stored"

    def all(self) -> list[Quarantined]:
        """Every row of the tenant, newest first, every page."""
        with translating("dynamodb:Query on the ledger"):
            rows = list(
                pages(
                    self._client,
                    TableName=self._table,
                    KeyConditionExpression="#key = :key",
                    ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
                    ExpressionAttributeValues={":key": {"S": ledger_key(self._tenant_id, KIND)}},
                )
            )
        found = [self._read(attributes(row)) for row in rows]
        return sorted(found, key=lambda row: (-row.quarantined_at, row.quarantine_id))

    def get(self, quarantine_id: str) -> Quarantined | None:
        """One row, read consistently."""
        with translating("dynamodb:GetItem on the ledger"):
            answer = self._client.get_item(TableName=self._table, Key=self._key(quarantine_id), ConsistentRead=True)
        return self._read(attributes(answer["Item"])) if answer.get("Item") else None

    def content(self, row: Quarantined) -> HeldContent:
        """The text of a row. Raises TranscriptError `quarantined_text_missing` or `quarantined_text_unreadable`."""
        try:
            return HeldContent.model_validate(self._claims.held(row.content_key))
        except ValidationError:
            raise TranscriptError("quarantined_text_unreadable") from None

    def decide(self, quarantine_id: str, state: QuarantineState, *, at: int) -> bool:
        """Settle a held row. False when it is gone or was settled before."""
        return self._update(
            quarantine_id,
            UpdateExpression="SET #state = :state, #decided_at = :at",
            ConditionExpression="#state = :held",
            ExpressionAttributeNames=names("state", "decided_at"),
            ExpressionAttributeValues=item({":state": state, ":at": at, ":held": QuarantineState.HELD}),
        )

    def mark_applied(self, quarantine_id: str) -> bool:
        """Note that a released row is written where it belongs. False when it is gone."""
        return self._update(
            quarantine_id,
            UpdateExpression="SET #applied = :true",
            ConditionExpression="#state = :released",
            ExpressionAttributeNames=names("applied", "state"),
            ExpressionAttributeValues=item({":true": True, ":released": QuarantineState.RELEASED}),
        )

    def forget_text(self, row: Quarantined) -> None:
        """Remove the text of a settled row."""
        self._claims.drop_held(row.content_key)

    def _key(self, quarantine_id: str) -> dict[str, Any]:
        return item({LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, KIND), LEDGER_SORT_KEY: quarantine_id})

    def _update(self, quarantine_id: str, **expression: Any) -> bool:
        with translating("dynamodb:UpdateItem on the ledger"):
            try:
                self._client.update_item(TableName=self._table, Key=self._key(quarantine_id), **expression)
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    def _read(self, row: Mapping[str, Any]) -> Quarantined:
        held = {name: row[name] for name in Quarantined.model_fields if name in row}
        try:
            found = Quarantined.model_validate(held)
        except ValidationError:
            raise AgentMemoryError(f"quarantine row {row.get(LEDGER_SORT_KEY)} can't be read") from None
        if found.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a held text of another tenant came back to {self._tenant_id}")
        return found
