"""Regression cases and what came of asking them, in the ledger table."""

from collections.abc import Sequence
from typing import Any, TypeVar

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import error_code, translating
from agent_memory.aws.item_codec import Item, attributes, item, pages
from agent_memory.contract import LEDGER_PARTITION_KEY, LEDGER_SORT_KEY, LEDGER_TTL, SCHEMA_VERSION
from agent_memory.domain.errors import CrossTenantError, UnreadableItemError
from agent_memory.domain.keys import SEPARATOR, ledger_key
from agent_memory.domain.models import Model
from agent_memory.domain.quality import CaseScore, TenantQuality
from agent_memory.domain.regressions import RegressionCase

M = TypeVar("M", bound=Model)
CASES, BASELINES, RESULTS = "regressions", "quality-baselines", "quality"


class _Baseline(Model):
    scores: tuple[CaseScore, ...]


class DynamoRegressions:
    """The regression cases of one tenant, on credentials that reach no other."""

    def __init__(self, client: Any, *, table: str, tenant_id: str) -> None:
        self._client = client
        self._table = table
        self._tenant_id = tenant_id

    def cases(self) -> list[RegressionCase]:
        """Every case by its id, every page."""
        return [_read(RegressionCase, row) for row in self._rows(CASES)]

    def put(self, case: RegressionCase) -> None:
        """Write a case, over one of the same id."""
        self._put(CASES, case.case_id, case)

    def remove(self, case_id: str) -> bool:
        """Forget a case. False when there was none."""
        with translating("dynamodb:DeleteItem on the ledger"):
            return self._if_it_holds(
                self._client.delete_item,
                Key=self._key(CASES, case_id),
                ConditionExpression="attribute_exists(#key)",
                ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
            )

    def keep_baseline(self, night: str, scores: Sequence[CaseScore], *, expires_at: int) -> tuple[CaseScore, ...]:
        """Keep the first asking of a night and return it."""
        self._put(BASELINES, night, _Baseline(scores=tuple(scores)), expires_at=expires_at, once=True)
        return self.baseline(night) or tuple(scores)

    def baseline(self, night: str) -> tuple[CaseScore, ...] | None:
        """What was asked before the night; None when nothing was."""
        found = self._get(BASELINES, night, _Baseline)
        return None if found is None else found.scores

    def keep_result(self, quality: TenantQuality, *, expires_at: int) -> None:
        """Keep the gate of a night."""
        if quality.tenant_id != self._tenant_id:
            raise CrossTenantError(f"the gate of another tenant reached the ledger of {self._tenant_id}")
        self._put(RESULTS, quality.night, quality, expires_at=expires_at)

    def result(self, night: str) -> TenantQuality | None:
        """The gate of a night; None when none is kept."""
        return self._get(RESULTS, night, TenantQuality)

    def nights(self) -> list[str]:
        """The nights of which a result is kept, latest first: their ids are dates."""
        return sorted((str(row[LEDGER_SORT_KEY]) for row in self._rows(RESULTS)), reverse=True)

    def _rows(self, kind: str) -> list[dict[str, Any]]:
        with translating("dynamodb:Query on the ledger"):
            found = pages(
                self._client,
                TableName=self._table,
                KeyConditionExpression="#key = :key",
                ExpressionAttributeNames={"#key": LEDGER_PARTITION_KEY},
                ExpressionAttributeValues={":key": {"S": ledger_key(self._tenant_id, kind)}},
                ConsistentRead=True,
            )
            return [attributes(row) for row in found]

    def _get(self, kind: str, entry: str, model: type[M]) -> M | None:
        with translating("dynamodb:GetItem on the ledger"):
            answer = self._client.get_item(TableName=self._table, Key=self._key(kind, entry), ConsistentRead=True)
        return _read(model, attributes(answer["Item"])) if answer.get("Item") else None

    def _put(self, kind: str, entry: str, content: Model, *, expires_at: int | None = None, once: bool = False) -> None:
        row = content.model_dump(mode="json") | {LEDGER_TTL: expires_at, "schema_version": SCHEMA_VERSION}
        condition = {
            "ConditionExpression": "attribute_not_exists(#key)",
            "ExpressionAttributeNames": {"#key": LEDGER_PARTITION_KEY},
        }
        with translating("dynamodb:PutItem on the ledger"):
            written = {"Item": self._key(kind, entry) | item(row)}
            self._if_it_holds(self._client.put_item, **written, **(condition if once else {}))

    def _key(self, kind: str, entry: str) -> Item:
        if SEPARATOR in entry:
            raise CrossTenantError("an id that holds the separator reached the ledger")
        return item({LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, kind), LEDGER_SORT_KEY: entry})

    def _if_it_holds(self, write: Any, **request: Any) -> bool:
        try:
            write(TableName=self._table, **request)
        except ClientError as error:
            if error_code(error) == "ConditionalCheckFailedException":
                return False
            raise
        return True


def _read(model: type[M], row: dict[str, Any]) -> M:
    try:
        return model.model_validate({name: row[name] for name in model.model_fields if name in row})
    except ValidationError:
        raise UnreadableItemError(f"ledger row {row.get(LEDGER_SORT_KEY)} can't be read") from None
